"""The page of an interface, as strangers may ask for it at any rate."""

import asyncio
import os
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import httpx
from starlette.applications import Starlette

from mpcsim.service.web.api_page import DOCUMENT_PATH, PAGE_PATH, page_routes


async def test_the_document_is_built_and_encoded_once():
    """For those who ask at once, too; afterwards an answer copies no more than its bytes."""

    class Document(dict):
        built = encoded = 0

        def __init__(self):
            super().__init__(openapi="3.1.0")
            Document.built += 1

        def items(self):
            Document.encoded += 1
            return super().items()

    app = Starlette(routes=page_routes("any", Document))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
        first = await asyncio.gather(*[http.get(DOCUMENT_PATH) for _ in range(5)])
        answers = [*first, await http.get(DOCUMENT_PATH)]
    assert [answer.json() for answer in answers] == [{"openapi": "3.1.0"}] * 6
    assert {answer.headers["content-type"] for answer in answers} == {"application/json"}
    assert Document.built == 1
    assert Document.encoded <= 1


async def test_a_part_of_the_page_that_is_not_read_holds_neither_files_nor_the_loop():
    """Only connections are counted; one answer begins in a turn of the loop. And a part is whole,
    whatever part of it is asked for."""
    name = "swagger-ui.css"
    file = Path(find_spec("fastapi_offline").origin).parent / "static" / name
    app = Starlette(routes=page_routes("any", dict))
    scope = {"type": "http", "method": "GET", "path": f"{PAGE_PATH}/{name}", "query_string": b""}
    scope["headers"] = [(b"range", b"lines=1")]
    bodies, opened = [], []

    async def turns():
        while True:
            bodies.append([])
            await asyncio.sleep(0)

    async def send(message):
        assert message.get("status", 200) == 200
        if body := message.get("body"):
            bodies[-1].append(body)
        for number in range(256):
            with suppress(OSError):
                opened.append(os.path.samestat(os.fstat(number), file.stat()))

    counting = asyncio.create_task(turns())
    for at_once in (1, 4):  # the first has it read
        asked = [app(dict(scope), asyncio.Event().wait, send) for _ in range(at_once)]
        await asyncio.gather(*asked)
    counting.cancel()
    assert list(filter(None, bodies)) == [[file.read_bytes()]] * 5
    assert opened
    assert not any(opened)
