"""ECDSA with a presignature: one message from every other signer completes the signature.

Ideal functionality: the holders of all parts of a presignature (``presign``) who agree on a message
hash get its ECDSA signature; it comes out at one of them, who finishes. The others answer: each
sends numerator and denominator of s, w_i and u'_i, as in the last round of ``ecdsa``. Who finishes
never sends its own, and releases the signature only if it verifies.

Re-randomisation (Groth and Shoup, eprint 2021/1330). Who knows a nonce point R before the message
can choose the message by it: for any c, a signature (r, s) with R on the hash h = r h* / x(c R) is,
as (x(c R), s x(c R) / (r c)), one on h*. Where callers send raw hashes, as here, nobody sees that h
is no hash of anything; and with many presignatures at hand h need not even be special (a
generalised birthday does). So the nonce is moved, R' = R + delta G with

    delta = H(epoch, id, R, signers, path, public key, message hash, rho of the one who finishes;
              every rho_i of those who answer).

The equation now has the hash on both sides: R' is another, random point for every h. That alone
would leave a search over messages to anybody who can compute delta while the message is still to be
chosen. Nobody can:

- The rho_i of those who answer were committed to when the presignature was made, before there was a
  message, and each is opened only when a request has used the presignature up. Until then nobody
  else can compute delta, whatever message and rho it tries; and who answers has no choice left:
  another rho_i does not open the commitment.
- The rho of the one who finishes is fresh and comes with the request: those who answer could not
  compute delta for any message before, and cannot have made the presignature to suit one.
- With more than two signers, those who answer show each other their rho_i first. By then each has
  taken a request, and the digest of that goes along: if they were given different ones, none of
  them answers.
- Nobody supplies delta, everyone computes it. Who uses another makes a signature that does not
  verify.

So delta is a random oracle's answer to a question that an honest signer made unpredictable until
all else in it was fixed: as good as drawn at random once the request is there. That is what the
paper shows to be secure, with derived keys, too. As u and v are linear in nonce and key, delta and
the tweak tau of a derived key come in without another round (``steps``).

Single use. Two signatures with one presignature, on whatever messages, are two equations for the
nonce and the key: the one who finishes has the key. A ``Presignature`` is therefore marked as used
before anything is sent; and used, failed or doubtful means gone. The mark holds in one process. The
caller must provide the rest: a store that gives each presignature out once, whatever crashes, is
repeated or restored from a backup; and, where those who answer may be corrupt or rolled back with
their stores, somebody else who keeps the list of those that may still be used (in the wallet, the
MPC node that does not sign). A snapshot of a session holds the presignature: it is resumed at most
once.

Blame. Answers are sealed, and name the request that they answer; who answers another one is not
blamed, since it may have been misled. If the signature then fails, a single peer is convicted:
either its answer is false, or the psi was that it sent in presigning. Among several it cannot be
told.

Not here: identifying the cheater among three or more signers when only the sums are wrong.
"""

from __future__ import annotations

from mpcsim.crypto.bip32 import Path
from mpcsim.crypto.encoding import WireContext
from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.crypto.rng import Rng
from mpcsim.errors import UsageError, check_type
from mpcsim.ids import PartyId
from mpcsim.protocols.ecdsa import EcdsaSignature, check_hash
from mpcsim.protocols.engine import Definition, Party
from mpcsim.protocols.engine.events import Listener, silent
from mpcsim.protocols.key_share import KeyShare, check_signers
from mpcsim.protocols.presign import Presignature
from mpcsim.protocols.presigned.rounds import ROUNDS, PresignedSetup


def check_setup(agreed: PresignedSetup, me: PartyId) -> None:
    """Check a set-up for everything that can be wrong before a session begins.

    Raises:
        UsageError: a presignature of another epoch or holder; the one who finishes is none of its
            signers; a path that leads nowhere.
    """
    share, presignature = agreed.share, agreed.presignature
    if presignature.epoch != share.record.epoch:
        raise UsageError("the presignature was made with shares of another epoch")
    if presignature.holder != share.identifier:
        raise UsageError(f"the presignature is party {presignature.holder}'s")
    check_signers(share, presignature.signers, me)
    if agreed.finisher not in presignature.signers:
        raise UsageError(f"party {agreed.finisher}, who is to finish, is not a signer")
    share.record.derive(agreed.path)


PRESIGNED: Definition[PresignedSetup, EcdsaSignature | None] = Definition(
    name="presigned",
    number=6,
    rounds=ROUNDS,
    setup=PresignedSetup,
    roles=lambda setup: setup.roles(),
    wire=lambda setup: WireContext(SECP256K1),
    pair_secrets=lambda setup: {j: peer.pair_secret for j, peer in setup.share.peers.items()},
    hedge=lambda setup: (setup.share.secret_share.encode(), setup.message_hash, setup.rho),
    check=check_setup,
)


def setup(
    share: KeyShare,
    presignature: Presignature,
    finisher: int,
    message_hash: bytes,
    rho: bytes,
    *,
    path: Path = (),
) -> PresignedSetup:
    """Return a checked set-up.

    Args:
        share: this signer's key share.
        presignature: this signer's part of it, taken out of its store.
        finisher: signer that gets the signature; its answer is not sent.
        message_hash: 32 bytes.
        rho: 32 bytes, fresh and random from the one who finishes; the same for everyone.
        path: path of the child key to sign with; empty: the key itself. No presignature is bound to
            one.

    Raises:
        UsageError: a hash or rho of another length; a presignature that has been used, or is of
            another epoch or holder; the one who finishes is none of its signers; a path that leads
            nowhere.
    """
    check_type("share", share, KeyShare)
    check_type("presignature", presignature, Presignature)
    check_type("finisher", finisher, int)
    check_hash("message_hash", message_hash)
    check_hash("rho", rho)
    agreed = PresignedSetup(share, presignature, PartyId(finisher), message_hash, rho, path)
    check_setup(agreed, share.identifier)
    presignature.check_unused()
    return agreed


def party(
    agreed: PresignedSetup,
    *,
    session_id: bytes,
    rng: Rng | None = None,
    listener: Listener = silent,
) -> Party[PresignedSetup, EcdsaSignature | None]:
    """Return one signer; the result of the one who finishes is an ``EcdsaSignature``, of the others
    None.

    Its start uses the presignature up.

    Raises:
        UsageError: the session id has the wrong length; from ``start``: the presignature has been
            used since.
    """
    return Party(
        PRESIGNED,
        agreed,
        agreed.share.identifier,
        session_id=session_id,
        rng=rng,
        listener=listener,
    )
