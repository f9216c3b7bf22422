"""The HTTP layer by itself: what is checked before the wallet is asked, and in which order."""

import asyncio
import json
import logging
import threading
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass, replace
from typing import NamedTuple

import pytest

from mpcsim.service.process.http_limits import ConnectionLimits
from mpcsim.service.rpc.tokens import TokenIssuer, make_signing_key
from mpcsim.service.web.user_limits import SHARE
from mpcsim.sim.run.realtime.clock import run
from node import errors
from node.api.auth import MOST_WAITING, Authenticator
from node.api.protected import MAX_BODY_BYTES
from node.app import create_app
from node.errors import Unauthorized, Unreachable
from node.models import EXAMPLE_KEY_ID, KeyShareRecord
from node.process.settings import Settings
from tests.node.double import BODIES, NEW, GatewayDouble, WalletDouble, doubled
from tests.node.harness import SETTINGS, Api, running
from tests.node.harness import answer as error_of

QUERIES = [f"/v3/wallet{at}" for at in ("", "/key", "/user", f"/token?id={EXAMPLE_KEY_ID}")]
PROTECTED = [("POST", path) for path in BODIES] + [("GET", path) for path in QUERIES]
MISSING = 'Authentication failed: {"code":755,"message":"JWT_MISSING"}'
SIGN = BODIES["/v3/wallet/sign"]
INVALID = 'Authentication failed: {"code":756,"message":"JWT_INVALID"}'
EXPIRED = 'Authentication failed: {"code":757,"message":"JWT_EXPIRED"}'
JSON = {"content-type": "application/json"}


class Layer(NamedTuple):
    api: Api
    gateway: GatewayDouble
    wallet: WalletDouble

    def user(self, name="alice"):
        return self.api.as_user(self.gateway.token(name))


@pytest.fixture(scope="module")
def layer():
    with doubled() as parts:
        yield Layer(*parts)
    assert [part.closed for part in parts[1:]] == [True, True]


# --- without a token ----------------------------------------------------------------------------


def test_unknown_path(layer):
    for path in ("/nothing", "/v3", "/v3/wallet/", "/v3/wallet/sign/", "/v3/key"):
        for method in ("GET", "POST", "DELETE"):
            assert error_of(layer.api.request(method, path), 404) == "Not found"


@pytest.mark.parametrize(("right", "path"), [("GET", "/"), *PROTECTED])
def test_wrong_method(layer, right, path):
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - {right}:
        response = layer.api.request(method, path)
        assert error_of(response, 405) == "Method not allowed"
        allowed = {"GET", "HEAD"} if right == "GET" else {right}
        assert set(response.headers["allow"].split(", ")) == allowed


@pytest.mark.parametrize(("method", "path"), PROTECTED)
def test_no_good_token(layer, method, path):
    for header, message, challenge in (
        (None, MISSING, "Bearer"),
        ("Bearer not.a.token", INVALID, 'Bearer error="invalid_token"'),
    ):
        headers = {} if header is None else {"authorization": header}
        response = layer.api.request(method, path, headers=headers)
        assert error_of(response, 401) == message
        assert response.headers["www-authenticate"] == challenge


BODIES_UNREAD = [
    (b"", {}),
    (b"{", JSON),
    (b"x", {"content-type": "text/plain"}),
    (b" " * (MAX_BODY_BYTES + 1), JSON),
]


@pytest.mark.parametrize(("content", "headers"), BODIES_UNREAD)
def test_the_token_is_checked_before_the_body(layer, content, headers):
    for path in BODIES:
        response = layer.api.post(path, content=content, headers=headers)
        assert error_of(response, 401) == MISSING


# --- the body as such ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text/plain", "application/jsonp", "?", "", None])
def test_content_type(layer, kind):
    headers = {} if kind is None else {"content-type": kind}
    for path, body in BODIES.items():
        response = layer.user().post(path, content=json.dumps(body).encode(), headers=headers)
        assert error_of(response, 415) == "The content type must be application/json"


