"""Cryptographic building blocks: pure functions, no parties, no rounds, no I/O.

Imports nothing of this package but ``errors`` and ``ids``. In reading order:

- ``hashing``: domain-separated hashes; ``params``: security parameters; ``rng``: randomness
- ``groups``: secp256k1, ed25519, polynomials; ``encoding``: the one place where bytes become values
- ``commitment``, ``schnorr``, ``zero_share``, ``bip32``
- ``kernels``: bulk work on buffers, plain and vectorised
- ``ot``: base, extended and all-but-one oblivious transfer
- ``mta``: multiplicative-to-additive conversion over it
"""

from mpcsim.crypto.commitment import commit, opens
from mpcsim.crypto.encoding import (
    BYTES32,
    NO_CONTEXT,
    POINT,
    SCALAR,
    U16,
    U32,
    Bytes,
    Fixed,
    Message,
    Optional,
    PerParty,
    Seq,
    WireContext,
    wire,
)
from mpcsim.crypto.hashing import HashTag, Tag, tagged_hash, u32
from mpcsim.crypto.rng import Rng, SeededRng, SystemRng

__all__ = [
    "BYTES32",
    "NO_CONTEXT",
    "POINT",
    "SCALAR",
    "U16",
    "U32",
    "Bytes",
    "Fixed",
    "HashTag",
    "Message",
    "Optional",
    "PerParty",
    "Rng",
    "SeededRng",
    "Seq",
    "SystemRng",
    "Tag",
    "WireContext",
    "commit",
    "opens",
    "tagged_hash",
    "u32",
    "wire",
]
