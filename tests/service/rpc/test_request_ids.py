"""A request's name goes where the request goes, and nowhere else."""

import asyncio
import io
import logging

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from mpcsim.service.process.request_id import HEADER, IN_SCOPE
from mpcsim.service.web.logs import TextLines
from mpcsim.service.web.request_ids import RequestIds, current_request_id
from mpcsim.service.web.threads import in_thread


def client(routes):
    app = RequestIds(Starlette(routes=[Route(path, handle) for path, handle in routes.items()]))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x")


@pytest.fixture
def log():
    """What is logged, as a server writes it, without the time."""
    written = io.StringIO()
    handler, logger = logging.StreamHandler(written), logging.getLogger("test of names")
    handler.setFormatter(TextLines())
    logger.addHandler(handler)
    yield logger, lambda: [line.split(" ", 1)[1] for line in written.getvalue().splitlines()]
    logger.removeHandler(handler)


async def test_tasks_and_threads_have_it_and_others_have_theirs(log):
    logger, lines = log

    async def handle(request):
        await asyncio.sleep(0)
        await in_thread(logger.warning, "in a thread of %s", request.url.path)
        await asyncio.create_task(asyncio.to_thread(logger.warning, "of %s", request.url.path))
        return PlainTextResponse(current_request_id() or "")

    async with client({"/{number}": handle}) as http:
        asked = [http.get(f"/{i}", headers={HEADER: f"order-{i}"}) for i in range(5)]
        answers = await asyncio.gather(*asked)
    for i, answer in enumerate(answers):
        assert answer.text == answer.headers[HEADER] == f"order-{i}"
        assert f"WARNING test of names [order-{i}]: in a thread of /{i}" in lines()
        assert f"WARNING test of names [order-{i}]: of /{i}" in lines()
    logger.warning("nobody's")
    assert lines()[10:] == ["WARNING test of names: nobody's"]


async def named(request):
    """Answer with the name, which is in the scope as well."""
    assert request.scope[IN_SCOPE].decode() == current_request_id()
    return PlainTextResponse(current_request_id())


async def test_a_name_is_put_back():
    """An application that is called in its caller's task leaves the caller's name alone."""

    async def outer(request):
        async with client({"/": named}) as http:
            answer = await http.get("/", headers={HEADER: "inner"})
        return PlainTextResponse(f"{answer.text} {current_request_id()}")

    async with client({"/": outer}) as http:
        assert (await http.get("/", headers={HEADER: "outer"})).text == "inner outer"
    assert current_request_id() is None


@pytest.mark.parametrize("name", ["", "x" * 65, "with space", "new\tline", 'quo"te', "[x]", "a/b"])
async def test_names_that_are_not_taken(name):
    async with client({"/": named}) as http:
        answers = [await http.get("/", headers={HEADER: name}) for _ in range(2)]
    made = [answer.headers[HEADER] for answer in answers]
    assert [answer.text for answer in answers] == made
    assert name not in made
    assert len({*made}) == 2
    assert {len(found) for found in made} == {16}


@pytest.mark.parametrize(
    "name", ["Authorization", "Content-Type", "Idempotency-Key", "Session-Proof", HEADER]
)
async def test_a_field_that_must_be_single_is_refused_if_it_is_repeated(name):
    """Otherwise a proxy may go by one of them, and this process by the other."""

    async def handle(request):
        return PlainTextResponse(request.headers[name])

    async with client({"/": handle}) as http:
        fields = [("Accept", "a"), ("Accept", "b"), (name, "same")]
        once = await http.get("/", headers=fields)
        twice = await http.get("/", headers=[*fields, (name.upper(), "same")])
    assert once.text == "same"
    assert (twice.status_code, twice.headers["X-Error-Code"]) == (400, "bad-request")
    assert twice.json() == {"error": f"Invalid {name}: there are several"}
    assert twice.headers[HEADER]


READ_IN_TWO_WAYS = [
    ("/key?id=1&b=2", 200, "/key 1"),
    ("/key?id=1&id=1", 400, "Invalid id: there are several"),
    ("/key?id=&b=2&i%64=2", 400, "Invalid id: there are several"),
    ("/key?<=1&<=2", 400, "Invalid query: there are several"),
    ("/key?" + "&" * 16, 400, "Invalid query: there are more than 16 members"),
    ("/%6bey?id=a%26id=b", 200, "/key a&id=b"),
    ("/%2Fkey", 404, "Not Found"),
    ("/of/a%2fb", 200, "/of/a%2Fb None"),
    ("/of/a%252Fb%c3%bc", 200, "/of/a%2Fbü None"),
]


@pytest.mark.parametrize(("target", "status", "said"), READ_IN_TWO_WAYS)
async def test_what_may_be_read_in_two_ways_is_not_guessed_at(target, status, said):
    """A member there are two of is neither, and an encoded slash separates nothing."""

    async def handle(request):
        return PlainTextResponse(f"{request.url.path} {request.query_params.get('id')}")

    async with client({"/key": handle, "/of/{name}": handle}) as http:
        answer = await http.get(httpx.URL("http://x", raw_path=target.encode()))
    text = answer.json()["error"] if status == 400 else answer.text
    assert (answer.status_code, text) == (status, said)
