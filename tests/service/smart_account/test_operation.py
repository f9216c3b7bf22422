"""The fields of a user operation; its digest, against the EntryPoint itself, eth-account and ox."""

from pathlib import Path

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
from mpcsim.service.smart_account.errors import BadRequest
from mpcsim.service.smart_account.operation import fields
from mpcsim.service.smart_account.operation import operation as userop
from mpcsim.service.smart_account.operation.fields import FIELDS, SIGNED
from mpcsim.service.smart_account.operation.operation import UserOperation
from tests.helpers.reviewed import check_calls

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


def test_long_values_are_shown_by_their_beginning():
    assert fields.abbreviate(bytes(128)) == "0x" + "00" * 128
    beginning, _, rest = fields.abbreviate(bytes(129)).partition("...")
    assert (beginning, rest[:12]) == ("0x" + "00" * 16, " (129 bytes,")


@pytest.mark.parametrize("size", [1, 67, 68, 100])
def test_an_altered_call_has_as_many_bytes_and_another_amount(size):
    operation = userop.UserOperation(KEY.address, 0, b"", bytes(size), *[1] * 5, b"", b"")
    altered = anatomy.alter_field(operation, "call_data").call_data
    assert [i for i, byte in enumerate(altered) if byte] == [67 if size > 67 else size - 1]


@pytest.mark.parametrize("chain", ["embedded", "over_rpc"])
@settings(max_examples=60)
@given(operation=operations)
def test_the_digest_is_the_entry_points(chain, operation, request):
    on = request.getfixturevalue(chain)
    abi = contracts.entry_point().abi
    entry_point = on.service.deployment.entry_point
    expected = on.view(entry_point, abi, "getUserOpHash", operation.abi_tuple())
    assert operation.hash(entry_point, on.chain.chain_id) == expected


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
def flow(request, embedded, new_owner):
    return embedded.until_send(new_owner(request.node.name), to=RECIPIENT, sponsored=True)


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


# ---------------------------------------------------------------------- fields


# EIP-55's own example.
ADDRESS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


@given(st.integers(0, fields.UINT256_MAX))
def test_numbers_come_in_three_forms_and_go_out_in_hex(number):
    forms = (number, str(number), hex(number), f"0x{number:064X}")
    assert {fields.parse_number("nonce", form) for form in forms} == {number}
    assert fields.parse_number("nonce", fields.to_wire(number)) == number
    assert fields.to_wire(number) == hex(number)


@given(st.binary(max_size=200))
def test_bytes_round_trip(data):
    assert fields.parse_bytes("call_data", fields.to_wire(data)) == data
    assert fields.parse_bytes("call_data", "0x" + data.hex().upper()) == data


@pytest.mark.parametrize("name", fields.GAS)
def test_gas_values_end_where_the_entry_points_do(name):
    assert fields.FIELDS[name].parse(name, (1 << 120) - 1) == (1 << 120) - 1
    with pytest.raises(BadRequest, match=rf"^{name}: outside 0..2\^120-1"):
        fields.FIELDS[name].parse(name, 1 << 120)


def test_both_spellings_are_read_and_no_field_twice():
    read = fields.parse_fields({"callGasLimit": "5", "nonce": 1}, ("nonce", "call_gas_limit"))
    assert read == {"nonce": 1, "call_gas_limit": 5}
    with pytest.raises(BadRequest, match="call_data: there in both"):
        fields.parse_fields({"callData": "0x", "call_data": "0x"}, ("call_data",))
    for signature in ("0x1b", "1b"):  # the REST node's has no 0x
        assert fields.FIELDS["signature"].parse("signature", signature) == b"\x1b"


@pytest.mark.parametrize("value", [ADDRESS, ADDRESS.lower(), "0x" + ADDRESS[2:].upper()])
def test_addresses_come_out_with_their_checksum(value):
    assert fields.parse_address("sender", value) == ADDRESS


def test_what_is_no_value_of_a_field():
    def read(name, value):
        FIELDS[name].parse(name, value)

    names = {"read": read, "ADDRESS": ADDRESS, "MAX_BYTES": fields.MAX_BYTES}
    copy = Path(__file__).with_name("wrong_values.txt")
    check_calls(copy, refusal=BadRequest, **names)


BODY = {
    "sender": ADDRESS,
    "nonce": 0,
    "init_code": "0x",
    "call_data": "0x12",
    **dict.fromkeys(fields.GAS, 1),
    "paymaster_and_data": "0x",
}


@pytest.mark.parametrize("name", fields.SIGNED)
def test_each_missing_field_is_named(name):
    body = {key: value for key, value in BODY.items() if key != name}
    if fields.FIELDS[name].default is not None:
        assert getattr(UserOperation.from_request(body, signed=False), name) == b""
        return
    with pytest.raises(BadRequest, match=rf"^{name}: missing$"):
        UserOperation.from_request(body, signed=False)


@pytest.mark.parametrize("name", fields.SIGNED)
def test_each_malformed_field_is_named(name):
    for value in (None, "oops", [], {}, 1.5, True):
        with pytest.raises(BadRequest, match=rf"^{name}: "):
            UserOperation.from_request({**BODY, name: value}, signed=False)


@pytest.mark.parametrize("name", ["init_code", "paymaster_and_data"])
def test_a_contract_and_its_data_are_an_address_at_least(name):
    for length in (1, 19):
        with pytest.raises(BadRequest, match=rf"^{name}: neither 0x nor an address"):
            fields.FIELDS[name].parse(name, "0x" + "11" * length)
    assert [len(fields.FIELDS[name].parse(name, "0x" + "11" * n)) for n in (0, 20)] == [0, 20]


def test_unknown_fields_are_named():
    with pytest.raises(BadRequest, match=r"^gas: unknown field$"):
        UserOperation.from_request({**BODY, "gas": 1}, signed=False)
    with pytest.raises(BadRequest, match=r"^signature: unknown field$"):
        UserOperation.from_request({**BODY, "signature": "0x"}, signed=False)
    with pytest.raises(BadRequest, match=r"^signature: missing$"):
        UserOperation.from_request(BODY, signed=True)
