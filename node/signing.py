"""Signs with a key of which the caller carries one share, and one MPC node has another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mpcsim.errors import UsageError
from mpcsim.ids import CLIENT, INSTITUTION, MPC_NODES, OPERATOR, ROLES, PartyId
from mpcsim.keyshare import KeyShare
from mpcsim.protocols import signing
from mpcsim.rng import Rng
from mpcsim.rpc.wire import Sign, Signing, UseProof
from mpcsim.vault import VaultUse, hashes
from node.checks import SealedShare, cannot_begin, check_answer, check_identities
from node.client_party import ClientParty, Mail, give_up, leaves_open
from node.early import Beginning
from node.errors import ApiError, BadRequest
from node.gateway_client import GatewayClient
from node.models import StoredShare
from node.sessions import Caller, Nodes, Sessions, identities, seal_keys
from node.suspensions import Report, Suspensions
from node.timing import Timing
from node.vaults import Vaults, is_down, once_sent
from node.workers import Workers

MESSAGE_HASH_BYTES: Final = 32


@dataclass
class ToSign:
    """What is to be signed, and with which share."""

    sealed: SealedShare
    message: bytes = field(repr=False)
    share: KeyShare | None = None
    """Once its vault has been opened."""


class Signer:
    """Signs; one attempt at a time, and with whom it is asked for."""

    def __init__(
        self,
        gateway: GatewayClient,
        vaults: Vaults,
        sessions: Sessions,
        *,
        suspensions: Suspensions,
        workers: Workers,
        rng: Rng,
        early: bool,
    ) -> None:
        """
        Args:
            early: the first message travels with the request that opens the vault.
        """
        self._gateway = gateway
        self._vaults = vaults
        self._sessions = sessions
        self._suspensions = suspensions
        self._workers = workers
        self._rng = rng
        self._early = early

    async def sign(
        self,
        caller: Caller,
        stored: StoredShare,
        *,
        message: bytes,
        signer: str | None,
        timing: Timing,
    ) -> str:
        """Sign with one MPC node.

        Args:
            message: the 32-byte hash on secp256k1, the message itself on ed25519.
            signer: ``operator`` or ``institution``; None: the operator, or the institution if the
                operator's node fails while signing. (Opening the vault takes both: while either
                cannot be reached, nothing signs.)

        Returns:
            In hex: r, s, v with low s and v = 27 or 28 on secp256k1; R, S on ed25519. It has been
            verified under the share's public key.
        """
        if stored.curve == "secp256k1" and len(message) != MESSAGE_HASH_BYTES:
            raise BadRequest(f"Invalid message: {MESSAGE_HASH_BYTES} bytes expected")
        what = ToSign(SealedShare.parse(stored), message)
        if signer is None:
            try:
                return await self._signed(caller, OPERATOR, what, timing)
            except ApiError as error:
                # Who does not open its half is not done without.
                opened = what.share is not None or what.sealed.secret_store.whole
                if not opened or not is_down(error, OPERATOR):
                    raise
            return await self._signed(caller, INSTITUTION, what, timing)
        party = next(i for i in MPC_NODES if ROLES[i] == signer)
        return await self._signed(caller, party, what, timing)

    async def _signed(self, caller: Caller, signer: PartyId, what: ToSign, timing: Timing) -> str:
        """One attempt, with one MPC node."""
        if what.share is None and self._early and what.sealed.fits:
            return await self._sign_early(caller, signer, what, timing)
        if what.share is None:
            what.share = await self._vaults.opened_share(caller, what.sealed, signer, timing)
        return await self.with_share(caller, signer, what.share, what.message, timing)

    async def _sign_early(
        self, caller: Caller, signer: PartyId, what: ToSign, timing: Timing
    ) -> str:
        """The first message travels with the request that opens the vault."""
        sealed, message = what.sealed, what.message
        user_id, session_id, answered = caller.claims.user_id, b"", False
        self._suspensions.check(bytes.fromhex(sealed.key_id))

        async def ask(nodes: Nodes) -> tuple[Beginning, Signing]:
            nonlocal session_id
            check_identities(sealed.secret_store, identities(nodes))
            session_id = self._sessions.fresh_id()
            beginning = Beginning(
                sealed,
                signer,
                message,
                user_id=user_id,
                boots={party: hello.boot for party, hello in nodes.items()},
                session_id=session_id,
                rng=self._rng,
            )
            begun, _ = await asyncio.gather(
                self._gateway.sign(caller.token, beginning.request),
                once_sent(lambda: beginning.reply_key.prepare(seal_keys(nodes))),
            )
            return beginning, begun

        try:
            with timing.span("round1"):
                beginning, begun = await self._vaults.of_present_boots(ask)
            answered = True
            self._sessions.check_token(caller)
            self._suspensions.check(bytes.fromhex(sealed.key_id))  # since it was asked
            with timing.span("vault"):
                key, record = await self._vaults.combined(
                    caller, sealed.key_id, beginning.reply_key, begun.vault, beginning.openers
                )
                with key:
                    share = what.share = self._vaults.share(caller, sealed, key, record)
            with timing.span("compute"):
                party = beginning.party(share, begun)
        except BaseException as error:
            if session_id and (answered or leaves_open(error)):
                exchange = self._sessions.exchange(caller.token, session_id)
                number, others = signing.of_curve(sealed.curve).number, {signer: None}
                giving_up = give_up(exchange, number, session_id, others, self._rng)
                telling = self._workers.later(giving_up)
                if isinstance(error, ApiError) and answered:
                    await asyncio.shield(telling)  # so that the next call finds the key free
            raise
        report = Report(self._suspensions, user_id, share, session_id, self._rng, begun.tag)
        client: ClientParty[Any] = self._sessions.client(caller, party, timing, suspend=report)
        async with client:
            signature = (await client.join(begun.messages, last_word=False)).encode()
        return _verified(share, message, signature, timing)

    async def with_share(
        self, caller: Caller, signer: PartyId, share: KeyShare, message: bytes, timing: Timing
    ) -> str:
        """With a share at hand."""
        session_id, signers, epoch = self._sessions.fresh_id(), (CLIENT, signer), share.record.epoch
        key, user_id = share.auth_key(signer), caller.claims.user_id
        self._suspensions.check(epoch)
        try:
            party = signing.signer(share, signers, message, session_id=session_id, rng=self._rng)
        except UsageError as error:
            raise cannot_begin(error) from None
        report = Report(self._suspensions, user_id, share, session_id, self._rng)

        async def begin(messages: Mail) -> Sequence[bytes]:
            first = hashes(messages)

            async def ask(nodes: Nodes) -> Signing:
                use = VaultUse.signing(
                    epoch,
                    user_id,
                    nodes[signer].boot,
                    signer=signer,
                    session_id=session_id,
                    message=message,
                    first=first,
                )
                proof = UseProof(use.boot, use.mac(key))
                body = Sign(session_id, epoch, signer, message, messages, first, proof)
                begun = await self._gateway.sign(caller.token, body)
                check_answer(share, body, begun)
                return begun

            begun = await self._vaults.of_present_boots(ask)
            report.tag = begun.tag
            return begun.messages

        client: ClientParty[Any] = self._sessions.client(caller, party, timing, suspend=report)
        async with client:
            signature = (await client.run(begin, last_word=False)).encode()
        return _verified(share, message, signature, timing)


def _verified(share: KeyShare, message: bytes, signature: bytes, timing: Timing) -> str:
    """A signature in hex, if it is one."""
    with timing.span("compute"):
        if not signing.verifies(share.record, message, signature):
            raise ApiError(500, "MPC session ended with a signature that does not verify")
    return signature.hex()
