"""The page of an interface, as strangers may ask for it at any rate."""

import asyncio
import os
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import httpx
from starlette.applications import Starlette

from mpcsim.service.web.api_page import DOCUMENT_PATH, PAGE_PATH, page_routes


def test_the_document_is_built_and_encoded_once():
    """For those who ask at once, too; afterwards an answer copies no more than its bytes."""

    class Document(dict):
        built = encoded = 0

        def __init__(self):
            super().__init__(openapi="3.1.0")
            Document.built += 1

        def items(self):
            Document.encoded += 1
            return super().items()

    async def work():
        app = Starlette(routes=page_routes("any", Document))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
            first = await asyncio.gather(*[http.get(DOCUMENT_PATH) for _ in range(5)])
            return [*first, await http.get(DOCUMENT_PATH)]

    answers = asyncio.run(work())
    assert [answer.json() for answer in answers] == [{"openapi": "3.1.0"}] * 6
    assert {answer.headers["content-type"] for answer in answers} == {"application/json"}
    assert Document.built == 1
    assert Document.encoded <= 1


def test_a_part_of_the_page_holds_no_file_open_while_it_is_not_read():
    """Only connections are counted; and a part is whole, whatever part of it is asked for."""
    name = "swagger-ui.css"
    file = Path(find_spec("fastapi_offline").origin).parent / "static" / name
    said, opened = [], []

    async def send(message):
        said.append(message)
        for number in range(256):
            with suppress(OSError):
                opened.append(os.path.samestat(os.fstat(number), file.stat()))

    async def receive():
        await asyncio.Event().wait()

    scope = {"type": "http", "method": "GET", "path": f"{PAGE_PATH}/{name}", "query_string": b""}
    scope["headers"] = [(b"range", b"lines=1")]
    asyncio.run(Starlette(routes=page_routes("any", dict))(scope, receive, send))
    assert said[0]["status"] == 200
    assert b"".join(message.get("body", b"") for message in said) == file.read_bytes()
    assert opened
    assert not any(opened)
