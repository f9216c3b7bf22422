"""A gateway that forwards as bytes arrive, beside one that stores: what reaches whom when, and that
what goes wrong half-way does no more than it would have."""

import asyncio
import gc
import threading
from contextlib import asynccontextmanager, closing, nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace
from unittest.mock import AsyncMock

import httpx
import pytest
from starlette.requests import ClientDisconnect

from mpcsim.errors import InvalidEncoding, UsageError
from mpcsim.ids import CLIENT, INSTITUTION, MPC_NODES, OPERATOR, ROLES
from mpcsim.protocols.engine import Done
from mpcsim.protocols.engine.envelope import ABORT_KIND, HEADER_BYTES, Envelope
from mpcsim.service.error_codes import Code
from mpcsim.service.errors import LinkFailed, NodeFailed, no_such_session, node_unreachable
from mpcsim.service.gateway.defaults import LEASE_S
from mpcsim.service.gateway.links.mpc_nodes import InProcess, OverHttp
from mpcsim.service.gateway.sessions import body_validation, streaming
from mpcsim.service.gateway.sessions.body_validation import AnswerValidator, ExchangeValidator
from mpcsim.service.mpc_node.app import create_app
from mpcsim.service.operations import GatewayOptions
from mpcsim.service.rpc import wire
from mpcsim.service.web.transport import AsgiTransport, ConnectionLost, HttpTransport
from mpcsim.sim.run.faults import drop
from tests.helpers import gateway as service
from tests.node.harness import running

pytestmark = pytest.mark.options(forwarding="stream")

SID = bytes(range(32))
NO_SUCH_SESSION = no_such_session()
NO_SESSION = (410, "no such session, or it has expired")


def letter(size, sender=CLIENT, receiver=OPERATOR):
    return Envelope(1, 1, False, sender, receiver, SID, bytes(size)).encode()


# ------------------------------------------------------------------ body validators

LARGEST = wire.Answer(1, bytes(wire.MAX_RECORD_BYTES), (letter(1),) * 32, None, bytes(1 << 10))
BODIES = [
    *(wire.Exchange(SID, tuple(map(letter, sizes))) for sizes in ([], [1], [2])),
    wire.Exchange(SID, (letter(1000), letter(0))),
    wire.Exchange(SID, (letter(0), letter(7)) * 32),
    wire.Answer(1, None, ()),
    wire.Answer(0, b"r", (letter(1),), SID, b""),
    LARGEST,
]


@pytest.mark.parametrize("step", [1, 7, 10_000])
@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_what_goes_on_is_the_body_and_its_last_byte_goes_last(body, step):
    """Of an answer, its messages as a batch of their own."""
    expected = data = body.to_bytes()
    validator, passed = ExchangeValidator(lambda envelope: None), b""
    if isinstance(body, wire.Answer):
        validator = AnswerValidator(lambda envelope: None, 32)
        expected = wire.MessageBatch(body.messages).to_bytes()
    for start in range(0, len(data), step):
        assert not validator.done
        passed += validator.feed(data[start : start + step])
    assert validator.done
    assert passed == expected[: -1 if body.messages else -2]  # the last byte, or their number
    assert passed + validator.finish() == expected


def test_of_a_long_message_each_byte_goes_on_as_it_comes():
    data = wire.Exchange(SID, (letter(50),)).to_bytes()
    validator = ExchangeValidator(lambda envelope: None)
    validator.feed(data[:-30])
    for byte in data[-30:-1]:
        assert validator.feed(bytes([byte])) == bytes([byte])


def test_nothing_of_an_envelope_goes_on_before_its_header_is_checked():
    def check(envelope):
        if envelope.sender != CLIENT:
            raise ValueError

    data = wire.Exchange(SID, (letter(50), letter(50, sender=OPERATOR))).to_bytes()
    validator, passed = ExchangeValidator(check), b""
    with pytest.raises(ValueError):
        for byte in data:
            passed += validator.feed(bytes([byte]))
    assert passed == data[: 32 + 2 + 4 + len(letter(50))]