@pytest.mark.parametrize(
    ("codings", "status"),
    [(["gzip"], 415), (["identity, br"], 415), (["identity", "GZIP"], 415), (["identity,"], 200)],
)
def test_content_coding(layer, codings, status):
    headers = [*layer.user().headers.items(), *JSON.items()]
    headers += [("content-encoding", coding) for coding in codings]
    for path, body in BODIES.items():
        work = layer.api.client.post(path, content=json.dumps(body), headers=headers)
        response = layer.api.loop.run(work)
        assert response.status_code == status
        if status == 415:
            assert "The only content coding is identity" in error_of(response, 415)
            assert response.headers["accept-encoding"] == "identity"
            assert response.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/", "/api/docs", "/api/openapi.json", *QUERIES])
def test_head_is_get_without_the_content(layer, path):
    get, head = (layer.user().request(method, path) for method in ("GET", "HEAD"))
    assert (head.status_code, head.content) == (200, b"")
    varies = {"date", "x-request-id", "server-timing"}
    found = [{n: v for n, v in each.headers.items() if n not in varies} for each in (get, head)]
    assert found[0] == found[1]
    assert int(head.headers["content-length"]) == len(get.content)


async def in_pieces(data):
    for start in range(0, len(data), 50_000):
        yield data[start : start + 50_000]


@pytest.mark.parametrize("chunked", [False, True])
def test_size(layer, chunked):
    body = json.dumps(NEW).encode()
    for size, status in [(MAX_BODY_BYTES, 200), (MAX_BODY_BYTES + 1, 413), (3_000_000, 413)]:
        content = in_pieces(body.ljust(size)) if chunked else body.ljust(size)
        response = layer.user().post("/v3/wallet/generate", content=content, headers=JSON)
        assert response.status_code == status
        if status == 413:
            assert error_of(response, 413) == "The body has more than 262144 bytes"


NO_OBJECT = {
    "is missing": [b""],
    "must be a JSON object": [b"null", b"[]", b'"text"', b"7"],
    "is not valid JSON": [
        *(b"{", b"{'curve': 1}", b'{"password": "a"} x', b'{"password": NaN}', b"\x00"),
        *(b'{"password": "\xff"}', b'{"password": "\\ud800"}', b'{"password": "\xed\xa0\x80"}'),
        *('{"password": "a"}'.encode("utf-16"), b"[" * 999),
    ],
    "has 1000 values or more": [b"[" * 100_000, b"[%b]" % (b"{}," * 50_000), b",,,," * 250],
    "has the member curve twice": [b'{"curve": "ed25519", "curve": "secp256k1"}'],
    "has a member twice": [
        b'{"x": [{"y z": 1, "y z": 1}]}',
        b'{"' + b"x" * 999 + b'": 1, "' + b"x" * 999 + b'": 1}',
    ],
}


@pytest.mark.parametrize("said", NO_OBJECT)
def test_what_is_no_json_object(layer, said):
    for content in NO_OBJECT[said]:
        for path in BODIES:
            response = layer.user().post(path, content=content, headers=JSON)
            assert error_of(response, 400) == f"The body {said}"


# --- the fields ---------------------------------------------------------------------------------

WRONG = {
    "curve": ["", "SECP256K1", "p256", 7, None, ["ed25519"], {}, True],
    "password": ["", "x" * 257, "tab\t", "\0", "e\u0301" * 257, 7, None, ["a"], {}],
    "count": [0, 65, -1, 1.5, 9**99, "2", True, None],
    "key_id": ["", "ab" * 31, "ab" * 33, "AB" * 32, "0x" + "ab" * 31, "zz" * 32, 7, None],
    "encrypted_share": ["", "a b", "a=", "a+/", "a\n", "A" * 65_537, 7, None],
    "secret_store": ["", "a b", "a=", "a+/", "a\n", "A" * 4_097, 7, None],
    "message": ["", "0x" + "ab" * 31, "abc", "zz" * 32, "ab" * 65_537, "ab " * 32, 7, None],
    "signer": ["", "client", "Operator", 2, []],
}


@pytest.mark.parametrize("path", BODIES)
def test_every_field_is_needed(layer, path):
    for field in BODIES[path]:
        body = {name: value for name, value in BODIES[path].items() if name != field}
        assert error_of(layer.user().post(path, body), 400) == f"Missing field: {field}"


