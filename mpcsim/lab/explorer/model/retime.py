"""Replay of a session's messages over another network, without the cryptography.

A complete run is a message graph (``mpcsim.sim.replay.record``): who sends what after having
received what. ``ReplayedParty`` plays one party of it, so that the simulator's engine runs the
session anew over any network, with its usual transport model, in a millisecond or two. Work takes
as long as in the recorded run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, Final

from mpcsim.crypto.encoding import Message, WireContext, wire
from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.errors import UsageError
from mpcsim.ids import SESSION_ID_BYTES, PartyId
from mpcsim.lab.explorer.model.steps import handled
from mpcsim.protocols.engine import (
    Definition,
    Done,
    Output,
    Party,
    Round,
    RoundOutput,
    Send,
    Waiting,
)
from mpcsim.protocols.engine.events import StepFinished, StepStarted
from mpcsim.sim.network.latency import Constant, Latency
from mpcsim.sim.network.losses import Loss, mean_loss
from mpcsim.sim.network.topology import SLOWEST_MBIT_PER_S, Link, Network, Site
from mpcsim.sim.network.traffic import wire_bytes
from mpcsim.sim.network.transport import Connection
from mpcsim.sim.replay import MessageGraph, Step, record
from mpcsim.sim.run.compute import RoundWork
from mpcsim.sim.run.engine import VirtualRun
from mpcsim.sim.trace import Trace
from mpcsim.sim.traces.records import Verdict

# Beyond these a session takes days of virtual time: such input is a mistake.
LONGEST_MS: Final = 60_000.0
"""Largest mean one-way latency of a link that an explorer accepts."""
MOST_LOSS: Final = 0.5
"""Largest share of lost packets."""

_NUMBER_BYTES: Final = 4


@dataclass
class RecordedTimes:
    """Rule for the time that work takes: as in a recorded run.

    The driver of a party announces its work (``start_work``); work that the recorded run does not
    have takes no time.
    """

    name: str
    rounds: dict[tuple[PartyId, int], float]
    handling: dict[tuple[PartyId, str], float]
    _now: tuple[PartyId, str] = field(default=(PartyId(0), ""), repr=False)

    @classmethod
    def of(cls, trace: Trace, network: Network) -> RecordedTimes:
        """Return the times of a run's work, on a site with ``cpu_factor`` 1."""
        rounds: dict[tuple[PartyId, int], float] = {}
        handling: dict[tuple[PartyId, str], float] = {}
        of = handled(trace)
        for work in trace.work:
            site = network.sites.get(work.site)
            took = (work.end_ms - work.start_ms) / (site.cpu_factor if site else 1.0)
            if work.round:
                rounds[work.party, work.round] = took
            elif work.cause is None:
                handling[work.party, ""] = took
            elif work.number in of:
                message = trace.messages[of[work.number]]
                handling[work.party, f"{message.sender} {message.kind}"] = took
        return cls(trace.compute, rounds, handling)

    def start_work(self, party: PartyId, what: str) -> None:
        """Announce work of a party, on a message (``"<sender> <kind>"``) or on its start."""
        self._now = party, what

    def handling_ms(self, whole_ms: float, rounds: Iterable[RoundWork]) -> float:
        return self.handling.get(self._now, 0.0)

    def round_ms(self, work: RoundWork) -> float:
        return self.rounds.get((self._now[0], work.number), 0.0)


@wire
class _EmptySetup(Message):
    """Set-up of a replayed party."""


