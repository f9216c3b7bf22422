"""Randomness of a party: one drawn seed, hedged, and forked by round and received messages."""

from __future__ import annotations

from typing import Any

from mpcsim.crypto.hashing import Tag, tagged_hash, u32
from mpcsim.crypto.rng import Drbg
from mpcsim.ids import PartyId
from mpcsim.protocols.engine.contract import Definition, Round

NOTHING_RECEIVED = tagged_hash(Tag.RECEIVED, b"")
"""Digest of all that the first round was given: nothing."""


def hedged_seed(
    seed: bytes, definition: Definition[Any, Any], me: PartyId, session_id: bytes, *hedge: bytes
) -> bytes:
    """Return the root of a party's randomness: a drawn seed, hedged (``Definition.hedge``)."""
    return tagged_hash(Tag.HEDGE, seed, bytes([definition.number]), u32(me), session_id, *hedge)


def round_rng(root: Drbg, round_: Round, received: bytes) -> Drbg:
    """Return a round's randomness, which depends on everything that rounds were given by then."""
    return root.fork(f"round {round_.number} {received.hex()}")
