"""Presignatures to test with, made by real sessions, once."""

from dataclasses import replace
from functools import cache

from mpcsim.protocols import presign
from mpcsim.protocols.presign import Presignature
from mpcsim.protocols.presign.presignature import Use
from mpcsim.rng import SeededRng
from mpcsim.runner import results, run
from mpcsim.sample_keys import keys, session_id


@cache
def made(
    t: int, n: int, signers: tuple[int, ...], count: int = 1, label: str = ""
) -> dict[int, tuple[Presignature, ...]]:
    """Every signer's parts, of the (t, n) key of ``sample_keys``."""
    shares, name = keys("secp256k1", t, n), f"presignatures {label}, {t}, {n}, {signers}, {count}"
    return results(
        run(
            presign.party(
                presign.setup(shares[i], signers, count),
                session_id=session_id(name),
                rng=SeededRng(f"{name}, {i}"),
            )
            for i in signers
        )
    )


def as_loaded(presignature: Presignature) -> Presignature:
    """The presignature as if it had not been used: the next test still has it."""
    return replace(presignature, use=Use())
