"""Grants: what the gateway shows an MPC node in the name of a user, for one thing and one minute.

A grant is good at one MPC node, since that node's last start, for one verb about one user, session,
key and message, once. It is authenticated with a key that the gateway shares with this MPC node
alone (``tagged_mac``), so that whatever an MPC node has been shown is of use nowhere else. What a
user's own tokens are good for ends at the gateway.
"""

from __future__ import annotations

import hmac
import math
import struct
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import compress, count, repeat
from typing import Final, NamedTuple

from mpcsim.crypto.bip32 import Path, path_bytes
from mpcsim.crypto.hashing import Tag, tagged_hash, tagged_mac
from mpcsim.crypto.rng import Rng
from mpcsim.errors import InternalError
from mpcsim.ids import BOOT_BYTES, ROLES, PartyId
from mpcsim.service.errors import UNAUTHORIZED, Refused

LINK_KEY_BYTES: Final = 32
LIFETIME_S: Final = 60
LOOK_S: Final = 1.0
"""Seconds between two looks for another key while a link is used. An MPC node also looks when a
grant fits none of the keys that it knows."""
_NUMBER: Final = struct.Struct(">8sQ")
"""Random since the issuer's start; how many it has made."""
MAX_ISSUERS: Final = 1024
"""Starts of the gateway that a reader remembers since its own."""
_MAC_BYTES: Final = 32
_CONTENT: Final = struct.Struct(f">H{BOOT_BYTES}sQ{_NUMBER.size}s16s64s33s33s33s")
"""Party, boot, expiry in ms since 1970 UTC, a number that no other grant has; then what it is for
(``_Packed``). Of fixed width: grants are made and read for every request."""
_ABSENT: Final = bytes(33)
_THERE: Final = b"\1"

_Packed = tuple[bytes, bytes, bytes, bytes, bytes]
"""Verb and user, filled up with zeros; a 1 with key, session and hash of what is to be signed, or
zeros."""


@dataclass(frozen=True)
class LinkKeys:
    """Keys that authenticate grants between a gateway and one MPC node.

    While the key is changed, the MPC node accepts another one, too: first the next one, then the
    previous one for a while.
    """

    key: bytes = field(repr=False)
    """``LINK_KEY_BYTES``. Secret, as the other."""
    other: bytes | None = field(default=None, repr=False)
    until: float = math.inf
    """End of acceptance of ``other``: seconds since 1970 UTC."""

    def accepted_keys(self, now: float) -> tuple[bytes, ...]:
        """Return the keys that the MPC node accepts now."""
        if self.other is None or now >= self.until:
            return (self.key,)
        return self.key, self.other


def _unchanged() -> None:
    """Return None: the keys of the link do not change."""


class Keyring:
    """The keys of a link, as they are now at one of its ends."""

    def __init__(self, keys: LinkKeys, reread: Callable[[], LinkKeys | None] = _unchanged) -> None:
        """
        Args:
            reread: other keys, if there are any since it was last called.
        """
        self.keys = keys
        self.loaded_at = -math.inf
        """Time of the last look for other keys: seconds since 1970 UTC. The next one is due after
        ``LOOK_S``, and if that clock was put back."""
        self._reread = reread

    def reload(self, now: float) -> None:
        """Look for other keys."""
        self.loaded_at = now
        if (keys := self._reread()) is not None:
            self.keys = keys

    def __repr__(self) -> str:
        return "Keyring(<redacted>)"


class GrantRefused(Refused):
    """An MPC node does not accept what the gateway shows it. Nothing was done."""

    def __init__(self, text: str) -> None:
        super().__init__(UNAUTHORIZED, text)


class StaleGrant(GrantRefused):
    """The grant is from before the MPC node's last start; one for its present boot may do."""


class Scope(NamedTuple):
    """Purpose of a grant. None: nothing of that kind is concerned."""

    verb: str
    user_id: str = ""
    key_id: bytes | None = None
    session_id: bytes | None = None
    message: bytes | None = None
    """The message to be signed."""
    path: Path = ()
    """Path of the child key to sign with."""

    def pack(self) -> _Packed:
        """Return the scope as it is encoded in a grant."""
        return (
            self.verb.encode().ljust(16, b"\0"),
            self.user_id.encode().ljust(64, b"\0"),
            _ABSENT if self.key_id is None else _THERE + self.key_id,
            _ABSENT if self.session_id is None else _THERE + self.session_id,
            _ABSENT if self.message is None else _THERE + self._message_digest(self.message),
        )

    def _message_digest(self, message: bytes) -> bytes:
        """Digest of what is to be signed, and with which key."""
        return tagged_hash(Tag.GRANTED_MESSAGE, message, path_bytes(self.path))


