"""The gateway's HTTP interface: JSON endpoints, log-in, and the shape of every error."""

import base64
import sqlite3

import pytest

from mpcsim.protocols.sample_keys import keys
from mpcsim.service.mpc_node.node import MpcNode
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.tokens import TokenIssuer, TokenVerifier, make_signing_key
from mpcsim.service.smart_account.endpoints import Endpoint

SIGN_UP = "/member/user-management/v3/signup"
LOGIN = "/auth/auth-service/v3/login"
WITH_TOKEN = ["user", "keys", "wallet", "token?id=" + "0" * 64, "address?curve=ed25519"]


def basic(name, secret):
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()}


def known(gateway):
    """Header of whoever has the gateway's API key and secret."""
    return basic(gateway.credentials.api_key, gateway.credentials.api_secret)


JSON = {"Content-Type": "application/json"}


def grant(username, **changed):
    return {"grant_type": "client_credentials", "username": username, **changed}


# ---------------------------------------------------------------------- users and tokens


@pytest.mark.options(token_lifetime_s=120)
async def test_sign_up_and_login_give_a_token_that_gateway_and_node_take(gateway, client):
    """And each request of the user's is entered with its id."""
    records = []
    gateway.app.recorder.counters.append(records.append)
    made = await client.http.post(SIGN_UP, json={"username": "bob"}, headers=known(gateway))
    assert made.status_code == 201
    assert set(made.json()) == {"user_id", "username", "created_at"}
    again = await client.http.post(SIGN_UP, json={"username": "bob"}, headers=known(gateway))
    assert (again.status_code, again.json()) == (409, {"error": "username is taken"})
    login = await client.http.post(LOGIN, data=grant("bob"), headers=known(gateway))
    assert login.status_code == 200
    assert login.headers["cache-control"] == "no-store"
    document = login.json()
    assert {**document, "access_token": ""} == {
        "access_token": "",
        "token_type": "Bearer",
        "expires_in": 120,
    }
    jwks = (await client.http.get("/.well-known/jwks.json")).json()
    for audience in ("gateway", "node"):
        claims = TokenVerifier(jwks, audience).verify(document["access_token"])
        assert (claims.username, claims.user_id) == ("bob", made.json()["user_id"])
    client.token = document["access_token"]
    assert (await client.request("GET", "/wallet/v1/user")).json() == made.json()
    user_id = made.json()["user_id"]
    assert [record.user_id for record in records] == [user_id, None, user_id, None, user_id]


NO_USERS = [
    *(b"", b"{", b"[]", b"1", b"null", b"{}", b"\xff\xfe", b"[" * 4000, b'{"username": 1}'),
    b'{"username": "dave", "name": "dave"}',
    *(b'{"username": "%b"}' % name for name in (b"", b"a\\nb", b"\\ud800", b"x" * 65)),
]


async def test_a_sign_up_that_names_no_user_is_malformed(gateway, client):
    for body in NO_USERS:
        response = await client.http.post(SIGN_UP, content=body, headers=known(gateway) | JSON)
        assert (response.status_code, list(response.json())) == (400, ["error"]), body


async def test_a_sign_up_that_names_two_users_names_none(gateway, client):
    body = b'{"username": "bob", "username": "carol"}'
    response = await client.http.post(SIGN_UP, content=body, headers=known(gateway) | JSON)
    assert response.status_code == 400
    assert response.json() == {"error": "the body has the member username twice"}
    assert gateway.gateway.registry.user_by_name("carol") is None


BAD_LOGINS = [
    ({}, "grant_type: Field required"),
    (grant("alice", grant_type="password"), "grant_type: Input should be 'client_credentials'"),
    ({"grant_type": "client_credentials"}, "username: Field required"),
    (grant(""), "username: not 1 to 64 characters"),
    (grant(["alice", "bob"]), "the body has a field more than once"),
    (grant("nobody"), "username: no such user; sign up first"),
]


async def test_a_login_names_a_grant_and_a_user(gateway, client):
    for form, error in BAD_LOGINS:
        response = await client.http.post(LOGIN, data=form, headers=known(gateway))
        assert (response.status_code, response.json()) == (400, {"error": error})
    for body in (b"\xff\xfe", b'{"username": "alice"}', b"&" * 4000):
        response = await client.http.post(LOGIN, content=body, headers=known(gateway))
        assert response.status_code == 400
    response = await client.http.post(LOGIN, json=grant("alice"), headers=known(gateway))
    assert response.json() == {"error": "the body is not application/x-www-form-urlencoded"}
    plain = known(gateway) | {"content-type": "text/plain"}  # as a web page may send it anywhere
    response = await client.http.post(SIGN_UP, content=b'{"username": "bob"}', headers=plain)
    assert response.json() == {"error": "the body is not application/json"}


