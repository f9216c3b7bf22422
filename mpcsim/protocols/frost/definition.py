"""Threshold Ed25519 signatures: FROST(Ed25519, SHA-512) of RFC 9591.

Ideal functionality: t or more holders of a key share who agree on a message obtain an Ed25519
signature of it under the shared key, as any verifier of RFC 8032 accepts it; fewer than t learn
nothing that helps to sign anything else. A signature that comes out is valid; if none comes out,
those who sent a bad share are named, all at once.

Protocol: two messages deep (commitments, signature shares), broadcast and sealed end to end under
the pair secrets of key generation. There is no coordinator: every signer aggregates for itself
(RFC 9591, section 7.5). Beyond the RFC, the first message carries a digest of what the session is
about and the second a digest of the commitments seen, so a disagreement shows up as such, not as
an invalid share.

Assumptions: one-more discrete logarithm; random oracles. The caller provides a key share and the
signers and message all agreed upon, and resumes a snapshot at most once: two copies that go on
with different commitments use the same nonces twice, which gives the key share away.

Not here: robustness (one signer can stop the run), nonces generated ahead of the message, and
protection from timing side channels (Python offers none).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mpcsim.crypto.encoding import WireContext
from mpcsim.crypto.groups.ed25519 import ED25519
from mpcsim.crypto.rng import Rng
from mpcsim.errors import UsageError, check_type
from mpcsim.ids import PartyId, party_ids
from mpcsim.protocols.engine import Definition, Party
from mpcsim.protocols.engine.events import Listener, silent
from mpcsim.protocols.engine.prestart import PrestartedParty, prestart_hedge
from mpcsim.protocols.frost import steps
from mpcsim.protocols.frost.rounds import (
    AGGREGATE,
    COMMIT,
    MAX_MESSAGE_BYTES,
    SIGN,
    FrostSetup,
    commit,
    context,
)
from mpcsim.protocols.frost.steps import Ed25519Signature
from mpcsim.protocols.key_share import KeyShare, check_signers


def check_setup(agreed: FrostSetup, me: PartyId) -> None:
    """Check a set-up for everything that can be wrong before a session begins.

    Raises:
        UsageError: wrong curve; too few, unknown or duplicate signers; this party not among them.
    """
    if agreed.share.group is not ED25519:
        raise UsageError(f"FROST signs with ed25519 shares, not {agreed.share.group.name}")
    check_signers(agreed.share, agreed.signers, me)


FROST: Definition[FrostSetup, Ed25519Signature] = Definition(
    name="frost",
    number=3,
    rounds=(COMMIT, SIGN, AGGREGATE),
    setup=FrostSetup,
    roles=lambda setup: setup.roles(),
    wire=lambda setup: WireContext(ED25519),
    pair_secrets=lambda setup: setup.pair_secrets(),
    hedge=lambda setup: (setup.share.secret_share.encode(), setup.context()),
    early_secrets=lambda setup: setup.share.early_keys(setup.signers),
    check=check_setup,
)


def setup(share: KeyShare, signers: Iterable[int], message: bytes) -> FrostSetup:
    """Return a checked set-up.

    Args:
        share: this signer's key share, on ed25519.
        signers: identifiers of all who sign, this signer included; at least the threshold.
        message: what to sign, up to 65,536 bytes; it may be empty (RFC 8032 allows that).

    Raises:
        UsageError: wrong curve, too few signers, bad or duplicate identifiers, signers without a
            share, this signer not among them, or a message that is too long.
    """
    _check_message(message)
    check_type("share", share, KeyShare)
    agreed = FrostSetup(share, party_ids(signers, "signers"), message)
    check_setup(agreed, share.identifier)
    return agreed


def prestart(
    epoch: bytes,
    signers: Iterable[int],
    message: bytes,
    *,
    me: PartyId,
    auth_keys: Mapping[PartyId, bytes],
    session_id: bytes,
    rng: Rng | None = None,
) -> PrestartedParty[FrostSetup, Ed25519Signature]:
    """Return a signer that does not have its share yet, with its first message.

    Args:
        auth_keys: this signer's and every other holder's (``KeyShare.auth_key``).

    Raises:
        UsageError: as from ``setup``, as far as it can be seen already.
    """
    for argument, value in (("epoch", epoch), ("session_id", session_id)):
        check_type(argument, value, bytes)
    everyone = party_ids(signers, "signers")
    _check_message(message)
    hedge = steps.prestart_hedge(auth_keys, session_id, everyone, message)
    said = context(epoch, everyone, message)
    return PrestartedParty(
        FROST,
        lambda rng: commit(said, hedge, rng)[1],
        lambda share: replace(setup(share, everyone, message), hedge=hedge.encode()),
        me=me,
        secrets={j: auth_keys[j] for j in everyone if j != me},
        wire=WireContext(ED25519),
        session_id=session_id,
        hedge=(*prestart_hedge(auth_keys), said),
        rng=rng,
    )


def _check_message(message: bytes) -> None:
    check_type("message", message, bytes)
    if len(message) > MAX_MESSAGE_BYTES:
        raise UsageError(f"message of {len(message)} bytes; at most {MAX_MESSAGE_BYTES}")


def party(
    agreed: FrostSetup,
    *,
    session_id: bytes,
    rng: Rng | None = None,
    listener: Listener = silent,
) -> Party[FrostSetup, Ed25519Signature]:
    """Return the holder of the set-up's share as a signer; its result is an ``Ed25519Signature``.

    Raises:
        UsageError: the session id has the wrong length.
    """
    return Party(
        FROST,
        agreed,
        agreed.share.identifier,
        session_id=session_id,
        rng=rng,
        listener=listener,
    )
