"""The first request of a signature by a client that does not have its share yet.

It opens the vault and carries the client's first message (``mpcsim.protocol.early``), so that no
round trip goes by for the vault alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpcsim.errors import UsageError
from mpcsim.ids import CLIENT, MPC_NODES, PartyId
from mpcsim.keyshare import KeyShare
from mpcsim.primitives.bip32 import Path
from mpcsim.protocol import Party
from mpcsim.protocol.early import Early
from mpcsim.protocols import signing
from mpcsim.rng import Rng
from mpcsim.rpc.wire import Sign, Signing, UseProof, Vault
from mpcsim.vault import ReplyKey, VaultUse, hashes
from node.checks import SealedShare, cannot_begin, check_answer


class Beginning:
    """What one attempt to sign begins with: a session, nonces and a reply key of its own.

    An attempt whose request was refused, or got lost on the way, may have been answered all the
    same: the next one has others.
    """

    def __init__(
        self,
        sealed: SealedShare,
        signer: PartyId,
        message: bytes,
        *,
        user_id: str,
        boots: Mapping[PartyId, bytes],
        session_id: bytes,
        path: Path = (),
        rng: Rng,
    ) -> None:
        """
        Args:
            sealed: with a secret store that ``fits``.
            boots: the MPC nodes' present ones.

        Raises:
            ApiError: there is no signing that.
        """
        store, epoch = sealed.secret_store, bytes.fromhex(sealed.key_id)
        self.reply_key = ReplyKey(rng)
        self._signer = signer
        try:
            self._early: Early[Any, Any] = signing.early(
                sealed.curve,
                epoch,
                (CLIENT, signer),
                message,
                path=path,
                me=CLIENT,
                auth_keys=store.auth_keys,
                session_id=session_id,
                rng=rng,
            )
        except UsageError as error:
            raise cannot_begin(error) from None
        messages = self._early.messages
        use = VaultUse.signing(
            epoch,
            user_id,
            boots[signer],
            signer=signer,
            session_id=session_id,
            message=message,
            first=hashes(messages),
            reply_key=self.reply_key.public,
            path=path,
        )
        self.openers = (signer,) if store.whole else MPC_NODES
        proofs = {}
        for other in set(self.openers) - {signer}:
            opening = VaultUse.opening(epoch, user_id, boots[other], self.reply_key.public)
            proofs[other] = UseProof(opening.boot, opening.mac(store.auth_keys[other]))
        halves = {party: store.halves[party] for party in self.openers}
        vault = Vault(self.reply_key.public, halves, proofs, int(store.whole))
        proof = UseProof(use.boot, use.mac(store.auth_keys[signer]))
        self.request = Sign(
            session_id, epoch, signer, message, messages, use.first, proof, vault, path
        )

    def party(self, share: KeyShare, reply: Signing) -> Party[Any, Any]:
        """The client's party, which has said its first message, once the vault is open.

        Raises:
            ApiError: the reply is to another request, or the share cannot be used.
        """
        check_answer(share, self.request, reply)
        try:
            return self._early.party(share)
        except UsageError as error:
            raise cannot_begin(error) from None
