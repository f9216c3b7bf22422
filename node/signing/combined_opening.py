"""Sessions whose first message travels with the request that opens the vault.

A signer's first message takes no key share (``mpcsim.protocols.engine.prestart``), so that no round
trip goes by for the vault alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from mpcsim.crypto.bip32 import Path
from mpcsim.crypto.rng import Rng
from mpcsim.errors import UsageError
from mpcsim.ids import CLIENT, MPC_NODES, PartyId
from mpcsim.protocols import presign, signing
from mpcsim.protocols.engine import Party
from mpcsim.protocols.engine.prestart import PrestartedParty
from mpcsim.protocols.key_share import KeyShare
from mpcsim.service.rpc.session_keys import SessionKey
from mpcsim.service.rpc.wire import Sign, SignReply, UseProof, Vault
from mpcsim.service.vault import ReplyKey, SigningRequest, VaultUse, sha256_each
from node.checks import OpenedShare, SealedShare, cannot_begin, check_answer, check_identities
from node.errors import ApiError
from node.gateway_client.client import GatewayClient
from node.process.timing import Timing
from node.process.workers import Workers
from node.signing.client_party import ClientParty, give_up, may_leave_open
from node.signing.sessions import Caller, Nodes, Sessions, boots, identities, seal_keys
from node.signing.suspensions import Report, Suspensions
from node.signing.vaults import Vaults, compute_while_sending


@dataclass(frozen=True)
class SessionRequest:
    """Request to an MPC node for a session, beside opening its part of the vault."""

    sealed: SealedShare
    """Sealed share whose secret store ``matches_store``."""
    signer: PartyId
    message: bytes = field(default=b"", repr=False)
    """To be signed."""
    path: Path = ()
    """Path of the child key to sign with."""
    count: int = 0
    """Presignatures to be made, where there is no message."""

    @property
    def protocol(self) -> int:
        """Number of the protocol that does it."""
        made = presign.PRESIGN if self.count else signing.protocol_of_curve(self.sealed.curve)
        return made.number


class SessionOpening:
    """The first request of one attempt: with a session, nonces and a reply key of its own.

    An attempt whose request was refused, or got lost on the way, may have been answered all the
    same: the next one has others.
    """

    def __init__(
        self,
        asked: SessionRequest,
        *,
        user_id: str,
        boots: Mapping[PartyId, bytes],
        key: SessionKey,
        rng: Rng,
    ) -> None:
        """
        Args:
            boots: the MPC nodes' present ones.

        Raises:
            ApiError: there is no signing that.
        """
        sealed, signer, message = asked.sealed, asked.signer, asked.message
        self.key, session_id = key, key.session_id
        epoch, keys = bytes.fromhex(sealed.key_id), sealed.secret_store.auth_keys
        signers = (CLIENT, signer)
        self.boots = boots
        self.reply_key = ReplyKey(rng)
        who: Any = {"me": CLIENT, "auth_keys": keys, "session_id": session_id, "rng": rng}
        try:
            self._early: PrestartedParty[Any, Any]
            if asked.count:
                self._early = presign.prestart(epoch, signers, asked.count, **who)
            else:
                who["path"] = asked.path
                self._early = signing.prestart(sealed.curve, epoch, signers, message, **who)
        except UsageError as error:
            raise cannot_begin(error) from None
        messages = self._early.messages
        use = VaultUse.for_signing(
            epoch,
            user_id,
            boots[signer],
            SigningRequest(signer, session_id, message, asked.path, asked.count),
            sha256_each(messages),
            self.reply_key.public,
        )
        self.request = Sign(
            session_id,
            epoch,
            signer,
            message,
            messages,
            use.first,
            UseProof(use.boot, use.mac(keys[signer])),
            vault_request(sealed, signer, user_id, boots, self.reply_key, count=asked.count),
            asked.path,
            asked.count,
        )

    def party(self, share: KeyShare, reply: SignReply) -> Party[Any, Any]:
        """The client's party, which has said its first message, once the vault is open.

        Raises:
            ApiError: the reply is to another request, or the share cannot be used.
        """
        asked = self.request
        check_answer(share, PartyId(asked.signer), asked.session_id, asked.proof.mac, reply)
        try:
            return self._early.party(share)
        except UsageError as error:
            raise cannot_begin(error) from None


def opening_nodes(sealed: SealedShare, signer: PartyId) -> Sequence[PartyId]:
    """The MPC nodes that open a share's vault for a signature."""
    return (signer,) if sealed.secret_store.whole else MPC_NODES


