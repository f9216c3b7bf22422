"""The real service under load, in virtual time: node, gateway, MPC nodes and their stores.

The real code decides what is sent, refused, repeated or given up, and every signature is verified.
The kernel decides how long the handling of a message takes and waits for an event loop, a thread, a
core or a disk: with the same code, the same costs and, for the same call, the same draws as in a
run of recorded messages.

    >>> with LoadedService(layout, deployment, arrivals, take) as service:
    ...     service.run(60_000.0)

Keys, tokens and presignatures that calls need are made outside of virtual time when they are first
needed: that costs nothing, and nobody waits for it. A caller uses a user's key with what that user
was given last, so that a signature asked for while the key is being recovered may be refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import Context
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Literal, Self

import httpx
import numpy as np
from coincurve import PublicKey
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from mpcsim.capacity.kernel import records as kernel
from mpcsim.capacity.kernel.records import NONE
from mpcsim.capacity.model.incidents import Event, ProcessCrash, RollingRestart
from mpcsim.capacity.model.operations import PRESIGNATURES, REQUEST, RESPONSE
from mpcsim.capacity.model.parts import Model
from mpcsim.capacity.model.workload import OPERATIONS
from mpcsim.capacity.real import calls
from mpcsim.capacity.real.async_kernel import AsyncKernel
from mpcsim.capacity.real.calls import Call, RecordedOperation
from mpcsim.capacity.real.carrier import LoadedCarrier
from mpcsim.capacity.real.clock import Clock
from mpcsim.capacity.simulation.call_graph import CALLER, NODE
from mpcsim.capacity.simulation.driver import ArrivalChunk, KernelDriver
from mpcsim.capacity.simulation.layout import Layout
from mpcsim.errors import MpcError, UsageError, unknown
from mpcsim.service.error_codes import HEADER, Code
from mpcsim.service.vault import Argon2Cost
from mpcsim.sim.run.realtime.clock import VirtualLoop
from node.local import ADDRESS, LocalService
from node.process.settings import Settings

Compute = Literal["sampled", "live"]
CHEAP: Final = Argon2Cost(operations=1, memory_kib=64)
"""Cheap password hash: the time to open a vault is sampled; that it is opened is real."""
PASSWORD: Final = "correct horse"
LIFETIME_S: Final = 30 * 86_400.0
"""Lifetime of tokens."""
RENEWED_S: Final = 50.0
"""Interval of the MPC nodes' attestations, shorter than their validity, so that no call pays for
one."""


class WrongAnswer(MpcError):
    """Raised for an answer of the service that is not true: a signature that does not verify."""


class LoadedService(KernelDriver):
    """Real service under load. A context manager."""

    def __init__(
        self,
        layout: Layout,
        deployment: Model,
        arrivals: Iterator[tuple[float, ArrivalChunk]],
        take: Callable[[Any], None],
        events: Sequence[Event] = (),
        *,
        seed: int = 0,
        compute: Compute = "sampled",
        settings: Settings | None = None,
        cost: Argon2Cost = CHEAP,
        **options: Any,
    ) -> None:
        """
        Args:
            layout: of the deployment, and of operations with names of ``workload.OPERATIONS``.
            arrivals: and others: as for ``KernelDriver``.
            seed: REPRODUCIBLE SECRETS follow from it.
            compute: ``sampled`` from the costs, or ``live``: the time that it takes here and now,
                on one core (``LocalService``'s ``cpu_factor``), never twice the same.
            settings: of the nodes; ``options``: of the gateway, both as for ``LocalService``.

        Raises:
            UsageError: the deployment has more gateways or MPC nodes than the real service can
                have; an incident that it cannot have; an unknown operation; or as from
                ``LocalService``.
        """
        _check(layout, deployment, events)
        if compute not in ("sampled", "live"):
            raise UsageError(f"compute is {compute!r}: 'sampled' or 'live'")
        super().__init__(layout, arrivals, take, events)
        self._seed = seed
        self._kinds = [RecordedOperation(self, n, shape) for n, shape in enumerate(layout.shapes)]
        self._first_node = layout.groups["node"].first
        self._clock = Clock()
        self._settings = settings or Settings(waas_api_url="http://gateway")
        self._kernel = AsyncKernel(self, self._clock, self._start_call)
        self._carrier = LoadedCarrier(
            layout, self, self._kernel, self._clock, charged=compute == "sampled"
        )
        self._local = LocalService(
            seed=seed,
            cpu_factor=0.0 if compute == "sampled" else 1.0,
            secrets_seed=f"REPRODUCIBLE: under load {seed}",
            cost=cost,
            settings=self._settings,
            nodes=layout.groups["node"].count,
            carrier=self._carrier,
            **{
                "token_lifetime_s": LIFETIME_S,
                "making_limit": deployment.making_limit,
                "making_queue": deployment.making_queue,
            }
            | options,
        )
        self._users = _Users(self._local)
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: set[asyncio.Task[None]] = set()
        """Tasks among them that need not end."""
        self._closing = False
        self._failed: asyncio.Future[None] | None = None

    def run(self, until_ms: float) -> None:
        """Advance virtual time to ``until_ms``.

        Raises:
            WrongAnswer: a signature does not verify.
        """
        self._local.run(self._advance_to(until_ms))

    def close(self) -> None:
        """Cancel what has not begun, let the rest end outside of virtual time, and close the
        service."""
        try:
            if self._tasks:
                self._local.run(self._finish())
        finally:
            self._local.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # ------------------------------------------------------------------ virtual time

    async def _advance_to(self, until_ms: float) -> None:
        if self._failed is None:
            self._failed = asyncio.get_running_loop().create_future()
            if self._settings.vault_policy == "signer":
                await self._renew()
                self._start(self._renew_repeatedly())
            self._clock.begin()
        self._kernel.apply_due_events()
        while True:
            next_ = int(self.state["next"])
            if next_ < len(self.calls.arrivals):
                due = float(self.calls.arrivals[next_]["due"])
                if due > until_ms:
                    break
                await self._sleep(due)
                self._clock.at(due)
                self._kernel.step(self._kernel.stepping.START_ARRIVAL)
            elif (
                self.state["arrivals_known_to"] <= until_ms
                and self.state["arrivals_known_to"] < math.inf
            ):
                self.make_room(kernel.NEED_ARRIVALS)
            else:
                break
        await self._sleep(until_ms)
        self._clock.at(until_ms)
        self.state["now"] = until_ms

    async def _sleep(self, until_ms: float) -> None:
        """Wait until a time, or raise the error of a call that has failed meanwhile."""
        assert self._failed is not None
        wait_ms = until_ms - self._clock.now_ms()
        await asyncio.wait([self._failed], timeout=max(0.0, wait_ms) / 1000)
        if self._failed.done():
            self._failed.result()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task that acts on no call's behalf yet."""
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._tasks.add(task)
        self._idle.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._idle.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            assert self._failed is not None
            if not self._failed.done():
                self._failed.set_exception(error)

    async def _finish(self) -> None:
        self._closing = True
        for task in self._idle:
            task.cancel()
        self._kernel.finish()
        self._carrier.finish()
        with _untimed():
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._failed is not None and self._failed.done():
            self._failed.exception()  # mark as retrieved

    async def _renew_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(RENEWED_S)
            await self._renew()

    async def _renew(self) -> None:
        with _untimed():
            await self._local.gateway.gateway.attestations.exchange_now()

    # ------------------------------------------------------------------ calls

    def _start_call(self, slot: int) -> None:
        """Begin a call: its request is at a node."""
        record = self.calls.calls[slot]
        kind = self._kinds[int(record["operation"])]
        order = self.calls.orders[record["order"]]
        call = Call(self, kind, slot, np.uint64(record["key"]))
        self._start(
            self._answer(
                call,
                _Order(
                    kind.name, int(record["user"]), int(order["number"]), int(order["attempts"])
                ),
            )
        )

    async def _answer(self, call: Call, order: _Order) -> None:
        """Let the service answer a call. Its caller may have given it up by then."""
        outcome = kernel.BROKEN
        if (node := self._carrier.process(call, NODE)) != NONE:
            asking = await self._users.request(order, self._seed)
            outcome = await self._attempt(call, asking, node - self._first_node)
        if self._closing:
            return
        slot, stepping = call.slot, self._kernel.stepping
        if not call.complete:  # its latency cannot be broken down
            self.calls.moments[slot] = 0.0
        self._kernel.step(stepping.END_CALL, slot, outcome)
        call.over = True
        self._kernel.step(stepping.RELEASE_CALL, slot)

    async def _attempt(self, call: Call, asking: _PreparedRequest, node: int) -> int:
        """Carry out an attempt, and return its outcome."""
        calls.begin(call)
        call.note_sent(call.message(REQUEST), self._clock.now_ms())
        await self._carrier.handle_message(call, call.message(REQUEST), CALLER, NODE)
        self._idle.discard(asyncio.current_task())
        answer = await self._local.answer(asking.request, node)
        if answer.is_success:
            answered = call.message(RESPONSE)
            call.note_sent(answered, self._clock.now_ms())
            self._carrier.process(call, CALLER)
            await self._carrier.handle_message(call, answered, NODE, CALLER)
        with _untimed():
            return asking.outcome(answer)


def _check(layout: Layout, deployment: Model, events: Sequence[Event]) -> None:
    """Refuse a deployment that the real service cannot have.

    Raises:
        UsageError: says what it cannot have.
    """
    for extrapolated in deployment.extrapolated:
        raise UsageError(
            f"the real service has one gateway and one of each MPC node ({extrapolated}): only "
            "exactness 'recorded' can extrapolate"
        )
    for event in events:
        if isinstance(event, ProcessCrash) or (
            isinstance(event, RollingRestart) and event.part != "node"
        ):
            raise UsageError(
                f"event {type(event).__name__} of {event.part}: only exactness 'recorded' has it"
            )
    for name in layout.operations:
        if name not in OPERATIONS:
            raise UsageError(unknown("operation", name, OPERATIONS))


@contextmanager
def _untimed() -> Iterator[None]:
    """Let computing take no virtual time within the block."""
    loop = asyncio.get_running_loop()
    with loop.free() if isinstance(loop, VirtualLoop) else nullcontext():
        yield


@dataclass(frozen=True)
class _Order:
    """Order of a caller, and the number of its attempt."""

    operation: str
    user: int
    number: int
    attempt: int


# ---------------------------------------------------------------------- callers


@dataclass(frozen=True)
class _PreparedRequest:
    """Request, and the check of its answer."""

    request: httpx.Request
    take: Callable[[Any], bool]
    """Check of a successful answer; False: it is a refusal all the same."""

    def outcome(self, answer: httpx.Response) -> int:
        """Return the outcome of an answer for its caller. A refusal says so, or that the key is in
        use."""
        if answer.is_success:
            return kernel.DONE if self.take(answer.json()) else kernel.REFUSED
        busy = answer.headers.get(HEADER) == Code.BUSY.value
        refused = answer.is_client_error or busy
        return kernel.REFUSED if refused else kernel.BROKEN


@dataclass
class _Key:
    """Key material of a user for one curve."""

    document: dict[str, Any] = field(default_factory=dict, repr=False)
    presignatures: list[str] = field(default_factory=list, repr=False)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Lock while it is made outside of virtual time."""


class _Users:
    """Tokens and keys of users, made when they are first needed."""

    def __init__(self, service: LocalService) -> None:
        self._service = service
        self._headers: dict[str, dict[str, str]] = {}
        self._keys: dict[tuple[str, str], _Key] = {}

    async def request(self, order: _Order, seed: int) -> _PreparedRequest:
        """Return the request of an order, with whatever it needs."""
        asks = OPERATIONS[order.operation]
        verb, curve = asks.verb, asks.curve
        curve = curve or "secp256k1"
        if verb == "generate":  # a user has one key
            new = f"new user {order.number}"
            return self._prepare_request(
                new, verb, {"curve": curve, "password": PASSWORD}, lambda _: True
            )
        user = f"user-{order.user}"
        key = await self._key(user, curve, presigned=verb == "presigned")
        document = key.document
        if verb in ("sign", "presigned"):
            said = f"{seed} {order.number} {order.attempt}"
            message = hashlib.sha256(said.encode()).digest()
            body = {**document, "message": message.hex(), **asks.signer_field}
            if verb == "presigned":
                body["presignatures"] = [key.presignatures.pop()]

            def verified(answer: Any) -> bool:
                _verify(document, message, bytes.fromhex(answer["signature"]))
                return True

            return self._prepare_request(user, "sign", body, verified)
        if verb == "recover":

            def recovered(answer: Any) -> bool:
                if answer["public_key"] != document["public_key"]:
                    raise WrongAnswer("a recovery has changed the public key")
                key.document = answer
                key.presignatures.clear()
                return True

            return self._prepare_request(
                user, verb, {"curve": curve, "password": PASSWORD}, recovered
            )
        if verb == "presign":
            body = {**document, "count": PRESIGNATURES}
            return self._prepare_request(
                user, verb, body, lambda answer: bool(answer["presignatures"])
            )
        body = document | {"password": PASSWORD}  # validations ignore additional members
        return self._prepare_request(user, verb, body, lambda answer: bool(answer["result"]))

    async def _key(self, user: str, curve: str, *, presigned: bool) -> _Key:
        """Return a user's key, with a presignature if one is needed."""
        key = self._keys.setdefault((user, curve), _Key())
        async with key.lock:
            if not key.document:
                body: dict[str, Any] = {"curve": curve, "password": PASSWORD}
                key.document = await self._ask_untimed(user, "generate", body)
            if presigned and not key.presignatures:
                body = {**key.document, "count": PRESIGNATURES}
                key.presignatures = (await self._ask_untimed(user, "presign", body))[
                    "presignatures"
                ]
        return key

    async def _ask_untimed(self, user: str, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        """Call the service outside of virtual time, on no call's behalf."""
        with _untimed():
            asking = self._prepare_request(user, verb, body, lambda _: True)
            answer = await self._service.answer(asking.request)
            if answer.is_error:
                raise UsageError(f"{verb} for {user}: HTTP {answer.status_code} {answer.text}")
            found: dict[str, Any] = answer.json()
        return found

    def _prepare_request(
        self, user: str, verb: str, body: dict[str, Any], take: Callable[[Any], bool]
    ) -> _PreparedRequest:
        headers = self._headers.get(user)
        if headers is None:
            token = self._service.gateway.token(user)
            headers = self._headers[user] = {"authorization": f"Bearer {token}"}
        url = f"{ADDRESS}/v3/wallet/{verb}"
        return _PreparedRequest(httpx.Request("POST", url, headers=headers, json=body), take)


def _verify(document: dict[str, Any], message: bytes, signature: bytes) -> None:
    """Check a signature with libraries that have no part in the service.

    Raises:
        WrongAnswer: it is none of this message under this key.
    """
    public_key = bytes.fromhex(document["public_key"].removeprefix("0x"))
    try:
        if document["curve"] == "ed25519":
            VerifyKey(public_key).verify(message, signature)
            return
        recoverable = signature[:64] + bytes([signature[64] - 27])
        found = PublicKey.from_signature_and_message(recoverable, message, hasher=None)
        if found.format() == public_key:
            return
    except (ValueError, IndexError, BadSignatureError):
        pass
    raise WrongAnswer(f"a signature of {document['curve']} does not verify")
