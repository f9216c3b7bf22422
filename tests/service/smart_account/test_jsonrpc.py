"""The chain behind JSON-RPC: a node's moods, and what only a real node does."""

import gzip
import json
import socket
import threading
from pathlib import Path

import httpx
import pytest

from mpcsim.service.smart_account.chain import contracts, jsonrpc
from mpcsim.service.smart_account.chain.chain import Reverted
from mpcsim.service.smart_account.chain.jsonrpc import JsonRpcChain
from mpcsim.service.smart_account.client.client import RequestRefused
from mpcsim.service.smart_account.errors import ChainTimeout, ChainUnavailable
from tests.helpers.reviewed import check_calls

SOMEBODY = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


def chain_that_answers(reply):
    """A node that knows its chain id and otherwise answers ``reply`` (bytes, or an object)."""

    def handle(request):
        asked = json.loads(request.content)
        if asked["method"] == "eth_chainId":
            return httpx.Response(200, json={"jsonrpc": "2.0", "id": asked["id"], "result": "0x7"})
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, bytes):
            return httpx.Response(200, content=reply)
        if isinstance(reply, httpx.Response):
            assert request.headers["accept-encoding"] == "identity"
            return reply
        return httpx.Response(200, json={"jsonrpc": "2.0", "id": asked["id"], **reply})

    client = httpx.Client(transport=httpx.MockTransport(handle))
    return JsonRpcChain("http://node", client=client)


REVERTS = [
    ({"code": 3, "message": "execution reverted", "data": "0x1234"}, b"\x12\x34"),
    ({"code": -32000, "message": "revert", "data": {"data": "0x1234"}}, b"\x12\x34"),
    ({"code": -32015, "message": "VM error", "data": "Reverted 0x1234"}, b"\x12\x34"),
    ({"code": 3, "message": "execution reverted"}, b""),
    ({"code": -32000, "message": "out of gas: required 3"}, b""),
    ({"code": -32003, "message": "EVM error OutOfGas"}, b""),
]


@pytest.mark.parametrize(("error", "data"), REVERTS)
def test_reverts_in_the_dialects_of_nodes(error, data):
    chain = chain_that_answers({"error": error})
    with pytest.raises(Reverted, match=f"^0x{data.hex()}$") as reverted:
        chain.call(SOMEBODY, b"")
    assert reverted.value.data == data
    chain.close()
    assert chain._client.is_closed


def test_a_node_that_fails_is_unavailable():
    def call(reply):
        chain_that_answers(reply).call(SOMEBODY, b"")

    copy = Path(__file__).with_name("failing_nodes.txt")
    check_calls(copy, refusal=ChainUnavailable, call=call, httpx=httpx)


@pytest.mark.parametrize(
    ("newest", "first"), [(5, 0), (jsonrpc.LOG_BLOCKS - 1, 0), (jsonrpc.LOG_BLOCKS, 1)]
)
def test_logs_are_looked_for_so_many_blocks_back(newest, first):
    chain, asked = chain_that_answers({}), []

    def request(method, *params):
        asked.append(params)
        return hex(newest) if method == "eth_blockNumber" else []

    chain.request = request
    assert chain.logs(SOMEBODY, ()) == []
    assert asked[-1][0]["fromBlock"] == hex(first)


def test_a_number_has_64_bits_at_most():
    most = (1 << 64) - 1
    assert chain_that_answers({"result": hex(most)}).transaction_count(SOMEBODY) == most
    with pytest.raises(ChainUnavailable, match="with something else"):
        chain_that_answers({"result": hex(most + 1)}).transaction_count(SOMEBODY)


NONSENSE = [
    lambda chain: chain.code(SOMEBODY),
    lambda chain: chain.balance(SOMEBODY),
    lambda chain: chain.fees(),
    lambda chain: chain.timestamp(),
    lambda chain: chain.call(SOMEBODY, b""),
    lambda chain: chain.logs(SOMEBODY, []),
]


ODD = [None, 5, "zz", "0xzz", [], {}, {"baseFeePerGas": []}, True, "-0x1", "0x1" + "0" * 64]
ODD.append({"baseFeePerGas": ["0x1" + "0" * 24], "timestamp": "0x1" + "0" * 10})