NO_EXCHANGE = [
    SID + b"\0\x41",
    SID + b"\0\1" + (39).to_bytes(4, "big"),
    SID + b"\0\1\xff\xff\xff\xff",
    wire.Exchange(SID, (letter(3),)).to_bytes() + b"\0",
]


@pytest.mark.parametrize("data", NO_EXCHANGE)
def test_what_is_no_exchange_is_refused(data):
    with pytest.raises(InvalidEncoding):
        ExchangeValidator(lambda envelope: None).feed(data)


NO_ANSWER = [
    *(b"\1\2", b"\1\1\xff\xff\xff\xff", b"\1\0\0\0\2", b"\1\0\0\0\0\0\0", b"\1\0\0\x21"),
    b"\1\1" + (wire.MAX_RECORD_BYTES + 1).to_bytes(4),
    b"\1\0\0\0\0\1" + (wire.MAX_HALF_BYTES + 1).to_bytes(4),
]


@pytest.mark.parametrize("data", NO_ANSWER)
def test_what_is_no_answer_is_refused(data):
    with pytest.raises(InvalidEncoding):
        AnswerValidator(lambda envelope: None, 32).feed(data)


@pytest.mark.parametrize("size", [100, 101])
def test_an_envelope_has_so_many_bytes_at_most(size, monkeypatch):
    monkeypatch.setattr(body_validation, "MAX_ENVELOPE_BYTES", 100)
    data = wire.Exchange(SID, (letter(size - HEADER_BYTES),)).to_bytes()
    with nullcontext() if size == 100 else pytest.raises(InvalidEncoding, match="of 101 bytes"):
        ExchangeValidator(lambda envelope: None).feed(data)


def test_what_is_cut_off_is_no_body():
    validator = ExchangeValidator(lambda envelope: None)
    validator.feed(wire.Exchange(SID, (letter(3),)).to_bytes()[:-1])
    with pytest.raises(InvalidEncoding):
        validator.finish()


# ------------------------------------------------------------------ a signature, message by message


