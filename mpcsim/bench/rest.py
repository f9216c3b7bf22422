"""Latency of ``POST /v3/wallet/sign`` over a network: in virtual time, where computing is free, and
in real time with the delays injected.

The same ``LocalService`` answers in both. Each call comes after a pause that is longer than a
connection's retransmission timeout, so that none finds windows that the one before it has opened.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from mpcsim.service.vault import Argon2Cost
from mpcsim.sim.network.topology import Network
from node.local import GATEWAY_ADDRESS, LocalService
from node.process.settings import Settings

CHEAP: Final = Argon2Cost(operations=1, memory_kib=64)
"""Cost of hashing passwords, as low as can be; signing hashes none."""
PAUSE_MS: Final = 800.0
REAL_RUNS: Final = 3
DRAWS: Final = 101
"""Number of calls behind a median where latencies are drawn."""
SIGNATURE: Final = {"message": "00" * 32}

STAR: Final = Network.star(50, 50, 50)
STREAM: Final = STAR.with_connection(forwarding="stream")
ROUND_TRIP_MS: Final = 200.0
"""Round trip between node and MPC node."""
LTE: Final = Network.preset("seoul", institution="frankfurt", access="lte")


@dataclass(frozen=True)
class Case:
    """Case of signing that is measured."""

    name: str
    network: Network
    curve: str = "secp256k1"
    presigned: bool = False
    signer: str = "operator"
    k: int = 1
    policy: str = "both"
    early: bool = True
    apart: bool = False
    real: bool = True
    """Whether it is measured in real time, too."""


CASES: Final = (
    Case("ed25519, two steps", STAR, "ed25519", early=False),
    Case("ed25519", STAR, "ed25519"),
    Case("secp256k1, two steps", STAR, early=False),
    Case("secp256k1", STAR),
    Case("secp256k1, k = 2", STAR, k=2),
    Case("secp256k1, k = 4", STAR, k=4),
    Case("secp256k1, stream", STREAM),
    Case("secp256k1, stream, k = 2", STREAM, k=2),
    Case("secp256k1, stream, k = 4", STREAM, k=4),
    Case("secp256k1, separate messages", STAR, apart=True),
    Case("secp256k1, windows of 40", STAR.with_connection(initial_window=40)),
    Case("secp256k1, presigned", STAR, presigned=True),
    Case("ed25519, Seoul, LTE, Frankfurt", LTE, "ed25519", real=False),
    Case("the same, policy signer", LTE, "ed25519", policy="signer", real=False),
)

TARGETS: Final[Mapping[str, float]] = {
    "ed25519": 1.0,
    "secp256k1, stream": 3.5,
    "secp256k1, stream, k = 4": 3.0,
    "secp256k1, separate messages": 3.5,
    "secp256k1, presigned": 1.0,
}
"""Round trips that this project promises, to a tenth: the bytes' time on the wire comes on top."""
TARGET_MS: Final[Mapping[str, float]] = {"the same, policy signer": 40.0}
"""Medians that this project promises, in milliseconds."""


def call_ms(case: Case, clock: Literal["virtual", "real"], runs: int = 1) -> float:
    """Return the median time of a call, in milliseconds.

    Raises:
        RuntimeError: one was refused.
    """
    settings = Settings(
        waas_api_url=GATEWAY_ADDRESS,
        vault_policy=case.policy,
        early_requests=case.early,
        separate_messages=case.apart,
        ot_extension_k=case.k,
    )
    with LocalService(case.network, clock=clock, cost=CHEAP, settings=settings) as service:
        alice = service.user("alice")

        def ask(verb: str, document: Mapping[str, Any]) -> dict[str, Any]:
            answer = alice.post(f"/v3/wallet/{verb}", json=dict(document))
            if answer.is_error:
                raise RuntimeError(f"{case.name}: {verb}: {answer.text}")
            found: dict[str, Any] = answer.json()
            return found

        share = ask("generate", {"curve": case.curve, "password": "correct horse"})
        order = {**share, "signer": case.signer}
        if case.presigned:
            order |= ask("presign", {**order, "count": runs + 1})
        ask("sign", {**order, **SIGNATURE})  # connections are open, and clocks have been compared
        if case.presigned:
            order["presignatures"] = order["presignatures"][1:]
        times = []
        for run in range(runs):
            service.wait(PAUSE_MS)
            began = service.now_ms
            one = {"presignatures": [order["presignatures"][run]]} if case.presigned else {}
            ask("sign", {**order, **one, **SIGNATURE})
            times.append(service.now_ms - began)
    return statistics.median(times)


def rest_figures(real_runs: int = REAL_RUNS) -> dict[str, float]:
    """``{name}_virtual_ms`` of every case, and ``..._real_ms`` of those measured so, too."""
    figures: dict[str, float] = {}
    for case in CASES:
        runs = DRAWS if case.network is LTE else 1
        figures[f"{case.name}_virtual_ms"] = call_ms(case, "virtual", runs)
        if case.real and real_runs:
            figures[f"{case.name}_real_ms"] = call_ms(case, "real", real_runs)
    return figures


def table(figures: Mapping[str, float]) -> str:
    """Return the figures as text."""
    head = ("virtual ms", "real ms", "round trips")
    lines = [f"{'POST /v3/wallet/sign':<34}" + "".join(f"{name:>12}" for name in head)]
    for case in CASES:
        virtual, real = (figures.get(f"{case.name}_{clock}_ms") for clock in ("virtual", "real"))
        assert virtual is not None
        trips = None if case.network is LTE else virtual / ROUND_TRIP_MS
        cells = (f"{virtual:.1f}", _shown(real, ".0f"), _shown(trips, ".1f"))
        lines.append(
            f"{case.name:<34}" + "".join(f"{cell:>12}" for cell in cells) + _verdict(case, virtual)
        )
    return "\n".join(lines)


def reached(name: str, virtual_ms: float) -> bool:
    """Return whether a case is as fast as promised; those of which nothing is promised are."""
    if name in TARGET_MS:
        return virtual_ms <= TARGET_MS[name]
    return name not in TARGETS or round(virtual_ms / ROUND_TRIP_MS, 1) <= TARGETS[name]


def _verdict(case: Case, virtual_ms: float) -> str:
    target = next(
        (f"{found[case.name]:g}" for found in (TARGETS, TARGET_MS) if case.name in found), ""
    )
    if not target:
        return ""
    return f"   target {target}: {'reached' if reached(case.name, virtual_ms) else 'NOT reached'}"


def _shown(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
