"""Grants: what the gateway shows an MPC node in the name of a user, for one thing and one minute.

A grant is good at one MPC node, since that node's last start, for one verb about one user, session,
key and message, once. It is authenticated with a key that the gateway shares with this MPC node
alone (HMAC-SHA256, RFC 2104), so that whatever an MPC node has been shown is of use nowhere else.
What a user's own tokens are good for ends at the gateway.
"""

from __future__ import annotations

import hmac
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Final

from mpcsim.encoding import BYTES32, U16, U64, Fixed, Optional, Text, wire
from mpcsim.errors import InvalidEncoding
from mpcsim.hashing import Tag, tagged_hash
from mpcsim.ids import ROLES, PartyId
from mpcsim.rng import Rng
from mpcsim.rpc.errors import UNAUTHORIZED, Refused
from mpcsim.rpc.wire import BOOT_BYTES, Body

LINK_KEY_BYTES: Final = 32
LIFETIME_S: Final = 60
_NUMBER_BYTES: Final = 16
_MAC_BYTES: Final = 32


class GrantRefused(Refused):
    """An MPC node does not accept what the gateway shows it. Nothing was done."""

    def __init__(self, text: str) -> None:
        super().__init__(UNAUTHORIZED, text)


class AnotherBoot(GrantRefused):
    """The grant is from before the MPC node's last start; one for its present boot may do."""


@dataclass(frozen=True)
class Scope:
    """What a grant is for. None: nothing of that kind is concerned."""

    verb: str
    user_id: str = ""
    key_id: bytes | None = None
    session_id: bytes | None = None
    message: bytes | None = None
    """The message to be signed."""


@wire
class _Grant(Body):
    party: Annotated[int, U16]
    boot: Annotated[bytes, Fixed(BOOT_BYTES)]
    verb: Annotated[str, Text(16)]
    user_id: Annotated[str, Text(64)]
    key_id: Annotated[bytes | None, Optional(BYTES32)]
    session_id: Annotated[bytes | None, Optional(BYTES32)]
    message: Annotated[bytes | None, Optional(BYTES32)]
    """Its hash."""
    expires_ms: Annotated[int, U64]
    """Since 1970 UTC."""
    number: Annotated[bytes, Fixed(_NUMBER_BYTES)]
    """Random: no two grants are the same."""


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
        self._rng = rng
        self._now = now

    def issue(self, scope: Scope, boot: bytes) -> bytes:
        """A grant.

        Args:
            boot: the MPC node's present one.
        """
        grant = _Grant(
            self._party,
            boot,
            scope.verb,
            scope.user_id,
            scope.key_id,
            scope.session_id,
            _hash(scope.message),
            int((self._now() + LIFETIME_S) * 1000),
            self._rng.bytes(_NUMBER_BYTES),
        ).to_bytes()
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
        try:
            grant = _Grant.from_bytes(content)
        except InvalidEncoding as error:
            raise GrantRefused(f"the grant is malformed: {error}") from None
        if grant.party != self._party:
            raise GrantRefused("the grant is for another MPC node")
        if grant.boot != self.boot:
            raise AnotherBoot("the grant is from before this MPC node's last start")
        now_ms = self._now() * 1000
        if not now_ms < grant.expires_ms <= now_ms + 2 * LIFETIME_S * 1000:
            raise GrantRefused("the grant has expired, or the clocks differ by over a minute")
        with self._lock:
            self._forget(now_ms)
            if grant.number in self._used:
                raise GrantRefused("the grant has been used before")
            self._used.add(grant.number)
            self._expiring.append((grant.expires_ms, grant.number))
        return Grant(grant)

    def _forget(self, now_ms: float) -> None:
        while self._expiring and self._expiring[0][0] <= now_ms:
            self._used.discard(self._expiring.popleft()[1])


class Grant:
    """A genuine grant: what it allows is for whoever acts on it to compare."""

    def __init__(self, grant: _Grant) -> None:
        self._grant = grant
        self.user_id = grant.user_id
        """The user in whose name the gateway asks."""

    def check(self, scope: Scope) -> None:
        """See that the grant is for this.

        Raises:
            GrantRefused: it is for something else.
        """
        grant = self._grant
        for what, granted, asked in (
            ("verb", grant.verb, scope.verb),
            ("user", grant.user_id, scope.user_id),
            ("key", grant.key_id, scope.key_id),
            ("session", grant.session_id, scope.session_id),
            ("message", grant.message, _hash(scope.message)),
        ):
            if granted != asked:
                raise GrantRefused(f"the grant is for another {what}")


def _hash(message: bytes | None) -> bytes | None:
    return None if message is None else tagged_hash(Tag.GRANTED_MESSAGE, message)


def _mac(key: bytes, grant: bytes) -> bytes:
    return hmac.digest(key, Tag.GRANT.prefix + grant, sha256)
