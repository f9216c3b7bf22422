"""Opening of the vaults of key shares, by the MPC nodes that they are sealed to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from mpcsim.crypto.rng import Rng
from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR, PartyId
from mpcsim.protocols.key_share import KeyShare
from mpcsim.service.rpc.statements import KeyRecord
from mpcsim.service.rpc.wire import OpenVault, UseProof, VaultOpened
from mpcsim.service.vault import ReplyKey, SecretStore, VaultKey, VaultUse, WrongKey, share_key
from node.checks import (
    OpenedShare,
    SealedShare,
    check_identities,
    check_named,
    open_sealed_share,
)
from node.errors import ApiError, StaleBoot, UntrustedNode, Upstream, UpstreamTimeout
from node.gateway_client.client import GatewayClient
from node.process.timing import Timing
from node.signing.sessions import Caller, Nodes, identities, seal_keys
from node.signing.suspensions import Suspensions

R = TypeVar("R")


class Vaults:
    """Opens secret stores, and the shares that they are the keys to."""

    def __init__(self, gateway: GatewayClient, suspensions: Suspensions, rng: Rng) -> None:
        self._gateway = gateway
        self._suspensions = suspensions
        self._rng = rng

    async def open_share(
        self, caller: Caller, sealed: SealedShare, signer: PartyId, timing: Timing
    ) -> OpenedShare:
        """Return the share in a vault, which the MPC nodes open."""
        store = sealed.secret_store
        by = (signer,) if store.whole else MPC_NODES
        key, record = await self.open_by(by, caller, sealed.key_id, store, timing, guess=False)
        with key, timing.span("vault"):
            return OpenedShare(self.share_in(caller, sealed, key, record), record.number)

    async def open_delivered(
        self,
        caller: Caller,
        sealed: SealedShare,
        reply_key: ReplyKey,
        opened: VaultOpened | None,
        parties: Sequence[PartyId],
        timing: Timing,
    ) -> tuple[OpenedShare, bytes]:
        """The share in a vault that has been opened along with something else, and what it is
        sealed with.

        Args:
            parties: the MPC nodes that were to open it.

        Raises:
            ApiError: as from ``open``.
        """
        with timing.span("vault"):
            key, record = await self.combine(caller, sealed.key_id, reply_key, opened, parties)
            with key:
                share = OpenedShare(self.share_in(caller, sealed, key, record), record.number)
                return share, share_key(sealed.secret_store, key)

    @staticmethod
    def share_in(caller: Caller, sealed: SealedShare, key: VaultKey, record: KeyRecord) -> KeyShare:
        """The share in a vault, which is of the key that the record is of.

        Raises:
            BadRequest: it does not open, or is of another key or curve.
            ApiError: the MPC nodes' record is of other shares.
        """
        share = open_sealed_share(sealed, key, caller.claims.user_id)
        check_named(share.record, record)
        return share

    async def open(
        self,
        caller: Caller,
        key_id: str,
        store: SecretStore,
        timing: Timing,
        *,
        guess: bool = True,
    ) -> tuple[VaultKey, KeyRecord]:
        """Return the key of a secret store, opened by both MPC nodes, or by one that is there.

        Args:
            guess: to try a password on it.

        Returns:
            The vault's key, and the record of the one whose share is in it.

        Raises:
            NotFound: not a present key of this user.
            BadRequest: the store is damaged, or of another key.
        """
        if not store.whole:
            return await self.open_by(MPC_NODES, caller, key_id, store, timing, guess=guess)
        try:
            return await self.open_by((OPERATOR,), caller, key_id, store, timing, guess=guess)
        except ApiError as error:
            if not is_down(error, OPERATOR):
                raise
        return await self.open_by((INSTITUTION,), caller, key_id, store, timing, guess=guess)

    async def open_by(
        self,
        parties: Sequence[PartyId],
        caller: Caller,
        key_id: str,
        store: SecretStore,
        timing: Timing,
        *,
        guess: bool,
    ) -> tuple[VaultKey, KeyRecord]:
        """The same, by these MPC nodes."""
        reply_key = ReplyKey(self._rng)
        epoch, user_id = bytes.fromhex(key_id), caller.claims.user_id
        self._suspensions.check(epoch)

        async def ask(nodes: Nodes) -> VaultOpened:
            check_identities(store, identities(nodes))
            proofs = {}
            for party in parties:
                use = VaultUse.for_opening(epoch, user_id, nodes[party].boot, reply_key.public)
                proofs[party] = UseProof(use.boot, use.mac(store.auth_keys[party]))
            halves = {party: store.halves[party] for party in parties}
            body = OpenVault(epoch, reply_key.public, halves, proofs, int(store.whole))
            opened, _ = await asyncio.gather(
                self._gateway.open(caller.token, body, guess=guess),
                compute_while_sending(lambda: reply_key.prepare(seal_keys(nodes))),
            )
            return opened

        with timing.span("vault"):
            opened = await self.with_current_boots(ask)
            return await self.combine(caller, key_id, reply_key, opened, parties)

    async def combine(
        self,
        caller: Caller,
        key_id: str,
        reply_key: ReplyKey,
        opened: VaultOpened | None,
        parties: Sequence[PartyId],
    ) -> tuple[VaultKey, KeyRecord]:
        """Combine the parts that these MPC nodes have opened, into what ``open`` returns."""
        damaged = UntrustedNode("The MPC nodes' parts of the vault key are damaged")
        if opened is None:
            raise damaged
        record = await self._gateway.record(opened.record, caller.claims.user_id, key_id=key_id)
        joined = partial(reply_key.combine, opened.halves, opened_by=parties)
        try:
            return joined(seal_keys(await self._gateway.nodes())), record
        except WrongKey:
            nodes = await self._gateway.nodes(fresh=True)  # they may have changed
        try:
            return joined(seal_keys(nodes)), record
        except WrongKey:
            raise damaged from None

    async def with_current_boots(self, ask: Callable[[Nodes], Awaitable[R]]) -> R:
        """Make a request that is good for the MPC nodes' present boots only; once more if one of
        them has been started anew since we last asked who they are."""
        try:
            return await ask(await self._gateway.nodes())
        except StaleBoot:
            return await ask(await self._gateway.nodes(fresh=True))


async def compute_while_sending(work: Callable[[], None]) -> None:
    """Compute something while a request that is just beginning is under way."""
    for _ in range(2):  # it connects in its first turn and writes in its second
        await asyncio.sleep(0)
    work()


def is_down(error: ApiError, party: PartyId) -> bool:
    """Return whether signing failed because that MPC node does not answer."""
    if isinstance(error, Upstream):
        return error.upstream_status in (503, 504) and error.party == party
    return isinstance(error, UpstreamTimeout)