@pytest.mark.parametrize("path", BODIES)
def test_every_field_is_checked(layer, path):
    for field in [*BODIES[path], *(["signer"] if path.endswith("sign") else [])]:
        for value in WRONG[field]:
            response = layer.user().post(path, {**BODIES[path], field: value})
            assert error_of(response, 400).startswith(f"Invalid {field}: must be ")


LONGEST = [
    ("/v3/wallet/sign", {"encrypted_share": "A" * 65_536, "secret_store": "A" * 4_096}),
    ("/v3/wallet/sign", {"curve": "ed25519", "message": "ab" * 65_536}),
    ("/v3/wallet/sign", {"curve": "ed25519", "message": "0A"}),
    ("/v3/wallet/presign", {"count": 64}),
    ("/v3/wallet/generate", {"password": "x"}),
    ("/v3/wallet/generate", {"password": "\N{GRINNING FACE}" * 256}),  # characters, not bytes
    ("/v3/wallet/generate", {"password": "e\u0301" * 256}),  # once normalised
]


@pytest.mark.parametrize(("path", "fields"), LONGEST)
def test_at_the_limits(layer, path, fields):
    assert layer.user().post(path, {**BODIES[path], **fields}).status_code == 200
    if "message" in fields:
        assert layer.wallet.signed[-1]["message"] == bytes.fromhex(fields["message"])


def test_a_value_is_not_echoed(layer):
    secret = "hunter2!" * 40
    for path, body in BODIES.items():
        for field in body:
            response = layer.user().post(path, {**body, field: secret})
            assert "hunter2" not in error_of(response, 400)


def test_ecdsa_signs_32_bytes_with_the_chosen_signer(layer):
    for size in (1, 31, 33, 64):
        response = layer.user().post("/v3/wallet/sign", {**SIGN, "message": "ab" * size})
        assert error_of(response, 400) == "Invalid message: must have 64 hex digits for secp256k1"
    for signer in (None, "operator", "institution"):
        body = {**SIGN, "signer": signer}
        assert layer.user().post("/v3/wallet/sign", body).status_code == 200
        assert layer.wallet.signed[-1]["signer"] == signer


def test_whole_records_are_taken_and_unknown_fields_refused(layer):
    for path, body in BODIES.items():
        whole = {**dict.fromkeys(KeyShareRecord.model_fields), **body}
        assert layer.user().post(path, whole).status_code in (200, 409)
        refused = layer.user().post(path, {**whole, "signers\n" + 99 * "x": 1})
        assert error_of(refused, 400) == r"Unknown field: signers\n" + 56 * "x"


def test_whoever_sends_presignatures_is_told_what_is_left(layer):
    for sent, left in (({}, None), ({"presignatures": []}, [])):
        answer = layer.user().post("/v3/wallet/sign", SIGN | sent).json()
        assert answer.get("presignatures") == left


QUERIED = [
    *((query, "Missing query parameter: id") for query in ("", "?ID=" + EXAMPLE_KEY_ID)),
    *(
        (f"?id={id_}", "Invalid id: must be 64 lower-case hex digits")
        for id_ in ("", "AB" * 32, "%ff" + "a" * 63, EXAMPLE_KEY_ID + "%0a")
    ),
]


@pytest.mark.parametrize(("query", "message"), QUERIED)
def test_key_id_in_the_query(layer, query, message):
    assert error_of(layer.user().get("/v3/wallet/token" + query), 400) == message


# --- what the wallet says -----------------------------------------------------------------------


FAILURES = [
    (errors.BadRequest("Invalid password"), 400, "Invalid password"),
    (Unauthorized({"code": 757, "message": "JWT_EXPIRED", "x": 1}), 401, EXPIRED),
    (errors.NotFound("no such key"), 404, "no such key"),
    (errors.Conflict("ed25519 key already exists"), 409, "ed25519 key already exists"),
    (errors.Upstream(503, "Away", "no\nway", 2), 500, "Upstream returned 503 Away: no way"),
    *(
        (errors.Upstream(500, "Oh", "x" * n), 500, f"Upstream returned 500 Oh: {said}")
        for n, said in ((400, "x" * 400), (401, "x" * 400 + "..."))
    ),
    (Unreachable(), 502, "The gateway cannot be reached; check WAAS_API_URL"),
    (errors.UpstreamTimeout(), 504, "The gateway did not answer in time"),
    (ValueError("secret"), 500, "Internal server error"),
    (ExceptionGroup("secret", [KeyError("secret")]), 500, "Internal server error"),
]


