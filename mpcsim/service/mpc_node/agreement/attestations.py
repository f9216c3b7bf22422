"""An MPC node's side of attestation: its signed list of suspended keys, and the other node's last.

The protocol is on the page of ``gateway.activation.suspensions`` (steps 3' and 5'). Where this node
opens a vault alone, nobody asks the other one; so it demands the other's statement, an hour old at
most, whoever carries it. It also refuses if it voted for newer shares of the key an hour ago or
earlier: they may be in force at the other node, and a carrier may have kept that from this one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from mpcsim.ids import ROLES, PartyId
from mpcsim.service.error_codes import Code
from mpcsim.service.errors import (
    BAD_REQUEST,
    UNAVAILABLE,
    NodeFailed,
    Refused,
    key_suspended,
    not_attested,
    vote_unresolved,
)
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.mpc_node.peer import Peer
from mpcsim.service.mpc_node.store import ShareStore
from mpcsim.service.rpc.statements import (
    ATTESTED_S,
    MAX_ATTESTED,
    SKEW_S,
    SignedAttestation,
    SuspensionAttestation,
)


class Attestations:
    """Makes and accepts statements for one MPC node. Any thread may call.

    That a key is suspended at the other node is stored for good; its newest statement, and the time
    of that, are kept in memory.
    """

    def __init__(
        self,
        me: PartyId,
        store: ShareStore,
        identity: Identity,
        peer: Peer,
        now: Callable[[], float],
    ) -> None:
        """
        Args:
            now: seconds since 1970 UTC.
        """
        self._me = me
        self._store = store
        self._identity = identity
        self._peer = peer
        self._now = now
        self._peer_statement: SuspensionAttestation | None = None
        self._suspended_at_peer: set[str] = set()
        """Epochs that have been marked in the store as suspended at the other node."""
        self._lock = threading.Lock()

    def make_statement(self) -> SignedAttestation:
        """Return this node's statement, as of now (3').

        Raises:
            NodeFailed: more keys are suspended than one can name.
        """
        at_ms = int(self._now() * 1000)  # taken before the list, so that it is never too late
        suspended = self._store.suspended_key_ids(MAX_ATTESTED + 1)
        if len(suspended) > MAX_ATTESTED:
            text = f"the {ROLES[self._me]} has more suspended keys than it can list"
            raise NodeFailed(UNAVAILABLE, text, self._me, code=Code.BUSY)
        statement = SuspensionAttestation(self._me, at_ms, tuple(map(bytes.fromhex, suspended)))
        return SignedAttestation(statement, self._identity.sign(statement))

    def accept_statement(self, said: SignedAttestation) -> None:
        """Keep the other node's statement, if it is newer than the last one (5').

        Raises:
            Refused: it is not the other node's, or from the future.
        """
        statement, other = said.statement, ROLES[self._peer.party]
        self._peer.check_statement(statement, said.signature)
        if self._is_from_future(statement):
            raise Refused(BAD_REQUEST, f"the {other}'s statement is from the future")
        suspended = {epoch.hex() for epoch in statement.suspended}
        if new := suspended - self._suspended_at_peer:
            self._store.mark_suspended_at_peer(new)
            self._suspended_at_peer = suspended
        with self._lock:
            if (
                self._peer_statement is None
                or statement.at_ms > self._peer_statement.at_ms
                or self._is_from_future(self._peer_statement)
            ):
                self._peer_statement = statement

    def check(self, key_id: bytes) -> None:
        """Check that a key may be used, as far as the other MPC node is concerned.

        Raises:
            Refused: it is suspended there, or shares for which this node voted an hour ago may have
                replaced it there; ``NodeFailed``: there is no statement, or no recent one.
        """
        stored = self._store.find(key_id.hex())
        if stored is not None and stored.suspended_there:
            it = ROLES[self._peer.party]
            raise key_suspended(f"this key is suspended at the {it}; recover it")
        now = self._now()
        if stored is not None:
            since = self._store.voted_since(stored.user_id, stored.curve)
            if since is not None and now - since >= ATTESTED_S:
                raise vote_unresolved(self._me)
        peer_statement = self._peer_statement
        earliest_ms = (now - ATTESTED_S) * 1000
        if (
            peer_statement is None
            or peer_statement.at_ms < earliest_ms
            or self._is_from_future(peer_statement)
        ):
            raise not_attested(self._me, self._peer.party)

    def _is_from_future(self, statement: SuspensionAttestation) -> bool:
        """Return whether a statement is from the future: a clock was ahead."""
        return statement.at_ms > (self._now() + SKEW_S) * 1000

    def forget(self) -> None:
        """Forget the other node's statement, as a restart does."""
        self._peer_statement = None
