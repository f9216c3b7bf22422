"""Verb ``open`` of an MPC node: opens its half of a vault, for a holder of the client's share or
secret store (``mpcsim.service.vault.use``), which is checked before anything is opened."""

from __future__ import annotations

from dataclasses import dataclass

from mpcsim.crypto.encoding import NO_CONTEXT
from mpcsim.ids import CLIENT
from mpcsim.service.errors import BAD_REQUEST, Refused, not_authentic, seal_key_lost
from mpcsim.service.mpc_node.agreement.attestations import Attestations
from mpcsim.service.mpc_node.boot import Boot
from mpcsim.service.mpc_node.context import NodeContext
from mpcsim.service.mpc_node.presignatures import UsageTokens
from mpcsim.service.mpc_node.shares import KeyShares
from mpcsim.service.mpc_node.store import StoredShare
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.grants import Grant, Scope
from mpcsim.service.vault import VaultError, VaultUse, rewrap_half


@dataclass(eq=False, repr=False)
class VaultHalves:
    """Opens one MPC node's halves of vaults. Any thread may call."""

    context: NodeContext
    boot: Boot
    shares: KeyShares
    usage_tokens: UsageTokens
    attestations: Attestations

    def open(self, grant: Grant, data: bytes) -> wire.Body:
        """Open a half; issue a usage token for presignatures, or spend one (``presignatures``)."""
        body = wire.OpenHalf.from_bytes(data)
        grant.check(Scope("open", grant.user_id, body.key_id))
        whole, using = bool(body.whole), body.using
        with self.context.lock:
            stored = self.shares.usable_share(grant.user_id, body.key_id.hex())
            use = VaultUse.for_opening(
                body.key_id,
                grant.user_id,
                body.proof.boot,
                body.reply_key,
                presignatures=body.count,
                using=using.encode(NO_CONTEXT) if using else b"",
            )
            self.check_authentic(stored, use, body.proof.mac)
            if whole and (body.count or using):
                raise Refused(BAD_REQUEST, "presignatures are for vaults that both MPC nodes open")
            allowance: bytes | None = None
            if using:  # spent even if the half does not open
                self.usage_tokens.use(stored.key_id, using.allowance, using.index)
            half = self.rewrap(stored, body.half, body.reply_key, whole=whole)
            if body.count:
                count = min(body.count, wire.MAX_BATCH)
                allowance = self.usage_tokens.issue(stored.key_id, count, self.context.rng)
        return wire.Half(half, allowance)

    def rewrap(self, stored: StoredShare, half: bytes, reply_key: bytes, *, whole: bool) -> bytes:
        """Return this node's half of a vault, or the whole, encrypted to a reply key.

        Raises:
            Refused: it does not open, or is sealed to a key that is lost; for a whole vault: the
                other MPC node has not stated within an hour that the key is not suspended.
        """
        context = self.context
        if whole:
            self.attestations.check(bytes.fromhex(stored.key_id))
        try:
            with context.lock:
                return rewrap_half(
                    half,
                    self.boot.seal_key,
                    me=context.me,
                    key_id=stored.key_id,
                    user_id=stored.user_id,
                    reply_key=reply_key,
                    rng=context.rng,
                    whole=whole,
                )
        except VaultError:
            if context.store.keys.sealed_to_lost_key(stored.key_id):
                raise seal_key_lost(context.me) from None
            raise Refused(BAD_REQUEST, "Invalid secret_store") from None

    def check_authentic(self, stored: StoredShare, use: VaultUse, mac: bytes) -> None:
        """Check that a request comes from a holder of the client's share or secret store.

        It is the first check, and nobody is blamed if it fails: the gateway can alter a request.

        Raises:
            Refused: it does not, or is for an earlier boot of this node.
        """
        self.boot.check_boot(use)
        if not use.is_authenticated_by(self.shares.decoded(stored).auth_key(CLIENT), mac):
            raise not_authentic(self.context.me)