@pytest.mark.parametrize(("error", "status", "message"), FAILURES)
def test_every_failure_has_the_same_form(layer, error, status, message):
    for method, path in PROTECTED:
        layer.wallet.errors.append(error)
        response = layer.user("mallory").request(method, path, json=BODIES.get(path))
        assert error_of(response, status) == message
    assert layer.api.get("/").status_code == 200


def test_answers(layer):
    alice = layer.user()
    for method, path in PROTECTED:
        response = alice.request(method, path, json=BODIES.get(path))
        assert response.status_code == 200, response.text
        assert response.headers["cache-control"] == "no-store"
        assert "total;dur=" in response.headers["server-timing"]
    response = alice.post("/v3/wallet/sign", SIGN)
    names = [part.split(";")[0] for part in response.headers["server-timing"].split(", ")]
    assert names == ["vault", "round1", "total"]


# --- the gateway's keys -------------------------------------------------------------------------


@dataclass
class Keys:
    """An authenticator in virtual time, and the gateway that it asks for keys."""

    gateway: GatewayDouble
    authenticator: Authenticator

    async def callers(self, *tokens):
        """What each token is good for: a user id, or an error."""
        asked = (self.authenticator.caller(f"Bearer {token}") for token in tokens)
        found = await asyncio.gather(*asked, return_exceptions=True)
        return [each if isinstance(each, Exception) else each.claims.user_id for each in found]


def with_keys(test):
    """Have ``test(keys)`` run; the node has not asked for the gateway's keys yet."""

    async def whole():
        gateway = GatewayDouble()
        clock = asyncio.get_running_loop().time
        await test(Keys(gateway, Authenticator(gateway, clock=clock)))

    return lambda: run(whole())


@with_keys
async def test_keys_are_asked_for_once(keys):
    await keys.callers("")
    assert keys.gateway.asked == 0
    assert await keys.callers(*[keys.gateway.token()] * 20) == ["id-of-alice"] * 20
    assert keys.gateway.asked == 1


@with_keys
async def test_few_wait_for_the_first_keys(keys):
    """Nobody knows who they are, and each holds a place in the node."""
    *first, last = await keys.callers(*[keys.gateway.token()] * (MOST_WAITING + 1))
    assert (set(first), last.status) == ({"id-of-alice"}, 503)
    assert await keys.callers(keys.gateway.token()) == ["id-of-alice"]


@with_keys
async def test_keys_that_cannot_be_had(keys):
    token = keys.gateway.token()
    keys.gateway.error = Unreachable()
    assert {type(error) for error in await keys.callers(*[token] * 5)} == {Unreachable}
    keys.gateway.error, good = None, keys.gateway.issuer.jwks
    keys.gateway.issuer.jwks = lambda: {"keys": []}
    (error,) = await keys.callers(token)
    assert error.message.startswith("Upstream returned 200 OK: ")
    keys.gateway.issuer.jwks = good
    assert await keys.callers(token) == ["id-of-alice"]


@with_keys
async def test_a_new_signing_key(keys):
    old, gateway = keys.gateway.token(), keys.gateway
    assert await keys.callers(old) == ["id-of-alice"]
    gateway.issuer = TokenIssuer(make_signing_key())
    # The keys have been asked for a moment ago: this waits, and is not refused.
    assert await keys.callers(gateway.token()) == ["id-of-alice"]
    assert gateway.asked == 2
    # Tokens of unknown keys do not make the node ask again and again: they wait for one answer.
    assert {type(error) for error in await keys.callers(*[old] * 5)} == {Unauthorized}
    assert gateway.asked == 3
    assert await keys.callers(gateway.token()) == ["id-of-alice"]
    assert gateway.asked == 3


@with_keys
async def test_tokens_of_unknown_keys_hold_few_places(keys):
    """One more is refused at once, and whoever has a good token waits for none of them."""
    good = keys.gateway.token()
    assert await keys.callers(good) == ["id-of-alice"]
    strange = TokenIssuer(make_signing_key()).issue_access("1", "mallory", 60)
    waiting = [asyncio.ensure_future(keys.callers(strange)) for _ in range(MOST_WAITING)]
    await asyncio.sleep(0)
    (error,) = await keys.callers(strange)
    assert type(error) is Unauthorized
    assert await keys.callers(good) == ["id-of-alice"]
    assert not any(each.done() for each in waiting)
    assert {type(error) for (error,) in await asyncio.gather(*waiting)} == {Unauthorized}
    assert keys.gateway.asked == 2


