"""Blockchain addresses of a public key.

Each chain's own definition, step by step; the hashes and encodings are libraries'. All of these
but Aptos' and Bitcoin's are the same on the chain's test network.
"""

from __future__ import annotations

import hashlib

import base58
import bech32
from coincurve import PublicKey

from mpcsim.crypto.bip32 import hash160
from mpcsim.crypto.groups.curves import curve
from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.errors import InternalError

_TRON_PREFIX = b"\x41"
_XRP_ACCOUNT_PREFIX = b"\x00"
_WITNESS_VERSION = 0
_APTOS_SECP256K1_VARIANT = b"\x01"
"""Variant number in the enum AnyPublicKey, in BCS."""
_APTOS_SINGLE_KEY_SCHEME = b"\x02"


def addresses(
    curve_name: str, public_key: bytes, *, bitcoin_testnet: bool = False
) -> dict[str, str]:
    """The addresses that the key controls, by chain.

    ``evm``, ``btc``, ``aptos``, ``tron`` and ``xrp`` of a secp256k1 key; ``solana`` of an ed25519
    key.

    Args:
        public_key: compressed: 33 bytes (SEC 1) or 32 bytes (RFC 8032).

    Raises:
        UsageError: unknown curve.
        InvalidEncoding: not a public key of that curve.
    """
    group = curve(curve_name)
    group.decode_point(public_key)
    if group is not SECP256K1:
        return {"solana": solana(public_key)}
    uncompressed = PublicKey(public_key).format(compressed=False)
    return {
        "evm": evm(uncompressed),
        "btc": bitcoin(public_key, testnet=bitcoin_testnet),
        "aptos": aptos(uncompressed),
        "tron": tron(uncompressed),
        "xrp": xrp(public_key),
    }


def evm(uncompressed: bytes) -> str:
    """Last 20 bytes of the key's Keccak-256 (Ethereum yellow paper, 284), in EIP-55 capitals."""
    digits = _keccak256(uncompressed[1:])[-20:].hex()
    # EIP-55: a letter is a capital where the hash of the digits' text has a nibble from 8 on.
    nibbles = _keccak256(digits.encode()).hex()
    return "0x" + "".join(
        digit.upper() if int(nibble, 16) >= 8 else digit
        for digit, nibble in zip(digits, nibbles, strict=False)
    )


def bitcoin(compressed: bytes, *, testnet: bool = False) -> str:
    """Native segwit, P2WPKH (BIP 141, BIP 173): Bech32 of the key's HASH160."""
    prefix = "tb" if testnet else "bc"
    address = bech32.encode(prefix, _WITNESS_VERSION, hash160(compressed))
    if address is None:
        raise InternalError("Bech32 refused a witness program of 20 bytes")
    return address


def aptos(uncompressed: bytes) -> str:
    """Account address of a new single-key account: its authentication key (AIP-55).

    SHA3-256 of the BCS encoding of ``AnyPublicKey::Secp256k1Ecdsa`` and the scheme's number.
    """
    any_public_key = _APTOS_SECP256K1_VARIANT + bytes([len(uncompressed)]) + uncompressed
    return "0x" + hashlib.sha3_256(any_public_key + _APTOS_SINGLE_KEY_SCHEME).hexdigest()


def tron(uncompressed: bytes) -> str:
    """Base58Check of 0x41 and the same 20 bytes as on Ethereum."""
    account = _keccak256(uncompressed[1:])[-20:]
    return base58.b58encode_check(_TRON_PREFIX + account).decode()


def xrp(compressed: bytes) -> str:
    """Classic address: Base58Check in the XRP Ledger's alphabet of the key's HASH160."""
    account = _XRP_ACCOUNT_PREFIX + hash160(compressed)
    return base58.b58encode_check(account, alphabet=base58.XRP_ALPHABET).decode()


def solana(public_key: bytes) -> str:
    """The key itself in Base58."""
    return base58.b58encode(public_key).decode()


def _keccak256(data: bytes) -> bytes:
    """Keccak before it became SHA-3: other padding than ``hashlib.sha3_256``."""
    # Imported here: it brings a parser of C along, which a server does not start with.
    from Crypto.Hash import keccak

    return keccak.new(digest_bits=256, data=data).digest()