@pytest.mark.parametrize("result", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("ask", NONSENSE)
def test_an_answer_that_makes_no_sense_is_none(result, ask):
    with pytest.raises(ChainUnavailable, match=r"answered eth_\w+ with something else"):
        ask(chain_that_answers({"result": result}))


@pytest.mark.parametrize("drops", [False, True])
def test_a_node_that_hangs_is_given_up(drops):
    """It says nothing, or a byte now and then and never all of it."""
    ended = threading.Event()

    def hang(listening):
        accepted, _ = listening.accept()
        with accepted:
            accepted.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n" if drops else b"")
            while not ended.wait(0.05):
                accepted.sendall(b" " if drops else b"")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=hang, args=[listening])
        thread.start()
        try:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            with (
                httpx.Client() as client,
                pytest.raises(ChainTimeout, match="eth_chainId: ReadTimeout") as hung,
            ):
                JsonRpcChain(url, client=client, timeout_s=0.3)
            assert hung.value.status == 504
        finally:
            ended.set()
            thread.join(10)


TOO_LONG = [
    # Nothing is decompressed: a megabyte of it could be a gigabyte.
    ({"content-encoding": "gzip"}, gzip.compress(b" " * 1000), "DecodingError"),
    ({}, b" " * jsonrpc.MAX_REPLY_BYTES, "JSONDecodeError"),
    ({}, b" " * (jsonrpc.MAX_REPLY_BYTES + 1), "DecodingError"),
]


@pytest.mark.parametrize(
    ("headers", "body", "says"), TOO_LONG, ids=["compressed", "at the limit", "too long"]
)
def test_an_answer_is_bounded_as_it_is_sent(headers, body, says):
    reply = httpx.Response(200, headers=headers, stream=httpx.ByteStream(body))
    with pytest.raises(ChainUnavailable, match=f"did not answer eth_call: {says}"):
        chain_that_answers(reply).call(SOMEBODY, b"")


def test_balances_are_for_one_call_only(on):
    stranger = on.stranger()
    balance = contracts.entry_point().abi.call("balanceOf", stranger)
    on.chain.call(on.service.deployment.entry_point, balance, balances={stranger: 10**18})
    assert on.chain.balance(stranger) == 0


def test_time_is_the_newest_blocks_or_the_clocks_whichever_is_later(over_rpc, anvil_url):
    newest = int(over_rpc.chain.request("eth_getBlockByNumber", "latest", False)["timestamp"], 16)
    for clock, expected in ((newest - 5, newest), (newest + 5, newest + 5)):
        chain = JsonRpcChain(anvil_url, clock=lambda clock=clock: clock + 0.5)
        assert chain.timestamp() == expected
        chain.close()


@pytest.fixture
def by_hand(over_rpc):
    """A node that makes a block only when told to."""
    over_rpc.chain.request("evm_setAutomine", False)
    yield over_rpc
    over_rpc.chain.request("evm_mine")
    over_rpc.chain.request("evm_setAutomine", True)


def send(on, flow, owner):
    while flow.user_op_hash is None:
        on.client.step(flow, owner.sign)


@pytest.mark.parametrize("same", [True, False])
def test_a_bundle_that_comes_too_late(over_rpc, owner, request, same):
    """Another bundler is faster: with the same operation, or with another one of that nonce."""
    on, account = over_rpc, over_rpc.account(owner)
    on.fund(account)
    on.run(owner, to=on.stranger(), value=1)
    on = request.getfixturevalue("by_hand")
    ours = on.until_send(owner, to=on.stranger(), value=1)
    other = ours if same else on.until_send(owner, to=on.stranger(), value=2)
    send(on, ours, owner)
    (rival,) = on.chain.request("eth_accounts")[1:2]
    call = contracts.entry_point().abi.call("handleOps", [other.operation.abi_tuple()], rival)
    rich = {"maxFeePerGas": hex(10**12), "maxPriorityFeePerGas": hex(10**11), "gas": hex(10**6)}
    bundle = {"from": rival, "to": on.service.deployment.entry_point, "data": "0x" + call.hex()}
    on.chain.request("eth_sendTransaction", {**bundle, **rich})
    on.chain.request("evm_mine")

    receipt = on.client.run(ours, owner.sign)

    if same:
        assert receipt["status"] == "included"
        assert receipt["receipt"]["from"].lower() == rival.lower()
    else:
        assert receipt["status"] == "failed"
        assert receipt["reason"] == "the bundle reverted"
        assert receipt["receipt"]["status"] == "0x0"
        with pytest.raises(RequestRefused, match="AA25"):
            on.client._transport.send(ours.steps[-2].action)
