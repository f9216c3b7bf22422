"""Benchmark of the service as its callers see it: real processes on loopback, no injected latency.

One process each for both MPC nodes, the gateway and the REST node, and this one, which sends the
requests. Requests one at a time are sent as bytes made beforehand, so that their times are the
service's. In the sustained part all processes share the cores: that figure includes what the sender
costs. What it costs that the MPC nodes have processes of their own is seen beside a gateway that
has both in its own (``one_process``, and the difference, ``hops``).
"""

from __future__ import annotations

import asyncio
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from statistics import median
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import numpy as np

from mpcsim.capacity.calibration.callers import PASSWORD, Answer, Key, post
from mpcsim.capacity.calibration.service import ServiceProcesses, resident_mb, start
from mpcsim.errors import UsageError
from mpcsim.protocols.presign import MAX_COUNT
from mpcsim.service.operations.supervisor import (
    Program,
    backend,
    free_port,
    gateway_program,
    process_group,
)

KEYS: Final = 32
REQUESTS: Final = 10_000
SEQUENTIAL: Final = 300
WARM_UP: Final = 20
PRESIGNED: Final = 100
"""Number of presigned signatures one at a time, warming up included."""
TIMEOUT_S: Final = 60.0
CURVES: Final = ("secp256k1", "ed25519")

TARGETS: Final[dict[str, tuple[float, bool]]] = {
    "service_sign_secp256k1_p50_ms": (20.0, True),
    "service_sign_secp256k1_p99_ms": (60.0, True),
    "service_sign_secp256k1_per_s": (120.0, False),
    "service_sign_ed25519_per_s": (250.0, False),
    "service_sign_presigned_of_signed_per_s": (3.0, False),
    "service_sign_errors": (0.0, True),
    "service_generate_secp256k1_p50_ms": (700.0, True),
    "service_generate_ed25519_p50_ms": (150.0, True),
    "service_health_p50_ms": (2.0, True),
    "service_validate_share_p50_ms": (2.0, True),
}
"""Figures this project promises on two cores: the bound, and whether it is an upper one."""


