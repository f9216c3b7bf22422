"""What requests to use a key are authenticated with."""

import hashlib

import pytest
from nacl.encoding import RawEncoder
from nacl.hash import blake2b

from mpcsim.ids import OPERATOR
from mpcsim.service.vault import SigningRequest, VaultUse, sha256_each

KEY = bytes(range(32))
EPOCH, BOOT, REPLY_KEY, SESSION = (bytes([n]) * 32 for n in (1, 2, 3, 4))
OPENING = VaultUse.for_opening(EPOCH, "user-7", BOOT[:16], REPLY_KEY)
SIGNED = SigningRequest(OPERATOR, SESSION, b"what is signed")
FIRST = sha256_each((b"first", b"second"))
SIGNING = VaultUse.for_signing(EPOCH, "user-7", BOOT[:16], SIGNED, FIRST)
PRESIGNED = VaultUse.for_presigned(EPOCH, "user-7", BOOT[:16], REPLY_KEY, b"what of it")
PRESIGNING = VaultUse.for_opening(EPOCH, "user-7", BOOT[:16], REPLY_KEY, presignatures=5)
ALLOWING = VaultUse.for_opening(EPOCH, "user-7", BOOT[:16], REPLY_KEY, using=b"what of it")
NONE = b"\0\0\0\0"


def framed(tag, *parts):
    return b"".join(len(p).to_bytes(8, "big") + p for p in (tag.encode(), *parts))


def sha256(data):
    return hashlib.sha256(data).digest()


def verify(mac, *parts):
    """By libsodium, of the parts that the documentation names."""
    data = framed("mpcsim/vault/use/v1", *parts)
    assert mac == blake2b(data, key=KEY, encoder=RawEncoder)


def test_recomputed_by_others():
    named = (EPOCH, b"user-7", BOOT[:16])
    verify(OPENING.mac(KEY), b"open", *named, REPLY_KEY, b"", b"", b"", b"", b"", NONE, b"")
    message = sha256(b"what is signed")
    first = sha256(b"first") + sha256(b"second")
    about = b"\0\0\0\2", SESSION, message, first
    verify(SIGNING.mac(KEY), b"sign", *named, b"", *about, b"", NONE, b"")
    child = SIGNING._replace(path=(0, 258)).mac(KEY)
    verify(child, b"sign", *named, b"", *about, b"\0\0\0\0" + b"\0\0\1\2", NONE, b"")
    with pytest.raises(AssertionError):
        verify(SIGNING.mac(KEY), b"sign", *named, b"", b"\0\0\0\3", *about[1:], b"", NONE, b"")
    about = REPLY_KEY, b"", b"", b"", b"", b""
    verify(PRESIGNED.mac(KEY), b"presigned", *named, *about, NONE, b"what of it")
    verify(ALLOWING.mac(KEY), b"open", *named, *about, NONE, b"what of it")
    verify(PRESIGNING.mac(KEY), b"open", *named, *about, b"\0\0\0\5", b"")


@pytest.mark.parametrize("use", [OPENING, SIGNING, PRESIGNED, PRESIGNING, ALLOWING])
def test_everything_is_bound(use):
    """Each of its fields is, too (``test_bindings``)."""
    mac = use.mac(KEY)
    assert use.is_authenticated_by(KEY, mac)
    assert not use._replace(verb="generate").is_authenticated_by(KEY, mac)
    for i in range(32):
        assert not use.is_authenticated_by(KEY, mac[:i] + bytes([mac[i] ^ 1]) + mac[i + 1 :])
        assert not use.is_authenticated_by(KEY, mac[:i])
        assert not use.is_authenticated_by(KEY[:i] + bytes([KEY[i] ^ 1]) + KEY[i + 1 :], mac)
