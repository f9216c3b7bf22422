"""The words of a digest, and operations with one field changed."""

import pytest
from eth_abi import encode
from eth_utils import keccak

from mpcsim.service.smart_account.client import anatomy
from mpcsim.service.smart_account.client.anatomy import Kind
from mpcsim.service.smart_account.operation.fields import FIELDS, SIGNED

RECIPIENT = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


@pytest.fixture
def flow(request, embedded, new_plain_owner):
    return embedded.until_send(new_plain_owner(request.node.name), to=RECIPIENT, sponsored=True)


def test_the_words_are_the_encoding(flow):
    words = anatomy.packed_words(flow.operation)
    assert [word.name for word in words] == list(SIGNED)
    assert [word.offset for word in words] == list(range(0, 320, 32))
    assert b"".join(word.data for word in words) == flow.packed
    for word in words:
        value = flow.fields[word.name]
        if isinstance(value, bytes):
            assert (word.kind, word.data) == (Kind.HASH, keccak(value))
            assert word.made == f"Keccak-256 of {len(value)} bytes"
        else:
            assert word.data == encode([FIELDS[word.name].abi_type], [value])
            kind = Kind.NUMBER if isinstance(value, int) else Kind.ADDRESS
            assert word.kind is kind


def test_the_bound_words_hash_to_the_digest(flow):
    words = anatomy.bound_words(flow.inner_hash, flow.entry_point, flow.chain_id)
    assert [word.name for word in words] == ["inner hash", "EntryPoint", "chain id"]
    assert keccak(b"".join(word.data for word in words)) == flow.digest
    assert words[2].made == "number 31,337"
