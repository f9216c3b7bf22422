"""Real key shares and presignatures for tests, attacks and demonstrations: made by real sessions,
kept for the whole process, and the same in every process and on every machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from mpcsim.crypto.hashing import Tag, tagged_hash
from mpcsim.crypto.rng import SeededRng
from mpcsim.ids import PartyId
from mpcsim.protocols import dkg, presign
from mpcsim.protocols.key_share import Guard, KeyShare
from mpcsim.protocols.local_run import results, run
from mpcsim.protocols.presign import Presignature
from mpcsim.protocols.presign.presignature import Use

__all__ = ["with_fresh_guard", "keys", "presignatures", "session_id", "as_unused"]


def session_id(label: str) -> bytes:
    """Return a session id, 32 bytes."""
    return tagged_hash(Tag.SESSION, b"sample", label.encode())


def keys(curve: str, t: int = 2, n: int = 3, name: str = "") -> dict[int, KeyShare]:
    """Return the shares of a (t, n) key by holder 1, 2, ..., as if just loaded.

    The key generation takes milliseconds on ed25519, and tens of milliseconds a party on secp256k1;
    it is done once. REPRODUCIBLE: whoever knows these arguments knows the key.

    Args:
        name: another name gives another key.
    """
    made = _made(curve, t, n, name)
    return {i: with_fresh_guard(share) for i, share in made.items()}


def with_fresh_guard(share: KeyShare) -> KeyShare:
    """Return the share with a fresh guard, without what another session has discarded."""
    return replace(share, guard=Guard())


@cache
def _made(curve: str, t: int, n: int, name: str) -> Mapping[PartyId, KeyShare]:
    parties = tuple(range(1, n + 1))
    agreed = dkg.setup(curve, t, parties)
    label = f"key {name}, {curve}, {t} of {n}"
    return results(
        run(
            dkg.party(agreed, i, session_id=session_id(label), rng=SeededRng(f"{label}, {i}"))
            for i in parties
        )
    )


def presignatures(
    t: int, n: int, signers: tuple[int, ...], count: int = 1, name: str = ""
) -> dict[int, tuple[Presignature, ...]]:
    """Return every signer's parts of presignatures with the (t, n) key, as if just loaded.

    REPRODUCIBLE: whoever knows these arguments knows the nonces, and with a signature the key.

    Args:
        name: another name gives others.
    """
    made = _presigned(t, n, signers, count, name)
    return {i: tuple(map(as_unused, parts)) for i, parts in made.items()}


def as_unused(presignature: Presignature) -> Presignature:
    """Return the presignature as if no session had used it."""
    return replace(presignature, use=Use())


@cache
def _presigned(
    t: int, n: int, signers: tuple[int, ...], count: int, name: str
) -> Mapping[PartyId, tuple[Presignature, ...]]:
    shares = keys("secp256k1", t, n)
    label = f"presignatures {name}, {t} of {n}, {signers}, {count}"
    return results(
        run(
            presign.party(
                presign.setup(shares[i], signers, count),
                session_id=session_id(label),
                rng=SeededRng(f"{label}, {i}"),
            )
            for i in signers
        )
    )