async def test_log_in_and_sign_up_need_the_api_key_and_secret(gateway, client):
    """Without them nobody learns which names are taken, either."""
    own = gateway.credentials
    wrong = [basic(own.api_key, "wrong"), basic("wrong", own.api_secret), basic("", ""), {}]
    right = basic(own.api_key, own.api_secret)["Authorization"]
    said = (
        "Basic",
        "Basic !!!",
        "Basic /w==",
        f"Bearer {client.token}",
        f"{right[:9]}!{right[9:]}",
    )
    for headers in (*wrong, *({"Authorization": each} for each in said)):
        for response in (
            await client.http.post(LOGIN, data=grant("alice"), headers=headers),
            await client.http.post(SIGN_UP, json={"username": "alice"}, headers=headers),
            await client.http.post(SIGN_UP, json={"username": "bob"}, headers=headers),
        ):
            assert response.status_code == 401
            assert response.json() == {"error": "unknown API key or secret"}
            assert response.headers["www-authenticate"] == 'Basic realm="MPC wallet gateway"'
    assert gateway.gateway.registry.user_by_name("bob") is None


async def test_tokens_of_another_gateway_are_logged_as_such_and_once(caplog, client):
    client.token = TokenIssuer(make_signing_key()).issue_access("1", "alice", 60)
    for _ in range(3):
        response = await client.request("GET", "/wallet/v1/user")
    expected = {"code": 756, "message": "JWT_INVALID"}
    assert (response.status_code, response.json()) == (401, expected)
    assert caplog.text.count("GET /wallet/v1/user: JWT_INVALID: signed by another gateway") == 1
    assert client.token not in caplog.text


# ---------------------------------------------------------------------- what is registered


# ---------------------------------------------------------------------- errors


async def test_a_key_token_is_for_the_mpc_verbs_alone(gateway, client):
    key_id = client.give_key("ed25519").record.epoch.hex()
    owner = gateway.issuer.issue_key(await client.user_id(), "alice", key_id, 60)
    for path in WITH_TOKEN:
        headers = {"Authorization": f"Bearer {owner}"}
        answer = await client.http.get(f"/wallet/v1/{path}", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, 756)


FRAMEWORK = f"""
404 GET / /nowhere /wallet/v1 /wallet/v1/keys/ /core/evm/v2/erc4337 /core/evm/v2/erc4337/
404 POST {SIGN_UP}/ /mpc/v1/nowhere /mpc/v1/sign/more /mpc/v1/nodes
405 POST /wallet/v1/keys
405 DELETE /wallet/v1/keys
405 GET /mpc/v1/sign {SIGN_UP} {LOGIN}
"""


async def test_addresses_are_those_of_hex_without_a_gap(client):
    key = keys("ed25519")[1].public_key.encode().hex()
    for text, status in ((key, 200), ("0x" + key, 200), (f"{key[:4]} {key[4:]}", 400), ("12", 400)):
        query = {"curve": "ed25519", "public_key": text}
        found = await client.request("GET", "/wallet/v1/address", params=query)
        assert found.status_code == status


async def test_errors_of_the_framework_are_json(client):
    for line in FRAMEWORK.strip().splitlines():
        status, method, *paths = line.split()
        for path in paths:
            response = await client.request(method, path)
            assert (response.status_code, list(response.json())) == (int(status), ["error"]), path


async def test_binary_bodies_say_that_they_are(client):
    for kind in ("", "application/json", "text/plain", "application/octet-stream2"):
        headers = {"Content-Type": kind} if kind else {}
        path = wire.PREFIX + "exchange"
        response = await client.request("POST", path, content=b"x", headers=headers)
        assert response.status_code == 415
        assert response.json() == {"error": "the body is not application/octet-stream"}


async def test_no_body_is_decompressed(client):
    """For those who show who they are: bodies come after that."""
    headers = {"Content-Encoding": "gzip", "Content-Type": wire.MEDIA_TYPE}
    paths = [wire.PREFIX + verb for verb in ("exchange", "open", "suspend")]
    for path in (*paths, Endpoint.EXECUTE.path):
        response = await client.request("POST", path, content=b"x", headers=headers)
        assert (response.status_code, response.headers["accept-encoding"]) == (415, "identity")
        assert "identity" in response.json()["error"]


async def test_a_bug_is_an_error_that_tells_nothing(monkeypatch, caplog, gateway, client, share):
    original = MpcNode.handle

    def fail(node, verb, grant, body):
        if verb != "sign":
            return original(node, verb, grant, body)
        raise sqlite3.OperationalError("disk I/O error in /secret/place")

    monkeypatch.setattr(MpcNode, "handle", fail)
    response = await client.post("sign", client.begin_sign(share)[1])
    assert (response.status_code, response.json()) == (500, {"error": "internal error"})
    monkeypatch.undo()
    await client.check_works(share)
    assert "POST /mpc/v1/sign: OperationalError" in caplog.text
    assert "/secret/place" not in caplog.text


async def test_a_caller_that_breaks_off_is_no_error(caplog, gateway, client):
    sent = []

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    fields = {"authorization": f"Bearer {client.token}", "content-type": wire.MEDIA_TYPE}
    scope = {"type": "http", "method": "POST", "path": "/mpc/v1/sign", "query_string": b""}
    scope["headers"] = [(name.encode(), value.encode()) for name, value in fields.items()]
    await gateway.app(scope, receive, send)
    assert not caplog.records
