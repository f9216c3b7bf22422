"""What is asked of a service: how much, when, by whom, and what callers do about a bad answer."""

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
from mpcsim.sim.network.files import toml
from mpcsim.sim.network.transport import is_whole_number

SIGN: Final = "sign secp256k1"


class Asked(NamedTuple):
    """What a caller asks for."""

    verb: str
    """The endpoint, below ``/v3/wallet``; ``presigned`` is ``sign`` with a presignature."""
    curve: str = ""
    signer: str = "operator"
    """Of a signature: who signs along."""

    @property
    def chosen(self) -> dict[str, str]:
        """What the request says about that."""
        return {} if self.signer == "operator" else {"signer": self.signer}

    @property
    def endpoint(self) -> str:
        """Of the REST API."""
        return f"/v3/wallet/{'sign' if self.verb == 'presigned' else self.verb}"


OPERATIONS: Final[Mapping[str, Asked]] = {
    "sign secp256k1": Asked("sign", "secp256k1"),
    "sign secp256k1 with the institution": Asked("sign", "secp256k1", "institution"),
    "presigned secp256k1": Asked("presigned", "secp256k1"),
    "presign secp256k1": Asked("presign", "secp256k1"),
    "generate secp256k1": Asked("generate", "secp256k1"),
    "recover secp256k1": Asked("recover", "secp256k1"),
    "sign ed25519": Asked("sign", "ed25519"),
    "sign ed25519 with the institution": Asked("sign", "ed25519", "institution"),
    "generate ed25519": Asked("generate", "ed25519"),
    "recover ed25519": Asked("recover", "ed25519"),
    "validate password": Asked("validate/password"),
    "validate share": Asked("validate/share"),
}
"""What callers may ask for, by name."""


@dataclass(frozen=True)
class Client:
    """What a caller does who waits."""

    timeout_s: float = math.inf
    """When it gives an attempt up. The service goes on with it."""
    attempts: int = 1
    """At most: another follows an attempt that was refused, broke off, or took too long."""
    pause_s: float = 0.0
    """Before the second attempt; 0: at once."""
    factor: float = 1.0
    """Of each further pause over the one before: 2 doubles them (exponential back-off)."""
    jitter: float = 0.0
    """Part of each pause that is drawn: 1 is anything from none to all of it."""

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
    """Of ``OPERATIONS``: shares; what they add up to is all."""
    users: int = 100_000
    """Each has one key; two calls for one key at a time meet each other."""
    skew: float = 0.0
    """How unequal they are: user n calls in proportion to n ** -skew (Zipf); 0: all alike."""
    client: Client = Client()
    events: tuple[Event, ...] = ()
    """What happens meanwhile."""

    def __post_init__(self) -> None:
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
        """The workload in a TOML file; ``mpcsim.capacity.plan`` says what it looks like.

        Raises:
            UsageError: not TOML, or an entry that is unknown, missing or out of range: says which.
            OSError: the file cannot be read.
        """
        return files.read(path, lambda table, at: cls.of(table.get(files.WORKLOAD, {}), at))

    def save(self, path: str | Path, note: str = "") -> None:
        """Write a file that ``load`` reads as this workload; it is a plan's, too.

        Args:
            note: comes first, as a comment.

        Raises:
            OSError: the file cannot be written.
        """
        Path(path).write_text(toml.text({files.WORKLOAD: self.table()}, note), encoding="utf-8")

    @classmethod
    def of(cls, table: Mapping[str, Any], folder: str | Path = ".") -> Workload:
        """The workload in a table, as ``[workload]`` of a file has it.

        Args:
            folder: where the path of a file of times begins.

        Raises:
            UsageError: an entry that is unknown, missing or out of range: says which.
        """
        return files.workload(cls, table, Path(folder))

    def table(self) -> dict[str, Any]:
        """What ``of`` makes this workload of."""
        return files.workload_table(self)
