"""Settings of a side as the panel shows and parses them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final, Literal

from mpcsim.crypto.groups.curves import CURVES
from mpcsim.crypto.params import OT_EXTENSION_KS
from mpcsim.errors import UsageError, unknown
from mpcsim.lab.what_if.configuration import MOST_LOSS, RATES, Configuration
from mpcsim.sim.network import presets
from node.calls import SIGNERS
from node.process.settings import POLICIES

Value = str | float | int | bool | None

NO_PRESIGNATURE: Final = "presignatures are for secp256k1, with the vault policy both"
ONE_REQUEST: Final = "no effect: with a presignature it is one request"
ONE_ROUND: Final = "no effect on ed25519, which has one round of small messages"


@dataclass(frozen=True)
class Field:
    """Setting."""

    name: str
    """Field of ``Configuration``."""
    label: str
    kind: Literal["choice", "number", "switch"]
    hint: str
    choices: tuple[Value, ...] = ()
    none: str = ""
    """Text for None."""
    unit: str = ""
    low: float = 0.0
    high: float = 0.0
    per_unit: int = 1
    """Divisor of a typed number."""

    def text(self, value: Value) -> str | bool:
        """Return a value as it is shown and typed."""
        if self.kind == "switch":
            return bool(value)
        if value is None:
            return ""
        if self.kind == "number":
            return f"{(Decimal(str(value)) * self.per_unit).normalize():f}"
        return str(value)

    def value(self, given: object) -> Value:
        """Return the value that was typed or chosen.

        Raises:
            UsageError: it is not one of the choices, no number, or out of range.
        """
        if self.kind == "switch":
            if isinstance(given, bool):
                return given
            raise UsageError(f"{self.label} is {given!r}: on or off")
        text = str(given).strip()
        if self.kind == "choice":
            by_text = {self.text(choice): choice for choice in self.choices}
            if text not in by_text:
                raise UsageError(unknown(self.label, text, map(str, by_text)))
            return by_text[text]
        if not text:
            return None
        try:
            number = Decimal(text.removesuffix(self.unit).strip())
        except InvalidOperation:
            number = Decimal("NaN")
        if number.is_nan() or not self.low <= number <= self.high:
            raise UsageError(
                f"{self.label}: {text!r} is not a number from {self.low:g} to {self.high:g} "
                f"({self.unit}); empty: the access network's own"
            )
        return float(number / self.per_unit)


@dataclass(frozen=True)
class Group:
    """Settings under a heading."""

    name: str
    fields: tuple[Field, ...]


_PLACES: Final = (None, *presets.REGIONS)


def _rate(name: str, label: str) -> Field:
    low, high = RATES
    return Field(name, label, "number", "of the caller's line", unit="Mbit/s", low=low, high=high)


GROUPS: Final = (
    Group(
        "Where",
        (
            Field("region", "caller", "choice", "region of the REST node", presets.REGIONS),
            Field("gateway", "gateway", "choice", "region", _PLACES, "caller's"),
            Field("operator", "operator", "choice", "region", _PLACES, "caller's"),
            Field("institution", "institution", "choice", "region", _PLACES, "caller's"),
        ),
    ),
    Group(
        "The caller's line",
        (
            Field("access", "access", "choice", "how it reaches its region", tuple(presets.ACCESS)),
            Field(
                "loss",
                "loss",
                "number",
                "packets that get lost, each way",
                unit="%",
                high=100 * MOST_LOSS,
                per_unit=100,
            ),
            _rate("up_mbit_per_s", "up"),
            _rate("down_mbit_per_s", "down"),
            Field("cold", "cold connections", "switch", "every call opens its connections anew"),
        ),
    ),
    Group(
        "Signing",
        (
            Field("curve", "curve", "choice", "secp256k1: ECDSA; ed25519: FROST", tuple(CURVES)),
            Field("signer", "signer", "choice", "whom the caller signs with", SIGNERS),
            Field(
                "vault_policy",
                "vault opened by",
                "choice",
                "both MPC nodes, or the signer alone",
                POLICIES,
            ),
            Field(
                "early_requests",
                "early requests",
                "switch",
                "the first message goes with the request that opens the vault",
            ),
            Field(
                "ot_extension_k",
                "OT extension k",
                "choice",
                "what is said in signing shrinks",
                OT_EXTENSION_KS,
            ),
            Field(
                "separate_messages",
                "separate messages",
                "switch",
                "each message in a request of its own",
            ),
            Field("presigned", "presigned", "switch", "with a presignature made ahead"),
        ),
    ),
)
FIELDS: Final = {field.name: field for group in GROUPS for field in group.fields}


def access_defaults(configuration: Configuration) -> dict[str, str]:
    """Return the access network's numbers, as text, for settings that are left out."""
    access = presets.ACCESS[configuration.access]
    own = {
        "loss": access.loss,
        "up_mbit_per_s": access.up_mbit_per_s,
        "down_mbit_per_s": access.down_mbit_per_s,
    }
    return {name: str(FIELDS[name].text(value)) for name, value in own.items()}


def ineffective_settings(configuration: Configuration) -> dict[str, str]:
    """Return settings that are without effect or not possible, and why."""
    found: dict[str, str] = {}
    if configuration.presigned:
        names = ("early_requests", "ot_extension_k", "separate_messages")
        found |= dict.fromkeys(names, ONE_REQUEST)
    elif configuration.curve != "secp256k1":
        found |= dict.fromkeys(("ot_extension_k", "separate_messages"), ONE_ROUND)
    if configuration.curve != "secp256k1" or configuration.vault_policy != "both":
        found["presigned"] = NO_PRESIGNATURE
    return found
