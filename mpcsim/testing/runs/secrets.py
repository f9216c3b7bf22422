"""Search for a party's secrets in a text: whatever form they are written in."""

from __future__ import annotations

import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import Any, Final

from mpcsim.crypto.encoding import Message
from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.crypto.kernels.interface import ScalarVector
from mpcsim.protocols.engine import Delivery, Party, Sends

Leaf = Scalar | Point | ScalarVector | bytes | str | int | None
SHORTEST: Final = 8
"""Number of different bytes from which on a value can be recognised."""
LONGEST_NUMBER: Final = 64
"""Length in bytes up to which a value may be written as a number."""
_HEX: Final = re.compile(r"[0-9a-fA-F]{12,}")
_DECIMAL: Final = re.compile(r"\d{12,}")
_BASE64: Final = re.compile(r"[\w+/-]{16,}")
_ESCAPED: Final = re.compile(r"""b(["'])((?:\\.|(?!\1).)+)\1""")


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Leaf]]:
    """Yield every value in a message or in what a party keeps, with its path: ``.echo[2]``."""
    match value:
        case Message():
            for name, _ in value.CODECS:
                yield from leaves(getattr(value, name), f"{path}.{name}")
        case Mapping():
            for key, each in value.items():
                yield from leaves(each, f"{path}[{key}]")
        case tuple() | list() | set() | frozenset():
            for number, each in enumerate(value):
                yield from leaves(each, f"{path}[{number}]")
        case Scalar() | Point() | ScalarVector() | bytes() | str() | int() | None:
            yield path, value
        case _ if is_dataclass(value):
            for each in fields(value):
                yield from leaves(getattr(value, each.name), f"{path}.{each.name}")


def leaf_bytes(leaf: Leaf) -> bytes:
    """Return a value as bytes that can be compared; numbers and texts are short."""
    match leaf:
        case Scalar() | Point() | ScalarVector():
            return leaf.encode()
        case bytes():
            return leaf
        case _:
            return repr(leaf).encode()


def shown_secret(
    text: str,
    owner: int,
    parties: Mapping[int, Party[Any, Any]],
    kept: Mapping[int, Iterable[Any]] = MappingProxyType({}),
) -> str | None:
    """Return the path of a party's secret that a text shows, or None.

    Secret is what a party keeps, its set-up, what it shares with one peer, and what came for it
    alone. Not secret is what was broadcast, what all parties keep or result in, and what all
    set-ups have that shows in the repr of the owner's.

    Args:
        kept: what parties kept after earlier rounds.
    """
    shown = _Shown(text)
    if not shown:
        return None
    party = parties[owner]
    found = {path: value for path, value in _secrets(party, kept) if value in shown}
    public: set[bytes] = set()
    if found:
        public = _public(parties, kept, owner) - {*party.pair_secrets.values()}
    return next((path for path, value in found.items() if value not in public), None)


def _secrets(
    party: Party[Any, Any], kept: Mapping[int, Iterable[Any]]
) -> Iterator[tuple[str, bytes]]:
    """Yield everything that a party has for itself or with one peer, with its path."""
    places = [("setup", party.setup), ("seed", party._seed)]
    places += [("keep", each) for each in (party.keep, *kept.get(party.me, ()))]
    places += [("pair_secrets", party.pair_secrets)]
    received = party.inbox.values
    places += [(f"{each.kind} from", received.get(each.message)) for each in _direct(party)]
    for name, value in places:
        for path, leaf in leaves(value, name):
            # A point is a commitment; what has few different bytes may be anywhere.
            if isinstance(leaf, Scalar | bytes) and len(set(leaf_bytes(leaf))) >= SHORTEST:
                yield path, leaf_bytes(leaf)


def _public(
    parties: Mapping[int, Party[Any, Any]], kept: Mapping[int, Iterable[Any]], owner: int
) -> set[bytes]:
    found: set[bytes] = set()
    of_all: list[set[bytes]] = []
    setups: list[set[bytes]] = []
    for i, party in parties.items():
        direct = {sends.message for sends in _direct(party)}
        said = [message for _, message in party.inbox.own.values()]
        for kind, messages in party.inbox.values.items():
            said += [] if kind in direct else messages.values()
        found |= _values(said)
        of_all.append(_values([party.keep, *kept.get(i, ()), getattr(party.outcome, "result", ())]))
        setups.append(_values(party.setup))
    in_repr = _Shown(repr(parties[owner].setup))
    found |= {each for each in set.intersection(*setups) if each in in_repr}
    return found | set.intersection(*of_all)


def _values(value: Any) -> set[bytes]:
    return {leaf_bytes(leaf) for _, leaf in leaves(value)}


def _direct(party: Party[Any, Any]) -> list[Sends]:
    """Return the kinds of messages that are each for one receiver."""
    return [s for _, s in party.definition.kinds() if s.delivery is Delivery.DIRECT]


class _Shown:
    """Parts of a text that could be values: hexadecimal, decimal, base64 and escaped bytes."""

    def __init__(self, text: str) -> None:
        self._hex = {each.lower() for each in _HEX.findall(text)}
        self._decimal = set(_DECIMAL.findall(text))
        # A word has no digits, a constant no small letters.
        mixed = ("[0-9]", "[a-z]", "[A-Z]")
        self._base64 = {
            part for part in _BASE64.findall(text) if all(re.search(each, part) for each in mixed)
        }
        self._escaped = {body for _, body in _ESCAPED.findall(text)}

    def __bool__(self) -> bool:
        return bool(self._hex or self._decimal or self._base64 or self._escaped)

    def __contains__(self, secret: bytes) -> bool:
        """Return whether a part is the value, or a piece of it."""
        of_number = secret if len(secret) <= LONGEST_NUMBER else b""
        number = {str(int.from_bytes(of_number, order)) for order in ("big", "little")} - {"0"}
        encoded = (b64encode(secret).decode(), urlsafe_b64encode(secret).decode())
        digits, escaped = secret.hex(), repr(secret)[2:-1]
        return (
            any(part in digits or digits in part for part in self._hex)
            or any(part in whole or whole in part for part in self._decimal for whole in number)
            or any(part in whole for part in self._base64 for whole in encoded)
            or any(escaped in part for part in self._escaped)
        )
