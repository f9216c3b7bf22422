"""One line a request, at the right level, and nothing secret in it."""

import json
import logging
import socket

import pytest

from mpcsim.service.rpc.tokens import TokenIssuer, make_signing_key
from mpcsim.service.web.logs import OF_START, PROBE, JsonLines
from mpcsim.service.web.request_records import RequestRecord
from node.process.logs import ANONYMOUS_LINES, RequestLog
from tests.node.double import doubled

PASSWORD = "password-that-nobody-may-see"


@pytest.fixture
def node():
    with doubled() as found:
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


def test_who_calls_itself_the_supervisor_hides_no_refusal(caplog):
    """On the console of a supervised node, which leaves out the probes of its start."""
    scope = {"method": "GET", "path": "/", "headers": [(b"user-agent", PROBE.encode())]}
    with caplog.at_level(logging.INFO):
        for status in (200, 404, 401, 500):
            RequestLog(None)._log(scope, RequestRecord(""), status, 0.0, None)
    assert [getattr(record, OF_START) for record in caplog.records] == [True, False, False, False]


def test_strangers_have_so_many_lines(lines):
    """All that they ask for goes on, and what fails is always told."""
    log = RequestLog(None, lambda: 0.0)

    def request(status, user_id=None):
        record = RequestRecord("", user_id=user_id)
        log._log({"method": "GET", "path": "/"}, record, status, 0.0, None)

    for status in [404, 401] * (ANONYMOUS_LINES.count // 2 + 50):
        request(status)
    assert len(lines()) == ANONYMOUS_LINES.count
    request(200, "alice")
    request(404)
    request(500)
    assert [(line["status"], line["left_out"]) for line in lines()[-2:]] == [(200, 100), (500, 1)]


def test_why_a_token_is_invalid(node, lines):
    """Callers learn the code, and the log what to do."""
    api, _, _ = node
    elsewhere = TokenIssuer(make_signing_key()).issue_access("id-of-alice", "alice", 60)
    response = api.as_user(elsewhere).get("/v3/wallet")
    assert response.status_code == 401
    assert response.text == (
        '{"error":"Authentication failed: {\\"code\\":756,\\"message\\":\\"JWT_INVALID\\"}"}'
    )
    (line,) = lines()
    assert line["why"].startswith("signed by another gateway")
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
    with doubled() as (api, gateway, _):
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
