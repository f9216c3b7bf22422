"""The gateway's client: what it makes of answers, and how its transports behave."""

import asyncio
import json
from http import HTTPStatus

import pytest

from mpcsim.ids import BOOT_BYTES, INSTITUTION, MPC_NODES, OPERATOR, ROLES
from mpcsim.service.error_codes import HEADER, Code
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.session_keys import SessionKey
from mpcsim.service.rpc.statements import SealKeyStatement
from mpcsim.service.web import transport as web
from node import errors
from node.gateway_client.client import REPLACED, GatewayClient

KEY_ID = bytes(32)
OPENING = wire.OpenVault(KEY_ID, bytes(32), {OPERATOR: b"", INSTITUTION: b""}, {})


# ---------------------------------------------------------------------- what answers mean


class Canned:
    """A transport with the answers given; it notes what it was asked."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.asked = []

    async def request(self, method, path, *, token, body=None, **options):
        self.asked.append((method, path, token, body))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def close(self):
        pass


def sign(client):
    proof = wire.UseProof(bytes(BOOT_BYTES), bytes(32))
    body = wire.Sign(bytes(32), KEY_ID, OPERATOR, b"m", (b"x",), (bytes(32),), proof)
    return client.sign("token", body)


def ask(reply, call=sign):
    async def run():
        return await call(GatewayClient(Canned(reply)))

    return asyncio.run(run())


def refusal(status, body, call=sign, *, code=None, after=None):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(errors.ApiError) as caught:
        ask(web.Reply(status, data, code, after), call)
    return caught.value


ERRORS = [
    (
        *(401, {"code": 757, "message": "JWT_EXPIRED"}, errors.Unauthorized),
        'Authentication failed: {"code":757,"message":"JWT_EXPIRED"}',
    ),
    (404, {"error": "no such key"}, errors.NotFound, "no such key" + REPLACED),
    (
        *(503, {"error": "the node is away", "party": 2}, errors.Upstream),
        "Upstream returned 503 Service Unavailable: the node is away",
    ),
]


@pytest.mark.parametrize(("status", "body", "kind", "message"), ERRORS)
def test_errors_of_the_gateway(status, body, kind, message):
    error = refusal(status, body)
    assert (type(error), error.message) == (kind, message)
    assert error.status == (500 if kind is errors.Upstream else status)
    if isinstance(error, errors.Upstream):
        assert (error.upstream_status, error.party) == (status, body.get("party"))


def generate(client):
    return client.generate("token", SessionKey(), "ed25519", (), 1)


MAKING_ALONE = [Code.KEY_EXISTS, Code.KEY_CHANGED, Code.BUSY]


@pytest.mark.parametrize("code", Code)
def test_what_its_codes_are_to_a_caller(code):
    """Of a signature, and of a new key."""
    kinds = {
        Code.NOT_FOUND: errors.NotFound,
        Code.LIMITED: errors.Limited,
        Code.IDEMPOTENCY_KEY_USED: errors.BadRequest,
    }
    of_makers = dict.fromkeys(MAKING_ALONE, errors.Conflict)
    of_makers |= {Code.IN_FORCE: errors.KeyAlreadyActive}
    status = 403 if code is Code.UNAUTHORIZED else 409
    for call, known in ((sign, kinds), (generate, kinds | of_makers)):
        error = refusal(status, {"error": "why"}, call, code=code.value)
        assert type(error) is known.get(code, errors.Upstream), call
        of_the_node = (Code.BAD_REQUEST, Code.UNAUTHORIZED, Code.UNSUPPORTED)
        seen = Code.INTERNAL if code in of_the_node else code
        assert error.headers[HEADER] == seen.value
        if type(error) in known.values() and code is not Code.IN_FORCE:
            assert error.status in seen.node
        assert error.headers.get("Retry-After") == (code.wait_s and str(code.wait_s))
        after = refusal(status, {"error": "why"}, call, code=code.value, after="7")
        given = type(error) in (errors.Conflict, errors.Limited, errors.Upstream)
        assert (after.headers.get("Retry-After") == "7") == given


CODES = [
    *((status, Code.INTERNAL) for status in (400, 500, 599)),
    *((status, Code.UPSTREAM_DOWN) for status in (502, 503)),
    *((404, Code.NOT_FOUND), (409, Code.CONFLICT), (410, Code.SESSION_GONE)),
    *((429, Code.LIMITED), (504, Code.UPSTREAM_LATE)),
]


@pytest.mark.parametrize(("status", "code"), CODES)
def test_without_a_code_that_is_known_the_status_has_to_do(status, code):
    for said in (None, "", "of-a-later-day", "Busy"):
        assert refusal(status, {"error": "why"}, code=said).code is code


def test_when_to_retry_is_a_number_of_seconds():
    for after in ("", "soon", "-1", "1.5", "1234567", "7\r\nx: y"):
        error = refusal(409, {"error": "why"}, code="conflict", after=after)
        assert error.headers == {HEADER: "conflict"}
    error = refusal(409, {"error": "why"}, code="conflict", after="123456")
    assert error.headers["Retry-After"] == "123456"


@pytest.mark.parametrize(("size", "shown"), [(400, "x" * 400), (401, "x" * 400 + "...")])
def test_so_much_of_what_the_gateway_says_is_passed_on(size, shown):
    said = refusal(409, {"error": "x" * size}).message
    assert said == f"Upstream returned 409 Conflict: {shown}"


OF_SOMETHING_ELSE = [
    *(b"", b"<h1>secret</h1>", b"[]", b'{"error": 1}', b"\xff"),
    *(b"[" * 100_000, b'{"error": "busy", "error": "secret"}'),
]


@pytest.mark.parametrize("body", OF_SOMETHING_ELSE, ids=range(7))
def test_answers_of_something_else_are_not_passed_on(body):
    for status in (302, 401, 404, 409, 502, 599):
        error = refusal(status, body)
        assert type(error) is errors.Upstream
        assert error.message.startswith(f"Upstream returned {status} ")
        assert error.message.endswith(": no explanation")


CALLS = [
    lambda c: c.nodes(),
    lambda c: c.user("token"),
    lambda c: c.keys("token", "user"),
    lambda c: c.wallet("token", "user"),
    lambda c: c.key_token("token", KEY_ID.hex()),
    lambda c: c.open("token", OPENING),
    lambda c: c.generate("token", SessionKey(), "ed25519", (), 1),
    lambda c: c.recover("token", KEY_ID, "ed25519", 1),
    sign,
    lambda c: c.exchange("token", SessionKey(), ()),
]


@pytest.mark.parametrize("call", CALLS)
def test_answers_that_make_no_sense(call):
    for body in (b"", b"{}", b"[]", b"null", b"\x00\x00\x00\x01"):
        error = refusal(200, body, call)
        assert type(error) is errors.Upstream
        assert error.message.startswith("Upstream returned 200 OK: the answer is not ")


@pytest.mark.parametrize("call", [sign, generate, lambda c: c.keys("token", "user")])
@pytest.mark.parametrize("status", [202, 204, 206])
def test_a_status_without_the_answer_that_is_due_is_told(call, status):
    error = refusal(status, b"", call)
    reason = HTTPStatus(status).phrase
    assert error.message == f"Upstream returned {status} {reason}: it is due to answer 200"
    assert (type(error), error.final) == (errors.Upstream, False)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"no", b'{"keys":' * 100_000])
def test_keys_of_tokens_that_make_no_sense(body):
    assert ask(web.Reply(200, b'{"keys": []}'), lambda c: c.jwks()) == {"keys": []}
    error = refusal(200, body, lambda c: c.jwks())
    assert error.message == "Upstream returned 200 OK: the answer is not a JSON object"


def shown(party):
    """What a gateway shows of an MPC node."""
    identity = Identity(bytes([party]) * 32)
    signature = identity.sign(SealKeyStatement(party, b"\x11" * 32, 0))
    return {
        "identifier": party,
        "identity": identity.public.hex(),
        "seal_key": 64 * "1",
        "signature": signature.hex(),
        "boot": 32 * "0",
        "seal_number": 0,
    }


NO_MPC_NODES = [
    {"identifier": 3},
    {"identifier": "2"},
    *(
        {name: value}
        for name in ("identity", "seal_key", "signature", "boot")
        for value in (62 * "0", "zz", 3, None)
    ),
    {"identity": 64 * "0" + "00"},
    *({"seal_number": value} for value in ("0", -1, True, 1 << 32)),
]


@pytest.mark.parametrize("change", NO_MPC_NODES)
def test_mpc_nodes_that_are_none(change):
    hellos = {ROLES[party]: shown(party) for party in MPC_NODES}
    found = ask(web.Reply(200, json.dumps(hellos).encode()), lambda c: c.nodes())
    for party, hello in found.items():
        assert hello.party == party
        parts = {name: v.hex() if isinstance(v, bytes) else v for name, v in vars(hello).items()}
        assert {"identifier": parts.pop("party")} | parts == hellos[ROLES[party]]
    operator = hellos["operator"]
    said = hellos | {"operator": operator | change}
    assert type(refusal(200, said, lambda c: c.nodes())) is errors.Upstream
    without = {name: value for name, value in operator.items() if name not in change}
    for spoilt in (None, without):
        assert (
            type(refusal(200, hellos | {"operator": spoilt}, lambda c: c.nodes()))
            is errors.Upstream
        )


FAILURES = [
    (web.ConnectFailed(), errors.Unreachable, "The gateway cannot be reached; check WAAS_API_URL"),
    (web.ConnectionLost(), errors.Unreachable, "The gateway cannot be reached; check WAAS_API_URL"),
    (
        web.ReplyTooLarge(),
        errors.Unreachable,
        "The gateway's answer is too long; check WAAS_API_URL",
    ),
    (web.ReplyTimeout(), errors.UpstreamTimeout, "The gateway did not answer in time"),
]


@pytest.mark.parametrize(("failed", "error", "text"), FAILURES)
async def test_what_it_means_if_no_answer_comes(failed, error, text):
    client = GatewayClient(Canned(failed, failed, failed))
    for call in (client.jwks(), client.user("t"), sign(client)):
        with pytest.raises(error) as caught:
            await call
        assert (type(caught.value), caught.value.message) == (error, text)


async def test_what_may_be_sent_twice_is_when_the_connection_breaks():
    halves = {OPERATOR: b"a", INSTITUTION: b"b"}
    opened = web.Reply(200, wire.VaultOpened(halves, b"record").to_bytes())
    transport = Canned(web.ConnectionLost(), opened)
    client = GatewayClient(transport)
    assert (await client.open("t", OPENING)).halves == halves
    assert transport.asked[0] == transport.asked[1]
    assert client.requests == {"POST /mpc/v1/open": 2}

    transport.replies = [web.ConnectionLost(), web.ConnectionLost()]
    with pytest.raises(errors.Unreachable):
        at = wire.AbortedSession("u", KEY_ID, KEY_ID)
        await client.suspend(wire.Suspend(at, KEY_ID, {}, "ed25519"), None)
    for call in (
        lambda: client.generate("t", SessionKey(), "ed25519", (), 1),
        lambda: client.activate("t", SessionKey(), KEY_ID),
        lambda: sign(client),
    ):
        transport.replies = [web.ConnectionLost()]
        with pytest.raises(errors.Unreachable):
            await call()
    assert transport.replies == []


async def test_a_key_id_is_quoted():
    transport = Canned(web.Reply(404, b'{"error": "no such key"}'))
    client = GatewayClient(transport)
    with pytest.raises(errors.NotFound):
        await client.key_token("t", "a&b=c/?#")
    assert transport.asked[0][1] == "/wallet/v1/token?id=a%26b%3Dc%2F%3F%23"
    assert list(client.requests) == ["GET /wallet/v1/token"]
