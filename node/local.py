"""The whole service in this process, without sockets: for notebooks and tests.

    >>> from mpcsim import Network
    >>> from node.local import LocalService
    >>> service = LocalService(Network.preset("seoul", institution="frankfurt"))
    >>> alice = service.user("alice")
    >>> new = {"curve": "secp256k1", "password": "correct horse"}
    >>> share = alice.post("/v3/wallet/generate", json=new).json()
    >>> order = {**share, "message": "00" * 32, "signer": "institution"}
    >>> alice.post("/v3/wallet/sign", json=order).elapsed.total_seconds()

The node, the gateway, both MPC nodes and their stores are those that ``make serve`` starts; only
the ways between them are calls. The network and the faults act on the links as they do there, in
virtual time (``mpcsim.sim.run.realtime.clock``) or in real time.

In virtual time the clock moves only while a call runs: requests cost what the links cost, and the
same seed gives the same times. Computation takes no time unless ``cpu_factor`` says so.

Times are those of whole REST calls (scope ``rest``); a ``Simulation``, its replays and sweeps time
the protocol alone, without the vault (scope ``protocol``).

One call is one draw, and what came before it matters: calls in a row find connections with wide
windows, and one that was idle for longer than its retransmission timeout begins again with a small
one. Signing with secp256k1 from Seoul over LTE, the institution in Singapore, takes 320 ms in a row
and 600 ms after ten seconds of silence (medians). Both are right: the first is what a busy caller
sees, the second one who signs now and then. ``repeat`` measures either:

    >>> call = partial(alice.post, "/v3/wallet/sign", json=order)
    >>> print(service.repeat(call, 400))
    >>> print(service.repeat(call, 400, pause_ms=5_000))
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Literal, Self, TypeVar

from mpcsim.errors import UsageError, needs_extra

with needs_extra("workbench", "a service in this process"):
    import httpx
    import numpy as np

from starlette.applications import Starlette

from mpcsim.crypto.rng import Rng, SeededRng, SystemRng
from mpcsim.service.operations import GatewayOptions, RunningGateway, open_gateway
from mpcsim.service.vault import INTERACTIVE, Argon2Cost
from mpcsim.service.web.transport import AsgiTransport, Limits, Transport
from mpcsim.sim.call_times import CallTimes
from mpcsim.sim.network.service_paths import DeliveredMessage
from mpcsim.sim.network.topology import Network
from mpcsim.sim.network.transport import is_whole_number
from mpcsim.sim.replay import MessageGraph, calls
from mpcsim.sim.replay.calls import RUNS, RecordedCall
from mpcsim.sim.rich_display import counted
from mpcsim.sim.run.faults import Fault
from mpcsim.sim.run.realtime.clock import Deadlock, VirtualLoop, VirtualTimeStuck
from mpcsim.sim.scenario import Scenario
from mpcsim.sim.simulated_network import begin_session
from mpcsim.sim.traces.records import Scope
from node.app import create_app
from node.gateway_client.client import GatewayClient
from node.process.settings import Settings
from node.wallet.wallet import Wallet

__all__ = ["LocalService", "Settings", "create_app"]

T = TypeVar("T")

ADDRESS: Final = "http://node"
GATEWAY_ADDRESS: Final = "http://gateway"
"""Base addresses of the clients; nothing is looked up."""
VIRTUAL_START: Final = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
"""Time of day for tokens and records when the virtual clock is at 0."""
NAME: Final = "local service"
"""Name of the service's thread."""
SILENCE_MS: Final = 10_000.0
"""Milliseconds after a recorded call in which messages still under way arrive."""
CLOSING_S: Final = 5.0
"""Seconds that requests may still take at the end, though nobody waits for them."""
CANCELLING_S: Final = 0.1
"""Seconds until what began meanwhile is cancelled, too."""

# The node logs for whoever operates it. Without this, Python would print its errors in a notebook.
logging.getLogger("node").addHandler(logging.NullHandler())


