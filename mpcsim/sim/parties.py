"""Simulation of any protocol's parties over a network: the entry point for your own protocols.

    >>> trace = run_parties([Party(TOSS, agreed, i, session_id=sid) for i in (1, 2, 3)], network)
    >>> trace.outcomes, trace.summary(), record(trace, TOSS)

``Simulation`` runs the wallet's operations and keeps its shares; ``run_parties`` runs any parties.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal, Unpack

from mpcsim.errors import UsageError
from mpcsim.protocols.local_run import Participant
from mpcsim.sim.network.topology import Network
from mpcsim.sim.run.completion import inner_party
from mpcsim.sim.run.compute import Compute
from mpcsim.sim.run.engine import VirtualRun
from mpcsim.sim.run.faults import check_faults, kinds_of
from mpcsim.sim.run.session import RunOptions
from mpcsim.sim.trace import Trace

LONGEST_REAL_S = 60.0
"""Deadline of a session in real time, in seconds, unless another is given."""


def run_parties(
    parties: Iterable[Participant[Any]],
    network: Network,
    *,
    compute: Compute | None = None,
    deadline_ms: float = math.inf,
    clock: Literal["virtual", "real"] = "virtual",
    **options: Unpack[RunOptions],
) -> Trace:
    """Run one session of these parties until nothing more happens, or to the deadline.

    Args:
        parties: none of them has started; an ``Adversary`` may be among them. Each needs a site
            in the network (``Network.mesh`` has one for each party).
        compute: how long computing takes, no time by default; in real time it takes what it takes.
        deadline_ms: when the session is stopped, finished or not; a minute by default in real time.
        clock: ``real``: over loopback HTTP, with the network's delays injected.
        options: ``seed`` of latencies, losses and random faults (the parties' randomness is their
            own); ``faults``, what goes wrong on the way (``mpcsim.sim.run.faults``); ``draws`` in
            place of seeded ones; ``validate``, which judges the results, by party, and a run whose
            results it refuses is INVALID; ``name`` in the trace, by default that of the protocol;
            ``contents``: keep what the messages say in the trace: SECRETS.

    Raises:
        UsageError: no party, one that is there twice or has no site, a fault that names none of
            them or no message of theirs, or a bad time or clock.
    """
    members = tuple(parties)
    if not options.get("name") and members:
        options["name"] = inner_party(members[0]).definition.name
    options["faults"] = tuple(options.get("faults", ()))
    check_faults(
        options["faults"],
        [member.me for member in members],
        kinds_of(inner_party(member).definition for member in members),
    )
    if clock == "virtual":
        return VirtualRun(
            members,
            network,
            compute=compute,
            deadline_ms=deadline_ms,
            **options,
        ).run()
    if clock != "real":
        raise UsageError(f"clock is {clock!r}: 'virtual' or 'real'")
    # Imported here: virtual time needs no HTTP server.
    from mpcsim.sim.run.realtime.realtime import real_time

    return real_time(
        members,
        network,
        deadline_s=LONGEST_REAL_S if deadline_ms == math.inf else deadline_ms / 1000,
        **options,
    )
