"""Faults in a process of the service: the conditions in force, and the middleware that applies
them.

The process that started this one holds the other end of its standard input, a socket, and says
what is to fail (``conditions``); nobody else can. When that end is closed, this process ends, as
``mpcsim.service.process.process_lifetime`` has it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mpcsim.errors import UsageError
from mpcsim.service.fault_injection.commands import ENDPOINTS
from mpcsim.service.fault_injection.conditions import AS_STARTED, Conditions
from mpcsim.service.process.process_lifetime import terminate_after

LOG = logging.getLogger(__name__)

LOGIN: Final = ("POST", "/auth/auth-service/v3/login")
EXPIRED_S: Final = 3600.0
"""Seconds since the expiry of a token that is to have expired."""
_AGO_S: Final[ContextVar[float]] = ContextVar("_AGO_S", default=0.0)
"""Seconds by which the clock of the present request is behind."""
_NAMES: Final = {(method, path): name for name, (method, path, _) in ENDPOINTS.items()}

FailureResponder = Callable[[Scope, str, str], ASGIApp]
"""Function from a request, its endpoint's name and the injected answer to the application that
answers."""


@dataclass
class EndpointFailure:
    """Injected failure of an endpoint."""

    answer: str
    """A status, or ``hang``."""
    left: int
    """Number of calls that are still to fail."""
    done: bool
    """Whether they are carried out."""
    released: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    """Event that releases the calls that hang."""


class ProcessFaults:
    """Faults that are in force in this process."""

    def __init__(self, line: socket.socket | None = None) -> None:
        """
        Args:
            line: to whoever started the process, whose first line is waited for; None: whoever
                made this object says by itself what is to fail (``apply``).
        """
        self.conditions = AS_STARTED
        self.failures: dict[str, EndpointFailure] = {}
        self.expired_tokens_due = 0
        """Tokens that are to have expired when they are issued."""
        self.prepare_network: Callable[[str | None], Callable[[], None]] = lambda scenario: (
            _no_change
        )
        """Function from the text of a scenario, or None for the original one, to a function that
        applies its network; raises ``UsageError``."""
        self.changed = asyncio.Event()
        """Set when other conditions are in force; then it is another event."""
        self._loop: asyncio.AbstractEventLoop | None = None
        if line is not None:
            self._line = line.makefile("rwb")
            self._answer(self._line.readline())

    def now(self) -> float:
        """Seconds since 1970 UTC, by the clock of this process."""
        return time.time() + self.conditions.ahead_s - _AGO_S.get()

    def listen(self) -> None:
        """Execute commands until the control line ends."""
        with suppress(OSError):  # whoever is gone has not read all answers
            while message := self._line.readline():
                self._answer(message)

    def apply(self, do: str, **fields: Any) -> Any:
        """Execute a command: ``set``, ``fail``, ``expire``, ``clear`` or ``tell``.

        Raises:
            UsageError: it cannot be carried out.
        """
        return getattr(self, f"_{do}")(**fields)

    def attach_loop(self) -> None:
        """Make further changes in the event loop that is running."""
        self._loop = asyncio.get_running_loop()

    def _answer(self, message: bytes) -> None:
        try:
            fields = json.loads(message)
        except ValueError:  # there is nobody
            return
        number, do = fields.pop("number"), fields.pop("do")
        try:
            answer = {"said": self.apply(do, **fields)}
        except UsageError as error:
            answer = {"refused": str(error)}
        except Exception as error:  # whoever waits is to hear of it, and the line goes on
            LOG.exception("control: %s has failed", do)
            answer = {"refused": f"{do} has failed: {type(error).__name__}"}
        try:
            self._line.write(json.dumps({"number": number, **answer}).encode() + b"\n")
            self._line.flush()
        except OSError:  # nobody hears it, and the next line is the last
            return

    def _run_in_loop(self, change: Callable[[], None]) -> None:
        """Make a change: in the event loop, where one runs."""
        if self._loop is None or self._loop.is_closed():
            change()
            return

        async def call() -> None:
            change()

        asyncio.run_coroutine_threadsafe(call(), self._loop).result()

    # ------------------------------------------------------------------ what can be said

    def _set(self, **fields: Any) -> None:
        new, old = Conditions(**fields), self.conditions
        # What takes time does not keep the event loop.
        change = _no_change if new.scenario == old.scenario else self.prepare_network(new.scenario)

        def put() -> None:
            change()
            self.conditions = new
            before, self.changed = self.changed, asyncio.Event()
            before.set()

        self._run_in_loop(put)
        if new != old:
            LOG.warning("control: %s", _describe(new))

    def _fail(self, endpoint: str, answer: str, times: int, done: bool) -> None:
        def put() -> None:
            if (before := self.failures.pop(endpoint, None)) is not None:
                before.released.set()
            if times:
                self.failures[endpoint] = EndpointFailure(answer, times, done)

        self._run_in_loop(put)
        LOG.warning("control: %s fails from now on: %s, %d times", endpoint, answer, times)

    def _expire(self, times: int) -> None:
        self.expired_tokens_due = times
        LOG.warning("control: tokens that are issued will have expired: %d", times)

    def _clear(self) -> None:
        def put() -> None:
            for order in self.failures.values():
                order.released.set()
            self.failures.clear()

        self._run_in_loop(put)
        self.expired_tokens_due = 0

    def _tell(self) -> dict[str, Any]:
        fail = {
            name: {"answer": order.answer, "times": order.left, "done": order.done}
            for name, order in list(self.failures.items())
            if order.left
        }
        return {"fail": fail, "expire": self.expired_tokens_due}

    # ------------------------------------------------------------------ of one request

    def take_failure(self, scope: Scope) -> tuple[str, EndpointFailure] | None:
        """Return the failure that a call is to have, with the name of its endpoint, and count
        it."""
        name = _NAMES.get((scope["method"], scope["path"]), "")
        if (order := self.failures.get(name)) is None or not order.left:
            return None
        order.left -= 1
        LOG.warning("control: %s fails: %s", name, order.answer)
        return name, order


def accept_faults() -> ProcessFaults:
    """Accept faults in this process from now on; it ends with its control line.

    Raises:
        SystemExit: there is no such line.
    """
    try:
        faults = ProcessFaults(socket.socket(fileno=0))
    except OSError:
        sys.exit("standard input is no line to switch this process over: mpcsim serve --control")
    terminate_after(faults.listen)
    return faults


class FaultMiddleware:
    """ASGI middleware that applies the faults in force to requests and answers, around the
    application."""

    def __init__(
        self, app: ASGIApp, faults: ProcessFaults, answers: FailureResponder | None = None
    ) -> None:
        """
        Args:
            answers: for what is to fail; None: nothing here can.
        """
        self._app = app
        self._child = faults
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        faults = self._child
        if scope["type"] == "lifespan":
            faults.attach_loop()
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if faults.conditions.delay_ms:
            await asyncio.sleep(faults.conditions.delay_ms / 1000)
        name, order = (self._answers and faults.take_failure(scope)) or ("", None)
        hangs = order is not None and order.answer == "hang"

        async def through() -> None:
            """Wait until bytes get through."""
            if order is not None and hangs:
                await order.released.wait()
            while faults.conditions.cut:
                await faults.changed.wait()

        async def answering(message: Message) -> None:
            await through()
            await send(message)

        if faults.conditions.cut or (order is not None and hangs and not order.done):
            arriving = await _receive_after(through(), receive)
            if arriving is None:
                return  # whoever asked has gone
            receive = arriving
        app = self._app
        if order is not None and not hangs and self._answers is not None:
            if order.done:
                await app(scope, receive, _discard)
            app = self._answers(scope, name, order.answer)
        await app(scope, receive, answering)


class TokenExpiry:
    """ASGI middleware of the gateway: tokens that are to have expired are issued long ago."""

    def __init__(self, app: ASGIApp, faults: ProcessFaults, lifetime_s: float) -> None:
        """
        Args:
            lifetime_s: of tokens.
        """
        self._app = app
        self._child = faults
        self._ago_s = lifetime_s + EXPIRED_S

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        faults = self._child
        if scope["type"] != "http" or (scope["method"], scope["path"]) != LOGIN:
            await self._app(scope, receive, send)
            return

        async def watched(message: Message) -> None:
            if message.get("status") == 200 and faults.expired_tokens_due:
                faults.expired_tokens_due -= 1
                LOG.warning("control: a token is issued that has expired")
            await send(message)

        ago = _AGO_S.set(self._ago_s if faults.expired_tokens_due else 0.0)
        try:
            await self._app(scope, receive, watched)
        finally:
            _AGO_S.reset(ago)


async def _discard(message: Message) -> None:
    """Takes an answer that nobody gets."""


async def _receive_after(event: Awaitable[None], receive: Receive) -> Receive | None:
    """Wait for an event; then what hands on all that has come meanwhile. None: whoever sent it has
    gone."""
    came: list[Message] = []
    waiting = asyncio.ensure_future(event)
    await asyncio.sleep(0)
    try:
        while not waiting.done():
            listening = asyncio.ensure_future(receive())
            await asyncio.wait({waiting, listening}, return_when=asyncio.FIRST_COMPLETED)
            if not listening.done():
                listening.cancel()
                await asyncio.wait({listening})
            elif listening.result()["type"] == "http.disconnect":
                return None
            else:
                came.append(listening.result())
    finally:
        waiting.cancel()

    async def arriving() -> Message:
        return came.pop(0) if came else await receive()

    return arriving


def _no_change() -> None:
    """Changes nothing."""


def _describe(conditions: Conditions) -> str:
    message = []
    if conditions.ahead_s:
        message.append(f"the clock is {conditions.ahead_s:g} s ahead")
    if conditions.scenario is not None:
        message.append("another network is in force")
    if conditions.delay_ms:
        message.append(f"every request takes {conditions.delay_ms:g} ms longer")
    if conditions.cut:
        message.append("nothing gets in or out")
    return ", ".join(message) or "as it was started"