class GrantIssuer:
    """Makes grants for one MPC node; the gateway's."""

    def __init__(self, party: PartyId, ring: Keyring, rng: Rng, now: Callable[[], float]) -> None:
        """
        Args:
            ring: with the key that is shared with this MPC node alone.
            now: seconds since 1970 UTC.
        """
        self._party = party
        self._ring = ring
        self._numbers = map(_NUMBER.pack, repeat(rng.bytes(8)), count())
        self._now = now

    def issue(self, scope: Scope, boot: bytes) -> bytes:
        """A grant.

        Args:
            boot: the MPC node's present one.
        """
        now = self._now()
        ring = self._ring
        if not 0 <= now - ring.loaded_at < LOOK_S:
            ring.reload(now)
        expires_ms = int((now + LIFETIME_S) * 1000)
        packed = scope.pack()
        if tuple(map(len, packed)) != (16, 64, 33, 33, 33):
            raise InternalError("no grant has room for this")  # and struct would cut it short
        grant = _CONTENT.pack(self._party, boot, expires_ms, next(self._numbers), *packed)
        return _mac(ring.keys.key, grant) + grant

    def __repr__(self) -> str:
        return f"GrantIssuer({ROLES[self._party]})"


class GrantReader:
    """Checks grants; an MPC node's. Any thread may call."""

    def __init__(
        self, party: PartyId, ring: Keyring, boot: bytes, now: Callable[[], float]
    ) -> None:
        """
        Args:
            ring: with the keys that are accepted.
            boot: ``BOOT_BYTES`` random bytes, made at this start.
            now: seconds since 1970 UTC.
        """
        self.boot = boot
        self._party = party
        self._ring = ring
        self._now = now
        self._used: set[bytes] = set()
        self._expiring: deque[tuple[int, bytes]] = deque()
        self._floors: OrderedDict[bytes, int] = OrderedDict()
        """First number that is still good, by issuer (``_NUMBER``); lower ones are over, used or
        not.

        A used grant that was forgotten as expired is thereby not good once more when the clock
        steps back (the window against replays of RFC 4303, 3.4.3).
        """
        self._lock = threading.Lock()
        """Guards the attributes above."""

    def check(self, data: bytes) -> float:
        """Check that a grant is the gateway's, whatever for; return the present time.

        Raises:
            GrantRefused: it is not.
        """
        tag, content = data[:_MAC_BYTES], data[_MAC_BYTES:]
        now = self._now()
        ring = self._ring
        if not 0 <= now - ring.loaded_at < LOOK_S:
            ring.reload(now)
        if not hmac.compare_digest(tag, _mac(ring.keys.key, content)):
            self._check_other_keys(tag, content, now)
        return now

    def read(self, data: bytes) -> Grant:
        """A grant, which is used up by this.

        Raises:
            GrantRefused: it is not the gateway's, for another MPC node, expired or used before.
            AnotherBoot: it is from before this node's last start.
        """
        now, content = self.check(data), data[_MAC_BYTES:]
        if len(content) != _CONTENT.size:
            raise GrantRefused("the grant is malformed")
        party, boot, expires_ms, number, *packed = _CONTENT.unpack(content)
        if party != self._party:
            raise GrantRefused("the grant is for another MPC node")
        if boot != self.boot:
            raise StaleGrant("the grant is from before this MPC node's last start")
        now_ms = now * 1000
        if not now_ms < expires_ms <= now_ms + 2 * LIFETIME_S * 1000:
            raise GrantRefused("the grant has expired, or the clocks differ by over a minute")
        issuer, count = _NUMBER.unpack(number)
        with self._lock:
            self._forget(now_ms)
            if number in self._used or count < self._floors.get(issuer, 0):
                raise GrantRefused("the grant has been used before")
            self._used.add(number)
            self._expiring.append((expires_ms, number))
        return Grant(tuple(packed))

    def _check_other_keys(self, tag: bytes, content: bytes, now: float) -> None:
        """Check a grant against the other keys that are accepted while the key is changed.

        Raises:
            GrantRefused: it is not.
        """
        for look in (False, True):
            if look:
                self._ring.reload(now)
            for key in self._ring.keys.accepted_keys(now):
                if hmac.compare_digest(tag, _mac(key, content)):
                    return
        raise GrantRefused("the grant is not the gateway's")

    def _forget(self, now_ms: float) -> None:
        while self._expiring and self._expiring[0][0] <= now_ms:
            number = self._expiring.popleft()[1]
            self._used.discard(number)
            # Numbers are given out in order: what came before an expired one has expired, too.
            issuer, count = _NUMBER.unpack(number)
            self._floors[issuer] = max(self._floors.get(issuer, 0), count + 1)
            self._floors.move_to_end(issuer)
            if len(self._floors) > MAX_ISSUERS:
                self._floors.popitem(last=False)


class Grant:
    """A genuine grant: what it allows is for whoever acts on it to compare."""

    def __init__(self, packed: _Packed) -> None:
        self._packed = packed
        self.user_id = packed[1].rstrip(b"\0").decode()
        """The user in whose name the gateway asks."""
        self.key_id = None if packed[2] == _ABSENT else packed[2][1:]
        self.session_id = None if packed[3] == _ABSENT else packed[3][1:]

    def check(self, scope: Scope) -> None:
        """Check that the grant is for a scope.

        Raises:
            GrantRefused: it is for something else.
        """
        asked = scope.pack()
        if self._packed != asked:
            differ = (
                granted != wanted for granted, wanted in zip(self._packed, asked, strict=True)
            )
            what = next(compress(("verb", "user", "key", "session", "message"), differ))
            raise GrantRefused(f"the grant is for another {what}")


def _mac(key: bytes, grant: bytes) -> bytes:
    return tagged_mac(Tag.GRANT, key, grant)
