"""The routes, and the client over HTTP."""

import asyncio
from collections import Counter
from unittest.mock import Mock

import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from mpcsim.service.smart_account.api import http as web
from mpcsim.service.smart_account.client.client import (
    HttpTransport,
    RequestRefused,
    SmartAccountClient,
)
from mpcsim.service.smart_account.endpoints import Endpoint
from mpcsim.service.smart_account.errors import BudgetSpent, ChainUnavailable
from tests.node.harness import running

SOMEBODY = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
TOKEN = {"Authorization": "Bearer good"}


class Alice:
    user_id = "alice"


def app(service):
    def check(request):
        if request.headers.get("authorization") != "Bearer good":
            raise HTTPException(401, "JWT_MISSING")
        return Alice

    def refuse(request, error):
        return JSONResponse({"error": error.detail}, error.status_code)

    return Starlette(
        routes=web.routes(service.answer, check), exception_handlers={HTTPException: refuse}
    )


@pytest.fixture(scope="module")
def url(embedded):
    """A real server on the loopback interface."""
    with running(app(embedded.service)) as api:
        yield str(api.client.base_url)


@pytest.fixture
def http(url):
    with httpx.Client(base_url=url, headers=TOKEN) as client:
        yield client


@pytest.mark.parametrize("endpoint", Endpoint)
def test_nothing_is_answered_without_authorization(url, endpoint):
    """Not even that the body is bad: authorization comes first."""
    path = endpoint.path.format(address=SOMEBODY, result="0x" + "11" * 32)
    assert httpx.request(endpoint.method, url + path, content=b"{").status_code == 401


BAD_BODIES = [
    (b"", "the body is not JSON"),
    (b'{"to": "0x0", "to": "0x1"}', "the body has the member to twice"),
    (b"[]", "the body is not a JSON object"),
    (b"{%b}" % (b'"a":{},' * 999), "the body has 1000 values or more"),
    (b"{}", "to: missing"),
    (b'{"to": 5, "value": 1}', "to: not an address"),
    (b'{"to": "0x12", "value": NaN}', "the body is not JSON"),
]


@pytest.mark.parametrize(("body", "says"), BAD_BODIES)
def test_bad_bodies(http, body, says):
    reply = http.post(Endpoint.EXECUTE.path, content=body)
    assert reply.status_code == 400
    assert set(reply.json()) == {"error"}
    assert reply.json()["error"].startswith(says)


def test_a_body_of_any_length_is_not_read(http):
    for more, status in ((0, 400), (1, 413)):
        reply = http.post(Endpoint.GAS.path, content=b" " * (web.MAX_BODY_BYTES + more))
        assert reply.status_code == status
        assert set(reply.json()) == {"error"}


def test_what_the_entry_point_refuses_is_a_422_with_its_code(http, owner):
    client = SmartAccountClient(HttpTransport(http))
    flow = client.begin(owner.address, to=SOMEBODY)
    with pytest.raises(RequestRefused, match=r"^send: AA21 didn't pay prefund$") as refused:
        client.run(flow, owner.sign)
    assert refused.value.code == 422
    body = {**flow._body(), "call_data": "0x"}
    assert http.post(Endpoint.SEND.path, json=body).status_code == 409


REFUSALS = [
    (ChainUnavailable("the chain's node did not answer: \ud800"), 502, "5"),
    (BudgetSpent("the day's budget is spent", 77), 429, "77"),
    (web.TooManyRequests("too many"), 429, f"{web.RETRY_AFTER_S}"),
]


@pytest.mark.parametrize(("refused", "status", "wait_s"), REFUSALS)
def test_how_a_refusal_is_answered(embedded, http, monkeypatch, refused, status, wait_s):
    """A lone surrogate in the chain's words does not keep them from being answered."""
    monkeypatch.setattr(embedded.service, "owner_account", Mock(side_effect=refused))
    reply = http.get(f"/core/evm/v2/erc4337/{SOMEBODY}/info")
    assert reply.status_code == status
    assert reply.json() == {"error": str(refused).replace("\ud800", "\\ud800")}
    assert reply.headers["Retry-After"] == wait_s


async def test_a_user_has_so_many_places_and_takes_nobody_elses():
    places, leave, inside = web.UserQueues(), asyncio.Event(), Counter()

    async def ask(user):
        async with places.hold(user):
            inside[user] += 1
            await leave.wait()

    users = ["alice"] * (web.REQUESTS_OF_USER + 1) + ["bob"]
    asked = [asyncio.create_task(ask(user)) for user in users]
    await asyncio.sleep(0)
    assert inside == {"alice": web.AT_A_TIME_OF_USER, "bob": 1}
    leave.set()
    ended = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(each) for each in ended if each] == [web.TooManyRequests]
    assert inside == {"alice": web.REQUESTS_OF_USER, "bob": 1}
    await ask("alice")
    assert not places._of
