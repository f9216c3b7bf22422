"""Grants: what the gateway shows an MPC node in the name of a user, for one thing and one minute.

A grant is good at one MPC node, since that node's last start, for one verb about one user, session,
key and message, once. It is authenticated with a key that the gateway shares with this MPC node
alone (``tagged_mac``), so that whatever an MPC node has been shown is of use nowhere else. What a
user's own tokens are good for ends at the gateway.
"""

from __future__ import annotations

import hmac
import struct
import threading
from collections import deque
from collections.abc import Callable
from itertools import compress, count, repeat
from typing import Final, NamedTuple

from mpcsim.errors import InternalError
from mpcsim.hashing import Tag, tagged_hash, tagged_mac
from mpcsim.ids import BOOT_BYTES, ROLES, PartyId
from mpcsim.primitives.bip32 import Path, path_bytes
from mpcsim.rng import Rng
from mpcsim.rpc.errors import UNAUTHORIZED, Refused

LINK_KEY_BYTES: Final = 32
LIFETIME_S: Final = 60
_NUMBER: Final = struct.Struct(">8sQ")
"""Random since the issuer's start; how many it has made."""
_MAC_BYTES: Final = 32
_CONTENT: Final = struct.Struct(f">H{BOOT_BYTES}sQ{_NUMBER.size}s16s64s33s33s33s")
"""Party, boot, expiry in ms since 1970 UTC, a number that no other grant has; then what it is for
(``_Packed``). Of fixed width: grants are made and read for every request."""
_ABSENT: Final = bytes(33)
_THERE: Final = b"\1"

_Packed = tuple[bytes, bytes, bytes, bytes, bytes]
"""Verb and user, filled up with zeros; a 1 with key, session and hash of what is to be signed, or
zeros."""


class GrantRefused(Refused):
    """An MPC node does not accept what the gateway shows it. Nothing was done."""

    def __init__(self, text: str) -> None:
        super().__init__(UNAUTHORIZED, text)


class AnotherBoot(GrantRefused):
    """The grant is from before the MPC node's last start; one for its present boot may do."""


class Scope(NamedTuple):
    """What a grant is for. None: nothing of that kind is concerned."""

    verb: str
    user_id: str = ""
    key_id: bytes | None = None
    session_id: bytes | None = None
    message: bytes | None = None
    """The message to be signed."""
    path: Path = ()
    """Of the child key to sign it with."""

    def packed(self) -> _Packed:
        """As it stands in a grant."""
        return (
            self.verb.encode().ljust(16, b"\0"),
            self.user_id.encode().ljust(64, b"\0"),
            _ABSENT if self.key_id is None else _THERE + self.key_id,
            _ABSENT if self.session_id is None else _THERE + self.session_id,
            _ABSENT if self.message is None else _THERE + self._signed(self.message),
        )

    def _signed(self, message: bytes) -> bytes:
        """Digest of what is to be signed, and with which key."""
        return tagged_hash(Tag.GRANTED_MESSAGE, message, path_bytes(self.path))


class GrantIssuer:
    """Makes grants for one MPC node; the gateway's."""

    def __init__(self, party: PartyId, link_key: bytes, rng: Rng, now: Callable[[], float]) -> None:
        """
        Args:
            link_key: ``LINK_KEY_BYTES`` bytes, shared with this MPC node alone.
            now: seconds since 1970 UTC.
        """
        self._party = party
        self._key = link_key
        self._numbers = map(_NUMBER.pack, repeat(rng.bytes(8)), count())
        self._now = now

    def issue(self, scope: Scope, boot: bytes) -> bytes:
        """A grant.

        Args:
            boot: the MPC node's present one.
        """
        expires_ms = int((self._now() + LIFETIME_S) * 1000)
        packed = scope.packed()
        if tuple(map(len, packed)) != (16, 64, 33, 33, 33):
            raise InternalError("no grant has room for this")  # and struct would cut it short
        grant = _CONTENT.pack(self._party, boot, expires_ms, next(self._numbers), *packed)
        return _mac(self._key, grant) + grant

    def __repr__(self) -> str:
        return f"GrantIssuer({ROLES[self._party]})"


class GrantReader:
    """Checks grants; an MPC node's. Any thread may call."""

    def __init__(
        self, party: PartyId, link_key: bytes, boot: bytes, now: Callable[[], float]
    ) -> None:
        """
        Args:
            boot: ``BOOT_BYTES`` random bytes, made at this start.
            now: seconds since 1970 UTC.
        """
        self.boot = boot
        self._party = party
        self._key = link_key
        self._now = now
        self._used: set[bytes] = set()
        self._expiring: deque[tuple[int, bytes]] = deque()
        self._lock = threading.Lock()
        """Of the two."""

    def read(self, data: bytes) -> Grant:
        """A grant, which is used up by this.

        Raises:
            GrantRefused: it is not the gateway's, for another MPC node, expired or used before.
            AnotherBoot: it is from before this node's last start.
        """
        tag, content = data[:_MAC_BYTES], data[_MAC_BYTES:]
        if not hmac.compare_digest(tag, _mac(self._key, content)):
            raise GrantRefused("the grant is not the gateway's")
        if len(content) != _CONTENT.size:
            raise GrantRefused("the grant is malformed")
        party, boot, expires_ms, number, *packed = _CONTENT.unpack(content)
        if party != self._party:
            raise GrantRefused("the grant is for another MPC node")
        if boot != self.boot:
            raise AnotherBoot("the grant is from before this MPC node's last start")
        now_ms = self._now() * 1000
        if not now_ms < expires_ms <= now_ms + 2 * LIFETIME_S * 1000:
            raise GrantRefused("the grant has expired, or the clocks differ by over a minute")
        with self._lock:
            self._forget(now_ms)
            if number in self._used:
                raise GrantRefused("the grant has been used before")
            self._used.add(number)
            self._expiring.append((expires_ms, number))
        return Grant(tuple(packed))

    def _forget(self, now_ms: float) -> None:
        while self._expiring and self._expiring[0][0] <= now_ms:
            self._used.discard(self._expiring.popleft()[1])


class Grant:
    """A genuine grant: what it allows is for whoever acts on it to compare."""

    def __init__(self, packed: _Packed) -> None:
        self._packed = packed
        self.user_id = packed[1].rstrip(b"\0").decode()
        """The user in whose name the gateway asks."""
        self.key_id = None if packed[2] == _ABSENT else packed[2][1:]
        self.session_id = None if packed[3] == _ABSENT else packed[3][1:]

    def check(self, scope: Scope) -> None:
        """See that the grant is for this.

        Raises:
            GrantRefused: it is for something else.
        """
        asked = scope.packed()
        if self._packed != asked:
            differ = (
                granted != wanted for granted, wanted in zip(self._packed, asked, strict=True)
            )
            what = next(compress(("verb", "user", "key", "session", "message"), differ))
            raise GrantRefused(f"the grant is for another {what}")


def _mac(key: bytes, grant: bytes) -> bytes:
    return tagged_mac(Tag.GRANT, key, grant)
