"""What an MPC node says of a user's key to the other one, or to whoever asks, and has signed."""

from __future__ import annotations

from mpcsim.ids import PartyId
from mpcsim.mpc_node.identity import Identity
from mpcsim.mpc_node.store import ShareStore, StoredShare
from mpcsim.mpc_node.voting import Voting
from mpcsim.rpc.holdings import ACTIVE, PREPARED, VOTED
from mpcsim.rpc.statements import MAX_EPOCHS, SignedTestimony, Testify, Testimony


class Testimonies:
    """One MPC node's. Any thread may call."""

    def __init__(self, me: PartyId, store: ShareStore, identity: Identity, voting: Voting) -> None:
        self._me = me
        self._store = store
        self._identity = identity
        self._voting = voting

    def made(self, ask: Testify) -> SignedTestimony:
        """This node's, as of one moment.

        Raises:
            NodeFailed: what is stored of the key is damaged.
        """
        at = ask.user_id, ask.curve_name
        aborted = self._store.aborted(*at, MAX_EPOCHS)  # an abort is never taken back
        held = [share for share in self._store.of_key(*at) if share.state != PREPARED]
        suspended = [s.key_id for s in held if s.suspended is not None or s.suspended_there]
        statement = Testimony(
            self._me,
            ask.nonce,
            *at,
            self._voting.held(_in_state(ACTIVE, held)),
            self._voting.held(_in_state(VOTED, held)),
            tuple(map(bytes.fromhex, suspended)),
            tuple(map(bytes.fromhex, aborted)),
            int(any(share.unmerged for share in held)),
        )
        return SignedTestimony(statement, self._identity.sign(statement))


def _in_state(state: str, shares: list[StoredShare]) -> StoredShare | None:
    return next((share for share in shares if share.state == state), None)
