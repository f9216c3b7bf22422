"""Recording of operations from the real service, in virtual time: message graphs and key locks.

``LocalService.record`` finds the messages and what each waits for. Key locks are observed at the
gateway's queues in the same runs: a lock that is acquired or released at a moment is so by the
message that has arrived there at that moment. (MPC nodes have locks of their own, which are held
within the gateway's: calls through the gateway never wait for them.)
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

import httpx

from mpcsim.capacity.model.operations import PRESIGNATURES, KeyLock, Operation
from mpcsim.capacity.model.workload import OPERATIONS
from mpcsim.errors import UsageError, unknown
from mpcsim.ids import ROLES
from mpcsim.service.gateway.sessions.key_queue import KeyQueue
from mpcsim.service.vault import Argon2Cost
from mpcsim.sim.replay import calls
from mpcsim.sim.replay.calls import AT_ONCE, RecordedCall
from node.local import LocalService
from node.process.settings import Settings

RUNS: Final = 8
PASSWORD: Final = "correct horse"
TO_GATEWAY: Final = "→ gateway"
_CHEAP: Final = Argon2Cost(operations=1, memory_kib=64)
"""Cheap password hash: computing takes no time here, so that the graph is the same."""


@cache
def record_operation(name: str) -> Operation:
    """Return an operation of ``OPERATIONS``; recording it takes a second or so, once.

    Raises:
        UsageError: there is none of this name.
    """
    if name not in OPERATIONS:
        raise UsageError(unknown("operation", name, OPERATIONS))
    settings = Settings(waas_api_url="http://gateway")
    secrets = f"REPRODUCIBLE: capacity, {name}"
    with LocalService(settings=settings, cost=_CHEAP, secrets_seed=secrets) as service:
        recorder = _LockRecorder(service, _caller(service, name))
        runs = service.runs(recorder.call, RUNS)
        graph = calls.build_graph(name, runs)
        # The first call is a warm-up.
        locks = _key_locks(name, runs, recorder.moments[1:], recorder.began_ms[1:])
        return Operation(name, graph, recorder.request_bytes, recorder.response_bytes, locks)


def _caller(service: LocalService, name: str) -> Callable[[], httpx.Response]:
    """Return a function that makes one call of the operation."""
    kind = OPERATIONS[name]
    verb, curve = kind.verb, kind.curve
    new = {"curve": curve or "secp256k1", "password": PASSWORD}
    path = kind.endpoint
    if verb == "generate":
        numbers = itertools.count()
        return lambda: service.user(f"user-{next(numbers)}").post(path, json=new)
    alice = service.user("alice")
    share = _checked_json(alice.post("/v3/wallet/generate", json=new))
    stored = {each: share[each] for each in ("key_id", "encrypted_share", "secret_store", "curve")}
    if verb == "presigned":
        wanted = {**stored, "count": RUNS + 1}
        ready = iter(_checked_json(alice.post("/v3/wallet/presign", json=wanted))["presignatures"])
        return lambda: alice.post(
            path, json={**stored, "message": _message(name), "presignatures": [next(ready)]}
        )
    known = {**stored, "password": PASSWORD}
    fields = {
        "sign": {**stored, "message": _message(name), **kind.signer_field},
        "presign": {**stored, "count": PRESIGNATURES},
        "recover": known,
        "validate/password": {each: known[each] for each in ("password", "secret_store")},
        "validate/share": {each: known[each] for each in ("encrypted_share", "secret_store")},
    }
    if verb == "recover":
        return lambda: _store_new_share(alice.post(path, json=known), known)
    return partial(alice.post, path, json=fields[verb])


def _store_new_share(answer: httpx.Response, known: dict[str, Any]) -> httpx.Response:
    """Keep the share of a recovery's answer for the next call."""
    if answer.is_success:
        share = answer.json()
        known |= {each: share[each] for each in ("encrypted_share", "secret_store")}
    return answer


def _checked_json(answer: httpx.Response) -> dict[str, Any]:
    found: dict[str, Any] = answer.raise_for_status().json()
    return found


def _message(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


# ---------------------------------------------------------------------- key locks


class _LockChange(NamedTuple):
    """Acquisition or release of a key lock."""

    lock: str
    acquired: bool
    at_ms: float
    queue: KeyQueue


class _LockRecorder:
    """Observer of the gateway's key queues, and of the sizes of the call's request and response."""

    def __init__(self, service: LocalService, call: Callable[[], httpx.Response]) -> None:
        self.request_bytes = self.response_bytes = 0
        """Sizes in bytes."""
        self.began_ms: list[float] = []
        self.moments: list[list[_LockChange]] = []
        """Lock changes of each call."""
        self._service = service
        self._call = call
        for kind, queue in service.gateway.gateway.sessions.queues.items():
            queue.listener = partial(self._record_change, kind, queue)

    def call(self) -> httpx.Response:
        """Make the call."""
        self.began_ms.append(self._service.now_ms)
        self.moments.append([])
        answer = self._call()
        self.request_bytes, self.response_bytes = len(answer.request.content), len(answer.content)
        return answer

    def _record_change(self, kind: str, queue: KeyQueue, place: Hashable, acquired: bool) -> None:
        if not self.moments:
            return  # preparation of the call
        lock = " at ".join([kind, *_lock_nodes(place)])
        self.moments[-1].append(_LockChange(lock, acquired, self._service.now_ms, queue))


def _lock_nodes(place: Hashable) -> Iterable[str]:
    """Return the MPC nodes that a lock is for, if it is for some of them only."""
    match place:
        case (tuple() as nodes, _):
            return [" and ".join(ROLES[node] for node in nodes)]
    return []


def _key_locks(
    name: str,
    runs: Sequence[RecordedCall],
    moments: Sequence[Sequence[_LockChange]],
    began_ms: Sequence[float],
) -> tuple[KeyLock, ...]:
    """Return the key locks of an operation, in the order of acquisition.

    Raises:
        UsageError: runs differ, or a lock changes when no message has come to the gateway.
    """
    first = [(each.lock, each.acquired) for each in moments[0]]
    if any([(each.lock, each.acquired) for each in run] != first for run in moments):
        raise UsageError(f"{name}: its key locks differ from run to run")
    arrived = [calls.arrival_times(name, run) for run in runs]
    by: list[str] = []
    refused: list[str] = []
    for nth, (lock, acquired) in enumerate(first):
        causes: Counter[str] = Counter()
        for changes, came, began in zip(moments, arrived, began_ms, strict=True):
            at = changes[nth].at_ms - began
            causes.update(each for each, ms in came.items() if abs(ms - at) <= AT_ONCE)
        if causes.total() < len(runs):
            what = "acquired" if acquired else "released"
            raise UsageError(f"{name}: lock {lock} is {what} when no message has arrived")
        by.append(causes.most_common(1)[0][0])
        at = moments[0][nth].at_ms - began_ms[0]
        asked = {
            each: ms
            for each, ms in arrived[0].items()
            if each.startswith("request") and each.endswith(TO_GATEWAY) and ms <= at + AT_ONCE
        }
        refused.append(max(asked, key=asked.__getitem__))
    found = []
    for nth, (lock, acquired) in enumerate(first):
        if acquired:
            queue = moments[0][nth].queue
            released_by = by[first.index((lock, False), nth)]
            limit = queue.capacity, queue.max_wait_s
            found.append(KeyLock(lock, by[nth], released_by, refused[nth], *limit))
    return tuple(found)
