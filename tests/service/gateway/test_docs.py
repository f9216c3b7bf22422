"""The gateway's OpenAPI document is whole and true, and its page needs nothing from outside."""

import asyncio
import json
import re
from contextlib import closing

import pytest
from jsonschema_rs import meta
from starlette.routing import Route

import mpcsim
from mpcsim.service.smart_account.api.openapi import ABOUT
from mpcsim.service.smart_account.endpoints import PREFIX, Endpoint
from mpcsim.service.smart_account.operation.fields import FIELDS
from tests.helpers.api_surface import check_described, check_surface
from tests.helpers.documented import Documented
from tests.helpers.gateway import Client, open_with
from tests.helpers.repo import ROOT
from tests.service.gateway.test_http import LOGIN, SIGN_UP, basic, grant, known

REVIEWED = ROOT / "tests/service/gateway/openapi.txt"
OPEN = {("GET", "/.well-known/jwks.json"), ("GET", "/mpc/v1/nodes"), ("POST", "/mpc/v1/suspend")}
"""Endpoints that need no token, by design; sign-up and log-in take the API key."""


@pytest.fixture(scope="module")
def gateway():
    with closing(open_with()) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def documented(gateway):
    """As a caller without a token gets it."""

    async def fetch():
        http = Client.of(gateway).http
        again = [await http.get("/api/openapi.json") for _ in range(2)]
        assert [answer.status_code for answer in again] == [200, 200]
        assert again[0].json() == again[1].json()
        return again[0].json()

    return Documented(asyncio.run(fetch()))


def test_every_route_is_described_and_nothing_else(gateway, documented):
    routes = {
        (method, route.path)
        for route in gateway.app.routes
        if isinstance(route, Route) and not route.path.startswith("/api/")
        for method in (route.methods or {"ANY"}) - {"HEAD"}
    }
    routes -= {("GET", "/docs"), ("POST", "/mpc/v1/{verb}"), ("ANY", PREFIX + "/{rest:path}")}
    routes |= {("POST", f"/mpc/v1/{verb}") for verb in gateway.gateway.verbs}
    routes |= {(endpoint.method, endpoint.path) for endpoint in Endpoint}
    assert documented.operations().keys() == routes


def test_every_operation_is_described(documented):
    document = documented.document
    assert document["info"]["version"] == mpcsim.__version__
    assert "mpcsim token" in document["info"]["description"]
    tags = {tag["name"] for tag in document["tags"]}
    check_described(document)
    for (_, path), operation in documented.operations().items():
        assert set(operation["tags"]) < tags
        assert all(
            not each["description"].endswith(". ") for each in operation["responses"].values()
        )
        in_path = {p["name"] for p in operation.get("parameters", ()) if p["in"] == "path"}
        assert in_path == set(re.findall(r"\{(\w+)\}", path))
    assert ABOUT.keys() == FIELDS.keys()


def test_the_surface_is_as_it_was_reviewed(documented):
    """Whoever changes what is required, limited or answered changes the reviewed list with it."""
    check_surface(documented.document, REVIEWED)


def test_the_document_is_one(documented):
    """As others read it: every reference leads somewhere, every schema is one."""
    import schemathesis  # takes a second

    document = documented.document
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        meta.validate(schema)
    assert set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document))) == set(schemas)
    read = schemathesis.openapi.from_dict(document)
    found = {(o.ok().method.upper(), o.ok().path) for o in read.get_all_operations()}
    assert found == documented.operations().keys()


async def test_it_says_truly_what_needs_a_token(gateway, documented):
    http = Client.of(gateway).http
    for (method, path), operation in documented.operations().items():
        answer = await http.request(method, re.sub(r"\{\w+\}", "0x00", path))
        security = operation.get("security", documented.document["security"])
        assert (security == []) == ((method, path) in OPEN), path
        assert (answer.status_code == 401) == (security != []), path
        if security == [{"accessToken": []}]:
            assert answer.json() == {"code": 755, "message": "JWT_MISSING"}


async def test_answers_are_as_it_says(gateway, documented):
    """What callers are answered with a key, without one, and when they are wrong."""

    client = Client.of(gateway, "carol")
    http = client.http
    for body in ({"username": "dora"}, {"username": "dora"}, {}):
        documented.check(await http.post(SIGN_UP, json=body))
        documented.check(await http.post(SIGN_UP, json=body, headers=known(gateway)))
    wrong = basic(gateway.credentials.api_key, "no")
    for headers, form in (
        (known(gateway), grant("dora")),
        (known(gateway), {}),
        (wrong, grant("dora")),
    ):
        documented.check(await http.post(LOGIN, data=form, headers=headers))
    documented.check(await http.get("/.well-known/jwks.json"))
    found = await http.get("/mpc/v1/nodes")
    documented.check(found)
    assert [node["answers"] for node in found.json().values()] == [True, True]
    share = client.give_key("ed25519")
    key_id, public_key = share.record.epoch.hex(), "0x" + share.public_key.encode().hex()
    for question in (
        "user",
        "keys",
        "wallet",
        f"token?id={key_id}",
        "token?id=" + "0" * 64,
        f"address?curve=ed25519&public_key={public_key}",
        "address?curve=none",
    ):
        documented.check(await client.request("GET", f"/wallet/v1/{question}"))
    documented.check(await http.get("/wallet/v1/keys"))
    said = {at for at in documented.operations() if not at[1].startswith((PREFIX, "/mpc/v1/"))}
    assert documented.seen == said | {("GET", "/mpc/v1/nodes")}