def service_figures(requests: int = REQUESTS) -> dict[str, float]:
    """Start the system, measure, stop it.

    Args:
        requests: signing requests on each curve in the sustained part.

    Returns:
        Milliseconds, requests a second, megabytes and errors, by name.

    Raises:
        UsageError: the system does not start, or a first request fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        figures = _measure_system(folder, backend(folder), KEYS, SEQUENTIAL, requests)
    with tempfile.TemporaryDirectory() as folder:
        alone = _measure_system(
            folder,
            [gateway_program(free_port(), folder)],
            KEYS,
            SEQUENTIAL,
            requests,
            signing_only=True,
        )
    for curve in CURVES:
        for name, of in (("p50_ms", "p50_ms"), ("cpu_ms", "backend_cpu_ms")):
            mine, one = (found[f"service_sign_{curve}_{of}"] for found in (figures, alone))
            figures[f"service_sign_{curve}_one_process_{name}"] = one
            figures[f"service_sign_{curve}_hops_{name}"] = mine - one
        per_s = f"service_sign_{curve}_per_s"
        figures[f"service_sign_{curve}_one_process_per_s"] = alone[per_s]
    figures["service_sign_errors"] += alone["service_sign_errors"]
    return figures


def _measure_system(
    folder: str,
    programs: Sequence[Program],
    keys: int,
    runs: int,
    requests: int,
    *,
    signing_only: bool = False,
) -> dict[str, float]:
    """Return figures of a node in front of a gateway, the last of the programs."""
    with process_group() as processes:
        served = start(processes, programs, folder)
        tokens = [served.token(f"user-{n}") for n in range(keys)]
        load = _Load(served, runs)
        return asyncio.run(load.measure(tokens, requests, signing_only))


class _Connection:
    """HTTP connection that is kept alive. Requests are bytes made beforehand, so that the time is
    the service's, hardly the sender's."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        assert parts.hostname is not None
        self._address = address
        self._socket = socket.create_connection((parts.hostname, parts.port or 80), TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def get(self, path: str) -> bytes:
        """Return a GET request."""
        return f"GET {path} HTTP/1.1\r\nHost: {urlsplit(self._address).netloc}\r\n\r\n".encode()

    def post(self, path: str, token: str, document: dict[str, Any]) -> bytes:
        """Return a POST request with a JSON body."""
        return post(self._address, path, token, document)

    def exchange(self, request: bytes) -> tuple[int, bytes]:
        """Send a request; return status and body of the answer."""
        self._socket.sendall(request)
        answer = Answer()
        while not answer.complete:
            received = self._socket.recv(1 << 16)
            if not received:
                raise UsageError("the node has closed the connection")
            answer.parser.feed_data(received)
        return answer.status, bytes(answer.body)

    def close(self) -> None:
        self._socket.close()


class _Load:
    """Sender of requests, which measures the service."""

    def __init__(self, served: ServiceProcesses, runs: int) -> None:
        self._address = served.address
        self._runs = runs
        self._served = served
        self._http: aiohttp.ClientSession
        self._figures: dict[str, float] = {}

    async def measure(
        self, tokens: list[str], requests: int, signing_only: bool
    ) -> dict[str, float]:
        connector = aiohttp.TCPConnector(limit=len(tokens))
        async with aiohttp.ClientSession(connector=connector, trust_env=False) as self._http:
            keys = {curve: await self._generate(tokens, curve) for curve in CURVES}
            for curve in CURVES:
                self._one_at_a_time(keys[curve][0])
            if not signing_only:
                self._small_requests(keys["secp256k1"][0])
            errors = 0.0
            for curve in CURVES:
                errors += await self._sustained(keys[curve], requests, curve)
            if not signing_only:
                errors += await self._presigned(keys["secp256k1"], requests // 4)
            self._figures["service_sign_errors"] = errors
        return self._figures

    async def _post(self, token: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token}"}
        async with self._http.post(self._address + path, json=body, headers=headers) as answer:
            return answer.status, await answer.json()

    async def _generate(self, tokens: list[str], curve: str) -> list[Key]:
        keys: list[Key] = []
        took: list[float] = []
        for token in tokens:
            began = time.perf_counter()
            status, record = await self._post(
                token, "/v3/wallet/generate", {"curve": curve, "password": PASSWORD}
            )
            took.append((time.perf_counter() - began) * 1000)
            if status != 200:
                raise UsageError(f"generate: {status} {record}")
            keys.append(Key(token, curve, record))
        self._figures[f"service_generate_{curve}_p50_ms"] = median(took)
        return keys

    def _one_at_a_time(self, key: Key, runs: int | None = None) -> None:
        with closing(_Connection(self._address)) as node:

            def sign(n: int) -> bytes:
                return node.post("/v3/wallet/sign", key.token, key.signing_request(n))

            name = "presigned" if key.presignatures else key.curve
            self._time(node, f"service_sign_{name}", sign, runs)

    def _small_requests(self, key: Key) -> None:
        known = {**key.record, "password": PASSWORD}
        with closing(_Connection(self._address)) as node:

            def validate(path: str, *fields: str) -> Callable[[int], bytes]:
                request = node.post(path, key.token, {name: known[name] for name in fields})
                return lambda n: request

            health = node.get("/")
            self._time(node, "service_health", lambda n: health)
            self._time(
                node,
                "service_validate_share",
                validate("/v3/wallet/validate/share", "encrypted_share", "secret_store"),
            )
            self._time(
                node,
                "service_validate_password",
                validate("/v3/wallet/validate/password", "password", "secret_store"),
                max(1, self._runs // 10),
            )

    def _time(
        self,
        node: _Connection,
        name: str,
        request: Callable[[int], bytes],
        runs: int | None = None,
    ) -> None:
        """Measure median and 99th percentile of requests one after the other."""
        runs = runs or self._runs
        took = []
        for n in range(-min(WARM_UP, runs), runs):
            prepared = request(n)
            began = time.perf_counter()
            status, answer = node.exchange(prepared)
            if n >= 0:
                took.append((time.perf_counter() - began) * 1000)
            if status != 200 or answer == b'{"result":false}':
                raise UsageError(f"{name}: {status} {answer.decode()}")
        self._figures[f"{name}_p50_ms"] = median(took)
        self._figures[f"{name}_p99_ms"] = float(np.percentile(took, 99))

    async def _presigned(self, keys: list[Key], requests: int) -> int:
        """Measure signing with presignatures, which are made beforehand."""
        each = -(-requests // len(keys))
        began = time.perf_counter()
        await asyncio.gather(*(self._presign(key, each + PRESIGNED) for key in keys))
        made = sum(len(key.presignatures) for key in keys)
        self._figures["service_presign_per_s"] = made / (time.perf_counter() - began)
        self._one_at_a_time(keys[0], PRESIGNED - WARM_UP)
        errors = await self._sustained(keys, requests, "presigned")
        rates = (self._figures[f"service_sign_{n}_per_s"] for n in ("presigned", "secp256k1"))
        presigned, signed = rates
        self._figures["service_sign_presigned_of_signed_per_s"] = presigned / signed
        return errors

    async def _presign(self, key: Key, count: int) -> None:
        while len(key.presignatures) < count:
            body = {**key.request_fields(), "count": min(MAX_COUNT, count - len(key.presignatures))}
            status, made = await self._post(key.token, "/v3/wallet/presign", body)
            if status != 200:
                raise UsageError(f"presign: {status} {made}")
            key.presignatures.extend(made["presignatures"])

    async def _sustained(self, keys: list[Key], requests: int, name: str) -> int:
        """Sign with every key as fast as it is answered; return the number of errors.

        The node's memory is read after a tenth of the requests and at the end.
        """
        numbers = iter(range(requests))
        errors = 0
        node = self._served.process_ids["node"]

        async def keep_signing(key: Key) -> None:
            nonlocal errors
            for n in numbers:
                if n == requests // 10:
                    self._figures[f"service_node_{name}_tenth_mb"] = resident_mb(node)
                status, _ = await self._post(key.token, "/v3/wallet/sign", key.signing_request(n))
                errors += status != 200

        before = self._served.cpu_ms()
        began = time.perf_counter()
        await asyncio.gather(*(keep_signing(key) for key in keys))
        answered = requests - errors
        self._figures[f"service_sign_{name}_per_s"] = answered / (time.perf_counter() - began)
        backend_ms = 0.0
        for who, cpu_ms in self._served.cpu_ms().items():
            spent_ms = (cpu_ms - before[who]) / requests
            self._figures[f"service_sign_{name}_{who}_cpu_ms"] = spent_ms
            backend_ms += 0.0 if who == "node" else spent_ms
        self._figures[f"service_sign_{name}_backend_cpu_ms"] = backend_ms
        self._figures[f"service_node_{name}_end_mb"] = resident_mb(node)
        return errors


def table(figures: dict[str, float]) -> str:
    """Return the figures as text."""
    lines = ["the service over loopback HTTP", ""]
    for name, value in figures.items():
        target = ""
        if name in TARGETS:
            bound, upper = TARGETS[name]
            reached = value <= bound if upper else value >= bound
            verdict = "reached" if reached else "NOT reached"
            target = f"   target {'at most' if upper else 'at least'} {bound:g}: {verdict}"
        lines.append(f"{name:<44}{value:>10.2f}{target}")
    return "\n".join(lines)
