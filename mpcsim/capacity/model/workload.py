"""Workload: arrival process, mix of operations, users, and the retry policy of callers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from mpcsim.capacity.model import files
from mpcsim.capacity.model.arrivals import Arrivals, Steady
from mpcsim.capacity.model.incidents import Event
from mpcsim.errors import UsageError, unknown
from mpcsim.frozen_dict import freeze_fields
from mpcsim.sim.network.files import toml
from mpcsim.sim.network.transport import is_whole_number

SIGN: Final = "sign secp256k1"


class CallType(NamedTuple):
    """Kind of call: endpoint, curve and signer."""

    verb: str
    """Endpoint below ``/v3/wallet``; ``presigned`` is ``sign`` with a presignature."""
    curve: str = ""
    signer: str = "operator"
    """MPC node that signs along."""

    @property
    def signer_field(self) -> dict[str, str]:
        """Fields of the request that name the signer."""
        return {} if self.signer == "operator" else {"signer": self.signer}

    @property
    def endpoint(self) -> str:
        """Path of the REST API."""
        return f"/v3/wallet/{'sign' if self.verb == 'presigned' else self.verb}"


OPERATIONS: Final[Mapping[str, CallType]] = {
    "sign secp256k1": CallType("sign", "secp256k1"),
    "sign secp256k1 with the institution": CallType("sign", "secp256k1", "institution"),
    "presigned secp256k1": CallType("presigned", "secp256k1"),
    "presign secp256k1": CallType("presign", "secp256k1"),
    "generate secp256k1": CallType("generate", "secp256k1"),
    "recover secp256k1": CallType("recover", "secp256k1"),
    "sign ed25519": CallType("sign", "ed25519"),
    "sign ed25519 with the institution": CallType("sign", "ed25519", "institution"),
    "generate ed25519": CallType("generate", "ed25519"),
    "recover ed25519": CallType("recover", "ed25519"),
    "validate password": CallType("validate/password"),
    "validate share": CallType("validate/share"),
}
"""Operations that callers may ask for, by name."""


@dataclass(frozen=True)
class Client:
    """Retry policy of callers."""

    timeout_s: float = math.inf
    """Time-out of an attempt; the service continues with it."""
    attempts: int = 1
    """Attempts at most: another follows one that was refused, failed, or timed out."""
    pause_s: float = 0.0
    """Pause before the second attempt; 0: none."""
    factor: float = 1.0
    """Ratio of each further pause to the one before: 2 is exponential back-off."""
    jitter: float = 0.0
    """Share of each pause that is random: 1 is uniform from 0 to the whole pause."""

    def __post_init__(self) -> None:
        if not self.timeout_s > 0:
            raise UsageError(f"client timeout_s is {self.timeout_s}: not above 0")
        if not is_whole_number(self.attempts, 1):
            raise UsageError(f"client attempts is {self.attempts}: not a whole number from 1 on")
        if not 0 <= self.pause_s < math.inf:
            raise UsageError(f"client pause_s is {self.pause_s}: below 0, or not finite")
        if not 1 <= self.factor < math.inf:
            raise UsageError(f"client factor is {self.factor}: below 1, or not finite")
        if not 0 <= self.jitter <= 1:
            raise UsageError(f"client jitter is {self.jitter}: from 0 to 1")


@dataclass(frozen=True)
class Workload:
    """Calls of a service.

    >>> Workload(Steady(40.0), users=10_000)
    >>> Workload(Users(32), mix={"sign secp256k1": 0.9, "recover secp256k1": 0.1})
    """

    arrivals: Arrivals = field(default_factory=lambda: Steady(10.0))
    mix: Mapping[str, float] = field(default_factory=lambda: {SIGN: 1.0})
    """Shares of ``OPERATIONS``; only their proportions matter."""
    users: int = 100_000
    """Users, each with one key; two calls for one key at a time conflict."""
    skew: float = 0.0
    """Zipf exponent of the users' popularity: user n calls in proportion to n ** -skew; 0: all
    alike."""
    client: Client = Client()
    events: tuple[Event, ...] = ()
    """Incidents during the run."""

    def __post_init__(self) -> None:
        freeze_fields(self, "mix")
        if not self.mix:
            raise UsageError("workload mix is empty: an operation and its share, at least one")
        for name, share in self.mix.items():
            if name not in OPERATIONS:
                raise UsageError(f"workload mix: {unknown('operation', name, OPERATIONS)}")
            if not 0 < share < math.inf:
                raise UsageError(f"workload mix is {share} for {name}: not above 0, or not finite")
        if not is_whole_number(self.users, 1):
            raise UsageError(f"workload users is {self.users}: not a whole number from 1 on")
        if not 0 <= self.skew < math.inf:
            raise UsageError(f"workload skew is {self.skew}: below 0, or not finite")

    # ------------------------------------------------------------------ files

    @classmethod
    def load(cls, path: str | Path) -> Workload:
        """Return the workload in a TOML file (format: ``mpcsim.capacity.plan``).

        Raises:
            UsageError: not TOML, or an entry that is unknown, missing or out of range: says which.
            OSError: the file cannot be read.
        """
        return files.load(path, lambda table, at: cls.of(table.get(files.WORKLOAD, {}), at))

    def save(self, path: str | Path, note: str = "") -> None:
        """Write a file that ``load`` reads as this workload; it is also a plan.

        Args:
            note: comes first, as a comment.

        Raises:
            OSError: the file cannot be written.
        """
        Path(path).write_text(toml.text({files.WORKLOAD: self.table()}, note), encoding="utf-8")

    @classmethod
    def of(cls, table: Mapping[str, Any], folder: str | Path = ".") -> Workload:
        """Return the workload in a table, as in ``[workload]`` of a file.

        Args:
            folder: where the path of a file of times begins.

        Raises:
            UsageError: an entry that is unknown, missing or out of range: says which.
        """
        return files.decode_workload(cls, table, Path(folder))

    def table(self) -> dict[str, Any]:
        """Return the table of which ``of`` makes this workload."""
        return files.encode_workload(self)
