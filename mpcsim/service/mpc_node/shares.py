"""Key shares of an MPC node: checks before use, and a cache of their decoded form."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from mpcsim.crypto.mta.schemes import built_in_scheme
from mpcsim.errors import InvalidEncoding
from mpcsim.ids import ROLES
from mpcsim.protocols.key_share import KeyShare, PublicKeyRecord
from mpcsim.service.errors import key_not_merged, key_suspended, no_such_key, store_failed
from mpcsim.service.mpc_node.context import LOG, NodeContext
from mpcsim.service.mpc_node.store import StoredShare
from mpcsim.service.rpc.activation_messages import ACTIVE

DECODED_SHARES: Final = 1024
"""Shares kept in stored and decoded form, some 30 kB each."""


class KeyShares:
    """Shares in one MPC node's store. Any thread may call."""

    def __init__(self, context: NodeContext) -> None:
        self._context = context
        self._decoded: OrderedDict[tuple[str, str], tuple[bytes, KeyShare]] = OrderedDict()
        """Stored and decoded form of shares in force, by user and curve."""

    def active_share(self, user_id: str, key_id: str) -> StoredShare:
        """Return the active share of one of a user's keys.

        Raises:
            Refused: there is none.
        """
        stored = self._context.store.find(key_id)
        if stored is None or stored.user_id != user_id or stored.state != ACTIVE:
            raise no_such_key()
        return stored

    def usable_share(self, user_id: str, key_id: str) -> StoredShare:
        """Return an active share that may be used.

        Raises:
            Refused: there is none, or it is suspended, here or there, or not merged.
        """
        stored = self.active_share(user_id, key_id)
        self.check_merged(stored)
        me, other = ROLES[self._context.me], ROLES[self._context.peer.party]
        if stored.suspended is not None:
            raise key_suspended(
                f"this key is suspended at the {me}: {stored.suspended}; recover it"
            )
        if stored.suspended_there:
            # The client that was caught there could go on guessing here.
            raise key_suspended(f"this key is suspended at the {other}; recover it")
        return stored

    def check_merged(self, *shares: StoredShare) -> None:
        """Check that shares have been merged, if their store was restored from a backup.

        Raises:
            Unmerged: they have not.
        """
        if any(share.unmerged for share in shares):
            raise key_not_merged(self._context.me, self._context.peer.party)

    def decoded(self, stored: StoredShare) -> KeyShare:
        """Return the share in decoded form; decoding checks it against its record.

        Raises:
            NodeFailed: it is damaged.
        """
        with self._context.lock:
            at = stored.user_id, stored.curve
            known = self._decoded.get(at)
            # Another thread may have read the row before it was changed.
            if known is None or known[0] != stored.share:
                known = stored.share, self.decode(stored)
                self._decoded[at] = known
                if len(self._decoded) > DECODED_SHARES:
                    self._decoded.popitem(last=False)
            self._decoded.move_to_end(at)
            return known[1]

    def state_of(self, key_id: str) -> str | None:
        """Return the state of a share; None if it is not here."""
        stored = self._context.store.find(key_id)
        return None if stored is None else stored.state

    def forget_decoded(self, user_id: str, curve: str) -> None:
        """Forget the decoded form of a user's share on a curve."""
        self._decoded.pop((user_id, curve), None)

    def clear(self) -> None:
        """Forget all decoded forms, as a restart does."""
        self._decoded.clear()

    def public_record(self, stored: StoredShare) -> PublicKeyRecord:
        """Return everything public about a share's key.

        Raises:
            NodeFailed: it is damaged.
        """
        return self.decode(stored).record

    def decode(self, stored: StoredShare) -> KeyShare:
        """Decode a share, and check that it is this node's and of that key.

        Raises:
            NodeFailed: it is damaged.
        """
        me = self._context.me
        try:
            share = KeyShare.from_bytes(stored.share, schemes=built_in_scheme)
        except InvalidEncoding:  # what it says may quote the share
            share = None
        if share and (share.identifier, share.record.epoch.hex()) == (me, stored.key_id):
            return share
        text = f"the {ROLES[me]}'s stored share of this key is damaged"
        where = f"user {stored.user_id}, {stored.curve} key {stored.key_id}"
        LOG.error("%s: %s; put a whole %s.sqlite back", text, where, ROLES[me])
        raise store_failed(text, me)
