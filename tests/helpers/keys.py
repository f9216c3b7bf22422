"""Key shares for tests, made by real key generations and kept for the whole test process.

``SeededRng`` makes them the same in every process and on every machine.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from mpcsim.hashing import Tag, tagged_hash
from mpcsim.keyshare import Guard, KeyShare
from mpcsim.protocols import dkg
from mpcsim.rng import SeededRng
from mpcsim.runner import results, run


def session_id(label: str) -> bytes:
    """32 bytes that name a session."""
    return tagged_hash(Tag.SESSION, b"tests", label.encode())


def keys(curve: str, t: int = 2, n: int = 3, seed: str = "") -> dict[int, KeyShare]:
    """The n shares of a (t, n) key, by party 1..n. Another seed gives another key."""
    return {i: unspoilt(share) for i, share in _keys(curve, t, n, seed).items()}


def unspoilt(share: KeyShare) -> KeyShare:
    """The share as if just loaded: what one test discards, another still has."""
    return replace(share, guard=Guard())


@cache
def _keys(curve: str, t: int, n: int, seed: str) -> Mapping[int, KeyShare]:
    label = f"{curve}, {t} of {n}, {seed}"
    parties = tuple(range(1, n + 1))
    agreed = dkg.setup(curve, t, parties)
    outcomes = run(
        dkg.party(agreed, i, session_id=session_id(label), rng=SeededRng(f"{label}, party {i}"))
        for i in parties
    )
    return results(outcomes)
