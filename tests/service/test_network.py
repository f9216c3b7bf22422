"""Networks and faults on the links: they cost time and requests, never a key."""

import asyncio
from contextlib import closing, suppress
from itertools import product

import pytest

from mpcsim.errors import UsageError
from mpcsim.ids import CLIENT, MPC_NODES
from mpcsim.rpc.carrier import GATEWAY
from mpcsim.service import open_gateway
from mpcsim.sim.network.tcp import traffic as kernel
from mpcsim.sim.network.topology import Network
from mpcsim.sim.run import clock as virtual
from mpcsim.sim.run.faults import Crash, delay, drop, duplicate, noise, partition
from mpcsim.sim.simulated_network import SimulatedNetwork, begin_session
from tests.helpers.gateway import Client, Clock, Failed, Stuck, give_key, run_with, with_gateway
from tests.helpers.tiers import fast_few


@with_gateway()
async def test_the_link_to_each_mpc_node_shows_in_server_timing(gateway, client):
    share = await client.generate("ed25519")
    gateway.network.change(Network.preset("seoul", institution="frankfurt"))
    response = await client.post("sign", client.begin_sign(share, signer=3)[1])
    parts = [part.split(";dur=") for part in response.headers["server-timing"].split(", ")]
    spent = {name: float(ms) for name, ms in parts}
    assert set(spent) == {"institution", "institution-link"}
    assert spent["institution-link"] > 200  # there and back: a machine never waits for less


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
HARMLESS = {
    "duplicates": [duplicate()],
    "delays": [delay(3.0)],
    "both": noise(duplicate=0.5, delay=0.5, delay_ms=2.0),
}


@pytest.mark.parametrize(
    ("kind", "fault"), fast_few(product(("generate", "recover", "sign"), FAULTS), 12)
)
def test_faults_give_clean_errors_and_a_working_key_afterwards(kind, fault):
    clock = Clock()

    async def work(gateway, client):
        share = None if kind == "generate" else await client.generate("ed25519")
        gateway.network.change(None, FAULTS[fault], seed=3)
        with suppress(Failed, Stuck):
            await getattr(client, kind)(share if kind == "sign" else "ed25519")
        assert set(client.statuses) <= {200, 204, 404, 409, 410, 503, 504}
        gateway.network.change()
        clock.now += 100  # whatever nobody goes on with expires
        public_key = share and share.public_key.encode()
        working = await client.check_consistent("ed25519", public_key)
        await client.sign(working)

    run_with(work, clock=clock)


@pytest.mark.parametrize("fault", HARMLESS)
@with_gateway()
async def test_duplicates_and_delays_do_no_harm(gateway, client, fault):
    gateway.network.change(None, HARMLESS[fault], seed=1)
    await client.generate("ed25519")
    await client.check_works(await client.recover("ed25519"))


@with_gateway()
async def test_an_operator_that_is_down_leaves_the_institution(gateway, client):
    share = await give_key(gateway, client, "secp256k1")
    gateway.network.change(None, [Crash(2)])
    with pytest.raises(Failed) as failed:
        await client.sign(share, signer=2)
    assert failed.value.status == 503
    await client.sign(share, signer=3)


def test_the_same_seed_gives_the_same_faults():
    async def fates(gateway, client):
        gateway.network.change(None, noise(drop=0.05), seed=5)
        found = []
        for number in range(8):
            try:
                await Client.of(gateway, f"user {number}").begin_generate("ed25519")
                found.append("done")
            except Stuck:
                found.append("stuck")
        return found

    first, second = (run_with(fates) for _ in range(2))
    assert first == second
    assert set(first) == {"done", "stuck"}


def test_a_holder_must_have_a_site():
    with closing(open_gateway()) as gateway:
        before = gateway.network.model
        with pytest.raises(UsageError):
            gateway.network.change(Network.mesh((1, 2), 5.0))
        assert gateway.network.model is before


@pytest.mark.soak
@with_gateway(link_timeout_s=2)
async def test_a_message_that_is_delayed_for_longer_than_the_gateway_waits_is_a_timeout(
    gateway, client
):
    share = await client.generate("ed25519")
    gateway.network.change(faults=[delay(600_000, receiver=2)])
    with pytest.raises(Failed) as failed:
        await client.sign(share, signer=2)
    assert (failed.value.status, failed.value.response.json()["party"]) == (504, 2)
    await client.sign(share, signer=3)
    gateway.network.change()
    await client.check_works(share)


COLD = Network.star(client=10, operator=20, mbit_per_s=1e6).with_connection(cold=True)


async def took_ms(way):
    loop = asyncio.get_running_loop()
    began = loop.time()
    await way
    return (loop.time() - began) * 1000


