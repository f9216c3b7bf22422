"""Sessions in virtual time."""

import math
from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import wraps
from typing import Any

from mpcsim.protocols.engine import Party
from mpcsim.protocols.local_run import Participant
from mpcsim.sim import Network, Trace
from mpcsim.sim.run.engine import VirtualRun
from mpcsim.sim.run.realtime import clock
from tests.helpers.sessions import Session


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine, in virtual time from 0 on; fixtures are passed on."""

    @wraps(test)
    def run(*arguments: Any, **options: Any) -> None:
        clock.run(test(*arguments, **options))

    return run


def judged(session: Session) -> Callable[[Mapping[int, Any]], bool]:
    """Whether results are right, as the session's own check sees it."""

    def validate(results: Mapping[int, Any]) -> bool:
        try:
            session.check(results)
        except AssertionError:
            return False
        return True

    return validate


def mesh(session: Session, one_way_ms: float = 50.0) -> Network:
    """All joined directly, by infinitely fast lines."""
    return Network.mesh(session.members, one_way_ms, mbit_per_s=math.inf)


def virtual(
    session: Session,
    network: Network | None = None,
    *,
    corrupt: Mapping[int, Callable[[Party], Participant]] | None = None,
    parties: Collection[Participant] | None = None,
    **settings: Any,
) -> Trace:
    """One finished run of a session, on a mesh with 50 ms one way unless said otherwise."""
    cheats = corrupt or {}
    made = parties or [cheats.get(p.me, lambda p: p)(p) for p in session.parties()]
    settings.setdefault("validate", judged(session))
    return VirtualRun(made, network or mesh(session), **settings).run()
