"""What happens when the gateway, after its start, first reaches both MPC nodes."""

import asyncio
import logging
from contextlib import closing

import pytest

from mpcsim.gateway.meeting import Meeting
from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR
from mpcsim.rpc.errors import LinkFailed
from mpcsim.service import open_gateway
from tests.helpers.gateway import Client, Clock, shares_of
from tests.helpers.processes import PATIENCE_S


def run(work):
    async def whole():
        with closing(open_gateway()) as gateway:
            return await work(gateway, Client.of(gateway))

    asyncio.run(whole())


def anew(gateway, clock):
    """The meeting of a gateway that has been started anew, while its MPC nodes have not."""
    gateway.gateway.meeting = Meeting(gateway.links, gateway.gateway.activation, clock)
    return gateway.gateway.meeting


def test_sessions_of_an_earlier_run_keep_nobody_from_a_key():
    async def work(gateway, client):
        share = await client.generate("secp256k1")
        before = shares_of(gateway)
        await client.post("sign", client.begin_sign(share)[1])
        await client.begin_recover("secp256k1")
        nodes = [gateway.links[party].node for party in MPC_NODES]
        assert all(node._sessions for node in nodes)
        assert shares_of(gateway) != before
        await anew(gateway, Clock()).hold()
        assert not any(node._sessions or node._busy for node in nodes)
        assert shares_of(gateway) == before

    run(work)


def test_it_waits_until_both_can_be_reached_and_takes_place_once(caplog):
    caplog.set_level(logging.INFO, "mpcsim.gateway.meeting")
    clock = Clock()

    async def work(gateway, client):
        share = await client.generate("secp256k1")
        meeting = anew(gateway, clock)
        for link in gateway.links.values():
            link._hello = None
        gateway.links[INSTITUTION].down = True
        with pytest.raises(LinkFailed):
            await meeting.hold()
        tried = []
        hello = gateway.links[OPERATOR].port.hello

        async def asked():
            tried.append(clock())
            return await hello()

        gateway.links[OPERATOR].port.hello = asked
        for _ in range(3):  # nothing is asked more than once a second
            gateway.links[OPERATOR]._hello = None
            await meeting.attend()
        assert len(tried) == 1
        gateway.links[INSTITUTION].down = False
        clock.now += 1
        await client.check_works(share)  # which attends to it
        assert caplog.messages.count("both MPC nodes have been reached") == 1
        _, request = client.begin_sign(share)
        clock.now += 10
        assert (await client.post("sign", request)).is_success
        await meeting.attend()
        assert gateway.links[OPERATOR].node._sessions

    run(work)


@pytest.mark.parametrize("comes_back", [True, False])
def test_it_takes_place_even_if_nobody_asks_for_anything(monkeypatch, caplog, comes_back):
    caplog.set_level(logging.INFO, "mpcsim.gateway.meeting")
    monkeypatch.setattr("mpcsim.gateway.meeting.PATIENCE_S", -1)
    monkeypatch.setattr("mpcsim.gateway.meeting.AGAIN_S", 0.001)

    async def work(gateway, client):
        await client.generate("secp256k1")
        link = gateway.links[INSTITUTION]
        meeting = anew(gateway, asyncio.get_running_loop().time)
        link._hello, link.down = None, True
        others = asyncio.all_tasks()
        async with asyncio.timeout(PATIENCE_S):
            await meeting.begin()
            assert "what the start has to see to waits until it can" in caplog.text
            link.down = not comes_back
            await asyncio.sleep(0.01)
            while comes_back and "both MPC nodes have been reached" not in caplog.messages:
                await asyncio.sleep(0.001)
            await meeting.stop()
        assert asyncio.all_tasks() == others

    run(work)


def test_what_fails_after_the_introduction_does_not_end_sessions_again(monkeypatch):
    async def work(gateway, client):
        share = await client.generate("secp256k1")
        meeting = anew(gateway, Clock())
        left = [LinkFailed(503, "gone", OPERATOR)]
        resolve = gateway.gateway.activation.resolve_at_start

        async def failing():
            if left:
                raise left.pop()
            await resolve()

        monkeypatch.setattr(gateway.gateway.activation, "resolve_at_start", failing)
        with pytest.raises(LinkFailed):
            await meeting.hold()
        await client.post("sign", client.begin_sign(share)[1])
        await meeting.hold()
        assert gateway.links[OPERATOR].node._sessions

    run(work)
