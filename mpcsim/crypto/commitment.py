"""Hash commitments: V = H(session, committer, values..., u) with 32 random bytes u.

Hiding and binding in the random-oracle model. Session and committer are inside the hash, so a
rushing party cannot pass off a copied commitment as its own.
"""

from __future__ import annotations

import hmac

from mpcsim.crypto.hashing import Tag, tagged_hash, u32


def commit(session_id: bytes, committer: int, blinding: bytes, *values: bytes) -> bytes:
    """The 32-byte commitment to ``values``."""
    return tagged_hash(Tag.COMMITMENT, session_id, u32(committer), blinding, *values)


def opens(
    commitment: bytes, session_id: bytes, committer: int, blinding: bytes, *values: bytes
) -> bool:
    """Return whether ``values`` and ``blinding`` open ``commitment``."""
    return hmac.compare_digest(commitment, commit(session_id, committer, blinding, *values))
