"""Key shares for tests, made by real key generations and kept for the whole test process.

``SeededRng`` makes them the same in every process and on every machine.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from mpcsim.hashing import Tag, tagged_hash
from mpcsim.ids import MPC_NODES
from mpcsim.keyshare import Guard, KeyShare
from mpcsim.mpc_node.identity import Identity
from mpcsim.protocols import dkg
from mpcsim.rng import SeededRng
from mpcsim.rpc.statements import KeyRecord, LogHead, SignedRecord, Vote
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


def said_to_be_signed(
    user_id: str, key_id: str, curve: str, public_key: bytes, number: int = 0
) -> SignedRecord:
    """A record as the registry keeps it, signed by MPC nodes of which nobody has heard."""
    signer = Identity(bytes(32))
    identities = dict.fromkeys(MPC_NODES, signer.public)
    record = KeyRecord(
        user_id, curve, public_key, bytes.fromhex(key_id), None, number, bytes(32), identities
    )
    head = LogHead(0, bytes(32))
    signature = signer.sign(Vote(record, head))
    return SignedRecord(record, dict.fromkeys(MPC_NODES, head), dict.fromkeys(MPC_NODES, signature))