class LocalService:
    """A node and its gateway, and clients that call them in process. A context manager.

    A call after a pause is slower than one in a row, and a single call is a single draw: see the
    module's text, and ``repeat``.
    """

    scope: ClassVar[Scope] = "rest"
    """Scope of its times: whole REST calls, vault and registry included."""
    gateway: RunningGateway
    """To be reached into: ``network``, ``links``, ``gateway``, ``credentials``."""
    app: Starlette
    """The node."""
    http: httpx.Client
    """A client without a token."""

    def __init__(
        self,
        network: Network | None = None,
        faults: Iterable[Fault] = (),
        *,
        clock: Literal["virtual", "real"] = "virtual",
        cpu_factor: float = 0.0,
        secrets_seed: str | None = None,
        folder: Path | str | None = None,
        cost: Argon2Cost = INTERACTIVE,
        settings: Settings | None = None,
        nodes: int = 1,
        **options: Any,
    ) -> None:
        """Start the service; it runs until ``close``.

        Works beside a running event loop, too (Jupyter's): the service has a thread of its own.

        Args:
            network: what the links cost; nothing by default. With ``cold=True`` every call opens
                its connections anew, from the node to the gateway and from there to the MPC nodes.
            faults: what goes wrong on them.
            clock: ``virtual``, or ``real``: then every call takes as long as it takes.
            cpu_factor: virtual seconds for each second of CPU time: 0, 1 for this machine, 2 for
                one half as fast. All of node, gateway and MPC nodes share one core, except for
                what they compute in threads (Argon2id, key generation).
            secrets_seed: REPRODUCIBLE SECRETS for experiments in virtual time; by default the
                operating system's randomness.
            folder: where the gateway's databases are; None keeps everything in memory.
            cost: of Argon2id, for new vaults.
            settings: of the node.
            nodes: REST nodes behind which the gateway is; ``answer`` says which one is asked.
            options: further ones of ``mpcsim.service.operations.GatewayOptions``: ``seed`` of
                latencies, losses and random faults, ``queue``, ``token_lifetime_s``,
                ``link_timeout_s``, ``listener``, ``log``.

        Raises:
            UsageError: options that are impossible or do not go together; a share holder has no
                site in the network, or a site's ``cpu_factor`` or ``cores`` is set, which only a
                ``Simulation`` knows.
        """
        if clock not in ("virtual", "real"):
            raise UsageError(f"clock is {clock!r}: 'virtual' or 'real'")
        if clock == "real" and (cpu_factor or secrets_seed is not None):
            raise UsageError("cpu_factor and secrets_seed need virtual time")
        self.clock = clock
        self.cpu_factor = cpu_factor
        self.elapsed_ms = 0.0
        """Duration of the last call by the service's clock: one draw (see ``repeat``)."""
        self._thread: _Thread = _VirtualThread(cpu_factor) if clock == "virtual" else _RealThread()
        self._began_s = self._thread.loop.time()
        self._closed = False
        self._asking: set[asyncio.Task[httpx.Response]] = set()
        self._lifespans = AsyncExitStack()
        opening = self._open(
            settings or Settings(waas_api_url="http://gateway"),
            cost,
            secrets_seed,
            folder,
            nodes,
            GatewayOptions(network=network, faults=faults, **options),
        )
        try:
            self._thread.run(opening)
        except BaseException:
            self._closed = True
            self._thread.close()
            raise
        self.http = self._client(ADDRESS, {})

    @classmethod
    def of(cls, scenario: Scenario | str | Path, **options: Any) -> Self:
        """A service under the conditions of a scenario, or of a file of one.

            >>> service = LocalService.of("wallet.toml")

        Args:
            scenario: its network, faults, seeds and clock are in force; what it runs is up to the
                service's callers.
            options: further ones of ``LocalService``.

        Raises:
            UsageError: as for ``LocalService`` and ``Scenario.load``; parties or a threshold that
                no service has.
            OSError: the file cannot be read.
        """
        found = scenario if isinstance(scenario, Scenario) else Scenario.load(scenario)
        found.check_service()
        return cls(
            found.network,
            found.faults,
            clock=found.clock,
            seed=found.seed,
            secrets_seed=found.secrets_seed,
            **options,
        )

    async def _open(
        self,
        settings: Settings,
        cost: Argon2Cost,
        secrets_seed: str | None,
        folder: Path | str | None,
        nodes: int,
        options: GatewayOptions,
    ) -> None:
        loop = asyncio.get_running_loop()
        clock, now = loop.time, time.time
        if isinstance(loop, VirtualLoop):
            now = lambda: VIRTUAL_START + loop.time()  # noqa: E731

        def rng(of: str) -> Rng:
            return SystemRng() if secrets_seed is None else SeededRng(f"{secrets_seed}, {of}")

        options = replace(options, rng=rng("gateway"), clock=clock, timer=clock, now=now)
        self._timeouts_s = settings.gateway_timeout_s, options.link_timeout_s
        self.gateway = open_gateway(folder, options)
        self._gateway_asgi = httpx.ASGITransport(self.gateway.app, raise_app_exceptions=False)
        apps = []
        for number in range(nodes):
            limits = Limits(total_s=settings.gateway_timeout_s)
            transport = self.gateway_transport(AsgiTransport(self.gateway.app, limits))
            client = GatewayClient(transport, settings.mpc_node_keys)
            own = rng(f"node {number + 1}" if number else "node")
            wallet = Wallet(client, rng=own, cost=cost, settings=settings, now=now)
            apps.append(create_app(settings, client, wallet, clock=clock, now=now, log=options.log))
            self.prepare_node(apps[-1])
            await self._lifespans.enter_async_context(apps[-1].router.lifespan_context(apps[-1]))
        self.app = apps[0]
        self._nodes = [httpx.ASGITransport(app, raise_app_exceptions=False) for app in apps]

    def gateway_transport(self, transport: Transport) -> Transport:
        """Return the transport that a REST node asks the gateway with; for subclasses."""
        return transport

    def prepare_node(self, app: Starlette) -> None:
        """Wrap a REST node before it starts; for subclasses."""

    # ------------------------------------------------------------------ clients

    def token(self, user: str) -> str:
        """Return a new access token for a user, who is signed up first if need be."""
        return self.gateway.token(user)

    def user(self, username: str) -> httpx.Client:
        """A client whose requests carry an access token of that user, who is signed up first if
        need be.

        ``elapsed`` of its responses is by the service's clock. It waits for ever unless told
        otherwise (``timeout=2.0``, by the same clock).

        Raises:
            UsageError: the name is not 1 to 64 printable characters.
        """
        return self._client(ADDRESS, self._authorization(username))

    def gateway_user(self, username: str) -> httpx.Client:
        """The same for calls to the gateway itself, such as those of the smart-account flow."""
        return self._client(GATEWAY_ADDRESS, self._authorization(username))

    def async_user(self, username: str | None = None) -> httpx.AsyncClient:
        """The same for coroutines, those given to ``run`` or a notebook's; None: without a token.

        Raises:
            UsageError: the name is not 1 to 64 printable characters.
        """
        headers = {} if username is None else self._authorization(username)
        return httpx.AsyncClient(
            transport=_AsyncTransport(self), base_url=ADDRESS, headers=headers, timeout=None
        )

    def _client(self, address: str, headers: dict[str, str]) -> httpx.Client:
        return httpx.Client(
            transport=_BlockingTransport(self), base_url=address, headers=headers, timeout=None
        )

    def _authorization(self, username: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token(username)}"}

    # ------------------------------------------------------------------ running

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the service's event loop and time, and wait for it.

        An interrupt cancels it.

        Raises:
            UsageError: the service is closed, or this is its own thread (there, ``await``).
            mpcsim.sim.run.realtime.clock.Deadlock: it waits for what will never happen.
        """
        self._check(work)
        if self._thread.here():
            work.close()
            raise UsageError("this is the service's own event loop: await it")
        return self._thread.run(self._timed(work))

    def at_once(self, requests: Sequence[httpx.Request]) -> list[httpx.Response]:
        """Send several requests at the same moment, and wait for all answers.

        Args:
            requests: from ``build_request`` of this service's clients.

        Raises:
            httpx.ReadTimeout: a request with a timeout had no answer in time.
        """
        for request in requests:
            request.read()

        async def all_of_them() -> list[httpx.Response]:
            calls = [self.answer(request) for request in requests]
            found = await asyncio.gather(*calls, return_exceptions=True)
            for answer in found:
                if isinstance(answer, BaseException):
                    raise answer
            return [answer for answer in found if isinstance(answer, httpx.Response)]

        return self.run(all_of_them())

    def repeat(self, call: Callable[[], object], n: int, *, pause_ms: float = 0.0) -> CallTimes:
        """Make a call ``n`` times, one after the other, and time each by the service's clock.

        Args:
            call: e.g. ``lambda: alice.post("/v3/wallet/sign", json=order)``; a coroutine function
                is run by ``run``. A response with an error's status, and a failure of the transport
                (``httpx.ReadTimeout``), count as failed; any other exception ends it all.
            pause_ms: silence before each call. 0, in a row: a busy caller, whose connections keep
                their windows; the first calls, which open them, count like the others. Some
                seconds: a caller who calls now and then, with connections that begin again. Tokens
                expire by the same clock (``token_lifetime_s``, an hour by default).

        Returns:
            The times, with ``p50``, ``p95``, ``p99`` and their confidence intervals; 368 calls are
            enough for one of p99 with both ends.

        Raises:
            UsageError: bad number or pause, every call failed, or as for ``run``.
        """
        if not is_whole_number(n, 1):
            raise UsageError(f"repeat n is {n}: not a whole number from 1 on")
        if not 0 <= pause_ms < math.inf:
            raise UsageError(f"repeat pause_ms is {pause_ms}: below 0, or not finite")
        times: list[float] = []
        failure = ""
        for _ in range(n):
            if pause_ms:
                self.wait(pause_ms)
            began = self.now_ms
            try:
                answer = self._call(call)
            except httpx.TransportError as error:
                failure = f"{type(error).__name__}: {error}"
                continue
            took = self.now_ms - began
            if isinstance(answer, httpx.Response) and answer.is_error:
                failure = f"HTTP {answer.status_code}"
            else:
                times.append(took)
        if not times:
            raise UsageError(f"repeat: {n} of {counted(n, 'call')} failed: {failure}")
        network = self.gateway.network.model
        name = network.name if network else ""
        return CallTimes(np.array(times), pause_ms, name, self.clock, n - len(times), failure)

    def record(
        self, call: Callable[[], object], name: str = "call", *, runs: int = RUNS
    ) -> MessageGraph:
        """The message graph of a call: to be replayed over any network, a million times a minute.

        The call is made ``runs`` times and once before, over networks made for it; that of the
        service is in force again afterwards. What it sends must not depend on what it left behind:
        a call that makes a key needs a new user each time.

            >>> order = {**share, "message": "00" * 32}
            >>> graph = service.record(lambda: alice.post("/v3/wallet/sign", json=order), "sign")
            >>> print(graph.replay(Network.preset("tokyo", institution="frankfurt", access="lte")))

        Args:
            call: as for ``repeat``.
            name: what the graph is called.
            runs: from eight on, each link is near and far with the others near and far.

        Raises:
            UsageError: bad number of runs; the service's clock is real, or its computing takes
                time, or it streams; the call fails; no graph fits all runs.
        """
        return calls.build_graph(name, self.runs(call, runs), self._timeouts_s)

    def runs(self, call: Callable[[], object], runs: int = RUNS) -> list[RecordedCall]:
        """Return the messages of a call and their times, in ``runs`` runs after a first that does
        not count: see ``record``."""
        if not is_whole_number(runs, 1):
            raise UsageError(f"record runs is {runs}: not a whole number from 1 on")
        if self.clock != "virtual" or self.cpu_factor:
            raise UsageError(
                "record: a service in virtual time, whose computing takes none, is needed"
            )
        gateway = self.gateway.network
        before, listener = (gateway.model, gateway.faults, gateway.seed), gateway.listener
        if gateway.streams:
            raise UsageError("record: a service that streams is run, not replayed")
        made: list[RecordedCall] = []
        carried: list[DeliveredMessage] = []
        try:
            self.change()
            self._call_successfully(call)
            gateway.listener = carried.append
            for run in range(runs):
                # What the gateway does in the background is no part of the call.
                self.run(self.gateway.gateway.attestations.exchange_now())
                self.change(calls.recording_network(run), seed=run)
                carried.clear()
                began = self.now_ms
                self._call_successfully(call)
                ended = self.now_ms - began
                self.wait(SILENCE_MS)
                made.append(RecordedCall(ended, tuple(carried)))
        finally:
            gateway.listener = listener
            self.change(*before)
        return made

    def _call(self, call: Callable[[], object]) -> object:
        """Make a call; a coroutine is run."""
        answer = call()
        return self.run(answer) if inspect.iscoroutine(answer) else answer

    def _call_successfully(self, call: Callable[[], object]) -> None:
        """Make a call that has to succeed."""
        answer = self._call(call)
        if isinstance(answer, httpx.Response) and answer.is_error:
            raise UsageError(f"record: the call fails: HTTP {answer.status_code} {answer.text}")

    def wait(self, ms: float) -> None:
        """Wait for ``ms`` milliseconds of the service's clock."""
        self.run(asyncio.sleep(ms / 1000))

    def change(
        self, network: Network | None = None, faults: Iterable[Fault] = (), seed: int = 0
    ) -> None:
        """Change the network and the faults from now on.

        Raises:
            UsageError: as for a new service: no site for a share holder, settings without effect.
        """

        async def changed() -> None:
            self.gateway.network.change(network, faults, seed)

        self.run(changed())

    @property
    def now_ms(self) -> float:
        """The service's clock, since its start."""
        return (self._thread.loop.time() - self._began_s) * 1000

    async def answer(self, request: httpx.Request, node: int = 0) -> httpx.Response:
        """Answer one request, in the service's event loop.

        As over a socket, a caller who goes away does not stop what the service has begun.

        Args:
            node: number of the one that is asked.

        Raises:
            httpx.ReadTimeout: the request's timeout is over.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        asking = loop.create_task(self._ask(request, node))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        try:
            async with asyncio.timeout(request.extensions.get("timeout", {}).get("read")):
                found = await asyncio.shield(asking)
        except TimeoutError:
            raise httpx.ReadTimeout("no answer in time", request=request) from None
        found.request = request
        found.elapsed = timedelta(seconds=loop.time() - began)
        return found

    async def answer_anywhere(self, request: httpx.Request) -> httpx.Response:
        """``answer``, whichever event loop the caller runs in."""
        if self._thread.here():
            return await self.answer(request)
        asking = self._timed(self.answer(request))
        self._check(asking)
        return await asyncio.wrap_future(self._thread.begin(asking))

    def _check(self, work: Coroutine[Any, Any, Any]) -> None:
        if self._closed:
            work.close()
            raise UsageError("the service is closed")

    async def _ask(self, request: httpx.Request, node: int) -> httpx.Response:
        begin_session()  # for this call's task alone
        of_gateway = str(request.url).startswith(GATEWAY_ADDRESS)
        asgi = self._gateway_asgi if of_gateway else self._nodes[node]
        found = await asgi.handle_async_request(request)
        content = b"".join([chunk async for chunk in found.aiter_raw()])
        if request.method == "HEAD":
            content = b""  # a server drops it (RFC 9110, 9.3.2)
        return httpx.Response(found.status_code, headers=found.headers, content=content)

    async def _timed(self, work: Coroutine[Any, Any, T]) -> T:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            return await work
        finally:
            self.elapsed_ms = (loop.time() - began) * 1000

    # ------------------------------------------------------------------ the end

    def close(self) -> None:
        """Finish what was begun, and close everything. A second call does no harm."""
        if self._closed:
            return
        self._closed = True
        try:
            self._thread.run(self._end())
        finally:
            self._thread.close()
            self.gateway.close()

    async def _end(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + CLOSING_S
        if self._asking:
            await asyncio.wait(self._asking, timeout=CLOSING_S)
        if self.clock == "virtual":
            await self._lifespans.aclose()
            return
        # The nodes close one after the other, and each waits for its own requests: what is not over
        # in time is cancelled, whatever it is, and then they have nothing to wait for.
        closing = asyncio.create_task(self._lifespans.aclose())
        kept = {closing, asyncio.current_task(), self._thread.main_task}
        await asyncio.wait([closing], timeout=max(0.0, until - loop.time()))
        while not closing.done():
            for task in asyncio.all_tasks() - kept:
                task.cancel()
            await asyncio.wait([closing], timeout=CANCELLING_S)
        with suppress(asyncio.CancelledError):
            closing.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        network = self.gateway.network.model
        name = network.name if network else "none"
        return f"LocalService({self.clock} time, network {name}, scope {self.scope})"


class _BlockingTransport(httpx.BaseTransport):
    """Takes a blocking client's requests to the service."""

    def __init__(self, service: LocalService) -> None:
        self._service = service

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        return self._service.run(self._service.answer(request))


