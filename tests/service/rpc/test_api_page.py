"""The page of an interface, as strangers may ask for it at any rate."""

import asyncio
import os
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from starlette.applications import Starlette

from mpcsim.service.web.api_page import PAGE_PATH, page_routes


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
        if "headers" in message:
            assert dict(message["headers"])[b"content-type"].startswith(b"text/css")
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
