"""Framing of what is hashed, against the same in one line."""

import hashlib

import pytest

from mpcsim.crypto.hashing import Tag, tagged_hash, tagged_mac, tagged_xof


def framed(tag, *parts):
    return b"".join(len(part).to_bytes(8, "big") + part for part in (tag.value.encode(), *parts))


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (b"",),
        (b"", b""),
        (b"%b", b"%%", b"%d%s"),
        (bytes(37), b"a" * 0x25, b"%" * 0x2525),  # lengths with a percent sign's byte in them
        (b"a", bytes(36), bytes(38), bytes(40_000)),
    ],
    ids=lambda parts: str([len(part) for part in parts]),
)
def test_tag_and_parts_stand_behind_their_lengths(parts):
    key = bytes(range(32))
    for tag in Tag:
        data = framed(tag, *parts)
        mac = hashlib.blake2b(data, key=key, digest_size=32).digest()
        assert tagged_hash(tag, *parts) == hashlib.sha256(data).digest()
        assert tagged_mac(tag, key, *parts) == mac
        assert tagged_xof(tag, 48, *parts) == hashlib.shake_128(data).digest(48)
