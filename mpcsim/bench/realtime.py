"""Accuracy of virtual time: signatures in real time over loopback HTTP, and in virtual time."""

from __future__ import annotations

import hashlib
import os
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from mpcsim.bench.protocols import keys
from mpcsim.crypto.rng import SeededRng, SystemRng
from mpcsim.ids import PartyId
from mpcsim.protocols.engine import Party
from mpcsim.protocols.key_share import KeyShare
from mpcsim.protocols.signing import signer, signing_input, verifies
from mpcsim.sim.network.topology import Network
from mpcsim.sim.run.completion import Validate
from mpcsim.sim.run.compute import Measured
from mpcsim.sim.run.engine import VirtualRun
from mpcsim.sim.run.realtime.realtime import real_time
from mpcsim.sim.traces.records import Verdict

DELAYS_MS = (5, 20, 50, 200)
"""Delays on every link, one way."""
RUNS = 5
"""Number of runs behind every median."""


def signers(
    shares: Mapping[PartyId, KeyShare],
    message: bytes = b"hello",
    *,
    ids: Iterable[int] = (1, 2),
    secrets_seed: str | None = None,
) -> tuple[list[Party[Any, Any]], Validate]:
    """Return fresh parties of one signing session, and a check of their signatures.

    Args:
        message: hashed with SHA-256 for secp256k1, signed as it is for ed25519.
        secrets_seed: REPRODUCIBLE SECRETS, the session id among them; equal seeds give equal
            sessions.
    """
    ids = tuple(ids)
    record = shares[PartyId(ids[0])].record
    signed = signing_input(record, message)
    session_id = os.urandom(32)
    if secrets_seed is not None:
        session_id = hashlib.sha256(secrets_seed.encode()).digest()
    made: list[Party[Any, Any]] = []
    for i in ids:
        share = shares[PartyId(i)]
        rng = SystemRng() if secrets_seed is None else SeededRng(f"{secrets_seed}, party {i}")
        made.append(signer(share, ids, signed, session_id=session_id, rng=rng))

    def valid(results: Mapping[PartyId, Any]) -> bool:
        return all(verifies(record, signed, made.encode()) for made in results.values())

    return made, valid


def networks(delay_ms: float) -> dict[str, Network]:
    """Return networks that join the two parties directly, and through the gateway."""
    return {
        "direct": Network.mesh((1, 2), delay_ms),
        "gateway": Network.star(delay_ms, delay_ms, delay_ms),
    }


def accuracy_figures(runs: int = RUNS, delays_ms: Iterable[float] = DELAYS_MS) -> dict[str, float]:
    """Measure two-party signatures by both clocks, and real over virtual time; about a minute.

    Args:
        runs: number of runs behind every median.
        delays_ms: one-way delays on every link.

    Returns:
        ``{operation}_{network}_{delay}ms_real_ms``, ``..._virtual_ms`` (medians; computation
        measured), their ``..._ratio``, and ``..._best_ratio``, of the shortest run by each clock:
        other processes lengthen only the real runs, and not all alike.

    Raises:
        RuntimeError: a session did not end with a valid signature.
    """
    figures: dict[str, float] = {}
    delays = tuple(delays_ms)
    for curve in ("secp256k1", "ed25519"):
        shares = keys(curve)
        for delay_ms in delays:
            for where, network in networks(delay_ms).items():
                real, virtual = [], []
                for _ in range(runs):
                    parties, valid = signers(shares)
                    run = VirtualRun(parties, network, compute=Measured(), validate=valid).run()
                    virtual.append(run.finished_ms)
                    parties, valid = signers(shares)
                    trace = real_time(parties, network, validate=valid)
                    real.append(trace.finished_ms)
                    if not run.verdict is trace.verdict is Verdict.VALID:
                        raise RuntimeError(f"{curve}: {run.verdict.value}, {trace.verdict.value}")
                name = f"sign_{curve}_{where}_{delay_ms:g}ms"
                figures[f"{name}_real_ms"] = statistics.median(real)
                figures[f"{name}_virtual_ms"] = statistics.median(virtual)
                figures[f"{name}_ratio"] = statistics.median(real) / statistics.median(virtual)
                figures[f"{name}_best_ratio"] = min(real) / min(virtual)
    return figures


def table(figures: Mapping[str, float]) -> str:
    """Return the figures as text."""
    columns = {"real_ms": ".2f", "virtual_ms": ".2f", "ratio": ".3f", "best_ratio": ".3f"}
    lines = [f"{'real over virtual time':<32}" + "".join(f"{c:>12}" for c in columns)]
    for key in figures:
        if key.endswith("_real_ms"):
            name = key.removesuffix("_real_ms")
            cells = (format(figures[f"{name}_{c}"], form) for c, form in columns.items())
            lines.append(f"{name:<32}" + "".join(f"{cell:>12}" for cell in cells))
    return "\n".join(lines)
