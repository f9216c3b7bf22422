"""The caller's side: six steps, every intermediate value in sight."""

import httpx
import pytest

from mpcsim.errors import UsageError
from mpcsim.service.smart_account.chain import contracts
from mpcsim.service.smart_account.chain.chain import ZERO_ADDRESS
from mpcsim.service.smart_account.client.account import account_address
from mpcsim.service.smart_account.client.client import (
    Ask,
    HttpTransport,
    RequestRefused,
    Sign,
    SmartAccountClient,
)
from mpcsim.service.smart_account.endpoints import Endpoint

RECIPIENT = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


def done(flow):
    """The steps taken: number and endpoint, or the signing."""
    return [
        (step.number, "sign" if isinstance(step.action, Sign) else step.action.endpoint)
        for step in flow.steps
    ]


@pytest.mark.few(2)
@pytest.mark.parametrize("sponsored", [False, True])
@pytest.mark.parametrize("separately", [False, True])
def test_the_six_steps(embedded, owner, sponsored, separately):
    embedded.fund(embedded.account(owner))
    flow = embedded.run(owner, to=RECIPIENT, sponsored=sponsored, separately=separately)
    first = (Endpoint.ADDRESS, Endpoint.NONCE, Endpoint.INIT) if separately else (Endpoint.INFO,)
    assert done(flow) == [
        *((1, endpoint) for endpoint in first),
        (2, Endpoint.EXECUTE),
        (3, Endpoint.SPONSOR if sponsored else Endpoint.GAS),
        (4, Endpoint.DIGEST),
        (5, "sign"),
        (5, Endpoint.SEND),
        (6, Endpoint.RECEIPT),
    ]
    assert embedded.client.step(flow, owner.sign) is None


def test_signing_is_done_once_and_with_65_bytes(embedded, owner):
    flow = embedded.client.begin(owner.address, to=RECIPIENT, sponsored=True)
    while not isinstance(flow.next()[1], Sign):
        embedded.client.step(flow, owner.sign)
    assert str(flow.next()[1]) == f"owner signature over 0x{flow.message_hash.hex()}"
    with pytest.raises(UsageError, match="no answer is due"):
        flow.take_answer({})
    with pytest.raises(UsageError, match="a signature of 64 bytes"):
        embedded.client.step(flow, lambda message_hash: bytes(64))
    embedded.client.run(flow, owner.sign)
    with pytest.raises(UsageError, match="nothing is left to do"):
        flow.take_signature(bytes(65))


class Liar:
    """A service that answers one endpoint its own way."""

    def __init__(self, honest, endpoint, **lies):
        self.honest, self.endpoint, self.lies = honest, endpoint, lies

    def send(self, ask: Ask):
        reply = dict(self.honest.send(ask))
        if ask.endpoint is self.endpoint:
            reply.update(self.lies)
        return {name: value for name, value in reply.items() if value is not None}


def test_another_operations_digest_is_not_signed(embedded, owner):
    liar = Liar(embedded.client._transport, Endpoint.DIGEST, digest="0x" + "11" * 32)
    flow = SmartAccountClient(liar).begin(owner.address, to=RECIPIENT, sponsored=True)
    with pytest.raises(RequestRefused, match=r"0x1111.* is not this operation's, 0x"):
        SmartAccountClient(liar).run(flow, owner.sign)
    assert flow.digest is None
    assert "signature" not in flow.fields


@pytest.mark.parametrize(
    ("endpoint", "lies"),
    [
        (Endpoint.INFO, {"nonce": "zero"}),
        (Endpoint.INFO, {"init_code": None}),
        (Endpoint.EXECUTE, {"call_data": "0x1"}),
        (Endpoint.SPONSOR, {"paymasterAndData": None}),
        (Endpoint.SPONSOR, {"result": None}),
        (Endpoint.DIGEST, {"digest": None}),
        (Endpoint.SEND, {"user_op_hash": None}),
        (Endpoint.RECEIPT, {"status": None}),
    ],
)
def test_answers_that_make_no_sense_are_refused(embedded, owner, endpoint, lies):
    client = SmartAccountClient(Liar(embedded.client._transport, endpoint, **lies))
    flow = client.begin(owner.address, to=RECIPIENT, sponsored=True)
    with pytest.raises(RequestRefused, match="the answer does not make sense") as refused:
        client.run(flow, owner.sign)
    assert refused.value.endpoint is endpoint
    assert refused.value.code is None