class ReplayedParty:
    """Party of a recorded session: sends what it sent, as soon as what it needed has arrived."""

    def __init__(
        self, graph: MessageGraph, me: PartyId, session_id: bytes, costs: RecordedTimes
    ) -> None:
        self._graph = graph
        self._costs = costs
        self._steps = [step for step in graph.steps if step.party == me]
        self._arrived: set[int] = set()
        definition: Definition[Any, Any] = Definition(
            name=self._steps[0].protocol,
            number=0,
            rounds=(Round(1, "as recorded", lambda view, keep, inbox: RoundOutput()),),
            setup=_EmptySetup,
            roles=lambda setup: {"all": graph.parties},
            wire=lambda setup: WireContext(SECP256K1),
            pair_secrets=lambda setup: {},
            check=lambda setup, me: None,
        )
        self.party = Party(definition, _EmptySetup(), me, session_id=session_id)
        """Never started: what stands for this party elsewhere."""
        self.outcome: Done[Any] | None = None

    @property
    def me(self) -> PartyId:
        return self.party.me

    def waiting_state(self) -> Waiting | None:
        """Return what it waits for; None once it is done."""
        if self.outcome is not None:
            return None
        step, missing = self._steps[0], dict[str, frozenset[PartyId]]()
        for number in step.needs:
            if number not in self._arrived:
                packet = self._graph.messages[number]
                missing[packet.kind] = missing.get(packet.kind, frozenset()) | {packet.sender}
        return Waiting(step.round, step.name, missing)

    def start(self) -> list[Output[Any]]:
        """Run the first round."""
        self._costs.start_work(self.me, "")
        return self._advance()

    def receive(self, sender: int, data: bytes) -> list[Output[Any]]:
        """Take a message, and run the rounds that need nothing more."""
        number = int.from_bytes(data[:_NUMBER_BYTES], "big")
        self._costs.start_work(self.me, f"{sender} {self._graph.messages[number].kind}")
        self._arrived.add(number)
        return self._advance()

    def _advance(self) -> list[Output[Any]]:
        outputs: list[Output[Any]] = []
        while self._steps and self._arrived.issuperset(self._steps[0].needs):
            outputs += self._run(self._steps.pop(0))
        if not self._steps and self.outcome is None:
            self.outcome = Done(None)
            outputs.append(self.outcome)
        return outputs

    def _run(self, step: Step) -> list[Send]:
        event_fields = self.me, step.protocol, step.round, step.name
        self.party.listener(StepStarted(*event_fields))
        self.party.listener(StepFinished(*event_fields))
        packets = [(number, self._graph.messages[number]) for number in step.sends]
        return [
            Send(
                p.receiver,
                n.to_bytes(_NUMBER_BYTES, "big").ljust(p.size, b"\0"),
                p.kind,
                step.round,
            )
            for n, p in packets
        ]


class Retiming:
    """Complete run that can be replayed over other networks."""

    def __init__(
        self, trace: Trace, network: Network, definition: Definition[Any, Any] | None = None
    ) -> None:
        """Prepare a run for replays.

        Args:
            definition: of the protocol; not necessary for the protocols of this package.

        Raises:
            UsageError: not complete, messages were lost or duplicated by faults, or the protocol is
                not known.
        """
        self._trace = trace
        self._graph = record(trace, definition)
        self._costs = RecordedTimes.of(trace, network)
        named = bytes.fromhex(trace.messages[0].session) if trace.messages else b""
        self._session = named.ljust(SESSION_ID_BYTES, b"\0")

    def over_network(self, network: Network, seed: int | None = None) -> Trace:
        """Return the trace of the same session over another network.

        Args:
            seed: of latencies and losses; that of the run, by default.
        """
        parties = [
            ReplayedParty(self._graph, i, self._session, self._costs) for i in self._graph.parties
        ]
        made = VirtualRun(
            parties,
            network,
            seed=self._trace.seed if seed is None else seed,
            compute=self._costs,
            name=self._trace.name,
        ).run()
        return replace(
            made,
            verdict=self._trace.verdict if made.verdict is Verdict.VALID else made.verdict,
            reproducible=self._trace.reproducible,
            outcomes=self._trace.outcomes,
        )


# ---------------------------------------------------------------------- networks


