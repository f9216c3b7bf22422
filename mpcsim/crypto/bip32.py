"""Child keys of a public key: non-hardened derivation on secp256k1 (BIP 32, CKDpub).

With a public key K and its chain code, both public, everybody computes the same children
K_i = K + IL * G. Nobody needs a private key for that, and holders of shares of K sign under K_i
once they know its difference from K: the sum of all IL on the way, the *tweak*. Hardened children
hash the private key, which nobody has: there are none.

Symbols and names are those of BIP 32 (https://github.com/bitcoin/bips/blob/master/bip-0032.mediawiki).

Not here: private keys, seeds, other versions of the serialisation than mainnet's public keys.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import base58

from mpcsim.crypto.encoding import U32, Seq
from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.crypto.groups.secp256k1 import ORDER, SECP256K1
from mpcsim.crypto.hashing import u32
from mpcsim.errors import UsageError, check_type

Path = tuple[int, ...]
"""Path from a key to a descendant: child numbers, one a step. Empty: the key itself."""

FINGERPRINT_BYTES: Final = 4
HARDENED: Final = 1 << 31
"""First number of a hardened child."""
MAX_STEPS: Final = 10
"""Limit of steps in a path: twice the depth of BIP 44's. A caller's path costs a computation a
step."""
REMEMBERED: Final = 1024
"""Limit of cached children; some 800 bytes each."""

PATH = Seq(U32, MAX_STEPS)
"""Codec of a path. A decoded path is still to be checked (``check_path``)."""

_XPUB: Final = bytes.fromhex("0488b21e")
"""Version bytes of a public key on mainnet; the text begins with these letters."""
_NUMBER: Final = re.compile("0|[1-9][0-9]{0,9}")
_MARKED: Final = re.compile("[0-9]{1,10}['hH]")


@dataclass(frozen=True)
class ExtendedKey:
    """A public key with its chain code and its place in the tree."""

    public_key: Point
    chain_code: bytes
    """BIP 32 chain code, 32 bytes."""
    depth: int = 0
    """Number of steps from the key at the root."""
    parent: bytes = bytes(FINGERPRINT_BYTES)
    """Fingerprint of the parent: the first four bytes of its HASH160."""
    number: int = 0
    """Number of this child; 0 at the root."""

    def xpub(self) -> str:
        """Return the serialised key in Base58Check, 111 characters.

        Spec: BIP32 | Serialization format
        """
        return base58.b58encode_check(
            _XPUB
            + bytes([self.depth])
            + self.parent
            + u32(self.number)
            + self.chain_code
            + self.public_key.encode()
        ).decode()


class Derived(NamedTuple):
    """A child key, and its difference from the key it was derived from."""

    key: ExtendedKey
    tweak: Scalar
    """tau: the child's public key is the root's plus tau * G."""


def parse_path(text: str) -> Path:
    """Parse a path from a text such as ``m/0/7``; ``m/`` may be left out.

    Raises:
        UsageError: the text is no path, or ``check_path`` refuses it. The error names the step.
    """
    steps = text.split("/")
    if steps[0] == "m":
        del steps[0]
    if len(steps) > MAX_STEPS:  # nobody reads on
        raise _too_deep(len(steps))
    return check_path(tuple(_step(k, step) for k, step in enumerate(steps, 1)))


def _step(k: int, text: str) -> int:
    if _MARKED.fullmatch(text):
        raise _hardened(k, text)
    if not _NUMBER.fullmatch(text):
        raise _no_number(k)
    return int(text)


def check_path(path: Path) -> Path:
    """Check that a path can be derived without a private key, and return it.

    Raises:
        UsageError: too many steps, or one that is hardened or not a number; it names the step.
    """
    check_type("path", path, tuple)
    if len(path) > MAX_STEPS:
        raise _too_deep(len(path))
    for k, number in enumerate(path, 1):
        check_type("path", number, int)
        if not 0 <= number < 2 * HARDENED:
            raise _no_number(k)
        if number >= HARDENED:
            raise _hardened(k, str(number))
    return path


def _too_deep(steps: int) -> UsageError:
    return UsageError(f"step {MAX_STEPS + 1} of {steps} is too deep: at most {MAX_STEPS} steps")


def _no_number(k: int) -> UsageError:
    return UsageError(f"step {k} is not a number from 0 to {HARDENED - 1} in decimal, as in m/0/7")


def _hardened(k: int, text: str) -> UsageError:
    return UsageError(
        f'step {k} ("{text}") is hardened: that takes the private key, which nobody has'
    )


def path_bytes(path: Path) -> bytes:
    """Encode the child numbers for hashing, four bytes each."""
    return b"".join(u32(number) for number in path)


def path_text(path: Path) -> str:
    """Return the path as text, ``m`` for the key itself; the inverse of ``parse_path``."""
    return "/".join(("m", *map(str, path)))


def check_curve(curve_name: str) -> None:
    """Check that a curve is one whose keys have children.

    Raises:
        UsageError: it is not.
    """
    if curve_name != SECP256K1.name:
        raise UsageError(f"{curve_name} keys have no chain code: BIP 32 derives on secp256k1 only")


def extended_key(curve_name: str, public_key: Point, chain_code: bytes | None) -> ExtendedKey:
    """Return a key as the root of its tree.

    Raises:
        UsageError: it has no chain code.
    """
    check_curve(curve_name)
    if chain_code is None:
        raise UsageError("this key has no chain code")
    return ExtendedKey(public_key, chain_code)


@lru_cache(REMEMBERED)
def derive(root: ExtendedKey, path: Path) -> Derived:
    """Return the key at the end of a path.

    Raises:
        UsageError: as from ``check_path``; or there is no key on the way, which happens with
            probability 2^-127 a step.
    """
    key, tweak = root, SECP256K1.scalar(0)
    for k, number in enumerate(check_path(path), 1):
        found = _child(key, number)
        if found is None:
            raise UsageError(f"step {k} ({number}) leads to no key (BIP 32): take the next number")
        key, tweak = found.key, tweak + found.tweak
    return Derived(key, tweak)


def _child(key: ExtendedKey, number: int) -> Derived | None:
    """K_i = point(IL) + K, c_i = IR; None if IL >= n or K_i is the point at infinity.

    Spec: BIP32 | Public parent key -> public child key
    """
    K = key.public_key.encode()
    digest = hmac.digest(key.chain_code, K + u32(number), "sha512")
    IL, IR = int.from_bytes(digest[:32], "big"), digest[32:]
    if IL >= ORDER:
        return None
    tweak = SECP256K1.scalar(IL)
    K_i = SECP256K1.base(tweak) + key.public_key
    if K_i.is_identity:
        return None
    fingerprint = hash160(K)[:FINGERPRINT_BYTES]
    return Derived(ExtendedKey(K_i, IR, key.depth + 1, fingerprint, number), tweak)


def _has_ripemd160() -> bool:
    """Return whether hashlib has it: before OpenSSL 3.0.7 it is in the legacy provider only."""
    try:
        hashlib.new("ripemd160")
    except ValueError:
        return False
    return True


_OPENSSL_HAS_RIPEMD160: Final = _has_ripemd160()


def hash160(data: bytes) -> bytes:
    """Return RIPEMD-160 of SHA-256 (Bitcoin's HASH160); 20 bytes."""
    digest = hashlib.sha256(data).digest()
    if _OPENSSL_HAS_RIPEMD160:
        return hashlib.new("ripemd160", digest).digest()
    from Crypto.Hash import RIPEMD160

    return RIPEMD160.new(digest).digest()
