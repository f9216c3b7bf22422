"""The page of an interface, as strangers may ask for it at any rate."""

import asyncio

import httpx
from starlette.applications import Starlette

from mpcsim.service.web.api_page import DOCUMENT_PATH, page_routes


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
