"""A link to an MPC node, in virtual time: what its requests pass, and how long strangers wait."""

import asyncio
from unittest.mock import Mock, create_autospec

import pytest

from mpcsim.ids import OPERATOR
from mpcsim.link_transport import DirectTransport, ImmediateExchange
from mpcsim.service.errors import LinkFailed, Refused
from mpcsim.service.gateway.links.links import Link, Times
from mpcsim.service.gateway.links.mpc_nodes import InProcess
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.grants import Scope, StaleGrant
from mpcsim.sim.run.realtime.clock import run

HELLO = wire.Hello(OPERATOR, bytes(32), bytes(32), bytes(64), bytes(16), 0)
SCOPE, BODY = Scope("reset"), wire.Reset()


def port(*answers, hello):
    """To an MPC node that answers one thing after the other."""
    found = create_autospec(InProcess, instance=True)
    found.me, found.hello.side_effect, found.handle.side_effect = OPERATOR, hello, answers
    return found


def link(to, carrier=None):
    return Link(to, Mock(), carrier, timer=lambda: 0.0, timeout_s=5.0)


async def says_at_once():
    return HELLO


async def hangs():
    await asyncio.sleep(100)


ENDINGS = {
    "answered": ([b"yes"], b"yes", ["on_handled", "receive_reply 3"]),
    "refused": ([Refused(409, "it is busy")], "it is busy", ["receive_refusal 10", "on_handled"]),
    "out of reach": ([LinkFailed(503, "gone", OPERATOR)], "gone", ["on_handled"]),
    "restarted": ([StaleGrant("old"), b"yes"], b"yes", ["on_handled", "receive_reply 3"]),
    "restarted again": ([StaleGrant("old")] * 2, "at odds", ["receive_refusal 75", "on_handled"]),
    "late": ([TimeoutError()], "in time", ["on_handled"]),
}
"""What an MPC node does, what becomes of the call, and what passes the network after it."""


@pytest.mark.parametrize(("answers", "ends", "passed"), ENDINGS.values(), ids=ENDINGS)
def test_a_request_and_its_answer_pass_the_network(answers, ends, passed):
    """A refusal, too; but no answer that there is not."""
    to = port(*answers, hello=says_at_once)
    carrier = create_autospec(DirectTransport, instance=True)
    carrier.is_down.return_value = False
    carrier.exchange.return_value = create_autospec(ImmediateExchange, instance=True)
    at, times = link(to, carrier), Times()
    if isinstance(ends, bytes):
        assert run(at.call(SCOPE, BODY, times)) == ends
    else:
        with pytest.raises(Refused, match=ends):
            run(at.call(SCOPE, BODY, times))
    assert to.hello.call_count == to.handle.call_count == len(answers)
    called = [(name.removeprefix("exchange()."), args) for name, args, _ in carrier.mock_calls]
    found = [f"{name} {args[0]}" if "receive" in name else name for name, args in called]
    assert found == ["is_down", "exchange", "send_request", *passed, "close"]
    assert [name for name, *_ in times.spans] == ["operator", "operator-link", "operator-link"]


def test_who_has_said_hello_is_known_while_it_is_out_of_reach():
    gone = LinkFailed(503, "gone", OPERATOR)
    at = link(port(hello=[gone, HELLO, gone]))
    with pytest.raises(LinkFailed, match="gone"):
        run(at.hello())
    for answers in (True, False):
        assert (run(at.hello(fresh=True)), at.is_answering) == (HELLO, answers)


@pytest.mark.parametrize("known", [True, False])
def test_whoever_asks_who_a_silent_node_is_waits_for_half_a_second_at_most(known):
    """All who ask share one question; after two seconds the node counts as not answering."""
    at = link(port(hello=hangs))
    at._hello, at.is_answering = HELLO if known else None, known

    async def ask_at(second):
        await asyncio.sleep(second)
        try:
            assert await at.latest_hello() == HELLO
        except LinkFailed:
            assert not known
        return asyncio.get_running_loop().time(), at.is_answering

    async def ask():
        return await asyncio.gather(*map(ask_at, (0.0, 0.25, 0.75, 1.5, 2.0, 3.0)))

    found = run(ask())
    assert [at for at, _ in found] == [0.5, 0.5, 0.75, 1.5, 2.0, 3.0]
    assert [answers for _, answers in found] == [known] * 4 + [False] * 2
    assert at.port.hello.call_count == 1