def vault_request(
    sealed: SealedShare,
    signer: PartyId,
    user_id: str,
    boots: Mapping[PartyId, bytes],
    reply_key: ReplyKey,
    *,
    count: int = 0,
    using: bytes = b"",
) -> Vault:
    """Return the vault part of a request, with proofs for the MPC nodes that do not sign.

    Args:
        count, using: ``presignatures`` and ``using`` of ``VaultUse.opening``.
    """
    store, epoch = sealed.secret_store, bytes.fromhex(sealed.key_id)
    parties, proofs = opening_nodes(sealed, signer), {}
    for other in set(parties) - {signer}:
        use = VaultUse.for_opening(
            epoch, user_id, boots[other], reply_key.public, presignatures=count, using=using
        )
        proofs[other] = UseProof(use.boot, use.mac(store.auth_keys[other]))
    halves = {party: store.halves[party] for party in parties}
    return Vault(reply_key.public, halves, proofs, int(store.whole))


@dataclass(frozen=True)
class StartedSession:
    """A session that the other side has answered once, and the opened vault."""

    opened: OpenedShare
    share_key: bytes = field(repr=False)
    """Key that the share is sealed with."""
    boots: Mapping[PartyId, bytes]
    """The MPC nodes'."""
    reply: SignReply
    client: ClientParty[Any]

    async def result(self) -> Any:
        """Go on until the client's party is done; errors as of ``ClientParty.run``."""
        async with self.client:
            return await self.client.join(self.reply.messages, last_word=False)


@dataclass(eq=False, repr=False)
class SessionStarter:
    """Begins sessions by such a request."""

    gateway: GatewayClient
    vaults: Vaults
    sessions: Sessions
    _: KW_ONLY
    suspensions: Suspensions
    workers: Workers
    rng: Rng

    async def begin(self, caller: Caller, asked: SessionRequest, timing: Timing) -> StartedSession:
        """Send the first request: the vault is opened and the first message answered.

        Nothing stays open if this fails.

        Raises:
            NotFound: not a present key of this user.
            BadRequest: the store or the share is damaged, or of another key.
            ApiError: the gateway's errors, among others.
        """
        sealed, signer = asked.sealed, asked.signer
        user_id, answered = caller.claims.user_id, False
        key: SessionKey | None = None
        self.suspensions.check(bytes.fromhex(sealed.key_id))

        async def ask(nodes: Nodes) -> tuple[SessionOpening, SignReply]:
            nonlocal key
            check_identities(sealed.secret_store, identities(nodes))
            key = self.sessions.fresh_key()
            beginning = SessionOpening(
                asked,
                user_id=user_id,
                boots=boots(nodes),
                key=key,
                rng=self.rng,
            )
            reply, _ = await asyncio.gather(
                self.gateway.sign(caller.token, beginning.request),
                compute_while_sending(lambda: beginning.reply_key.prepare(seal_keys(nodes))),
            )
            return beginning, reply

        try:
            with timing.span("round1"):
                beginning, reply = await self.vaults.with_current_boots(ask)
            answered = True
            self.sessions.check_token(caller)
            self.suspensions.check(bytes.fromhex(sealed.key_id))  # since it was asked
            by = opening_nodes(sealed, signer)
            opened, sealing = await self.vaults.open_delivered(
                caller, sealed, beginning.reply_key, reply.vault, by, timing
            )
            with timing.span("compute"):
                party = beginning.party(opened.share, reply)
        except BaseException as error:
            if key is not None and (answered or may_leave_open(error)):
                exchange, others = self.sessions.exchange(caller.token, key), {signer: None}
                giving_up = give_up(exchange, asked.protocol, key.session_id, others, self.rng)
                telling = self.workers.run_in_background(giving_up)
                if isinstance(error, ApiError) and answered:
                    await asyncio.shield(telling)  # so that the next call finds the key free
            raise
        session = beginning.key
        report = Report(self.suspensions, user_id, opened, session.session_id, self.rng, reply.tag)
        client: ClientParty[Any] = self.sessions.client(
            caller, party, session, timing, suspend=report
        )
        return StartedSession(opened, sealing, beginning.boots, reply, client)