def observed_network(trace: Trace) -> Network:
    """Return the network as the messages of a run met it: constant latencies, no losses.

    Each link has the mean latency of its messages, and the rate that its largest message got.

    Raises:
        UsageError: a party neither worked nor sent anything.
    """
    homes = {work.party: work.site for work in trace.work}
    services: dict[str, float] = {}
    latencies: dict[tuple[str, str], list[float]] = {}
    rates: dict[tuple[str, str], tuple[int, float]] = {}
    cold = False
    connection = Connection()
    for message in trace.messages:
        for hop in message.hops:
            low, high = sorted((hop.source, hop.target))
            latencies.setdefault((low, high), []).append(hop.transfer.propagation_ms)
            services[hop.target] = max(services.get(hop.target, 0.0), hop.service_ms)
            cold = cold or hop.transfer.handshake_ms > 0
            size = wire_bytes(connection, message.size)
            if size > rates.get((low, high), (0, 0.0))[0] and hop.transfer.transmission_ms > 0:
                rates[low, high] = size, 8 * size / (hop.transfer.transmission_ms * 1000)
    names = dict.fromkeys([*homes.values(), *(end for pair in latencies for end in pair)])
    if not {ending.party for ending in trace.endings} <= homes.keys():
        raise UsageError(f"{trace.name}: not every party did something; pass the network")
    links = tuple(
        Link(a, b, Constant(fmean(found)), rates.get((a, b), (0, float("inf")))[1])
        for (a, b), found in latencies.items()
    )
    return Network(
        {name: Site(name, service_ms=services.get(name, 0.0)) for name in names},
        links,
        homes,
        Connection(cold=cold),
        f"{trace.network} (as this run met it)".strip(),
    )


def with_link_numbers(
    network: Network,
    first: Network,
    a: str,
    b: str,
    *,
    one_way_ms: float | None = None,
    mbit_per_s: float | None = None,
    loss: float | None = None,
) -> Network:
    """Return the network with other numbers on one link; None: unchanged.

    Args:
        first: network with the original link: jitter, bursts of losses and the way back change in
            proportion, so that the numbers of ``first`` give its link again.
        one_way_ms: mean latency; ``mbit_per_s`` and ``loss`` as in ``Link``.

    Raises:
        UsageError: there is no such link, or a number is invalid or out of bounds.
    """
    where = f"link {a} - {b}"
    if one_way_ms is not None:
        _check_bounds(f"{where}: latency", one_way_ms, 0, LONGEST_MS, "ms")
    if mbit_per_s is not None:
        _check_bounds(f"{where}: bandwidth", mbit_per_s, SLOWEST_MBIT_PER_S, math.inf, "Mbit/s")
    if loss is not None:
        _check_bounds(f"{where}: loss", 100 * loss, 0, 100 * MOST_LOSS, "%")
    old = next((link for link in first.links if {link.a, link.b} == {a, b}), None)
    changes: dict[str, Any] = {}
    if old is not None and one_way_ms is not None:
        changes["latency"] = _scaled_latency(old.latency, old.latency, one_way_ms)
        if old.back_latency is not None:
            changes["back_latency"] = _scaled_latency(old.back_latency, old.latency, one_way_ms)
    if old is not None and mbit_per_s is not None:
        changes["mbit_per_s"] = mbit_per_s
        if (back := old.back_mbit_per_s) is not None:
            known = back < math.inf and old.mbit_per_s < math.inf
            changes["back_mbit_per_s"] = back * (mbit_per_s / old.mbit_per_s) if known else back
    if old is not None and loss is not None:
        changes["loss"] = _scaled_loss(old.loss, old.loss, loss)
        if old.back_loss is not None:
            changes["back_loss"] = _scaled_loss(old.back_loss, old.loss, loss)
    return network.with_link(a, b, **changes)


def _check_bounds(what: str, value: float, least: float, most: float, unit: str) -> None:
    if not least <= value <= most:
        at_most = f" and at most {most:,g}" if most < math.inf else ""
        raise UsageError(f"{what} is {value:g} {unit}: it must be at least {least:g}{at_most}")


def _scaled_latency(latency: Latency, first: Latency, one_way_ms: float) -> Latency:
    """Return a latency scaled like its link's own, whose mean becomes ``one_way_ms``."""
    if not (first.mean_ms > 0 and one_way_ms > 0):
        return Constant(one_way_ms)
    factor = one_way_ms / first.mean_ms
    return latency if factor == 1 else latency.scaled(factor)


def _scaled_loss(loss: Loss, first: Loss, to: float) -> Loss:
    """Return a loss scaled like its link's own, whose mean becomes ``to``; bursts keep their
    length."""
    own = mean_loss(first)
    if to == own:
        return loss
    wanted = min(mean_loss(loss) * (to / own), MOST_LOSS) if own > 0 else to
    return wanted if isinstance(loss, int | float) else loss.with_mean(wanted)
