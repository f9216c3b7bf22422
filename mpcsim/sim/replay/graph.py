"""The message graph of a session: its messages, steps and dependencies, without times.

The graph does not depend on the network: the rounds of each party, the messages that each round
needs, the size of each message. ``record`` extracts it from one trace; ``MessageGraph.replay``
computes completion times under any network model, for many draws of latencies and losses.

    >>> sim = Simulation(Network.star(), seed=1)
    >>> sim.generate()
    >>> graph = record(sim.sign().trace)
    >>> print(graph.replay(Network.preset("seoul", access="lte"), 1_000_000))

``MessageGraph.distribution`` does this for any number of samples, on all cores or a cluster, with
percentiles to 0.1 %.

A REST call, vault included, also has a graph: ``node.local.LocalService.record`` makes it
(``calls`` infers the dependencies), ``node.calls.signing_call`` that of a signature.

Samples are simulated by the kernel of ``engine.VirtualRun`` (``mpcsim.sim.network.tcp.traffic``):
with the same draws (``DrawTable``), both give the same times, bit by bit. A sample is one session;
the effects of earlier or concurrent calls (the history of a kept connection, two calls on a link)
are left out, and simulated by ``LocalService``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import numpy as np

from mpcsim.errors import UsageError, check_type
from mpcsim.ids import PartyId
from mpcsim.protocols.engine import Definition
from mpcsim.protocols.signing import PROTOCOLS
from mpcsim.sim.network.topology import Network
from mpcsim.sim.network.transport import is_whole_number
from mpcsim.sim.replay.critical_path_totals import CriticalPathTotals
from mpcsim.sim.replay.fitted import TOLERANCE, FittedTransfers, chunks
from mpcsim.sim.replay.kernels.draws import ArraySource
from mpcsim.sim.replay.parallel_replay import ReplayJob, replay_in_parallel
from mpcsim.sim.replay.plan import Plan
from mpcsim.sim.replay.results import Distribution, Replay
from mpcsim.sim.replay.steps import NO_TIMEOUTS, GraphMessage, Step, Timeouts
from mpcsim.sim.rich_display import counted
from mpcsim.sim.run.compute import Compute, Free
from mpcsim.sim.trace import Trace
from mpcsim.sim.traces.records import Scope


class ReplayOptions(TypedDict, total=False):
    """Optional arguments of ``MessageGraph.replay`` and ``distribution``."""

    costs: Compute | None
    parties: bool
    explain: bool
    approximate: bool
    tolerance: float


@dataclass(frozen=True)
class MessageGraph:
    """Message graph of a session: a directed acyclic graph of steps and messages."""

    name: str
    """Name of the run, e.g. ``sign secp256k1``."""
    steps: tuple[Step, ...]
    """Steps in topological order; those of a party in the order in which they run."""
    messages: tuple[GraphMessage, ...]
    scope: Scope = "protocol"
    """``protocol`` (``record``), or ``rest``: a REST call (``calls.build_graph``)."""
    timeouts_s: Timeouts = NO_TIMEOUTS
    """Time-outs of a call: of its node for the gateway, and of the gateway for an MPC node. A call
    whose answer is later fails; left out: a service may then let another MPC node sign. A protocol
    has no time-outs."""

    @property
    def parties(self) -> tuple[PartyId, ...]:
        return tuple(dict.fromkeys(step.party for step in self.steps))

    def replay(
        self,
        network: Network,
        samples: int = 1_000_000,
        *,
        seed: int = 0,
        costs: Compute | None = None,
        parties: bool = False,
        explain: bool = False,
        draws: ArraySource | None = None,
        approximate: bool = False,
        tolerance: float = TOLERANCE,
    ) -> Replay:
        """Simulate the session ``samples`` times and return its completion times.

        The same graph, network, costs, seed and number of samples give the same result. It takes
        8 bytes of memory a sample, and 8 more for each party with ``parties``.

        Args:
            samples: number of independent samples.
            costs: computing times of rounds, ``Declared`` or ``Free``; no time by default.
            parties: whether to keep the completion times of every party.
            explain: whether to compute critical paths; takes up to twice as long.
            draws: draws in place of those from the network's distributions.
            approximate: whether to draw the times of transfers from fitted distributions, which is
                much faster; the result has the error (``Replay.approximation``).
            tolerance: largest relative error with ``approximate`` at p50, p95, p99 and p99.9;
                otherwise every transfer is simulated.

        Raises:
            UsageError: no samples; measured compute; a party without a site; a site with more
                parties than cores (their order would depend on the sample); cut-through forwarding;
                an approximation with ``explain`` or ``draws``.
        """
        _check(network, samples, approximate, tolerance, explain=explain, draws=draws is not None)
        costs = costs or Free()
        plan = Plan(self.steps, self.messages, network, costs, self.scope, self.timeouts_s)
        fitted = FittedTransfers(plan, network, costs, seed) if approximate else None
        judgement = fitted.evaluate(seed, tolerance) if fitted is not None else None
        if judgement is not None and not judgement.is_accepted:
            fitted = None
        alike = plan.is_deterministic and draws is None
        finished = np.empty(samples)
        ends = {i: np.empty(samples) for i in self.parties} if parties else {}
        totals = CriticalPathTotals(plan) if explain else None
        every = range(1 if alike else samples)
        for at, run in chunks(plan, fitted, every, seed=seed, explain=explain, draws=draws):
            finished[at] = run.finished
            for i, kept in ends.items():
                kept[at] = run.ends[i]
            if totals is not None:
                totals.add(run)
        if alike:
            for kept in (finished, *ends.values()):
                kept[:] = kept[0]
        return Replay(
            self.name,
            network.name,
            plan.compute.name,
            seed,
            finished,
            ends,
            totals.explanation() if totals is not None else None,
            judgement,
            self.scope,
        )

    def distribution(
        self,
        network: Network,
        samples: int = 10**9,
        *,
        seed: int = 0,
        executor: Executor | None = None,
        progress: Callable[[float], None] = lambda part: None,
        **options: Unpack[ReplayOptions],
    ) -> Distribution:
        """Replay on all cores and keep quantile sketches in place of samples.

        Samples are those of ``replay``; percentiles are within 0.1 % of theirs
        (``mpcsim.sim.statistics.quantile_sketch``), and memory does not grow with the samples.

        The result does not depend on the number of processes. By default a process is spawned for
        each core, so a script needs ``if __name__ == "__main__":`` around the call. ``executor``
        replaces them:

        >>> from dask.distributed import Client
        >>> with Client("scheduler:8786") as client:
        ...     found = graph.distribution(network, 10**9, executor=client.get_executor())

        Args:
            samples: number of independent samples.
            executor: what simulates them; it is not shut down.
            progress: called with the share that is done, from 0 to 1.
            options: ``costs``, ``parties``, ``explain``, ``approximate`` and ``tolerance``, as in
                ``replay``.

        Raises:
            UsageError: as ``replay``; a network that cannot be pickled.
        """
        if unknown := options.keys() - ReplayOptions.__annotations__.keys():
            raise TypeError(f"distribution has no argument {min(unknown)!r}")
        explain, approximate = options.get("explain", False), options.get("approximate", False)
        tolerance = options.get("tolerance", TOLERANCE)
        _check(network, samples, approximate, tolerance, explain=explain)
        costs = options.get("costs") or Free()
        job = ReplayJob(
            self.steps,
            self.messages,
            self.scope,
            self.timeouts_s,
            network,
            costs,
            samples,
            seed=seed,
            parties=options.get("parties", False),
            explain=explain,
            approximate=approximate,
            tolerance=tolerance,
        )
        found, approximation = replay_in_parallel(job, executor, progress)
        return Distribution(
            self.name,
            network.name,
            costs.name,
            seed,
            found.finished,
            found.parties,
            found.totals.explanation() if found.totals is not None else None,
            approximation,
            self.scope,
            found.failed,
        )

    def __str__(self) -> str:
        size = sum(packet.size for packet in self.messages)
        return (
            f"{self.name}: {len(self.parties)} parties, {len(self.steps)} rounds run, "
            f"{counted(len(self.messages), 'message')}, {size} bytes"
        )


def _check(
    network: Network, samples: int, approximate: bool, tolerance: float, **more: bool
) -> None:
    """Raise ``UsageError`` if the arguments of a replay do not fit together."""
    check_type("network", network, Network)
    if not 0 < tolerance < math.inf:
        raise UsageError(f"tolerance is {tolerance}: not above 0, or not finite")
    if tolerance != TOLERANCE and not approximate:
        raise UsageError(f"tolerance is {tolerance}: it is that of approximate, which is not asked")
    if not is_whole_number(samples, 1):
        raise UsageError(f"samples is {samples}: not a whole number from 1 on")
    for name, asked in more.items():
        if approximate and asked:
            raise UsageError(
                "an approximation has neither critical paths nor draws of its own: leave out "
                f"{name}, or approximate"
            )


def record(trace: Trace, definition: Definition[Any, Any] | None = None) -> MessageGraph:
    """Return the message graph of a run: any complete one, over any network.

    Args:
        definition: the protocol, with the needs of each round; not necessary for the protocols of
            this package.

    Raises:
        UsageError: a party did not finish, a fault dropped or duplicated a message, or the trace
            is of several sessions or of an unknown protocol.
    """
    check_type("trace", trace, Trace)
    unfinished = [ending for ending in trace.endings if ending.status != "done"]
    if unfinished:
        who = ", ".join(f"party {e.party} {e.status}" for e in unfinished)
        raise UsageError(f"{trace.name}: only a complete run can be replayed ({who})")
    for message in trace.messages:
        if message.fate != "delivered" or message.received_ms is None:
            raise UsageError(
                f"{trace.name}: {message.kind} from party {message.sender} to party "
                f"{message.receiver} was {message.fate}; only a run without faults can be replayed"
            )
    if len({message.session for message in trace.messages}) > 1:
        raise UsageError(
            f"{trace.name}: a trace of several sessions; a replay is of one (LocalService runs "
            "calls one after the other, or at once, over the same connections)"
        )
    works = [work for work in trace.work if work.protocol]
    protocols = {work.protocol for work in works}
    if definition is None:
        if len(protocols) != 1 or not protocols <= PROTOCOLS.keys():
            known = ", ".join(PROTOCOLS)
            raise UsageError(
                f"{trace.name}: what rounds of {', '.join(sorted(protocols)) or 'nothing'} need is "
                f"not known (known: {known}); pass the definition"
            )
        definition = PROTOCOLS[protocols.pop()]
    elif protocols != {definition.name}:
        raise UsageError(f"{trace.name}: a trace of {sorted(protocols)}, not of {definition.name}")

    number_of = {work.number: number for number, work in enumerate(works)}
    inbound: dict[tuple[PartyId, str], dict[PartyId, int]] = {}
    outbound: dict[int, list[int]] = {}
    packets = []
    for number, message in enumerate(trace.messages):
        step = number_of.get(-1 if message.work is None else message.work)
        if step is None or works[step].round != message.round:
            raise UsageError(f"{trace.name}: {message.kind} was not sent by a round")
        arrived = inbound.setdefault((message.receiver, message.kind), {})
        if message.sender in arrived:
            raise UsageError(
                f"{trace.name}: party {message.sender} sent its {message.kind} to party "
                f"{message.receiver} again; only a run without faults can be replayed"
            )
        arrived[message.sender] = number
        outbound.setdefault(step, []).append(number)
        packets.append(
            GraphMessage(message.kind, message.sender, message.receiver, message.size, step)
        )
    kinds = {r.number: [kind.__name__ for kind in r.needs] for r in definition.rounds}
    steps = []
    for number, work in enumerate(works):
        # ``pop``: a message that an earlier round needed has arrived already.
        needs = [
            need
            for kind in kinds[work.round]
            for need in inbound.pop((work.party, kind), {}).values()
        ]
        sends = tuple(outbound.get(number, ()))
        steps.append(Step(work.party, work.protocol, work.round, work.name, tuple(needs), sends))
    return MessageGraph(trace.name, tuple(steps), tuple(packets))
