"""Speed of a machine, by four primitives of which the service's time consists."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import median
from typing import ClassVar, Final, Self

from mpcsim.errors import UsageError

ROUNDS: Final = 7
ARGON2_KIB: Final = 65_536
ARGON2_TIMES: Final = 2
"""Passes of the Argon2id primitive."""
BLOCK: Final = 4096
"""Bytes written before each fsync."""


@dataclass(frozen=True)
class Speed:
    """Times of a machine's primitives; the less, the faster."""

    curve_us: float
    """Multiplication of a point of secp256k1."""
    interpreter_us: float
    """Fixed piece of pure Python."""
    argon2_ms: float
    """Argon2id with 64 MiB: memory bandwidth, mostly."""
    fsync_ms: float
    """Write of 4 KiB to the disk."""

    NONE: ClassVar[Speed]
    """Speed without measurement: every primitive is 1."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not isinstance(value, int | float) or not 0 < value < float("inf"):
                raise UsageError(f"machine {each.name} is {value}: above 0, and finite")

    @classmethod
    def measured(cls, folder: str | None = None) -> Self:
        """Measure this machine, in a few seconds.

        Args:
            folder: on the disk that is meant; by default that of temporary files.
        """
        return cls(
            round(curve_us(), 3),
            round(interpreter_us(10 * ROUNDS), 2),
            round(argon2_ms(), 3),
            round(max(1e-3, fsync_ms(folder)), 4),
        )

    @classmethod
    def median(cls, measured: Sequence[Self]) -> Self:
        """Return the median of each primitive over some measurements; at least one."""
        return cls(
            *(round(median(getattr(one, each.name) for one in measured), 4) for each in fields(cls))
        )

    def ratios(self, to: Speed) -> Mapping[str, float]:
        """Return how many times as long another machine takes, by primitive."""
        return {
            each.name.rpartition("_")[0]: getattr(to, each.name) / getattr(self, each.name)
            for each in fields(self)
        }


Speed.NONE = Speed(1.0, 1.0, 1.0, 1.0)


def interpreter_us(rounds: int = 20) -> float:
    """Return the CPU time of a fixed piece of pure Python: the shortest of some rounds."""
    return min(_cpu_us(_python_workload) for _ in range(rounds))


def curve_us() -> float:
    """Return the CPU time of a point multiplication."""
    from coincurve import PublicKey  # here: loading costs needs neither library

    point, scalar = PublicKey.from_secret(bytes([3]) * 32), bytes([7]) * 32
    count = 200

    def some() -> None:
        for _ in range(count):
            point.multiply(scalar)

    return median(_cpu_us(some) for _ in range(ROUNDS)) / count


def argon2_ms() -> float:
    """Return the CPU time of a fixed Argon2id."""
    from nacl import pwhash

    def once() -> None:
        pwhash.argon2id.kdf(
            32, b"measured", bytes(pwhash.argon2id.SALTBYTES), ARGON2_TIMES, ARGON2_KIB * 1024
        )

    return median(_cpu_us(once) for _ in range(ROUNDS)) / 1000


def fsync_ms(folder: str | None = None) -> float:
    """Return the time of a write to the disk."""
    took = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(5 * ROUNDS):
            file.write(bytes(BLOCK))
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            took.append((time.perf_counter() - began) * 1000)
    return median(took)


def _python_workload() -> int:
    """Run typical Python: calls, attributes, numbers, dictionaries, bytes."""
    found: dict[int, bytes] = {}
    total = 0
    for n in range(2_000):
        text = n.to_bytes(4, "big")
        found[n % 64] = text
        total += len(found) + sum(text) % 7
    return total


def _cpu_us(work: Callable[[], object]) -> float:
    """Return the CPU time of a function in this thread."""
    began = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - began) / 1000
