"""Presignatures: everything of an ECDSA signature that does not depend on the message, made ahead.

Ideal functionality: t or more holders of a key draw nonces together, and each gets its part of so
many presignatures; with one of them, and all its parts, one message can be signed in one message
(``mpcsim.protocols.presigned``). Fewer than all learn nothing that helps to sign.

Protocol: DKLs23 (eprint 2023/765, Protocol 3.6), steps 4 to 9 without w_i, with every check that
signing has (the functions are the same, ``ecdsa.products``), for all presignatures of a session at
once: as many messages as for one signature but for its last. Each has commitments, transcript,
multiplications and zero shares of its own. Beyond the paper, every signer commits to a random rho_i
for each; the echo covers it. What rho_i is for, and why nonces must be re-randomised, is said in
``presigned``.

Assumptions: as ``ecdsa``.

What the caller must provide: all that ``ecdsa`` asks for, and a place for the presignatures from
which each can be taken at most once, whatever crashes, is repeated or restored. Who is through
first has its presignatures although the last message may fail its checks at the other signer: such
a presignature is of no use, and is refused when it is used.

Not here: identifying who sent a wrong psi; it shows when a signature fails to verify.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mpcsim.crypto.encoding import WireContext
from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.crypto.rng import Rng
from mpcsim.errors import UsageError, check_type
from mpcsim.ids import PartyId, party_ids
from mpcsim.protocols import ecdsa
from mpcsim.protocols.engine import Definition, Party
from mpcsim.protocols.engine.envelope import MAX_ENVELOPE_BYTES
from mpcsim.protocols.engine.events import Listener, silent
from mpcsim.protocols.engine.prestart import PrestartedParty, prestart_hedge
from mpcsim.protocols.key_share import KeyShare
from mpcsim.protocols.presign.messages import MAX_COUNT
from mpcsim.protocols.presign.presignature import Presignature
from mpcsim.protocols.presign.rounds import ROUNDS, PresignSetup, commit, context


def check_setup(agreed: PresignSetup, me: PartyId) -> None:
    """Check a set-up for everything that can be wrong before a session begins.

    Raises:
        UsageError: as from ``setup``.
    """
    ecdsa.check_signer(agreed, me)
    _check_count(agreed.count)


PRESIGN: Definition[PresignSetup, tuple[Presignature, ...]] = Definition(
    name="presign",
    number=5,
    rounds=ROUNDS,
    setup=PresignSetup,
    roles=lambda setup: {"all": setup.signers},
    wire=lambda setup: WireContext(SECP256K1, setup.mta),
    pair_secrets=lambda setup: {j: peer.pair_secret for j, peer in setup.share.peers.items()},
    hedge=lambda setup: (setup.share.secret_share.encode(), setup.context()),
    early_secrets=lambda setup: setup.share.early_keys(setup.signers),
    check=check_setup,
    adapt=ecdsa.adapt_setup,
    largest=MAX_ENVELOPE_BYTES,
)


def setup(share: KeyShare, signers: tuple[int, ...], count: int) -> PresignSetup:
    """Return a checked set-up.

    Args:
        share: this signer's key share.
        signers: identifiers of all who make the presignatures and will sign with them, this party
            included.
        count: how many, 1 to 64. The largest message has some 40 kB for each.

    Raises:
        UsageError: wrong curve or count; too few, unknown or duplicate signers; this party not
            among them; multiplication state with one of them discarded.
    """
    check_type("share", share, KeyShare)
    agreed = PresignSetup(share, party_ids(signers, "signers"), count)
    check_setup(agreed, share.identifier)
    ecdsa.check_usable(agreed)
    return agreed


def _check_count(count: int) -> None:
    check_type("count", count, int)
    if not 1 <= count <= MAX_COUNT:
        raise UsageError(f"{count} presignatures; a session makes 1 to {MAX_COUNT}")


def prestart(
    epoch: bytes,
    signers: Iterable[int],
    count: int,
    *,
    me: PartyId,
    auth_keys: Mapping[PartyId, bytes],
    session_id: bytes,
    rng: Rng | None = None,
) -> PrestartedParty[PresignSetup, tuple[Presignature, ...]]:
    """Return a signer that does not have its share yet, with its first message.

    Args:
        auth_keys: this signer's and every other signer's (``KeyShare.auth_key``).

    Raises:
        UsageError: as from ``setup``, as far as it can be seen already.
    """
    ecdsa.check_hash("epoch", epoch)
    everyone = party_ids(signers, "signers")
    _check_count(count)
    said = context(epoch, everyone, count)
    return PrestartedParty(
        PRESIGN,
        lambda rng: commit(said, count, session_id, me, rng)[1],
        lambda share: setup(share, everyone, count),
        me=me,
        secrets={j: auth_keys[j] for j in everyone if j != me},
        wire=WireContext(SECP256K1),
        session_id=session_id,
        hedge=(*prestart_hedge(auth_keys), said),
        rng=rng,
    )


def party(
    agreed: PresignSetup,
    *,
    session_id: bytes,
    rng: Rng | None = None,
    listener: Listener = silent,
) -> Party[PresignSetup, tuple[Presignature, ...]]:
    """Return one signer; its result is its part of each ``Presignature``.

    Raises:
        UsageError: the session id has the wrong length.
    """
    return Party(
        PRESIGN,
        agreed,
        agreed.share.identifier,
        session_id=session_id,
        rng=rng,
        listener=listener,
    )
