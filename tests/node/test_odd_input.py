"""Odd requests to node and gateway: each gets a 4xx with the one form of all errors."""

import json
from contextlib import closing
from itertools import product

import httpx
import pytest

from mpcsim.service import open_gateway
from tests.node import double
from tests.node.harness import PLACES, answer, running

ACCOUNTS = "/core/evm/v2/erc4337"
SOMEBODY = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

UNPRICED = {"sender": SOMEBODY, "nonce": 0, "init_code": "0x", "call_data": "0x"}
GAS = dict.fromkeys(("call_gas_limit", "verification_gas_limit", "pre_verification_gas"), 1)
FEES = {"max_fee_per_gas": 10**12, "max_priority_fee_per_gas": 1}
PRICED = {**UNPRICED, **GAS, **FEES, "paymaster_and_data": "0x"}

BODIES = {
    "node": double.BODIES,
    "gateway": {
        "/member/user-management/v3/signup": {"username": "zoe"},
        f"{ACCOUNTS}/calldata/init": {"owner": SOMEBODY},
        f"{ACCOUNTS}/calldata/execute": {"to": SOMEBODY, "value": 1, "data": "0x"},
        f"{ACCOUNTS}/gas/info": UNPRICED,
        f"{ACCOUNTS}/paymaster/sponsor": UNPRICED,
        f"{ACCOUNTS}/userop/hash": PRICED,
        f"{ACCOUNTS}/userop/send": {**PRICED, "signature": "0x"},
    },
}
"""Of every JSON endpoint, with nothing odd about them."""

ODD_TEXTS = [
    b"",
    b"null",
    b"true",
    b"[]",
    b'"{}"',
    b"{} {}",
    b"{",
    b"\xff\xfe",
    b"[" * 3000,
    b'{"a":' * 600,
    b"9" * 3800,
    b"9" * 5000,
]
"""No JSON objects."""

ODD_VALUES = [
    b"null",
    b"true",
    b"-1",
    b"1.5",
    b"NaN",
    b"-Infinity",
    b"1e999999",
    b"9" * 10_000,
    b"{}",
    b"[" * 300 + b"]" * 300,
    b'"\\ud800"',
    b'"\xed\xa0\x80"',
]
"""No field's values; sign-up's limit on its body is below the longest."""

ODD_NAMES = [b'"\\ud800"', b'"\\udfff\\ud800"', b'"\xed\xa0\x80"', b'""', b'"\\u0000"']

PATHS = {
    "node": [
        *("/", "/v3", "/v3/wallet", "/v3/wallet/key", "/v3/wallet/token", "/v3/wallet/generate"),
        *("/api", "/api/docs"),
    ],
    "gateway": [
        *("/", "/wallet/v1", "/wallet/v1/user", "/wallet/v1/token", "/wallet/v1/address"),
        *("/mpc/v1", "/mpc/v1/nodes", "/mpc/v1/sign", "/.well-known/jwks.json"),
        *("/member/user-management/v3/signup", "/auth/auth-service/v3/login"),
        *(ACCOUNTS, f"{ACCOUNTS}/{SOMEBODY}", f"{ACCOUNTS}/{SOMEBODY}/info"),
        *(f"{ACCOUNTS}/gas/info", f"{ACCOUNTS}/userop/0x{'11' * 32}/receipt"),
    ],
}

ODD_ENDS = ["/", "/%2f", "/%ff", "/%ed%a0%80", "/%00", "%00", "/nowhere"]


@pytest.fixture(scope="module")
def servers():
    """Both over sockets, as ``alice``."""
    with (
        closing(open_gateway()) as gateway,
        double.doubled(PLACES[1]) as (node, issuing, _),
        running(gateway.app, PLACES[1]) as api,
    ):
        token = gateway.token("alice")
        backend = httpx.BasicAuth(gateway.credentials.api_key, gateway.credentials.api_secret)
        api.client.auth = SignUpAuth(backend)
        yield {"node": node.as_user(issuing.token()), "gateway": api.as_user(token)}


class SignUpAuth(httpx.Auth):
    """API key and secret where a backend signs users up; elsewhere the token that is there."""

    def __init__(self, backend):
        self.backend = backend

    def auth_flow(self, request):
        if request.url.path.endswith("/signup"):
            del request.headers["authorization"]
            return self.backend.auth_flow(request)
        return request_as_it_is(request)


def request_as_it_is(request):
    yield request


def post(api, path, content):
    return api.post(path, content=content, headers={"content-type": "application/json"})


def text(members):
    """A JSON object of names and values that are JSON already."""
    return b"{" + b",".join(name + b":" + value for name, value in members.items()) + b"}"


@pytest.mark.parametrize(
    ("server", "path"), [(server, path) for server, bodies in BODIES.items() for path in bodies]
)
def test_odd_bodies(servers, server, path):
    def said(content, *statuses):
        response = post(servers[server], path, content)
        assert response.status_code in statuses, (content[:80], response.text)
        return answer(response, response.status_code)

    plain = {
        json.dumps(name).encode(): json.dumps(value).encode()
        for name, value in BODIES[server][path].items()
    }
    too_long = 413 if path.endswith("/signup") else 400
    for content in ODD_TEXTS:
        said(content, 400, too_long)
    for name in plain:
        for value in ODD_VALUES:
            said(text({**plain, name: value}), 400, too_long)
    for name in ODD_NAMES:
        # Unknown members of an operation are refused, others left alone: never a 5xx.
        response = post(servers[server], path, text({**plain, name: b"1"}))
        assert response.is_success or response.is_client_error, (name, response.text)
        assert isinstance(response.json().get("error", ""), str)


@pytest.mark.parametrize("server", PATHS)
def test_odd_paths(servers, server):
    api = servers[server]
    for number, (path, end) in enumerate(product(PATHS[server][1:], ODD_ENDS)):
        method = ("GET", "POST", "BREW")[number % 3]
        response = api.request(method, path + end)
        assert 400 <= response.status_code < 500, (method, path, end, response.text)
        answer(response, response.status_code)


@pytest.mark.parametrize("server", PATHS)
def test_odd_methods(servers, server):
    for path in PATHS[server]:
        for method in ("PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
            response = servers[server].request(method, path)
            assert response.status_code in (404, 405), (method, path, response.text)
            answer(response, response.status_code)


def test_the_flows_prefix_alone_is_an_unknown_path(servers):
    for path in (ACCOUNTS, ACCOUNTS + "/"):
        assert answer(servers["gateway"].get(path), 404) == "Not Found"
