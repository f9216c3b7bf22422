"""Networks and faults on the links: they cost time and requests, never a key."""

import asyncio
from contextlib import closing, suppress
from itertools import product

import pytest

from mpcsim.ids import CLIENT, MPC_NODES
from mpcsim.link_transport import GATEWAY, DirectTransport
from mpcsim.service.operations.request_forwarding import RequestForwarding
from mpcsim.sim.network.topology import Network
from mpcsim.sim.run.faults import Crash, drop, noise, partition
from mpcsim.sim.run.realtime import clock as virtual
from mpcsim.sim.simulated_network import SimulatedNetwork
from tests.helpers.gateway import Failed, Stuck
from tests.helpers.tiers import fast_few

FAULTS = {
    "drop from the client": [drop(sender=1, nth=1)],
    "drop to the client": [drop(receiver=1, nth=1)],
    "drop between the MPC nodes": [drop(sender=2, receiver=3, nth=2)],
    "drop everything": [drop()],
    "partition of the client": [partition([CLIENT], MPC_NODES)],
    "partition of the MPC nodes": [partition([2], [3])],
    "crash of the operator": [Crash(2, after_messages=1)],
    "crash of the institution": [Crash(3, after_messages=2)],
    "crash and return": [Crash(3, after_messages=2, down_ms=0)],
    "crash in the vote": [Crash(2, after_messages=5, down_ms=0)],
    "heavy noise": noise(drop=0.3, duplicate=0.3, delay=0.3, delay_ms=1.0),
}


@pytest.mark.parametrize(
    ("kind", "fault"), fast_few(product(("generate", "recover", "sign"), FAULTS), 12)
)
async def test_faults_give_clean_errors_and_then_a_working_key(kind, fault, clock, gateway, client):
    share = None if kind == "generate" else client.give_key("ed25519")
    gateway.network.change(None, FAULTS[fault], seed=3)
    with suppress(Failed, Stuck):
        await getattr(client, kind)(share if kind == "sign" else "ed25519")
    assert set(client.statuses) <= {200, 204, 404, 409, 410, 503, 504}
    gateway.network.change()
    clock.now += 100  # whatever nobody goes on with expires
    public_key = share and share.public_key.encode()
    working = await client.check_consistent("ed25519", public_key)
    await client.sign(working)


async def test_a_caller_that_goes_away_while_its_request_travels_is_gone_for_the_gateway():
    heard, carrier = [], DirectTransport()
    carrier.is_instant = False
    says = iter([{"type": "http.request", "body": b"a", "more_body": True}])

    async def app(scope, receive, send):
        for _ in range(3):
            heard.append((await receive())["type"])

    async def receive():
        return next(says, {"type": "http.disconnect"})

    scope = {"type": "http", "method": "POST", "path": "/mpc/v1/sign"}
    await RequestForwarding(app, carrier)(scope, receive, None)
    assert heard == ["http.request", "http.disconnect", "http.disconnect"]


async def took_ms(way):
    loop = asyncio.get_running_loop()
    began = loop.time()
    await way
    return (loop.time() - began) * 1000


def test_an_exchange_that_was_given_up_holds_nobody_up_for_ever():
    """With one connection over the link. Its request is under way until 10 ms, whether or not
    anybody waits; the next one leaves then, and is there at 20 ms."""

    async def work():
        network = SimulatedNetwork(Network.star(10, mbit_per_s=1e6).with_connection(pool=1))

        async def impatient():
            with (
                closing(network.exchange(CLIENT, GATEWAY)) as exchange,
                pytest.raises(TimeoutError),
            ):
                async with asyncio.timeout(0.005):
                    await exchange.send_request(1000)

        async def patient():
            with closing(network.exchange(CLIENT, GATEWAY)) as exchange:
                return await took_ms(exchange.send_request(1000)), await took_ms(
                    exchange.receive_reply(1000)
                )

        _, took = await asyncio.gather(impatient(), patient())
        assert took == pytest.approx((20, 10), abs=0.01)

    virtual.run(work())


@pytest.mark.parametrize("http", ["1.1", "2"])
def test_a_body_in_many_pieces_arrives_as_far_as_it_is_sent(http):
    pieces = [bytes([k]) for k in range(200)]

    async def work():
        network = SimulatedNetwork(Network.star(50).with_connection(http=http))

        async def body(*, breaks=False):
            for piece in pieces:
                yield piece
            if breaks:
                raise EOFError

        with closing(network.exchange(CLIENT, GATEWAY)) as exchange:
            for carried in (exchange.stream_request(body()), exchange.stream_reply(body())):
                assert b"".join([piece async for piece in carried]) == b"".join(pieces)
        heard = []
        with closing(network.exchange(CLIENT, GATEWAY)) as exchange, pytest.raises(EOFError):
            async for piece in exchange.stream_request(body(breaks=True)):
                heard.append(piece)
        assert b"".join(heard) == b"".join(pieces)

    virtual.run(work())
