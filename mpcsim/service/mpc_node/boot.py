"""Boot of an MPC node: random bytes of its last start, its hello, and replay protection.

Grants and proofs name the boot, so that none outlives a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from mpcsim.ids import BOOT_BYTES, START_BYTES
from mpcsim.service.errors import CONFLICT, Refused, stale_boot
from mpcsim.service.mpc_node.context import NodeContext
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.grants import Grant, GrantReader, Keyring
from mpcsim.service.rpc.statements import SealKeyStatement
from mpcsim.service.vault import SealKey, VaultUse

MAX_BEGUN_SESSIONS: Final = 1 << 18
"""Signing sessions whose ids are remembered, some 100 bytes each, of all users together. Whenever
half of them have been begun, the boot changes but for its first ``START_BYTES``. Requests under the
last boot stay valid until the next change; older ones are refused, and made anew. Presignatures
stay valid until the process ends, since each is used once anyway."""


class Boot:
    """Boot of one MPC node. It is changed under the node's lock."""

    def __init__(
        self, context: NodeContext, seal_key: SealKey, link: Keyring, now: Callable[[], float]
    ) -> None:
        """
        Args:
            link: MAC keys of the gateway's grants for this node.
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
        """Draw a new boot: grants and proofs for earlier ones are void."""
        context, seal_key = self._context, self.seal_key.public
        number = context.store.keys.seal_number()
        signature = context.identity.sign(SealKeyStatement(context.me, seal_key, number))
        boot, me = context.rng.bytes(BOOT_BYTES), context.identity.public
        self._hello = wire.Hello(context.me, me, seal_key, signature, boot, number)
        self._grants = GrantReader(context.me, self._link, boot, self._now)
        self._begun_sessions: dict[bytes, set[bytes]] = {boot: set()}
        """Ids of signing sessions under the present and the last boot. Without them a gateway could
        begin a session twice with one request, whose messages would then look like a cheat of the
        client."""

    def check_grant(self, data: bytes) -> None:
        """Check that a grant is the gateway's, for whatever request.

        Raises:
            GrantRefused: it is not.
        """
        self._grants.check(data)

    def read_grant(self, data: bytes) -> Grant:
        """Use a grant up, and return its contents.

        Raises:
            GrantRefused: it is not authentic, used already, or not for this boot.
        """
        return self._grants.read(data)

    def check_boot(self, use: VaultUse) -> None:
        """Check that a proof names the present boot, or the last one under this start.

        Raises:
            Refused: it names an earlier one.
        """
        if use.using:  # a presignature is used once, whenever that is
            present = use.boot[:START_BYTES] == self._hello.boot[:START_BYTES]
        else:
            present = use.boot in self._begun_sessions
        if not present:
            raise stale_boot(self._context.me)

    def check_new_session(self, session_id: bytes) -> None:
        """Check that no signing session of this id has been begun.

        Raises:
            Refused: one has.
        """
        if any(session_id in begun for begun in self._begun_sessions.values()):
            raise Refused(CONFLICT, "a session of this id has been begun before")

    def remember_session(self, session_id: bytes) -> None:
        """Remember the id of a signing session that has begun; change the boot once there are
        enough of them (``MAX_BEGUN_SESSIONS``)."""
        before = self._hello.boot
        self._begun_sessions[before].add(session_id)
        if len(self._begun_sessions[before]) >= MAX_BEGUN_SESSIONS // 2:
            boot = before[:START_BYTES] + self._context.rng.bytes(BOOT_BYTES - START_BYTES)
            self._hello = replace(self._hello, boot=boot)
            self._grants = GrantReader(self._context.me, self._link, boot, self._now)
            self._begun_sessions = {before: self._begun_sessions[before], boot: set()}
