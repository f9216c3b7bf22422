"""An MPC node's HTTP interface, and the gateway's end of it: the same as in one process."""

import asyncio
import base64
from contextlib import ExitStack

import httpx
import pytest

from mpcsim.ids import OPERATOR
from mpcsim.service.errors import LinkFailed
from mpcsim.service.gateway.links.mpc_nodes import OverHttp
from mpcsim.service.mpc_node.app import create_app
from mpcsim.service.operations.supervisor import HOST, free_port
from mpcsim.service.process.request_id import HEADER
from mpcsim.service.rpc.activation_messages import ActivationState, GetActivationState
from mpcsim.service.rpc.grants import Scope
from mpcsim.service.web.transport import AsgiTransport, HttpTransport, Limits
from tests.node.harness import running


async def test_a_whole_life_of_a_key(gateway, client):
    """Both MPC nodes are behind sockets."""
    with ExitStack() as stack:
        for party, link in gateway.links.items():
            node = link.node
            api = stack.enter_context(running(create_app(node)))
            link.port = OverHttp(party, HttpTransport(str(api.client.base_url)))
            link.port.node = node
        await client.check_works(client.give_key("secp256k1"))
        old = await client.generate("ed25519")
        new = await client.recover("ed25519")
        await client.check_works(new)
        await client.check_retired(old)
        for link in gateway.links.values():
            link.node.restart()
            assert await link.port.hello() == link.node.hello()
        await client.check_works(new)
        for link in gateway.links.values():
            await link.port.close()


FAILED = "the operator's MPC node has failed"


REFUSED = b'{"error": "no such key", "party": 2}'
NO_ANSWERS = [
    (404, REFUSED),  # to a hello there is nothing to refuse
    (200, b"not a hello"),
    (502, b"<html>Bad gateway</html>"),
    (404, b'{"error": "no such key"}'),
    (404, b'{"error": "no such key", "party": 3}'),
    (404, b'{"error": 7, "party": 2}'),
    (409, b'{"error": "busy", "party": 2, "retry_after_s": "soon"}'),
    (401, b"[]"),
    (301, b""),
]


@pytest.mark.parametrize(("status", "body"), NO_ANSWERS)
async def test_an_answer_that_is_none(status, body):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})

    port = OverHttp(OPERATOR, AsgiTransport(app))
    with pytest.raises(LinkFailed, match=FAILED):
        await port.hello()
    if status != 200 and body != REFUSED:
        with pytest.raises(LinkFailed, match=FAILED):
            await port.handle("standing", b"", b"")


async def test_a_node_that_is_not_there_or_does_not_answer():
    async def silent(reader, writer):
        await reader.read()
        writer.close()

    async def hanging_up(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async def asked(address):
        port = OverHttp(OPERATOR, HttpTransport(address, Limits(total_s=0.2)))
        with pytest.raises(LinkFailed) as failed:
            await port.handle("standing", b"", b"")
        await port.close()
        return failed.value.status, str(failed.value)

    nobody = await asked(f"http://{HOST}:{free_port()}")
    assert nobody == (503, "the operator's MPC node cannot be reached")
    for talk, said in (
        (silent, (504, "the operator's MPC node did not answer in time")),
        (hanging_up, (500, FAILED)),
    ):
        server = await asyncio.start_server(talk, HOST, 0)
        assert await asked(f"http://{HOST}:{server.sockets[0].getsockname()[1]}") == said
        server.close()
        await asyncio.sleep(0.01)  # the other end's connection ends, too


async def test_the_grant_is_looked_for_in_its_header(gateway, client):
    link, user_id = gateway.links[OPERATOR], await client.user_id()
    transport = httpx.ASGITransport(create_app(link.node))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
        body = GetActivationState(user_id, "ed25519").to_bytes()
        text = base64.urlsafe_b64encode(link.grant(Scope("standing", user_id))).decode()
        for header in (None, "", text, f"Basic {text}", "Bearer \u00e9", f"Bearer {text}!"):
            headers = {} if header is None else {"authorization": header.encode("latin-1")}
            answer = await http.post("/standing", content=body, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert answer.json() == {
                "error": "the request bears no grant",
                "party": OPERATOR,
                "code": "unauthorized",
                "kind": "grant",
            }
        headers = {"authorization": f"bearer {text}", HEADER: "order-1"}
        answer = await http.post("/standing", content=body, headers=headers)
        assert answer.status_code == 200
        assert ActivationState.from_bytes(answer.content).active is None
        assert answer.headers[HEADER] == "order-1"
        assert (await http.get("/standing")).status_code == 405
        assert (await http.post("/hello")).status_code in (404, 405)


async def test_nothing_is_read_from_whoever_is_not_the_gateway(gateway):
    said = []

    async def receive():
        raise AssertionError("the body is read")

    async def send(message):
        said.append(message)

    app = create_app(gateway.links[OPERATOR].node)
    bearer = b"Bearer " + base64.urlsafe_b64encode(bytes(256))
    scope = {"type": "http", "method": "POST", "path": "/open", "query_string": b""}
    await app({**scope, "headers": [(b"authorization", bearer)]}, receive, send)
    assert said[0]["status"] == 401
