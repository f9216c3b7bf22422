"""Whether a process can do its work now: it and whoever it needs.

Asked often, it costs little: an answer holds for ``KEPT_S``, and whoever asks meanwhile waits for
the same one. No check takes longer than ``PATIENCE_S``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.applications import Starlette

from mpcsim.service.web.threads import in_thread

LOG = logging.getLogger(__name__)

KEPT_S: Final = 2.0
PATIENCE_S: Final = 2.0
STARTING: Final = "it is starting, or stopping"
STUCK: Final = "the process does not get to it"

CheckResults = Mapping[str, str | None]
"""Problem found by each check, by its name; None: no problem."""


@dataclass(frozen=True)
class Probe:
    """Check to run in the event loop of the service."""

    names: tuple[str, ...]
    """Names of the checks that it reports."""
    look: Callable[[], Awaitable[CheckResults]]


def single_probe(name: str, look: Callable[[], Awaitable[str | None]]) -> Probe:
    """Return a probe of one check."""

    async def found() -> CheckResults:
        return {name: await look()}

    return Probe((name,), found)


def thread_probe(name: str, look: Callable[[], str | None]) -> Probe:
    """Return a probe whose check may wait for the disk."""
    return single_probe(name, lambda: in_thread(look))


@dataclass(frozen=True)
class ReadinessState:
    """Results of all checks of a process."""

    checks: CheckResults

    @property
    def is_ready(self) -> bool:
        return not any(self.checks.values())

    def document(self) -> dict[str, Any]:
        return {
            "ready": self.is_ready,
            "checks": {name: trouble or "ok" for name, trouble in self.checks.items()},
        }


@dataclass
class Readiness:
    """Readiness of one process. It may be asked in another event loop than the service's."""

    probes: Sequence[Probe]
    clock: Callable[[], float] = time.monotonic
    _loop: asyncio.AbstractEventLoop | None = None
    _known: tuple[float, ReadinessState] | None = None
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def attach(self, app: Starlette) -> None:
        """Look in the event loop in which an application runs, from now on while it does."""
        inner = app.router.lifespan_context

        @asynccontextmanager
        async def lifespan(app: Any) -> AsyncIterator[Any]:
            self._loop = asyncio.get_running_loop()
            try:
                async with inner(app) as state:
                    yield state
            finally:
                self._loop = None

        app.router.lifespan_context = lifespan

    async def state(self) -> ReadinessState:
        """Return the present state, or one of a moment ago."""
        async with self._asking:
            now = self.clock()
            if self._known is None or now - self._known[0] >= KEPT_S:
                self._known = now, ReadinessState(await self._check())
            return self._known[1]

    async def _check(self) -> CheckResults:
        if (loop := self._loop) is None:
            return {"service": STARTING}
        looking = asyncio.run_coroutine_threadsafe(_run_probes(self.probes), loop)
        try:
            async with asyncio.timeout(PATIENCE_S + 1):
                return await asyncio.wrap_future(looking)
        except TimeoutError:
            return {"service": STUCK}


async def _run_probes(probes: Sequence[Probe]) -> CheckResults:
    found: dict[str, str | None] = {}
    for each in await asyncio.gather(*map(_run_probe, probes)):
        found |= each
    return found


async def _run_probe(probe: Probe) -> CheckResults:
    looking = asyncio.ensure_future(probe.look())
    # What cannot be stopped, such as a thread, is not waited for.
    done, _ = await asyncio.wait([looking], timeout=PATIENCE_S)
    try:
        if done:
            return looking.result()
        looking.cancel()
        looking.add_done_callback(_retrieve_exception)
        return dict.fromkeys(probe.names, f"no answer within {PATIENCE_S:g} s")
    except Exception as error:  # its text may quote anything
        LOG.error("looking at %s: %s", ", ".join(probe.names), type(error).__name__)
        return dict.fromkeys(probe.names, "it cannot be told")


def _retrieve_exception(looking: asyncio.Future[Any]) -> None:
    if not looking.cancelled():
        looking.exception()
