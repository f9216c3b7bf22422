"""One line a request, at the right level, and nothing secret in it."""

import json
import logging
import re
import socket

import pytest

from mpcsim.rpc.logs import JsonLines, TextLines
from mpcsim.rpc.tokens import TokenIssuer, make_signing_key
from node.models import EXAMPLE_SHARE, EXAMPLE_STORE
from tests.node.double import RECORD, doubled
from tests.node.harness import FAST_PLACES, PLACES

PASSWORD = "password-that-nobody-may-see"
MESSAGE = "5ec2e7" * 10 + "abcd"


@pytest.fixture(params=FAST_PLACES)
def node(request):
    with doubled(request.param) as found:
        yield found


@pytest.fixture
def lines(caplog):
    """What was logged, as it is printed."""
    caplog.set_level(logging.INFO, "node")

    def read():
        found = [r for r in caplog.records if r.name == "node" and r.message == "request"]
        return [json.loads(JsonLines().format(record)) for record in found]

    return read


def test_success(node, lines):
    api, gateway, _ = node
    api.get("/")
    api.as_user(gateway.token()).get("/v3/wallet/key?x=y")
    health, key = lines()
    assert set(health) == {
        *("time", "level", "logger", "event", "method", "path", "status", "latency_ms"),
        "request_id",
    }
    assert (health["level"], health["path"], health["status"]) == ("INFO", "/", 200)
    assert (key["level"], key["path"], key["status"]) == ("INFO", "/v3/wallet/key", 200)
    assert key["user_id"] == "id-of-alice"
    assert 0 <= key["latency_ms"] < 60_000


def test_failures(node, lines):
    api, gateway, _ = node
    alice, bob = (api.as_user(gateway.token(name)) for name in ("alice", "bob"))
    alice.post("/v3/wallet/sign", {})
    bob.get("/v3/wallet")
    api.get("/nothing")
    api.get("/v3/wallet")
    found = [(line["level"], line["status"], line["error"]) for line in lines()]
    assert found == [
        ("INFO", 400, "Missing field: key_id"),
        ("INFO", 404, "This user has no wallet"),
        ("INFO", 404, "Not found"),
        ("ERROR", 401, 'Authentication failed: {"code":755,"message":"JWT_MISSING"}'),
    ]


def test_the_same_for_people(node, caplog):
    caplog.set_level(logging.INFO, "node")
    api, gateway, wallet = node
    wallet.errors.append(ValueError(PASSWORD))
    asked = {"x-request-id": "order-7-of-today"}
    api.as_user(gateway.token()).get("/v3/wallet/key?x=y", headers=asked)
    api.get("/v3/wal%0A%1B[2Jlet", headers={"x-request-id": "mine"})
    api.as_user(gateway.token("mallory")).get("/v3/wallet/user", headers=asked)
    records = [r for r in caplog.records if r.message == "request"]
    key, odd, failed = (TextLines().format(record) for record in records)
    line = r"\d\d:\d\d:\d\d %s in \d+\.\d ms%s"
    named = r"node \[order-7-…\]: GET"
    user = ", user id-of-al…"
    assert re.fullmatch(line % (rf"{named} /v3/wallet/key 200", user), key)
    path = re.escape(r"/v3/wal\n\x1b[2Jlet")
    assert re.fullmatch(line % (rf"node \[mine\]: GET {path} 404", ": Not found"), odd)
    first, *exceptions = failed.split("\n")
    user = ", user id-of-ma…: Internal server error"
    assert re.fullmatch(line % (rf"ERROR {named} /v3/wallet/user 500", user), first)
    assert [each.split(" at ")[0] for each in exceptions] == ["    builtins.ValueError"]


def test_why_a_token_is_invalid(node, lines):
    """Callers learn the code, and the log what to do."""
    api, _, _ = node
    elsewhere = TokenIssuer(make_signing_key()).access("id-of-alice", "alice", 60)
    response = api.as_user(elsewhere).get("/v3/wallet")
    assert response.status_code == 401
    assert response.text == (
        '{"error":"Authentication failed: {\\"code\\":756,\\"message\\":\\"JWT_INVALID\\"}"}'
    )
    (line,) = lines()
    assert "another gateway" in line["why"]
    assert "data folder" in line["why"]
    assert elsewhere.split(".")[1] not in json.dumps(line)


def test_an_unhandled_exception(node, lines):
    api, gateway, wallet = node
    inner = KeyError(PASSWORD)
    wallet.errors.append(ValueError(f"{PASSWORD} is wrong"))
    wallet.errors[0].__cause__ = inner
    response = api.as_user(gateway.token("mallory")).get("/v3/wallet/user")
    assert response.status_code == 500
    assert response.json() == {"error": "Internal server error"}
    (line,) = lines()
    assert (line["level"], line["status"]) == ("ERROR", 500)
    assert line["error"] == "Internal server error"
    outer, cause = line["exception"]
    assert outer.startswith("builtins.ValueError at ")
    assert "double.py:" in outer
    assert cause.startswith("builtins.KeyError at ")
    assert PASSWORD not in json.dumps(line)


def test_a_caller_who_goes_away(lines):
    with doubled(PLACES[1]) as (api, gateway, _):
        head = (
            "POST /v3/wallet/sign HTTP/1.1\r\nHost: node\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {gateway.token()}\r\nContent-Length: 1000\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", api.client.base_url.port), 10) as connection:
            connection.sendall(head.encode() + b"{")
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1000)
    (line,) = lines()
    assert (line["level"], line["status"]) == ("INFO", 400)


def test_request_ids(node, lines):
    api, _, _ = node
    names = ["order-7.a_B", "x" * 64, "x" * 65, "with space", "new\tline", ""]
    for name in names:
        response = api.get("/", headers={"x-request-id": name})
        assert (response.headers["x-request-id"] == name) == (name in names[:2])
    logged = [line["request_id"] for line in lines()]
    assert logged[:2] == names[:2]
    assert len({*logged}) == len(names)


def test_nothing_secret(node, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    api, gateway, wallet = node
    token, garbage = gateway.token(), "eyJhbGciOiJub25lIn0.e30.c2VjcmV0"
    record = {**RECORD, "password": PASSWORD, "message": MESSAGE}
    wallet.errors += [ValueError(str(record))] * 6
    verbs = ("generate", "recover", "sign", "publickey", "validate/password", "validate/share")
    for caller in (token, garbage, gateway.token("mallory")):
        for verb in verbs:
            user = api.as_user(caller)
            user.post(f"/v3/wallet/{verb}", record)
            user.post(f"/v3/wallet/{verb}?password={PASSWORD}&token={token}", content=PASSWORD)
            user.post(f"/v3/wallet/{verb}", {**record, "curve": PASSWORD})
            user.post(
                f"/v3/wallet/{verb}",
                content='{"password": "' + PASSWORD,
                headers={"content-type": "application/json"},
            )
    client = ("httpx", "httpcore")
    records = [r for r in caplog.records if r.name.split(".")[0] not in client]
    printed = "".join(map(JsonLines().format, records))
    assert printed.count('"request"') == 3 * 6 * 4
    text = "\n".join(map(TextLines().format, records))
    assert text.count(": POST /v3/wallet/") == 3 * 6 * 4
    printed += text + "".join(capfd.readouterr())
    for secret in (PASSWORD, MESSAGE, EXAMPLE_SHARE, EXAMPLE_STORE, token, garbage):
        assert secret not in printed
