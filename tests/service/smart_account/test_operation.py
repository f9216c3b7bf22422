"""The digest, against the EntryPoint itself, eth-account and ox."""

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct
from eth_utils.address import to_checksum_address
from hypothesis import given, settings
from hypothesis import strategies as st

from mpcsim.service.smart_account.chain import contracts
from mpcsim.service.smart_account.operation.operation import (
    UserOperation,
    bind,
    personal_hash,
    personal_message,
)

KEY = Account.from_key(b"\x11" * 32)

numbers = st.one_of(st.integers(0, 2**256 - 1), st.integers(0, 2**32))
blobs = st.binary(max_size=300)
operations = st.builds(
    UserOperation,
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
    assert digest == bind(operation.inner_hash(), here, chain_id)
    assert digest != operation.hash(there, chain_id)
    assert digest != operation.hash(here, chain_id + 1)


@given(st.binary(min_size=32, max_size=32))
def test_personal_sign_is_eip_191(digest):
    message = encode_defunct(primitive=digest)
    assert personal_message(digest) == b"\x19" + message.version + message.header + message.body
    signed = KEY.sign_message(message)
    assert personal_hash(digest) == signed.message_hash
    assert KEY.unsafe_sign_hash(personal_hash(digest)).signature == signed.signature