THEFT = "0x" + contracts.account().abi.call("execute", ZERO_ADDRESS, 10**18, b"").hex()


@pytest.mark.parametrize(
    ("sponsored", "endpoint", "lies", "said"),
    [
        (True, Endpoint.INFO, {"sender": ZERO_ADDRESS}, "the owner's account is 0x"),
        (True, Endpoint.EXECUTE, {"call_data": THEFT}, "the call data are of another call"),
        (True, Endpoint.EXECUTE, {"call_data": "0x"}, "the call data are of another call"),
        (True, Endpoint.SPONSOR, {"paymasterAndData": "0x"}, "the account would pay"),
        (True, Endpoint.SPONSOR, {"paymasterAndData": ZERO_ADDRESS}, "the account would pay"),
        (False, Endpoint.GAS, {"preVerificationGas": hex(10**11)}, "the owner pays up to"),
        (False, Endpoint.GAS, {"maxFeePerGas": hex(10**13)}, "the owner pays up to"),
    ],
)
def test_a_lying_service_gets_nothing_signed_but_what_the_owner_wishes(
    embedded, owner, sponsored, endpoint, lies, said
):
    """With the digest of what it has said: nothing but its own answers would show it."""
    embedded.fund(embedded.account(owner))
    liar = Liar(embedded.client._transport, endpoint, **lies)
    flow = SmartAccountClient(liar).begin(owner.address, to=RECIPIENT, sponsored=sponsored)
    with pytest.raises(RequestRefused, match=said):
        SmartAccountClient(liar).run(flow, owner.sign)
    assert not flow.fields.keys() & {"signature", *lies}


def test_the_owners_account_is_known_without_the_service(embedded, owner):
    assert account_address(owner.address) == embedded.account(owner)
    other = embedded.client.begin(owner.address, to=RECIPIENT, account=RECIPIENT)
    with pytest.raises(RequestRefused, match=f"the owner's account is {RECIPIENT}, and no other"):
        embedded.client.step(other, owner.sign)


def test_an_answer_names_no_other_path():
    ask = Ask(Endpoint.RECEIPT, {"result": "0x/../../x?y#z"})
    assert ask.path == Endpoint.RECEIPT.path.format(result="0x%2F..%2F..%2Fx%3Fy%23z")


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (httpx.Response(204), None, "204 No Content without the JSON object that is due"),
        (httpx.Response(200, json=[]), None, "200 OK without the JSON object that is due"),
        (httpx.Response(502, text="bad"), 502, "bad"),
        (httpx.Response(503), 503, "Service Unavailable"),
    ],
)
def test_an_answer_without_what_is_due_is_told_as_what_it_is(answer, code, said):
    http = httpx.Client(
        transport=httpx.MockTransport(lambda request: answer), base_url="http://gateway"
    )
    client = SmartAccountClient(HttpTransport(http))
    with pytest.raises(RequestRefused, match=said) as refused:
        client.step(client.begin(RECIPIENT, to=RECIPIENT), lambda message: b"")
    assert refused.value.code == code


def test_a_pending_receipt_is_asked_for_again(embedded, owner):
    answers = iter(["pending", "pending", "included"])
    slept = []

    class Slow(Liar):
        def send(self, ask):
            reply = dict(self.honest.send(ask))
            if ask.endpoint is Endpoint.RECEIPT:
                reply["status"] = next(answers)
            return reply

    client = SmartAccountClient(
        Slow(embedded.client._transport, Endpoint.RECEIPT), sleep=slept.append
    )
    flow = client.begin(owner.address, to=RECIPIENT, sponsored=True)
    assert client.run(flow, owner.sign, patience_s=0)["status"] == "pending"
    assert client.run(flow, owner.sign)["status"] == "included"
    assert len(slept) == 2
