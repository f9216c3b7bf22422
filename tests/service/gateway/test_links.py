"""A link to an MPC node, in virtual time: what its requests pass, and how long strangers wait."""

import asyncio

import pytest

from mpcsim.ids import OPERATOR
from mpcsim.link_transport import DirectTransport, ImmediateExchange
from mpcsim.service.errors import LinkFailed, Refused
from mpcsim.service.gateway.links.links import Link, Times
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.grants import GrantRefused, Scope, StaleGrant
from mpcsim.sim.run.realtime.clock import run

HELLO = wire.Hello(OPERATOR, bytes(32), bytes(32), bytes(64), bytes(16), 0)
SCOPE, BODY = Scope("reset"), wire.Reset()


class Node:
    """The port to an MPC node that answers one thing after the other."""

    me = OPERATOR

    def __init__(self, *answers, hello_s=0.0):
        self.answers, self.hello_s, self.asked = list(answers), hello_s, []

    async def hello(self):
        self.asked.append("hello")
        await asyncio.sleep(self.hello_s)
        return HELLO

    async def handle(self, verb, grant, body):
        self.asked.append(verb)
        answer = self.answers.pop(0)
        if isinstance(answer, float):
            await asyncio.sleep(answer)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def restart(self): ...


class Carrier(DirectTransport):
    """Notes what passes."""

    def __init__(self):
        self.passed = []

    def exchange(self, asking, asked):
        return Noted(self.passed)

    def on_handled(self, party):
        self.passed.append("handled")


class Noted(ImmediateExchange):
    def __init__(self, passed):
        self.passed = passed

    async def send_request(self, size):
        self.passed.append("request")

    async def receive_reply(self, size):
        self.passed.append(f"reply of {size}")

    async def receive_refusal(self, size):
        self.passed.append(f"refusal of {size}")

    def close(self):
        self.passed.append("closed")


class Issuer:
    def issue(self, scope, boot):
        return b"grant"


def link(node, carrier=None):
    return Link(node, Issuer(), carrier or Carrier(), timer=lambda: 0.0, timeout_s=5.0)


ENDINGS = {
    "answered": ([b"yes"], b"yes", ["handled", "reply of 3"]),
    "refused": ([Refused(409, "it is busy")], "it is busy", ["refusal of 10", "handled"]),
    "out of reach": ([LinkFailed(503, "gone", OPERATOR)], "gone", ["handled"]),
    "restarted": ([StaleGrant("old"), b"yes"], b"yes", ["handled", "reply of 3"]),
    "restarted again": ([StaleGrant("old")] * 2, "at odds", ["refusal of 75", "handled"]),
    "at odds": ([GrantRefused("no")], "at odds", ["refusal of 75", "handled"]),
    "late": ([6.0], "in time", ["handled"]),
}
"""What an MPC node does, what becomes of the call, and what passes the network after it."""


@pytest.mark.parametrize(("answers", "ends", "passed"), ENDINGS.values(), ids=ENDINGS)
def test_a_request_and_its_answer_pass_the_network(answers, ends, passed):
    """A refusal, too; but no answer that there is not."""
    node, carrier = Node(*answers), Carrier()
    at, times = link(node, carrier), Times()
    if isinstance(ends, bytes):
        assert run(at.call(SCOPE, BODY, times)) == ends
    else:
        with pytest.raises(Refused, match=ends):
            run(at.call(SCOPE, BODY, times))
    assert node.asked == ["hello", "reset"] * len(answers)
    assert carrier.passed == ["request", *passed, "closed"]
    assert [name for name, *_ in times.spans] == ["operator", "operator-link", "operator-link"]


@pytest.mark.parametrize("known", [True, False])
def test_whoever_asks_who_a_silent_node_is_waits_for_half_a_second_at_most(known):
    """All who ask share one question; after two seconds the node counts as not answering."""
    node = Node(hello_s=100.0)
    at = link(node)
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
    assert node.asked == ["hello"]
