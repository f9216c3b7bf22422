"""Real key shares, from real key generations, kept for the whole process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from mpcsim.hashing import Tag, tagged_hash
from mpcsim.ids import PartyId
from mpcsim.keyshare import Guard, KeyShare
from mpcsim.protocols import dkg
from mpcsim.rng import SeededRng
from mpcsim.runner import results, run


def session_id(label: str) -> bytes:
    """32 bytes that name a session."""
    return tagged_hash(Tag.SESSION, b"testing", label.encode())


def real_shares(
    curve: str, threshold: int = 2, holders: int = 3, name: str = ""
) -> dict[PartyId, KeyShare]:
    """The shares of a key, by holder 1, 2, ...: the same in every process, as if just loaded.

    The key generation takes milliseconds on ed25519, and tens of milliseconds a party on secp256k1;
    it is done once. REPRODUCIBLE: whoever knows these arguments knows the key.

    Args:
        name: another name gives another key.
    """
    made = _made(curve, threshold, holders, name)
    return {i: as_loaded(share) for i, share in made.items()}


def as_loaded(share: KeyShare) -> KeyShare:
    """The share without what one session has discarded: the next test still has it."""
    return replace(share, guard=Guard())


@cache
def _made(curve: str, threshold: int, holders: int, name: str) -> Mapping[PartyId, KeyShare]:
    parties = tuple(range(1, holders + 1))
    agreed = dkg.setup(curve, threshold, parties)
    label = f"key {name}, {curve}, {threshold} of {holders}"
    return results(
        run(
            dkg.party(agreed, i, session_id=session_id(label), rng=SeededRng(f"{label}, {i}"))
            for i in parties
        )
    )
