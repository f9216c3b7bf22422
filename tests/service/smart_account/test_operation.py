"""The digest, against the EntryPoint itself, eth-account and ox; and its words."""

import pytest
from eth_abi import encode
from eth_account import Account
from eth_account.messages import encode_defunct
from eth_utils import keccak
from eth_utils.address import to_checksum_address
from hypothesis import given, settings
from hypothesis import strategies as st

from mpcsim.service.smart_account.chain import contracts
from mpcsim.service.smart_account.client import anatomy
from mpcsim.service.smart_account.client.anatomy import Kind
from mpcsim.service.smart_account.operation import operation as userop
from mpcsim.service.smart_account.operation.fields import FIELDS, SIGNED

KEY = Account.from_key(b"\x11" * 32)

numbers = st.one_of(st.integers(0, 2**256 - 1), st.integers(0, 2**32))
blobs = st.binary(max_size=300)
operations = st.builds(
    userop.UserOperation,
    st.binary(min_size=20, max_size=20).map(to_checksum_address),
    numbers,
    blobs,
    blobs,
    *(numbers for _ in range(5)),
    blobs,
    blobs,
)


@pytest.mark.parametrize("chain", ["embedded", "over_rpc"])
@settings(max_examples=60)
@given(operation=operations)
def test_the_digest_is_the_entry_points(chain, operation, request):
    on = request.getfixturevalue(chain)
    abi = contracts.entry_point().abi
    entry_point = on.service.deployment.entry_point
    expected = on.view(entry_point, abi, "getUserOpHash", operation.abi_tuple())
    assert operation.hash(entry_point, on.chain.chain_id) == expected


@given(operations, st.integers(1, 2**64))
def test_the_digest_binds_entry_point_and_chain(operation, chain_id):
    here, there = to_checksum_address(b"\x11" * 20), to_checksum_address(b"\x12" * 20)
    digest = operation.hash(here, chain_id)
    assert digest == userop.bind(operation.inner_hash(), here, chain_id)
    assert digest != operation.hash(there, chain_id)
    assert digest != operation.hash(here, chain_id + 1)


@given(st.binary(min_size=32, max_size=32))
def test_personal_sign_is_eip_191(digest):
    message = encode_defunct(primitive=digest)
    assert (
        userop.personal_message(digest) == b"\x19" + message.version + message.header + message.body
    )
    signed = KEY.sign_message(message)
    assert userop.personal_hash(digest) == signed.message_hash
    assert KEY.unsafe_sign_hash(userop.personal_hash(digest)).signature == signed.signature


# ---------------------------------------------------------------------- words


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
