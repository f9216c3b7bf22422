"""Verbs of signing at an MPC node: ``sign`` (a session) and ``presigned`` (at once)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from mpcsim.crypto.bip32 import Path
from mpcsim.crypto.encoding import NO_CONTEXT
from mpcsim.errors import UsageError
from mpcsim.ids import CLIENT, ROLES
from mpcsim.protocols import presign, presigned
from mpcsim.protocols.engine import Party, Send
from mpcsim.protocols.key_share import KeyShare
from mpcsim.protocols.signing import signer
from mpcsim.service.errors import (
    BAD_REQUEST,
    GONE,
    SIGNING,
    Refused,
    key_suspended,
    no_such_child,
    not_authentic,
)
from mpcsim.service.mpc_node.boot import Boot
from mpcsim.service.mpc_node.context import NodeContext
from mpcsim.service.mpc_node.presignatures import PresignatureShares
from mpcsim.service.mpc_node.sessions.runner import SessionRunner
from mpcsim.service.mpc_node.sessions.table import Purpose, SessionTable
from mpcsim.service.mpc_node.shares import KeyShares
from mpcsim.service.mpc_node.verbs.vault import VaultHalves
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.grants import Grant, Scope
from mpcsim.service.vault import SigningRequest, VaultUse, answer_tag, sha256_each


@dataclass(eq=False, repr=False)
class Signing:
    """Begins one MPC node's signing sessions, and signs with presignatures.

    One session a key at a time: a second one is refused, and the first goes on. This also keeps a
    cheating client from guessing at the same multiplication state in many sessions at once. Signing
    stays in one thread, the caller's event loop, since shares in a process have common state
    (``protocols.key_share.Guard``).
    """

    context: NodeContext
    boot: Boot
    shares: KeyShares
    vault: VaultHalves
    _: KW_ONLY
    presignature_shares: PresignatureShares
    sessions: SessionTable
    runner: SessionRunner
    lifetime_s: float
    """Lifetime of a session, in seconds."""

    def sign(self, grant: Grant, data: bytes) -> wire.Body:
        """Begin a signing session, and open this node's half if the request has one.

        An attacker with the token and the ``secret_store``, but without the client's share, gets
        this far, too: an answer to a message of its choice, on ed25519 with a share of a signature.
        That is of no use without the client's share of this epoch, and costs this node the first
        step of a session, during which the key is busy.
        """
        body, me = wire.Sign.from_bytes(data), self.context.me
        grant.check(
            Scope("sign", grant.user_id, body.key_id, body.session_id, body.message, body.path)
        )
        if body.signer != me:
            raise Refused(BAD_REQUEST, f"the {ROLES[me]} is not the signer asked for")
        use = VaultUse.for_signing(
            body.key_id,
            grant.user_id,
            body.proof.boot,
            SigningRequest(me, body.session_id, body.message, body.path, body.count),
            body.first,
            body.vault.reply_key if body.vault else b"",
        )
        half: bytes | None = None
        with self.context.lock:
            stored = self.shares.usable_share(grant.user_id, body.key_id.hex())
            self.vault.check_authentic(stored, use, body.proof.mac)
            if not set(sha256_each(body.messages)) <= set(body.first):
                raise not_authentic(me)
            self.boot.check_new_session(body.session_id)
            share = self.shares.decoded(stored)
            if body.vault:
                mine = body.vault.halves.get(me, b"")
                whole = bool(body.vault.whole)
                half = self.vault.rewrap(stored, mine, body.vault.reply_key, whole=whole)
            party = self.signer(share, body)
            purpose = Purpose(grant.user_id, stored.key_id, exclusive_work=SIGNING)
            session = self.sessions.begin(party, purpose, self.lifetime_s)
            self.boot.remember_session(body.session_id)
        answer = self.runner.run(session, body.messages)
        secret = share.peers[CLIENT].pair_secret
        answers = answer_tag(secret, me, body.session_id, body.proof.mac)
        return replace(answer, answers=answers, half=half)

    def signer(self, share: KeyShare, body: wire.Sign) -> Party[Any, Any]:
        """Create the party of a signing session, or of one that makes presignatures.

        Raises:
            Refused: the key was attacked, or it cannot sign that message.
        """
        if share.mta is not None and not share.can_multiply(CLIENT):
            raise key_suspended("this key was attacked; recover it")
        signers, session_id = (CLIENT, self.context.me), body.session_id
        rng, listener = self.context.rng, self.context.listener
        try:
            if body.count:
                if body.vault is None or body.vault.whole or body.count > wire.MAX_BATCH:
                    raise UsageError(f"1 to {wire.MAX_BATCH} presignatures, and with a vault")
                agreed = presign.setup(share, signers, body.count)
                return presign.party(agreed, session_id=session_id, rng=rng, listener=listener)
        except UsageError as error:
            raise Refused(BAD_REQUEST, str(error)) from None
        _check_child(share, body.path)
        try:
            return signer(
                share,
                signers,
                body.message,
                path=body.path,
                session_id=session_id,
                rng=rng,
                listener=listener,
            )
        except UsageError as error:
            raise Refused(BAD_REQUEST, str(error)) from None

    def presigned(self, grant: Grant, data: bytes) -> wire.Body:
        """Sign with a presignature, and open this node's half (``presignatures``, 7).

        The client can finish only if the other MPC node opens its half, too, which it does once for
        a presignature (P2), whatever this node does.
        """
        context, me = self.context, self.context.me
        body = wire.Presigned.from_bytes(data)
        using, vault, session_id = body.using, body.vault, body.using.rho
        message = using.message_hash
        grant.check(Scope("presigned", grant.user_id, body.key_id, session_id, message, using.path))
        if using.signer != me:
            raise Refused(BAD_REQUEST, f"the {ROLES[me]} is not the signer asked for")
        encoded = using.encode(NO_CONTEXT)
        use = VaultUse.for_presigned(
            body.key_id, grant.user_id, body.proof.boot, vault.reply_key, encoded
        )
        with context.lock:
            stored = self.shares.usable_share(grant.user_id, body.key_id.hex())
            self.vault.check_authentic(stored, use, body.proof.mac)
            share = self.shares.decoded(stored)
            _check_child(share, using.path)
            presignature = self.presignature_shares.take(stored.key_id, using.presignature)
            mine = vault.halves.get(me, b"")
            half = self.vault.rewrap(stored, mine, vault.reply_key, whole=False)
            try:
                agreed = presigned.setup(
                    share, presignature, CLIENT, message, session_id, path=using.path
                )
                party = presigned.party(
                    agreed, session_id=session_id, rng=context.rng, listener=context.listener
                )
                outputs = party.start()
            except UsageError as error:
                raise Refused(GONE, str(error)) from None
        sends = tuple(output.data for output in outputs if isinstance(output, Send))
        answers = answer_tag(share.peers[CLIENT].pair_secret, me, session_id, body.proof.mac)
        return wire.Answer(0, None, sends, answers, half)


def _check_child(share: KeyShare, path: Path) -> None:
    """Check that a path leads to a child key.

    Raises:
        Refused: it does not.
    """
    try:
        share.record.derive(path)
    except UsageError as error:
        raise no_such_child(error) from None