class Watched(InProcess):
    """An MPC node's port that tells what has reached it, and may answer in pieces."""

    def __init__(self, node):
        super().__init__(node)
        self.got = bytearray()
        self.acted = 0
        self.first, self.left = asyncio.Event(), asyncio.Event()
        self.halfway = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.breaks = None

    async def stream(self, verb, grant, body, size):
        try:
            async for piece in body:
                self.got += piece
                self.first.set()
        finally:
            self.left.set()
        answer = await self.handle(verb, grant, bytes(self.got))
        self.acted += 1
        yield answer[: len(answer) // 2]
        self.halfway.set()
        await self.go_on.wait()
        if self.breaks is not None:
            raise self.breaks
        yield answer[len(answer) // 2 : -9]
        yield answer[-9:]


EITHER = pytest.mark.parametrize("signer", MPC_NODES)


@dataclass
class Signing:
    """A signature whose second request is about to be sent."""

    port: Watched
    party: object
    body: wire.Exchange

    def finish(self, mail):
        """The client has what completes the signature."""
        service.feed(self.party, wire.MessageBatch.from_bytes(mail).messages)
        assert isinstance(self.party.outcome, Done)


@pytest.fixture
@asynccontextmanager
async def signing(request, gateway, client):
    """A session with the operator, or the test's ``signer``; afterwards the key is free."""
    share = client.give_key("secp256k1")
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    link = gateway.links[signer := params.get("signer", OPERATOR)]
    port = link.port = Watched(link.node)
    party, messages = await client.begun(share, signer)
    yield Signing(port, party, wire.Exchange(party.session_id, messages))
    if isinstance(party.outcome, Done):
        service.check_signature(share, service.MESSAGE, party.outcome.result)
    link.port = InProcess(port.node)
    port.go_on.set()
    await client.sign(share)
    await service.until(lambda: not gateway.gateway._streaming._under_way)


async def in_two(data, at, event=None):
    """A body that stops in the middle until an event."""
    yield data[:at]
    if event is not None:
        await asyncio.wait_for(event.wait(), 10)
    yield data[at:]


async def post(client, data, content, size=None):
    """Send a body in the pieces of ``content``."""
    headers = {"Content-Type": wire.MEDIA_TYPE, **service.proof("exchange", data)}
    if size is not None:
        headers["Content-Length"] = str(size)
    return await client.request("POST", "/mpc/v1/exchange", content=content, headers=headers)


@pytest.mark.parametrize(("sized", "signer"), [(True, OPERATOR), (False, INSTITUTION)])
async def test_the_first_bytes_arrive_before_the_last_are_sent(sized, client, signing, signer):
    data = signing.body.to_bytes()
    pieces = in_two(data, 20_000, signing.port.first)
    answer = await post(client, data, pieces, len(data) if sized else None)
    assert answer.status_code == 200
    assert bytes(signing.port.got) == data
    assert ROLES[signer] in answer.headers["server-timing"]
    signing.finish(answer.content)


FAULTY = pytest.mark.options(faults=[drop(nth=99, kind="Commit")])


@pytest.mark.parametrize("forwarding", ["store", None, pytest.param("stream", marks=FAULTY)])
async def test_otherwise_the_mpc_node_is_asked_when_the_body_is_whole(forwarding, client, signing):
    data = signing.body.to_bytes()
    answer = await post(client, data, in_two(data, 20_000))
    assert answer.status_code == 200
    assert not signing.port.got
    signing.finish(answer.content)


@pytest.mark.parametrize("has_faults", [False, True])
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("forwarding", [None, "store", "stream"])
def test_the_setting_decides_or_else_the_network_unless_there_are_faults(
    forwarding, streams, has_faults
):
    carrier = SimpleNamespace(streams=streams, has_faults=has_faults)
    wished = {None: streams, "store": False, "stream": True}[forwarding]
    part = streaming.Streaming(None, {}, carrier, None, forwarding)
    assert part.is_enabled is (wished and not has_faults)


def spoilt(body, **header):
    """The same body with another header in its last message."""
    last = Envelope.decode(body.messages[-1])
    fields = {**vars(last), **header}
    return wire.Exchange(body.session_id, (*body.messages[:-1], Envelope(**fields).encode()))


WRONG_HEADERS = [
    ({"session_id": SID}, "messages: of another session"),
    ({"sender": OPERATOR}, "messages: party 1 speaks for 2"),
    ({"receiver": 3}, "messages: party 3 takes no part"),
]


@pytest.mark.parametrize(
    ("forwarding", "signer", "header", "error"),
    [
        *((f, OPERATOR, *case) for f in ("store", "stream") for case in WRONG_HEADERS),
        *((f, INSTITUTION, *WRONG_HEADERS[0]) for f in ("store", "stream")),
    ],
)
async def test_a_wrong_envelope_ends_the_session(
    header, error, forwarding, signer, client, signing
):
    answer = await client.post("exchange", spoilt(signing.body, **header))
    assert (answer.status_code, answer.json()) == (400, {"error": error})
    assert not signing.port.acted
    later = await client.post("exchange", signing.body)
    assert (later.status_code, later.json()["error"]) == NO_SESSION


@pytest.mark.parametrize(
    "error", [InvalidEncoding("x"), NO_SUCH_SESSION, ClientDisconnect(), TimeoutError()]
)
async def test_whatever_is_wrong_with_a_body_it_is_stored_first(error):
    waited = []

    async def read_more(patience_s):
        waited.append(patience_s)
        raise error

    data = wire.Exchange(SID, (letter(7),)).to_bytes()
    body = SimpleNamespace(received=data[:-3], is_complete=False, read_more=read_more)
    for patience_s in (7.0, -1.0):
        pieces = streaming._validated_pieces(
            body, ExchangeValidator(lambda header: None), patience_s, bool, len
        )
        with pytest.raises(streaming._StoreFirst):
            [piece async for piece in pieces]
    assert 0.0 < waited[0] <= 7.0
    assert waited[1] == 0.0


@pytest.mark.parametrize("looks", [0, 1])
async def test_nothing_of_a_body_goes_on_after_its_session_has_ended(looks):
    data, passed = wire.Exchange(SID, (letter(0), letter(7))).to_bytes(), []
    body = SimpleNamespace(received=data[:-3], is_complete=False)

    async def read_more(patience_s):
        body.is_complete = True
        return data[-3:]

    def raise_if_ended():
        if len(passed) == looks:
            raise NO_SUCH_SESSION

    body.read_more = read_more
    with pytest.raises(streaming._StoreFirst):
        async for piece in streaming._validated_pieces(
            body, ExchangeValidator(lambda header: None), 7.0, raise_if_ended, len
        ):
            passed.append(piece)
    assert len(passed) == looks


async def test_no_piece_of_a_body_is_empty():
    """To HTTP an empty piece is the end."""
    data = wire.Exchange(SID, (letter(0), letter(7))).to_bytes()
    body = SimpleNamespace(received=bytearray(data[:1]), is_complete=False)

    async def read_more(patience_s):
        body.received += (piece := data[len(body.received) : len(body.received) + 1])
        body.is_complete = len(body.received) == len(data)
        return piece

    body.read_more = read_more
    pieces = streaming._validated_pieces(
        body, ExchangeValidator(lambda header: None), 7.0, bool, len
    )
    passed = [piece async for piece in pieces]
    assert b"".join(passed) == data
    assert all(passed)


async def test_who_gives_up_an_exchange_ends_what_is_done_for_it(monkeypatch, gateway):
    stream, begun, ended = gateway.gateway._streaming, asyncio.Event(), asyncio.Event()

    async def forward(*arguments):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr(stream, "_session", AsyncMock())
    monkeypatch.setattr(stream, "_forward", forward)
    asking = asyncio.create_task(stream.exchange(None, None))
    await begun.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await ended.wait()


@pytest.mark.parametrize("error", [InvalidEncoding("x"), NO_SUCH_SESSION])
def test_a_wrong_answer_is_the_nodes_fault(error):
    def look(piece):
        raise error

    with pytest.raises(LinkFailed, match="MPC node answers something else"):
        streaming._validate_answer(OPERATOR, look, b"")


@pytest.mark.parametrize("failure", [NO_SUCH_SESSION, asyncio.CancelledError()])
async def test_a_reply_ends_as_what_fills_it_does(failure, caplog):
    async def fail():
        raise failure

    for is_awaited in (True, False):
        reply, task = streaming.Reply(), asyncio.create_task(fail())
        await asyncio.wait([task])
        reply.finish(task)
        if is_awaited:
            with pytest.raises(type(failure)):
                await reply.wait_for_first_piece()
    del reply, task
    gc.collect()
    assert not caplog.messages  # that nobody has heard of it


@pytest.mark.parametrize(("start", "status"), [(0, 410), (33, 400)])
async def test_a_body_that_is_wrong_is_read_to_its_end(start, status, gateway, client, signing):
    """A sender that is cut off while it still sends sees a broken connection, not the answer."""
    data = signing.body.to_bytes()
    at = data.index(signing.body.session_id, start)  # or that of the first envelope
    wrong, ended = data[:at] + bytes(32) + data[at + 32 :], asyncio.Event()

    async def watched():
        async for piece in in_two(wrong, 1000):
            yield piece
        ended.set()

    proven = wrong if start else data  # of a session that there is
    assert (await post(client, proven, watched(), len(wrong))).status_code == status
    assert ended.is_set()
    await gateway.gateway.sessions.cancel(gateway.gateway.sessions.open_sessions)


@pytest.mark.parametrize("forwarding", ["stream", "store"])
async def test_what_comes_before_the_mpc_node_has_the_session_goes_to_nobody(
    forwarding, gateway, client, signing
):
    (session,) = gateway.gateway.sessions.open_sessions
    session.open_nodes.clear()
    answer = await client.post("exchange", signing.body)
    assert (answer.status_code, answer.content) == (200, wire.MessageBatch(()).to_bytes())
    assert not signing.port.got
    session.open_nodes.add(OPERATOR)
    await gateway.gateway.sessions.cancel([session])


async def test_a_body_that_ends_early_is_malformed(gateway, client, signing):
    for size in (0, 33, 34):
        answer = await client.post("exchange", signing.body.to_bytes()[:size])
        assert answer.status_code == 400
    assert not signing.port.got
    await gateway.gateway.sessions.cancel(gateway.gateway.sessions.open_sessions)


async def test_nothing_of_a_body_without_a_proof_goes_on(client, signing):
    data = signing.body.to_bytes()
    headers = {"Content-Type": wire.MEDIA_TYPE, "Content-Length": str(len(data))}
    answer = await client.request(
        "POST", "/mpc/v1/exchange", content=in_two(data, 20_000), headers=headers
    )
    assert answer.status_code == 410
    assert not signing.port.got
    signing.finish((await post(client, data, in_two(data, 20_000))).content)


@pytest.mark.parametrize(("timeout_s", "patience_s"), [(4.0, 2.0), (1e6, LEASE_S)])
async def test_a_body_may_take_as_long_as_the_lease_and_half_of_the_link(
    timeout_s, patience_s, monkeypatch, gateway, client, signing
):
    waited, validated = [], streaming._validated_pieces

    def pieces(body, validator, patience, *more):
        waited.append(patience)
        return validated(body, validator, patience, *more)

    monkeypatch.setattr(streaming, "_validated_pieces", pieces)
    monkeypatch.setattr(gateway.links[OPERATOR], "timeout_s", timeout_s)
    data = signing.body.to_bytes()
    assert (await post(client, data, in_two(data, 1000), len(data))).status_code == 200
    assert waited == [patience_s]


async def test_a_client_that_leaves_ends_what_was_forwarded_for_it(gateway, client, signing):
    data = signing.body.to_bytes()
    asking = asyncio.create_task(post(client, data, in_two(data, 1000, asyncio.Event()), len(data)))
    await asyncio.wait_for(signing.port.first.wait(), 10)
    assert len(gateway.gateway._streaming._under_way) == 1
    asking.cancel()
    await asyncio.wait_for(signing.port.left.wait(), 5)
    await service.until(lambda: not gateway.gateway.sessions._background)
    assert not signing.port.acted


@pytest.mark.parametrize("forwarding", ["stream", "store"])
async def test_nobody_waits_for_an_answer_to_a_client_that_has_left(
    forwarding, gateway, client, signing
):
    handle, asked, given_up = signing.port.handle, asyncio.Event(), asyncio.Event()

    async def hanging(verb, grant, data):
        if verb == "exchange":
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                given_up.set()
        return await handle(verb, grant, data)

    signing.port.handle = hanging
    asking = asyncio.create_task(post(client, data := signing.body.to_bytes(), data))
    await asyncio.wait_for(asked.wait(), 10)
    asking.cancel()
    await asyncio.wait_for(given_up.wait(), 5)
    await service.until(lambda: not gateway.gateway.sessions._sessions)
    await service.until(lambda: not gateway.gateway.sessions._background)


async def broken(gateway, client, data):
    """As a client behind a socket sees a reply that breaks off."""
    transport, shown = AsgiTransport(gateway.app), {"token": client.token, "body": data}
    with pytest.raises(ConnectionLost):
        await transport.request(
            "POST", "/mpc/v1/exchange", headers=service.proof("exchange", data), **shown
        )


FULL = NodeFailed(503, "full", OPERATOR, code=Code.DISK_FULL)


@pytest.mark.parametrize(("failure", "told"), [(node_unreachable(OPERATOR), 0), (FULL, 1)])
async def test_an_mpc_node_that_breaks_off_its_answer(
    failure, told, gateway, client, signing, monkeypatch
):
    """If it cannot store its abort, the other one is told as after an abort."""
    heard = AsyncMock()
    monkeypatch.setattr(gateway.gateway._streaming, "_on_node_abort", heard)
    signing.port.breaks = failure
    await broken(gateway, client, signing.body.to_bytes())
    assert heard.call_count == told


@pytest.mark.parametrize("forwarding", ["stream", "store"])
@pytest.mark.parametrize("sender", [CLIENT, OPERATOR])
async def test_an_abort_counts_beside_other_messages(
    sender, forwarding, monkeypatch, gateway, client, signing
):
    """The client's, even if the MPC node says that the session goes on."""
    handle, heard = signing.port.handle, []
    fields = vars(Envelope.decode(signing.body.messages[0])) | {"kind": ABORT_KIND, "body": b""}
    fields |= {"sender": sender, "receiver": CLIENT if sender == OPERATOR else OPERATOR}
    abort = (Envelope(**fields).encode(),)

    async def going_on(verb, grant, data):
        said = await handle(verb, grant, data)
        if verb != "exchange":
            return said
        answer = wire.Answer.from_bytes(said)
        if sender == CLIENT:
            return replace(answer, open=1).to_bytes()
        return replace(answer, messages=answer.messages + abort).to_bytes()

    async def note(party):
        heard.append(party)

    for part in (gateway.gateway._streaming, gateway.gateway._router):
        monkeypatch.setattr(part, "_on_node_abort", note)
    signing.port.handle = going_on
    messages = signing.body.messages + abort if sender == CLIENT else signing.body.messages
    await client.ask("exchange", replace(signing.body, messages=messages))
    assert heard == [OPERATOR] * (sender == OPERATOR)
    assert not gateway.gateway.sessions.open_sessions


async def test_an_mpc_node_that_was_started_anew_has_no_such_session(client, signing):
    """What it does not have need not be closed there."""
    handle, asked = signing.port.handle, []

    async def noted(verb, grant, data):
        asked.append(verb)
        return await handle(verb, grant, data)

    signing.port.handle = noted
    signing.port.node.restart()
    response = await post(client, data := signing.body.to_bytes(), in_two(data, 1000), len(data))
    assert (response.status_code, response.json()["error"]) == NO_SESSION
    assert "close" not in asked


@EITHER
async def test_a_session_that_ends_meanwhile_is_heard_no_more_of(
    monkeypatch, gateway, client, signing, signer
):
    put, sent = streaming.Reply.put, []

    def noted(reply, piece):
        sent.append(piece)
        put(reply, piece)

    monkeypatch.setattr(streaming.Reply, "put", noted)
    signing.port.go_on.clear()
    asking = asyncio.create_task(broken(gateway, client, signing.body.to_bytes()))
    await asyncio.wait_for(signing.port.halfway.wait(), 10)
    sessions = gateway.gateway.sessions
    (session,) = sessions._sessions.values()
    await sessions.cancel(sessions.of_key(session.key_id))
    signing.port.go_on.set()
    await asking
    assert len(sent) == 1
    assert session.open_nodes == {signer}  # its place is free once it is closed there


async def test_a_session_that_ends_with_its_answer_breaks_off(gateway, client, signing):
    """Between the last look at it and the last byte."""
    link, sessions = gateway.links[OPERATOR], gateway.gateway.sessions
    stream = link.stream

    async def ending(*arguments):
        await stream(*arguments)
        await sessions.cancel(list(sessions._sessions.values()))

    link.stream = ending
    await broken(gateway, client, signing.body.to_bytes())
    link.stream = stream


async def test_an_answer_to_what_is_not_there_yet_is_none(client, signing):
    """An MPC node that answers before the request has ended."""
    data, ended = signing.body.to_bytes(), asyncio.Event()

    async def early(verb, grant, pieces, size):
        async for _ in pieces:
            yield wire.Answer(1, None, ()).to_bytes()

    signing.port.stream = early
    response = await post(client, data, in_two(data, 1000, ended), len(data))
    assert response.status_code == 502
    assert "operator" in response.text


async def test_nothing_more_goes_on_once_the_session_has_ended(gateway, client, signing):
    data, event, sessions = signing.body.to_bytes(), asyncio.Event(), gateway.gateway.sessions
    asking = asyncio.create_task(post(client, data, in_two(data, 1000, event), len(data)))
    await asyncio.wait_for(signing.port.first.wait(), 10)
    before = len(signing.port.got)
    await sessions.cancel(list(sessions._sessions.values()))
    event.set()
    response = await asking
    assert (response.status_code, response.json()["error"]) == NO_SESSION
    assert len(signing.port.got) == before
    assert not signing.port.acted


@EITHER
async def test_an_answer_whose_later_envelope_is_wrong_breaks_off(gateway, client, signing, signer):
    handle = signing.port.handle

    async def lying(verb, grant, data):
        said = await handle(verb, grant, data)
        if verb != "exchange":
            return said
        answer = wire.Answer.from_bytes(said)
        wrong = Envelope(1, 1, False, CLIENT, CLIENT, signing.body.session_id, bytes(9)).encode()
        messages = (*answer.messages, wrong)
        return wire.Answer(answer.open, None, messages).to_bytes()

    signing.port.handle = lying
    await broken(gateway, client, signing.body.to_bytes())


async def test_an_mpc_node_that_fails_before_it_answers_is_quoted(client, signing):
    handle = signing.port.handle

    async def failing(verb, grant, data):
        answer = await handle(verb, grant, data)
        if verb == "exchange":
            raise FULL
        return answer

    signing.port.handle = failing
    with pytest.raises(service.Failed, match="full"):
        await client.ask("exchange", signing.body)


async def test_an_answer_that_begins_wrong_is_told(client, signing):
    handle = signing.port.handle

    async def nonsense(verb, grant, data):
        answer = await handle(verb, grant, data)
        return b"\1\7nonsense" if verb == "exchange" else answer

    signing.port.handle = nonsense
    with pytest.raises(service.Failed, match="answers something else than it was asked"):
        await client.ask("exchange", signing.body)


# ------------------------------------------------------------------ over sockets


def test_over_sockets_the_bytes_stream_too():
    """Client, gateway and MPC node behind sockets: the MPC node's server has begun to read while
    the client still writes."""

    async def signature(address):
        client = service.Client.of(gateway)
        share = client.give_key("secp256k1")
        party, messages = await client.begun(share)
        data = wire.Exchange(party.session_id, messages).to_bytes()

        async def body():
            yield data[:20_000]
            await asyncio.wait_for(asyncio.to_thread(started.wait, 10), 10)
            yield data[20_000:]

        async with httpx.AsyncClient(base_url=address) as client.http:
            reply = await post(client, data, body(), len(data))
        assert (reply.status_code, sum(bodies)) == (200, len(data))
        service.feed(party, wire.MessageBatch.from_bytes(reply.content).messages)
        service.check_signature(share, service.MESSAGE, party.outcome.result)

    started, bodies = threading.Event(), []
    with closing(service.open_with(forwarding="stream")) as gateway:
        node_app = create_app(gateway.links[OPERATOR].node)

        async def watching(scope, receive, send):
            async def noted():
                message = await receive()
                if message.get("body") and scope.get("path") == "/exchange":
                    bodies.append(len(message["body"]))
                    started.set()
                return message

            await node_app(scope, noted if scope["type"] == "http" else receive, send)

        watching.router = node_app.router
        with running(watching) as node:
            port = OverHttp(OPERATOR, HttpTransport(str(node.client.base_url)))
            port.node = gateway.links[OPERATOR].node
            gateway.links[OPERATOR].port = port
            with running(gateway.app) as api:
                api.loop.run(signature(str(api.client.base_url)))


# ------------------------------------------------------------------ the setting


def test_no_such_forwarding():
    with pytest.raises(UsageError, match="unknown forwarding 'streem'; did you mean stream"):
        GatewayOptions(forwarding="streem")
    for options in ({"making_limit": -1}, {"making_queue": 1.5}, {"making_wait_s": -0.1}):
        with pytest.raises(UsageError, match=next(iter(options))):
            GatewayOptions(**options)
