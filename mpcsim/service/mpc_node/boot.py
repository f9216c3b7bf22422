"""An MPC node between two of its starts: its hello, and which requests are for this start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from mpcsim.ids import BOOT_BYTES, START_BYTES
from mpcsim.service.errors import CONFLICT, Refused, another_boot
from mpcsim.service.mpc_node.context import NodeContext
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.grants import Grant, GrantReader, Keyring
from mpcsim.service.rpc.statements import SealKeyStatement
from mpcsim.service.vault import SealKey, VaultUse

MAX_BEGUN_SESSIONS: Final = 1 << 18
"""Signing sessions that are remembered, some 100 bytes each, those of all users together. Whenever
half of them have been begun, the node's boot becomes another one, but for its first
``START_BYTES``: what was asked for under the one before stays good until the next, and only what is
older is refused, and asked for anew. Presignatures are good until the process ends: each is used
once for itself."""


class Boot:
    """The boot of one MPC node. What changes it is done under the node's lock."""

    def __init__(
        self, context: NodeContext, seal_key: SealKey, link: Keyring, now: Callable[[], float]
    ) -> None:
        """Start.

        Args:
            link: what the gateway's grants for this node are authenticated with.
            now: seconds since 1970 UTC, for the expiry of grants.
        """
        self._context = context
        self._link = link
        self._now = now
        self.seal_key = seal_key
        self.start()

    @property
    def hello(self) -> wire.Hello:
        """Identity, seal key and boot of this node since its last start."""
        return self._hello

    def start(self) -> None:
        """Begin anew: nothing that was asked for before is good any more."""
        context, seal_key = self._context, self.seal_key.public
        number = context.store.keys.seal_number()
        signature = context.identity.sign(SealKeyStatement(context.me, seal_key, number))
        boot, me = context.rng.bytes(BOOT_BYTES), context.identity.public
        self._hello = wire.Hello(context.me, me, seal_key, signature, boot, number)
        self._grants = GrantReader(context.me, self._link, boot, self._now)
        self._begun_sessions: dict[bytes, set[bytes]] = {boot: set()}
        """Signing sessions under the present boot and the one before, by boot: who carries a
        request could have one begun twice, and what the client says in the first would not fit the
        second, as if the client had cheated."""

    def check_grant(self, data: bytes) -> None:
        """See that a grant is the gateway's, whatever for.

        Raises:
            GrantRefused: it is not.
        """
        self._grants.check(data)

    def read_grant(self, data: bytes) -> Grant:
        """Use a grant up.

        Raises:
            GrantRefused: it is none, or not for this boot.
        """
        return self._grants.read(data)

    def check_boot(self, use: VaultUse) -> None:
        """Check that a request is for this start of the node.

        Raises:
            Refused: it is for an earlier one.
        """
        if use.using:  # a presignature is used once, whenever that is
            present = use.boot[:START_BYTES] == self._hello.boot[:START_BYTES]
        else:
            present = use.boot in self._begun_sessions
        if not present:
            raise another_boot(self._context.me)

    def check_new_session(self, session_id: bytes) -> None:
        """Check that no signing session of this id has been begun.

        Raises:
            Refused: one has.
        """
        if any(session_id in begun for begun in self._begun_sessions.values()):
            raise Refused(CONFLICT, "a session of this id has been begun before")

    def remember_session(self, session_id: bytes) -> None:
        """Remember a signing session that has been begun; give up what was asked for before two
        boots, once enough has been signed under this one."""
        before = self._hello.boot
        self._begun_sessions[before].add(session_id)
        if len(self._begun_sessions[before]) >= MAX_BEGUN_SESSIONS // 2:
            boot = before[:START_BYTES] + self._context.rng.bytes(BOOT_BYTES - START_BYTES)
            self._hello = replace(self._hello, boot=boot)
            self._grants = GrantReader(self._context.me, self._link, boot, self._now)
            self._begun_sessions = {before: self._begun_sessions[before], boot: set()}
