"""Threshold ECDSA on secp256k1 in the manner of DKLs23 (eprint 2023/765, Protocol 3.6).

Ideal functionality: t or more holders of a key that agree on a message hash get its ECDSA
signature; fewer get nothing, and a cheater can only make the run abort. With a path, it is a
signature of the child key there (BIP 32, not hardened), of which nobody needs shares.

The product of nonce inverse and key is computed through pairwise multiplications
(``mpcsim.crypto.mta``; the scheme is a seam), each tied to the committed nonce share and the
published key share by the Gamma checks; any inconsistency in them is caught before a signature
share leaves the party. What remains (psi, and the shares themselves) the verification of the
signature catches.

Assumptions: those of the multiplication scheme; the key shares and pairwise state come from
``dkg`` or ``reshare`` of one and the same epoch (checked first).

What the caller must provide: the 32-byte hash, not the message; after an abort, the share as
``KeyShare.after_abort`` returns it, stored before the abort is announced; and where the share is
used by several processes, at most one open session per key, because a peer that gets many guesses
at the same multiplication state learns it (``KeyShare.guard`` sees to it within one process).

Not here: identifying the cheater among three or more signers when only the final sums are wrong
(the protocol cannot tell; the abort lists suspects).

Known answers, for implementations in other languages: ``tests/vectors/dkls23``, whose README is the
format of all that is drawn, hashed and sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from mpcsim.crypto.bip32 import Path, check_path
from mpcsim.crypto.encoding import WireContext
from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.crypto.rng import Rng
from mpcsim.errors import UsageError, check_type
from mpcsim.ids import PartyId, party_ids
from mpcsim.protocols.ecdsa.products import SignerSetup
from mpcsim.protocols.ecdsa.rounds import ROUNDS, EcdsaSetup, commit, context
from mpcsim.protocols.ecdsa.steps import EcdsaSignature
from mpcsim.protocols.engine import Definition, Party
from mpcsim.protocols.engine.events import Listener, silent
from mpcsim.protocols.engine.prestart import PrestartedParty, prestart_hedge
from mpcsim.protocols.key_share import KeyShare, check_signers

S = TypeVar("S", bound=SignerSetup)


def check_setup(agreed: EcdsaSetup, me: PartyId) -> None:
    """Check a set-up for everything that can be wrong before a session begins.

    Raises:
        UsageError: as from ``check_signer``; a path that leads nowhere, or a key without a chain
            code to begin it at.
    """
    check_signer(agreed, me)
    agreed.share.record.derive(agreed.path)


def check_signer(agreed: SignerSetup, me: PartyId) -> None:
    """Check the part of a set-up that does not depend on the message.

    Raises:
        UsageError: wrong curve; too few, unknown or duplicate signers; this party not among them;
            multiplication state with one of them discarded.

    Spec: DKLs23 | Protocol 3.6 | step 4
    Differs: more than t holders may sign, too.
    """
    share = agreed.share
    if share.group is not SECP256K1:
        raise UsageError(f"ECDSA needs a secp256k1 share, this one is on {share.group.name}")
    check_signers(share, agreed.signers, me)
    for j in agreed.signers:
        if j != me and share.peers[j].multiplication is None:
            raise UsageError(discarded_text(j))


def check_usable(agreed: SignerSetup) -> None:
    """Check that no session of this process has discarded multiplication state that is needed.

    Raises:
        UsageError: one has.
    """
    for j in agreed.signers:
        if j != agreed.share.identifier and not agreed.share.can_multiply(j):
            raise UsageError(discarded_text(j))


def adapt_setup(then: S, share: KeyShare | None) -> S:
    """Return a stored session's set-up without multiplication state that was discarded since.

    Raises:
        UsageError: no share as it is stored now, or one of another key, epoch or holder.
    """
    if share is None:
        raise UsageError("a signer goes on only with its key share as it is stored now (share=...)")
    if share.record != then.share.record or share.identifier != then.share.identifier:
        raise UsageError("the snapshot was taken with another share")
    share.guard.discard(*(j for j, peer in share.peers.items() if peer.multiplication is None))
    return replace(then, share=replace(then.share, guard=share.guard))


def discarded_text(peer: PartyId) -> str:
    """Return the error text for a peer whose multiplication state was discarded."""
    return (
        f"the multiplication state with party {peer} was discarded after an attack; "
        "reshare the key first"
    )


ECDSA: Definition[EcdsaSetup, EcdsaSignature] = Definition(
    name="ecdsa",
    number=2,
    rounds=ROUNDS,
    setup=EcdsaSetup,
    roles=lambda setup: {"all": setup.signers},
    wire=lambda setup: WireContext(SECP256K1, setup.mta),
    pair_secrets=lambda setup: {j: peer.pair_secret for j, peer in setup.share.peers.items()},
    hedge=lambda setup: (setup.share.secret_share.encode(), setup.context()),
    early_secrets=lambda setup: setup.share.early_keys(setup.signers),
    check=check_setup,
    adapt=adapt_setup,
)


def setup(
    share: KeyShare, signers: tuple[int, ...], message_hash: bytes, *, path: Path = ()
) -> EcdsaSetup:
    """Return a checked set-up.

    Args:
        share: this signer's key share.
        signers: identifiers of everyone who signs, this party included.
        message_hash: 32 bytes.
        path: path of the child key to sign with; empty: the key itself.

    Raises:
        UsageError: a wrong hash length, or as from ``check_setup``.
    """
    check_type("share", share, KeyShare)
    check_hash("message_hash", message_hash)
    agreed = EcdsaSetup(share, party_ids(signers, "signers"), message_hash, path)
    check_setup(agreed, share.identifier)
    check_usable(agreed)
    return agreed


def check_hash(argument: str, value: bytes) -> None:
    """Check that an argument has the form of a hash.

    Raises:
        UsageError: it is no 32 bytes.
    """
    check_type(argument, value, bytes)
    if len(value) != 32:
        raise UsageError(f"{argument.replace('_', ' ')} of {len(value)} bytes, expected 32")


def prestart(
    epoch: bytes,
    signers: Iterable[int],
    message_hash: bytes,
    *,
    path: Path = (),
    me: PartyId,
    auth_keys: Mapping[PartyId, bytes],
    session_id: bytes,
    rng: Rng | None = None,
) -> PrestartedParty[EcdsaSetup, EcdsaSignature]:
    """Return a signer that does not have its share yet, with its first message.

    Args:
        auth_keys: this signer's and every other signer's (``KeyShare.auth_key``).

    Raises:
        UsageError: as from ``setup``, as far as it can be seen already.
    """
    check_hash("epoch", epoch)
    everyone = party_ids(signers, "signers")
    check_hash("message_hash", message_hash)
    said = context(epoch, everyone, message_hash, check_path(path))
    return PrestartedParty(
        ECDSA,
        lambda rng: commit(said, session_id, me, rng)[1],
        lambda share: setup(share, everyone, message_hash, path=path),
        me=me,
        secrets={j: auth_keys[j] for j in everyone if j != me},
        wire=WireContext(SECP256K1),
        session_id=session_id,
        hedge=(*prestart_hedge(auth_keys), said),
        rng=rng,
    )


def party(
    agreed: EcdsaSetup,
    *,
    session_id: bytes,
    rng: Rng | None = None,
    listener: Listener = silent,
) -> Party[EcdsaSetup, EcdsaSignature]:
    """Return one signer; its result is an ``EcdsaSignature``.

    Raises:
        UsageError: the session id has the wrong length.
    """
    return Party(
        ECDSA,
        agreed,
        agreed.share.identifier,
        session_id=session_id,
        rng=rng,
        listener=listener,
    )