@with_keys
async def test_a_token_that_comes_in_the_moment_in_which_the_keys_do(keys):
    """It waits for newer ones; it does not keep the node from everything else."""
    gateway, late = keys.gateway, []
    strange = TokenIssuer(make_signing_key()).issue_access("1", "mallory", 60)

    async def jwks():
        gateway.asked += 1
        await asyncio.sleep(0.01)
        if gateway.asked == 1:  # begins before anybody hears of this answer
            late.append(asyncio.create_task(keys.authenticator.caller(f"Bearer {strange}")))
        return gateway.issuer.jwks()

    gateway.jwks = jwks
    assert await keys.callers(gateway.token()) == ["id-of-alice"]
    with pytest.raises(Unauthorized):
        await late[0]
    assert gateway.asked == 2


def test_one_user_leaves_places_to_the_others():
    """Whoever is answered holds a connection that cannot make room."""
    settings = replace(SETTINGS, limits=ConnectionLimits(connections=2 * SHARE))
    gateway, wallet, answer = GatewayDouble(), WalletDouble(), threading.Event()

    async def slow(caller):
        await asyncio.to_thread(answer.wait)
        return await WalletDouble.user(wallet, caller)

    wallet.user = slow
    path = "/v3/wallet/user"
    with running(create_app(settings, gateway, wallet)) as api:
        alice, bob = (api.as_user(gateway.token(name)) for name in ("alice", "bob"))
        assert bob.get("/v3/wallet/key").status_code == 200  # the node has the gateway's keys now
        held = [alice.begin("GET", path) for _ in range(3)]
        (refused,) = wait(held, return_when=FIRST_COMPLETED).done
        assert "of this user" in error_of(refused.result(), 503)
        assert refused.result().headers["x-error-code"] == "busy"
        assert bob.get("/v3/wallet/key").status_code == 200
        answer.set()
        assert [each.result().status_code for each in held if each is not refused] == [200, 200]
        assert alice.get(path).status_code == 200


@with_keys
async def test_a_signing_key_that_is_new_since_the_keys_were_asked_for(keys):
    """An answer that is under way may be older than the key."""
    gateway, old = keys.gateway, keys.gateway.token()
    jwks = gateway.issuer.jwks()
    answers = [asyncio.Event(), asyncio.Event()]

    async def slow():
        gateway.asked += 1
        answer = jwks if gateway.asked == 1 else gateway.issuer.jwks()
        await answers[gateway.asked - 1].wait()
        return answer

    gateway.jwks = slow
    early = asyncio.create_task(keys.callers(old))
    await asyncio.sleep(0.1)
    assert gateway.asked == 1
    gateway.issuer = TokenIssuer(make_signing_key())
    late = asyncio.create_task(keys.callers(gateway.token("bob")))
    await asyncio.sleep(0.1)
    for answer in answers:
        answer.set()
    assert [*await early, *await late] == ["id-of-alice", "id-of-bob"]
    assert gateway.asked == 2


# --- without a gateway --------------------------------------------------------------------------


def test_no_gateway(caplog):
    with running(create_app(Settings())) as api:
        assert [r.levelno for r in caplog.records if "WAAS_API_URL" in r.message] == [logging.ERROR]
        assert api.get("/").status_code == 200
        assert api.get("/api/docs").status_code == 200
        token = GatewayDouble().token()
        for method, path in PROTECTED:
            assert error_of(api.request(method, path), 401) == MISSING
            response = api.as_user(token).request(method, path, json=BODIES.get(path))
            assert "WAAS_API_URL is not set" in error_of(response, 500)


def test_nobody_at_the_gateways_address():
    settings = Settings(waas_api_url="http://127.0.0.1:9")
    with running(create_app(settings)) as api:
        user = api.as_user(GatewayDouble().token())
        assert "WAAS_API_URL" in error_of(user.get("/v3/wallet/user"), 502)
