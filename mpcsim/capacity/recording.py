"""Operations as the real service has them: recorded from a run in virtual time, never written down.

Which messages are sent, and what each waits for, is what ``LocalService.record`` finds. Between
which of them a call has its key to itself is heard at the gateway's queues in the same runs: a turn
that is taken or given up at a moment is so by whatever message has arrived there at this moment.
(MPC nodes have locks of their own, which are held within the gateway's turns: nobody who comes
through the gateway meets them.)
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

import httpx

from mpcsim.capacity.model.operations import PRESIGNATURES, Operation, Turn
from mpcsim.capacity.model.workload import OPERATIONS
from mpcsim.errors import UsageError, unknown
from mpcsim.ids import ROLES
from mpcsim.service.gateway.sessions.key_queue import KeyQueue
from mpcsim.service.vault import Argon2Cost
from mpcsim.sim.replay import calls
from mpcsim.sim.replay.calls import AT_ONCE, Run
from node.local import LocalService
from node.process.settings import Settings

RUNS: Final = 8
PASSWORD: Final = "correct horse"
TO_GATEWAY: Final = "→ gateway"
_CHEAP: Final = Argon2Cost(operations=1, memory_kib=64)
"""Computing takes no time here, so that a cheap password hash gives the same graph."""


@cache
def recorded(name: str) -> Operation:
    """An operation of ``OPERATIONS``. The first time it takes a second or some (a key); then it is
    there at once.

    Raises:
        UsageError: there is none of this name.
    """
    if name not in OPERATIONS:
        raise UsageError(unknown("operation", name, OPERATIONS))
    settings = Settings(waas_api_url="http://gateway")
    secrets = f"REPRODUCIBLE: capacity, {name}"
    with LocalService(settings=settings, cost=_CHEAP, secrets_seed=secrets) as service:
        heard = _Heard(service, _call(service, name))
        runs = service.runs(heard.call, RUNS)
        graph = calls.graph(name, runs)
        # The first call does not count.
        turns = _turns(name, runs, heard.moments[1:], heard.began_ms[1:])
        return Operation(name, graph, heard.asked, heard.answered, turns)


def _call(service: LocalService, name: str) -> Callable[[], httpx.Response]:
    """Makes one call of the operation."""
    asks = OPERATIONS[name]
    verb, curve = asks.verb, asks.curve
    new = {"curve": curve or "secp256k1", "password": PASSWORD}
    path = asks.endpoint
    if verb == "generate":
        numbers = itertools.count()
        return lambda: service.user(f"user-{next(numbers)}").post(path, json=new)
    alice = service.user("alice")
    share = _made(alice.post("/v3/wallet/generate", json=new))
    stored = {each: share[each] for each in ("key_id", "encrypted_share", "secret_store", "curve")}
    if verb == "presigned":
        wanted = {**stored, "count": RUNS + 1}
        ready = iter(_made(alice.post("/v3/wallet/presign", json=wanted))["presignatures"])
        return lambda: alice.post(
            path, json={**stored, "message": _message(name), "presignatures": [next(ready)]}
        )
    known = {**stored, "password": PASSWORD}
    fields = {
        "sign": {**stored, "message": _message(name), **asks.chosen},
        "presign": {**stored, "count": PRESIGNATURES},
        "recover": known,
        "validate/password": {each: known[each] for each in ("password", "secret_store")},
        "validate/share": {each: known[each] for each in ("encrypted_share", "secret_store")},
    }
    if verb == "recover":
        return lambda: _kept(alice.post(path, json=known), known)
    return partial(alice.post, path, json=fields[verb])


def _kept(answer: httpx.Response, known: dict[str, Any]) -> httpx.Response:
    """The next call is about the share that this one has made."""
    if answer.is_success:
        share = answer.json()
        known |= {each: share[each] for each in ("encrypted_share", "secret_store")}
    return answer


def _made(answer: httpx.Response) -> dict[str, Any]:
    found: dict[str, Any] = answer.raise_for_status().json()
    return found


def _message(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


# ---------------------------------------------------------------------- turns


class _Moment(NamedTuple):
    """A turn is taken, or given up."""

    turn: str
    taken: bool
    at_ms: float
    queue: KeyQueue


class _Heard:
    """Listens to the queues of keys, and looks at the call's own question and answer."""

    def __init__(self, service: LocalService, call: Callable[[], httpx.Response]) -> None:
        self.asked = self.answered = 0
        """Bytes."""
        self.began_ms: list[float] = []
        self.moments: list[list[_Moment]] = []
        """Of each call."""
        self._service = service
        self._call = call
        for kind, queue in service.gateway.gateway.sessions.queues.items():
            queue.listener = partial(self._hear, kind, queue)

    def call(self) -> httpx.Response:
        """Make the call."""
        self.began_ms.append(self._service.now_ms)
        self.moments.append([])
        answer = self._call()
        self.asked, self.answered = len(answer.request.content), len(answer.content)
        return answer

    def _hear(self, kind: str, queue: KeyQueue, place: Hashable, taken: bool) -> None:
        if not self.moments:
            return  # what is made ready beforehand
        turn = " at ".join([kind, *_nodes(place)])
        self.moments[-1].append(_Moment(turn, taken, self._service.now_ms, queue))


def _nodes(place: Hashable) -> Iterable[str]:
    """The MPC nodes that a place is at, if it is one of some."""
    match place:
        case (tuple() as nodes, _):
            return [" and ".join(ROLES[node] for node in nodes)]
    return []


def _turns(
    name: str,
    runs: Sequence[Run],
    moments: Sequence[Sequence[_Moment]],
    began_ms: Sequence[float],
) -> tuple[Turn, ...]:
    """What is taken and given up, in the order in which it is.

    Raises:
        UsageError: now this, now that, or not when a message has come to the gateway.
    """
    first = [(each.turn, each.taken) for each in moments[0]]
    if any([(each.turn, each.taken) for each in heard] != first for heard in moments):
        raise UsageError(f"{name}: it does not take the same turns every time")
    arrived = [calls.arrivals(name, run) for run in runs]
    by: list[str] = []
    refused: list[str] = []
    for nth, (turn, taken) in enumerate(first):
        causes: Counter[str] = Counter()
        for heard, came, began in zip(moments, arrived, began_ms, strict=True):
            at = heard[nth].at_ms - began
            causes.update(each for each, ms in came.items() if abs(ms - at) <= AT_ONCE)
        if causes.total() < len(runs):
            what = "taken" if taken else "given up"
            raise UsageError(f"{name}: the turn of {turn} is {what} when no message has come")
        by.append(causes.most_common(1)[0][0])
        at = moments[0][nth].at_ms - began_ms[0]
        asked = {
            each: ms
            for each, ms in arrived[0].items()
            if each.startswith("request") and each.endswith(TO_GATEWAY) and ms <= at + AT_ONCE
        }
        refused.append(max(asked, key=asked.__getitem__))
    found = []
    for nth, (turn, taken) in enumerate(first):
        if taken:
            queue = moments[0][nth].queue
            gives = by[first.index((turn, False), nth)]
            limit = queue.capacity, queue.max_wait_s
            found.append(Turn(turn, by[nth], gives, refused[nth], *limit))
    return tuple(found)