class _AsyncTransport(httpx.AsyncBaseTransport):
    """Takes a coroutine's requests to the service."""

    def __init__(self, service: LocalService) -> None:
        self._service = service

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        return await self._service.answer_anywhere(request)


# ---------------------------------------------------------------------- the service's thread


class _Thread(ABC):
    """An event loop in a thread of its own."""

    loop: asyncio.AbstractEventLoop
    main_task: asyncio.Task[Any] | None = None
    """Task that keeps the loop running, if there is one."""

    @abstractmethod
    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine there."""

    @abstractmethod
    def close(self) -> None:
        """Cancel what still runs; the thread ends."""

    def here(self) -> bool:
        """Return whether the caller is in that loop."""
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there, and wait for it; an interrupt cancels it."""
        running: list[asyncio.Task[Any] | None] = []
        interrupted = threading.Event()
        begun: Future[T] | None = None

        async def watched() -> T:
            running.append(asyncio.current_task())
            if interrupted.is_set():
                work.close()
                raise asyncio.CancelledError
            return await work

        try:
            begun = self.begin(watched())
            return begun.result()
        except BaseException:
            # It may have come while the work was handed over: then the work sees for itself, since
            # it looks after it has said that it runs, and this looks in the other order.
            interrupted.set()
            if begun is None or not begun.done():
                for task in filter(None, running):
                    self.loop.call_soon_threadsafe(task.cancel)
                if begun is not None:
                    wait([begun])
            raise


