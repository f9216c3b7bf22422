"""Signs with a key of which the caller carries one share, and one MPC node has another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

from mpcsim.crypto.bip32 import Path
from mpcsim.crypto.rng import Rng
from mpcsim.errors import UsageError
from mpcsim.ids import CLIENT, INSTITUTION, MPC_NODES, OPERATOR, ROLES, PartyId
from mpcsim.protocols import signing
from mpcsim.protocols.key_share import KeyShare
from mpcsim.service.error_codes import Code
from mpcsim.service.rpc.wire import Sign, UseProof
from mpcsim.service.vault import SigningRequest, VaultUse, sha256_each
from node.checks import OpenedShare, SealedShare, cannot_begin, check_answer, child_key
from node.errors import ApiError, BadRequest
from node.gateway_client.client import GatewayClient
from node.models import StoredShare
from node.process.timing import Timing
from node.signing.client_party import ClientParty, Messages
from node.signing.combined_opening import SessionRequest, SessionStarter
from node.signing.presigning import PresignaturePool, PresignatureUnavailable, Presigner
from node.signing.sessions import Caller, Nodes, Sessions
from node.signing.suspensions import Report, Suspensions
from node.signing.vaults import Vaults, is_down

MESSAGE_HASH_BYTES: Final = 32


@dataclass
class SigningTask:
    """Message to sign, and the share to sign with."""

    sealed: SealedShare
    message: bytes = field(repr=False)
    path: Path = ()
    """Path of the child key to sign with."""
    opened: OpenedShare | None = None
    """Opened share, once its vault has been opened."""


@dataclass(eq=False, repr=False)
class Signer:
    """Signs; one attempt at a time, and with whom it is asked for."""

    gateway: GatewayClient
    vaults: Vaults
    sessions: Sessions
    _: KW_ONLY
    suspensions: Suspensions
    early: SessionStarter
    presigner: Presigner
    rng: Rng
    first_with_vault: bool
    """The first message travels with the request that opens the vault."""

    async def sign(
        self,
        caller: Caller,
        stored: StoredShare,
        *,
        message: bytes,
        signer: str | None,
        path: Path = (),
        presignatures: Iterable[str] = (),
        timing: Timing,
    ) -> tuple[str, list[str]]:
        """Sign with one MPC node.

        Args:
            message: the 32-byte hash on secp256k1, the message itself on ed25519.
            signer: ``operator`` or ``institution``; None: the operator, or the institution if the
                operator's node fails while signing. (Opening the vault takes both: while either
                cannot be reached, nothing signs.)
            path: of the child key to sign with; empty: the key itself.
            presignatures: that the caller has; the first one that is of use is used up.

        Returns:
            In hex: r, s, v with low s and v = 27 or 28 on secp256k1; R, S on ed25519. It has been
            verified under that key. And the presignatures that are left.
        """
        if stored.curve == "secp256k1" and len(message) != MESSAGE_HASH_BYTES:
            raise BadRequest(f"Invalid message: {MESSAGE_HASH_BYTES} bytes expected")
        what = SigningTask(SealedShare.parse(stored), message, path)
        party = None if signer is None else next(i for i in MPC_NODES if ROLES[i] == signer)
        deck = PresignaturePool(presignatures, what.sealed)
        signature = await self._sign_presigned(caller, party, what, deck, timing) if deck else None
        if signature is None:
            signature = await self._sign_interactively(caller, party, what, timing)
        return signature, deck.to_texts()

    async def _sign_presigned(
        self,
        caller: Caller,
        signer: PartyId | None,
        what: SigningTask,
        deck: PresignaturePool,
        timing: Timing,
    ) -> str | None:
        """Sign with the first usable presignature; None: there is none."""
        while drawn := deck.take(signer, await self.presigner.boots()):
            made = self.presigner.sign(caller, what.sealed, what.message, what.path, drawn, timing)
            with suppress(PresignatureUnavailable):
                what.opened, signature = await made
                if signature is not None:
                    share = what.opened.share
                    return _verified_hex(share, what.message, signature, timing, what.path)
        return None

    async def _sign_interactively(
        self, caller: Caller, signer: PartyId | None, what: SigningTask, timing: Timing
    ) -> str:
        """Sign by the full protocol."""
        if signer is not None:
            return await self._attempt(caller, signer, what, timing)
        try:
            return await self._attempt(caller, OPERATOR, what, timing)
        except ApiError as error:
            # Who does not open its half is not done without.
            opened = what.opened is not None or what.sealed.secret_store.whole
            if not opened or not is_down(error, OPERATOR):
                raise
        return await self._attempt(caller, INSTITUTION, what, timing)

    async def _attempt(
        self, caller: Caller, signer: PartyId, what: SigningTask, timing: Timing
    ) -> str:
        """Attempt to sign with one MPC node."""
        if what.opened is None and self.first_with_vault and what.sealed.matches_store:
            begun = await self.early.begin(
                caller, SessionRequest(what.sealed, signer, what.message, what.path), timing
            )
            what.opened = begun.opened
            signature = (await begun.result()).encode()
            return _verified_hex(begun.opened.share, what.message, signature, timing, what.path)
        if what.opened is None:
            what.opened = await self.vaults.open_share(caller, what.sealed, signer, timing)
        return await self.sign_with_share(
            caller, signer, what.opened, what.message, timing, path=what.path
        )

    async def sign_with_share(
        self,
        caller: Caller,
        signer: PartyId,
        opened: OpenedShare,
        message: bytes,
        timing: Timing,
        *,
        path: Path = (),
    ) -> str:
        """Sign with a share that has been opened."""
        share = opened.share
        if path:
            child_key(share.record, path)
        signers, epoch = (CLIENT, signer), share.record.epoch
        key, user_id = share.auth_key(signer), caller.claims.user_id
        self.suspensions.check(epoch)

        async def attempt(nodes: Nodes) -> bytes:
            """Sign with a session and nonces of its own, as in
            ``combined_opening.SessionOpening``."""
            session = self.sessions.fresh_key()
            session_id = session.session_id
            try:
                party = signing.signer(
                    share, signers, message, path=path, session_id=session_id, rng=self.rng
                )
            except UsageError as error:
                raise cannot_begin(error) from None
            report = Report(self.suspensions, user_id, opened, session_id, self.rng)

            async def begin(messages: Messages) -> Sequence[bytes]:
                use = VaultUse.for_signing(
                    epoch,
                    user_id,
                    nodes[signer].boot,
                    SigningRequest(signer, session_id, message, path),
                    sha256_each(messages),
                )
                proof = UseProof(use.boot, use.mac(key))
                body = Sign(
                    session_id, epoch, signer, message, messages, use.first, proof, path=path
                )
                begun = await self.gateway.sign(caller.token, body)
                check_answer(share, signer, session_id, proof.mac, begun)
                report.tag = begun.tag
                return begun.messages

            client: ClientParty[Any] = self.sessions.client(
                caller, party, session, timing, suspend=report
            )
            async with client:
                signature: bytes = (await client.run(begin, last_word=False)).encode()
            return signature

        signature = await self.vaults.with_current_boots(attempt)
        return _verified_hex(share, message, signature, timing, path)


def _verified_hex(
    share: KeyShare, message: bytes, signature: bytes, timing: Timing, path: Path
) -> str:
    """A signature in hex, if it is one."""
    with timing.span("compute"):
        if not signing.verifies(share.record, message, signature, path=path):
            text = "MPC session ended with a signature that does not verify"
            raise ApiError(500, text, Code.ABORTED)
    return signature.hex()
