"""Steps of presigning that signing does not have."""

from __future__ import annotations

from mpcsim.crypto.commitment import commit, opens
from mpcsim.crypto.hashing import Tag, tagged_hash, u32
from mpcsim.errors import Reason, check
from mpcsim.ids import PartyId


def derive_name(of: bytes, k: int) -> bytes:
    """Return the name of presignature k, derived from a session id or a transcript; 32 bytes.

    Every nonce has commitments, multiplications and zero shares of its own: none of them may be of
    use, or in the way, in another.
    """
    return tagged_hash(Tag.PRESIGN, of, u32(k))


def commit_later(name: bytes, i: PartyId, blinding: bytes, rho_i: bytes) -> bytes:
    """Commit to rho_i, which re-randomises the nonce once the message is known."""
    return commit(name, i, blinding, rho_i)


def check_later(name: bytes, j: PartyId, commitment: bytes, blinding: bytes, rho_j: bytes) -> None:
    """Check that rho_j is what party j committed to when the presignature was made.

    Raises:
        CheckFailed: COMMITMENT_OPENING, naming ``j``.
    """
    check(opens(commitment, name, j, blinding, rho_j), Reason.COMMITMENT_OPENING, j)
