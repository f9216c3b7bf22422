"""Verbs that begin key creation at an MPC node: ``generate`` and ``recover``."""

from __future__ import annotations

from dataclasses import dataclass

from mpcsim.crypto.mta.schemes import standard_scheme
from mpcsim.errors import UsageError
from mpcsim.ids import CLIENT, HOLDERS, MPC_NODES, THRESHOLD, PartyId
from mpcsim.protocols import dkg, reshare
from mpcsim.service.errors import BAD_REQUEST, RECOVERY, Refused, key_exists, no_such_key
from mpcsim.service.mpc_node.context import NodeContext
from mpcsim.service.mpc_node.events import recording_refusals
from mpcsim.service.mpc_node.sessions.expiry import SessionExpiry
from mpcsim.service.mpc_node.sessions.runner import SessionRunner
from mpcsim.service.mpc_node.sessions.table import Purpose, SessionTable
from mpcsim.service.mpc_node.shares import KeyShares
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.grants import Grant, Scope


@dataclass(eq=False, repr=False)
class KeyCreation:
    """Begins one MPC node's generations and recoveries. Any thread may call.

    They begin under the node's lock: between the look at the key and the entry in the table, it is
    not retired.
    """

    context: NodeContext
    shares: KeyShares
    sessions: SessionTable
    expiry: SessionExpiry
    runner: SessionRunner
    lifetime_s: float
    """Lifetime of a session."""

    def generate(self, grant: Grant, data: bytes) -> wire.Body:
        """Begin to generate a key, where the user has none on the curve."""
        body = wire.Generate.from_bytes(data)
        grant.check(Scope("generate", grant.user_id, session_id=body.session_id))
        context, user_id, curve = self.context, grant.user_id, body.curve_name
        scheme = _scheme(curve, body.k)
        try:
            agreed = dkg.setup(curve, THRESHOLD, HOLDERS, scheme)
        except UsageError:
            raise Refused(BAD_REQUEST, "Invalid curve") from None
        with recording_refusals(context.store.log_event, user_id, curve, body.session_id):
            peers = self._peers(body.session_id)
            self.expiry.sweep()
            with context.lock:
                self.shares.check_merged(*context.store.of_key(user_id, curve))
                if context.store.active_share(user_id, curve):
                    raise key_exists(curve)
                party = dkg.party(
                    agreed,
                    context.me,
                    session_id=body.session_id,
                    rng=context.rng,
                    listener=context.listener,
                )
                purpose = Purpose(user_id, None, peers, curve)
                session = self.sessions.begin(party, purpose, self.lifetime_s)
        self.runner.log_begin(session)
        return self.runner.run(session, body.messages)

    def recover(self, grant: Grant, data: bytes) -> wire.Body:
        """Begin to recover a key: one recovery a key at a time."""
        body = wire.Recover.from_bytes(data)
        context, user_id, curve = self.context, grant.user_id, body.curve_name
        scheme = _scheme(curve, body.k)
        with recording_refusals(context.store.log_event, user_id, curve, body.session_id):
            peers = self._peers(body.session_id)
            self.expiry.sweep()
            with context.lock:
                stored = context.store.active_share(user_id, curve)
                if stored is None:
                    raise no_such_key()
                key_id = bytes.fromhex(stored.key_id)
                grant.check(Scope("recover", user_id, key_id, body.session_id))
                self.shares.check_merged(stored)
                share = self.shares.decoded(stored)
                agreed = reshare.setup(
                    share.record, MPC_NODES, share=share, receivers=HOLDERS, scheme=scheme
                )
                party = reshare.party(
                    agreed,
                    context.me,
                    session_id=body.session_id,
                    rng=context.rng,
                    listener=context.listener,
                )
                purpose = Purpose(user_id, stored.key_id, peers, curve, exclusive_work=RECOVERY)
                session = self.sessions.begin(party, purpose, self.lifetime_s)
        self.runner.log_begin(session)
        return self.runner.run(session, (), record=share.record.to_bytes())

    def _peers(self, session_id: bytes) -> dict[PartyId, bytes]:
        """Return the keys with which unsealed messages of the peers must be signed.

        Raises:
            NodeFailed: the other MPC node has not been met.
        """
        peer = self.context.peer
        return {peer.party: peer.identity(), CLIENT: session_id}


def _scheme(curve: str, k: int) -> str | None:
    """Return the multiplication scheme of a new key.

    Raises:
        Refused: there is none with that k.
    """
    try:
        return standard_scheme(curve, k)
    except UsageError as error:
        raise Refused(BAD_REQUEST, str(error)) from None
