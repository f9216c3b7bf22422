"""Parties of any protocol over a network: the front door for protocols of one's own.

    >>> trace = run_parties([Party(TOSS, agreed, i, session_id=sid) for i in (1, 2, 3)], network)
    >>> trace.outcomes, trace.summary(), record(trace, TOSS)

``Simulation`` runs the wallet's operations and keeps its shares; this runs whatever it is given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal

from mpcsim.errors import UsageError
from mpcsim.protocols.local_run import Participant
from mpcsim.sim.network.topology import Network
from mpcsim.sim.run.compute import Compute
from mpcsim.sim.run.ending import Validate, inner_party
from mpcsim.sim.run.engine import VirtualRun
from mpcsim.sim.run.faults import Fault
from mpcsim.sim.trace import Trace

LONGEST_REAL_S = 60.0
"""A session in real time is given up after that, unless another deadline is given."""


def run_parties(
    parties: Iterable[Participant[Any]],
    network: Network,
    *,
    seed: int = 0,
    compute: Compute | None = None,
    faults: Iterable[Fault] = (),
    deadline_ms: float = math.inf,
    validate: Validate = lambda results: True,
    name: str = "",
    clock: Literal["virtual", "real"] = "virtual",
    contents: bool = False,
) -> Trace:
    """Run one session of these parties to its end.

    Args:
        parties: none of them has started; an ``Adversary`` may be among them. Each needs a site
            in the network (``Network.mesh`` has one for each party).
        seed: of latencies, losses and random faults. (The parties' randomness is their own.)
        compute: how long computing takes, no time by default; in real time it takes what it takes.
        faults: what goes wrong on the way (``mpcsim.sim.run.faults``).
        deadline_ms: when the session is stopped, finished or not; a minute by default in real time.
        validate: judges the results, by party; a run whose results it refuses is INVALID.
        name: in the trace; by default that of the protocol.
        clock: ``real``: over loopback HTTP, with the network's delays injected.
        contents: keep what the messages say in the trace: SECRETS.

    Raises:
        UsageError: no party, one that is there twice or has no site, or a bad time or clock.
    """
    members = tuple(parties)
    if not name and members:
        name = inner_party(members[0]).definition.name
    faults = tuple(faults)
    if clock == "virtual":
        return VirtualRun(
            members,
            network,
            seed=seed,
            compute=compute,
            faults=faults,
            deadline_ms=deadline_ms,
            validate=validate,
            name=name,
            contents=contents,
        ).run()
    if clock != "real":
        raise UsageError(f"clock is {clock!r}: 'virtual' or 'real'")
    # Imported here: virtual time needs no HTTP server.
    from mpcsim.sim.run.realtime.realtime import real_time

    return real_time(
        members,
        network,
        seed=seed,
        faults=faults,
        deadline_s=LONGEST_REAL_S if deadline_ms == math.inf else deadline_ms / 1000,
        validate=validate,
        name=name,
        contents=contents,
    )
