"""Presignatures: made ahead for a key, kept by the caller, used once each.

The caller's part of each is sealed under the share's key. The MPC node that signs has the other
part, and the other MPC node knows that it may still be used
(``mpcsim.service.mpc_node.presignatures``): only with that one's half of the vault can a signature
be finished. What was used, or may have been, is gone; and so is all of it when an MPC node is
started anew, or the key is recovered or suspended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

from mpcsim.crypto.bip32 import Path
from mpcsim.crypto.encoding import NO_CONTEXT
from mpcsim.crypto.rng import Rng
from mpcsim.errors import InternalError, InvalidEncoding, UsageError
from mpcsim.ids import CLIENT, MPC_NODES, START_BYTES, PartyId
from mpcsim.protocols import presigned
from mpcsim.protocols.presign import Presignature
from mpcsim.service.errors import GONE
from mpcsim.service.rpc.wire import MAX_BATCH, Presigned, PresignedRequest, UseProof
from mpcsim.service.vault import (
    PresignatureHeader,
    ReplyKey,
    SealedPresignature,
    VaultError,
    VaultUse,
    WrongKey,
    open_presignature,
    seal_presignature,
)
from node.checks import OpenedShare, SealedShare, check_answer, check_identities
from node.errors import ApiError, BadRequest, StaleBoot, UntrustedNode, Upstream
from node.gateway_client.client import GatewayClient
from node.process.timing import Timing
from node.signing.client_party import ClientParty
from node.signing.combined_opening import SessionRequest, SessionStarter, vault_request
from node.signing.sessions import Caller, Sessions, boots, identities, seal_keys
from node.signing.suspensions import Report, Suspensions
from node.signing.vaults import Vaults, compute_while_sending

SECP256K1: Final = "secp256k1"


class PresignatureUnavailable(Exception):
    """A presignature that cannot be signed with, or not any more; another way of signing can."""


class PresignaturePool:
    """A caller's presignatures for one key, in their order; those that are of no use are dropped.

    Foreign and damaged ones are, and those of an earlier start of an MPC node.
    """

    def __init__(self, texts: Iterable[str], sealed: SealedShare) -> None:
        store = sealed.secret_store
        usable = sealed.matches_store and not store.whole and store.curve == SECP256K1
        self._left: list[SealedPresignature] = []
        for text in texts if usable else ():
            with suppress(VaultError):
                found = SealedPresignature.from_text(text)
                header = found.header
                if header.key_id.hex() == sealed.key_id and header.signer in MPC_NODES:
                    self._left.append(found)

    def __bool__(self) -> bool:
        return bool(self._left)

    def take(
        self, signer: PartyId | None, boots: Mapping[PartyId, bytes]
    ) -> SealedPresignature | None:
        """The first one that this MPC node signs with, if there is one; it is not there any more.

        Args:
            signer: None: any.
            boots: the MPC nodes' present ones.
        """
        present = _start_ids(boots)
        self._left = [each for each in self._left if _start_ids(each.header.boots) == present]
        for at, each in enumerate(self._left):
            if signer in (None, each.header.signer):
                return self._left.pop(at)
        return None

    def to_texts(self) -> list[str]:
        """Return the presignatures that are left, as their caller keeps them."""
        return [each.to_text() for each in self._left]


def _start_ids(boots: Mapping[PartyId, bytes]) -> dict[PartyId, bytes]:
    """Return the part of each boot that is the same until an MPC node is started anew."""
    return {party: boot[:START_BYTES] for party, boot in boots.items()}


@dataclass(eq=False, repr=False)
class Presigner:
    """Makes presignatures, and signs with them."""

    gateway: GatewayClient
    vaults: Vaults
    sessions: Sessions
    _: KW_ONLY
    suspensions: Suspensions
    early: SessionStarter
    rng: Rng

    async def make(
        self, caller: Caller, sealed: SealedShare, count: int, signer: PartyId, timing: Timing
    ) -> list[str]:
        """Make presignatures with one MPC node, in as many sessions as it takes.

        Returns:
            Each as its caller keeps it. Fewer than asked for, but at least one, if something fails
            on the way.

        Raises:
            BadRequest: another curve, or a vault that presignatures are not for, among others.
        """
        store = sealed.secret_store
        if sealed.curve != SECP256K1:
            raise BadRequest("Invalid curve: presignatures are for secp256k1")
        if store.whole:
            raise BadRequest(
                "Invalid secret_store: with vault policy signer nobody would see to it that a "
                "presignature is used once"
            )
        if not sealed.matches_store:
            await self.vaults.open_share(caller, sealed, signer, timing)  # it says what is wrong
            raise InternalError("a vault of another key has been opened")
        made: list[str] = []
        while len(made) < count:
            try:
                made += await self._batch(
                    caller,
                    SessionRequest(sealed, signer, count=min(MAX_BATCH, count - len(made))),
                    timing,
                )
            except ApiError:
                if not made:
                    raise
                break
        return made

    async def _batch(self, caller: Caller, asked: SessionRequest, timing: Timing) -> list[str]:
        """Make the presignatures of one session."""
        begun = await self.early.begin(caller, asked, timing)
        made: tuple[Presignature, ...] = await begun.result()
        allowance = begun.reply.vault.allowance if begun.reply.vault else None
        if allowance is None:
            raise UntrustedNode("The MPC nodes do not agree on the presignatures")
        epoch, user_id = begun.opened.share.record.epoch, caller.claims.user_id
        with timing.span("vault"):
            return [
                seal_presignature(
                    presignature.to_bytes(),
                    PresignatureHeader(
                        presignature.id, epoch, asked.signer, begun.boots, allowance, index
                    ),
                    begun.share_key,
                    user_id,
                    self.rng,
                ).to_text()
                for index, presignature in enumerate(made)
            ]

    async def boots(self) -> dict[PartyId, bytes]:
        """The MPC nodes' present ones, as far as is known."""
        return boots(await self.gateway.nodes())

    async def sign(
        self,
        caller: Caller,
        sealed: SealedShare,
        message: bytes,
        path: Path,
        drawn: SealedPresignature,
        timing: Timing,
    ) -> tuple[OpenedShare, bytes | None]:
        """Sign with a presignature: one request, in which the vault is opened, too.

        Args:
            message: the 32-byte hash.
            path: of the child key to sign with.
            drawn: nobody tries it again, whatever becomes of this.

        Returns:
            The opened share, and the signature; None if the presignature turns out to be of no use
            to this client.

        Raises:
            Spent: it is of no use to the MPC nodes.
            ApiError: as of ``SessionStarter.begin``.
        """
        header, epoch = drawn.header, bytes.fromhex(sealed.key_id)
        user_id, signer = caller.claims.user_id, PartyId(header.signer)
        session = self.sessions.fresh_key()
        rho = session.session_id
        self.suspensions.check(epoch)
        nodes = await self.gateway.nodes()
        check_identities(sealed.secret_store, identities(nodes))
        reply_key = ReplyKey(self.rng)
        using = PresignedRequest(
            signer, header.id, header.allowance, header.index, message, path, rho
        )
        encoded = using.encode(NO_CONTEXT)
        hidden = using.hide().encode(NO_CONTEXT)
        vault = vault_request(sealed, signer, user_id, header.boots, reply_key, using=hidden)
        use = VaultUse.for_presigned(
            epoch, user_id, header.boots[signer], reply_key.public, encoded
        )
        proof = UseProof(use.boot, use.mac(sealed.secret_store.auth_keys[signer]))
        try:
            with timing.span("round1"):
                reply, _ = await asyncio.gather(
                    self.gateway.presigned(caller.token, Presigned(epoch, using, proof, vault)),
                    compute_while_sending(lambda: reply_key.prepare(seal_keys(nodes))),
                )
        except StaleBoot:
            await self.gateway.nodes(fresh=True)
            raise PresignatureUnavailable from None
        except Upstream as error:
            if error.upstream_status == GONE:
                raise PresignatureUnavailable from None
            raise
        self.sessions.check_token(caller)
        self.suspensions.check(epoch)  # since it was asked
        opened, sealing = await self.vaults.open_delivered(
            caller, sealed, reply_key, reply.vault, MPC_NODES, timing
        )
        share = opened.share
        check_answer(share, signer, rho, proof.mac, reply)
        try:
            presignature = self.open_part(drawn, sealing, user_id)
            agreed = presigned.setup(share, presignature, CLIENT, message, rho, path=path)
            party = presigned.party(agreed, session_id=rho, rng=self.rng)
        except (WrongKey, InvalidEncoding, UsageError):
            return opened, None
        report = Report(self.suspensions, user_id, opened, rho, self.rng, reply.tag)
        client: ClientParty[Any] = self.sessions.client(
            caller, party, session, timing, suspend=report
        )
        async with client:
            signature = await client.join(reply.messages, last_word=False)
        return opened, signature.encode()

    @staticmethod
    def open_part(sealed: SealedPresignature, key: bytes, user_id: str) -> Presignature:
        """The client's part of the presignature that the header says it is.

        Args:
            key: what the share was sealed with.

        Raises:
            WrongKey: it does not open.
            InvalidEncoding, UsageError: it is something else.
        """
        header = sealed.header
        found = Presignature.from_bytes(open_presignature(sealed, key, user_id))
        said = header.id, header.key_id, CLIENT, (CLIENT, header.signer)
        if (found.id, found.epoch, found.holder, found.signers) != said:
            raise UsageError("another presignature than its header says")
        return found