def test_the_first_exchange_over_a_cold_connection_pays_the_handshakes():
    """TCP and TLS 1.3 are two round trips, then the request goes: five ways. Its answer, and the
    exchanges that follow, find the connection open; one at the same time opens another."""

    async def work():
        network = SimulatedNetwork(COLD)
        for asking, asked, one_way_ms in ((CLIENT, GATEWAY, 10), (GATEWAY, 2, 20)):
            took = []
            for _ in range(2):
                with closing(network.exchange(asking, asked)) as exchange:
                    took += [await took_ms(exchange.go(1000)), await took_ms(exchange.come(1000))]
            assert took == pytest.approx([one_way_ms * k for k in (5, 1, 1, 1)], abs=0.01)
            with (
                closing(network.exchange(asking, asked)) as one,
                closing(network.exchange(asking, asked)) as other,
            ):
                took = [await took_ms(exchange.go(1000)) for exchange in (one, other)]
            assert took == pytest.approx([one_way_ms, 5 * one_way_ms], abs=0.01)

    virtual.run(work())


def test_every_session_opens_its_own():
    async def session(network):
        begin_session()
        took = []
        for _ in range(2):
            with closing(network.exchange(CLIENT, GATEWAY)) as exchange:
                took.append(await asyncio.create_task(took_ms(exchange.go(1000))))
        return took

    async def work():
        network = SimulatedNetwork(COLD)
        first = await asyncio.create_task(session(network))
        others = await asyncio.gather(*(session(network) for _ in range(3)))
        for took in (first, *others):
            assert took == pytest.approx([50, 10], abs=0.01)

    virtual.run(work())


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
                    await exchange.go(1000)

        async def patient():
            with closing(network.exchange(CLIENT, GATEWAY)) as exchange:
                return await took_ms(exchange.go(1000)), await took_ms(exchange.come(1000))

        _, took = await asyncio.gather(impatient(), patient())
        assert took == pytest.approx((20, 10), abs=0.01)

    virtual.run(work())


@pytest.mark.parametrize(("http", "expected_ms"), [("1.1", 1300), ("2", 500)])
def test_more_exchanges_than_there_is_room_for(http, expected_ms):
    """A hundred at once, 100 ms each. HTTP/1.1 has eight connections: 13 turns. The one connection
    of HTTP/2 does not take more than it can keep apart, and is open for the rest in time."""

    async def work():
        network = SimulatedNetwork(Network.star(50, mbit_per_s=1e6).with_connection(http=http))

        async def one():
            with closing(network.exchange(CLIENT, GATEWAY)) as exchange:
                await exchange.go(1000)
                await exchange.come(1000)

        began = network.now_ms()
        await asyncio.gather(*(one() for _ in range(100)))
        assert network.now_ms() - began <= expected_ms + 1

    virtual.run(work())


@pytest.mark.few(3)
@pytest.mark.parametrize("http", ["1.1", "2"])
@pytest.mark.parametrize(("count", "size"), [(70, 1), (300, 1), (300, 5000)])
def test_a_body_in_many_pieces_arrives(http, count, size):
    pieces = [bytes([k % 251]) * size for k in range(count)]

    async def work():
        network = SimulatedNetwork(Network.star(50).with_connection(http=http))

        async def body():
            for piece in pieces:
                yield piece

        for _ in range(2):
            with closing(network.exchange(CLIENT, GATEWAY)) as exchange:
                for carried in (exchange.going(body()), exchange.coming(body())):
                    assert b"".join([piece async for piece in carried]) == b"".join(pieces)

    virtual.run(work())


def test_a_body_that_breaks_off_does_so_once_the_rest_is_there():
    async def work():
        network = SimulatedNetwork(Network.star(10, mbit_per_s=1e6))
        began = network.now_ms()
        heard = []

        async def body():
            yield b"some"
            raise EOFError

        with closing(network.exchange(CLIENT, GATEWAY)) as exchange, pytest.raises(EOFError):
            async for piece in exchange.going(body()):
                heard.append((piece, network.now_ms() - began))
        assert heard == [(b"some", pytest.approx(10, abs=0.01))]

    virtual.run(work())


def test_nothing_is_a_message_too():
    """Without anything around it, an empty body takes a way all the same."""

    async def work():
        network = SimulatedNetwork(Network.star(10).with_connection(overhead_bytes=0))
        with closing(network.exchange(CLIENT, GATEWAY)) as exchange:
            assert await took_ms(exchange.go(0)) == pytest.approx(10, abs=0.01)

    virtual.run(work())


def test_the_first_message_waits_for_no_compiler():
    """What a network in force needs is loaded with it, not while a request's time runs."""
    entries = [
        getattr(kernel, name) for name in ("place", "extend", "advance", "release", "forget")
    ]

    async def work():
        network = SimulatedNetwork(Network.star(10))
        before = [len(f.signatures) for f in entries]
        assert all(before)
        with closing(network.exchange(CLIENT, GATEWAY)) as exchange:
            await exchange.go(1000)
            await exchange.come(1000)
        assert [len(f.signatures) for f in entries] == before

    virtual.run(work())
