"""Zero shares without interaction (DKLs23, Functionality 3.4).

Every pair of parties shares a seed from key generation. For a session, each derives one scalar
per pair; the lower-numbered party adds it and the higher-numbered one subtracts it, so that the
parties' sums add up to zero and any proper subset of honest ones looks uniform.
"""

from __future__ import annotations

from collections.abc import Mapping

from mpcsim.crypto.groups.group import Group, Scalar
from mpcsim.crypto.hashing import Tag


def zero_share(group: Group, me: int, seeds: Mapping[int, bytes], sid: bytes) -> Scalar:
    """zeta_i = sum_{j > i} H(seed_ij, sid) - sum_{j < i} H(seed_ij, sid).

    ``seeds`` holds the pairwise seeds of exactly the other participants of the session.
    """
    zeta = group.scalar(0)
    for j, seed in seeds.items():
        share = group.hash_to_scalar(Tag.ZERO_SHARE, seed, sid)
        zeta = zeta + share if j > me else zeta - share
    return zeta