class _VirtualThread(_Thread):
    """Event loop that runs one coroutine after the other; in between, time stands still."""

    def __init__(self, cpu_factor: float) -> None:
        make = partial(VirtualLoop, cpu_factor=cpu_factor)
        self._runner = asyncio.Runner(loop_factory=make)
        self.loop = self._runner.get_loop()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=NAME)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return self._pool.submit(self._complete, work)

    def _complete(self, work: Coroutine[Any, Any, T]) -> T:
        task = self.loop.create_task(work)
        try:
            return self.loop.run_until_complete(task)
        except (Deadlock, VirtualTimeStuck):
            task.cancel()
            with suppress(asyncio.CancelledError):
                self.loop.run_until_complete(task)
            raise

    def close(self) -> None:
        self._pool.submit(self._runner.close).result()
        self._pool.shutdown()


class _RealThread(_Thread):
    """The loop runs all the time; the thread does not keep the program alive."""

    def __init__(self) -> None:
        running: Future[asyncio.AbstractEventLoop] = Future()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._main, args=(running,), name=NAME, daemon=True)
        self._thread.start()
        self.loop = running.result()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def _main(self, running: Future[asyncio.AbstractEventLoop]) -> None:
        asyncio.run(self._until_over(running))

    async def _until_over(self, running: Future[asyncio.AbstractEventLoop]) -> None:
        self.main_task = asyncio.current_task()
        running.set_result(asyncio.get_running_loop())
        await self._over.wait()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self._over.set)
        self._thread.join()
