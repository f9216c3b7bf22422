"""Bounds of the gateway on what callers and MPC nodes may send: at each bound, and one over it."""

import asyncio
import math
from dataclasses import replace
from functools import partial
from unittest.mock import AsyncMock

import pytest
from starlette.requests import Request

from mpcsim.ids import CLIENT, INSTITUTION, MPC_NODES, OPERATOR, ROLES
from mpcsim.protocols.engine.envelope import Envelope
from mpcsim.service.error_codes import Code
from mpcsim.service.errors import (
    NodeFailed,
    Refused,
    node_timed_out,
    node_unreachable,
    too_many_requests,
)
from mpcsim.service.gateway.api.app import EXPIRED_OF_USER
from mpcsim.service.gateway.api.routes import MAX_BODY_BYTES
from mpcsim.service.gateway.gateway import REQUESTS_OF_USER
from mpcsim.service.gateway.sessions import streaming
from mpcsim.service.gateway.sessions.routing import MAX_DELIVERIES, MAX_MESSAGES_OF_NODE
from mpcsim.service.rpc import wire
from mpcsim.service.web.http import RequestBody
from tests.helpers import gateway as service
from tests.helpers.gateway import Client, refusal, until
from tests.service.gateway.test_http import LOGIN, SIGN_UP, basic


async def in_pieces(*pieces):
    for piece in pieces:
        yield piece


LONGEST = [
    (SIGN_UP, MAX_BODY_BYTES),
    (LOGIN, MAX_BODY_BYTES),
    (wire.PREFIX + "suspend", MAX_BODY_BYTES),
    (wire.PREFIX + "exchange", wire.MAX_BODY_BYTES),
]


@pytest.mark.parametrize(("path", "limit"), LONGEST)
async def test_bodies_are_limited_also_without_a_length(path, limit, gateway, client):
    headers = {"Content-Type": wire.MEDIA_TYPE}
    if path == SIGN_UP:
        headers["Content-Type"] = "application/json"
    if path in (LOGIN, SIGN_UP):
        headers |= basic(gateway.credentials.api_key, gateway.credentials.api_secret)
    post = partial(client.request, "POST", path)
    for content in (b"x" * (limit + 1), in_pieces(b"x" * limit, b"x")):
        response = await post(content=content, headers=headers)
        assert response.status_code == 413
        assert response.json() == {"error": f"body of more than {limit} bytes"}
    for length in ("-1", "x", "²", "1e3", "9" * 5000):
        wrong = {**headers, "Content-Length": length.encode("latin-1")}
        assert (await post(content=b"x", headers=wrong)).status_code == 413
    for content in (b"x" * limit, in_pieces(b"x" * (limit - 1), b"x")):
        assert (await post(content=content, headers=headers)).status_code == 400


async def test_a_body_that_is_read_while_it_comes_is_limited_as_a_whole():
    def incoming(*chunks):
        pieces = [{"type": "http.request", "body": c, "more_body": True} for c in chunks]
        receive = AsyncMock(side_effect=[*pieces, {"type": "http.request"}])
        return RequestBody(Request({"type": "http", "headers": []}, receive), limit=5)

    fits, over = incoming(b"abc", b"de"), incoming(b"abc", b"def")
    assert [await fits.read_more() for _ in range(4)] == [b"abc", b"de", b"", b""]
    assert (bytes(fits.received), fits.is_complete) == (b"abcde", True)
    assert await over.read_more() == b"abc"
    for _ in range(2):
        with pytest.raises(Refused, match="body of more than 5 bytes"):
            await over.read_more()
    never = RequestBody(Request({"type": "http", "headers": []}, asyncio.Event().wait), limit=5)
    for _ in range(2):  # it may be asked for again
        with pytest.raises(TimeoutError):
            await never.read_more(patience_s=0)
    never.stop()
    with pytest.raises(asyncio.CancelledError):
        await never.read_more()


@pytest.mark.parametrize(("queue", "most_of_user"), [(0, 250), (2, 250), (2, 5)])
async def test_so_many_requests_of_a_user_are_served_at_once(queue, most_of_user, gateway, client):
    """While an MPC node hangs, and each holds a connection; other users are none the worse."""
    places = gateway.app.state.places
    assert places._most == min(most_of_user, REQUESTS_OF_USER + 4 * queue)
    why = (429, str(too_many_requests()))
    share, go_on = client.give_key("ed25519"), asyncio.Event()
    places._most, port = 2, gateway.links[OPERATOR].port
    handle = port.handle

    async def hanging(*request):
        await go_on.wait()
        return await handle(*request)

    port.handle = hanging
    opening = client.opening(share, dict.fromkeys(MPC_NODES, b""))
    held = [asyncio.create_task(client.post("open", opening)) for _ in range(2)]
    await until(lambda: sum(places._counts.values()) == 2)
    refused = await client.post("open", opening)
    assert (refused.status_code, refused.json()["error"]) == why
    assert (await Client.of(gateway, "bob").post("open", opening)).status_code == 404
    go_on.set()
    assert {reply.status_code for reply in await asyncio.gather(*held)} == {400}
    assert not places._counts


async def test_few_bodies_are_read_of_whoever_shows_an_expired_token(wall_clock, gateway, client):
    """It is good for nothing but to end a session, and that for ever."""
    token, go_on, begun = gateway.issuer.issue_access("0", "alice", 0.001), asyncio.Event(), []
    wall_clock.now += 10
    headers = {"Authorization": f"Bearer {token}"}

    async def body(number):
        begun.append(number)
        await go_on.wait()
        yield b"x"

    posts = [
        asyncio.create_task(client.http.post(wire.PREFIX + verb, content=body(n), headers=headers))
        for n, verb in enumerate(("exchange", "activate") * EXPIRED_OF_USER)
    ]
    await until(lambda: sum(post.done() for post in posts) == EXPIRED_OF_USER)
    assert len(begun) == EXPIRED_OF_USER
    go_on.set()
    assert {(await post).status_code for post in posts} == {401}


# ---------------------------------------------------------------------- MPC nodes


def answer_with(gateway, party, verb, change):
    """From now on, an MPC node's answers to a verb are changed."""
    lie(gateway, party, verb, lambda reply: change(wire.Answer.from_bytes(reply)).to_bytes())


@pytest.mark.parametrize("forwarding", ["store", "stream"])
@pytest.mark.parametrize("over", [0, 1])
async def test_an_mpc_node_says_so_much_in_a_request(over, forwarding, gateway, client, share):
    party, request = client.begin_sign(share)
    noise = Envelope(9, 1, False, OPERATOR, CLIENT, party.session_id, b"").encode()
    answer_with(
        gateway,
        OPERATOR,
        "sign",
        lambda answer: replace(answer, messages=(noise,) * (MAX_MESSAGES_OF_NODE + over)),
    )
    if over:
        assert await refusal(client.ask("sign", request)) == no_answer_of(OPERATOR)
    else:
        reply = wire.SignReply.from_bytes(await client.ask("sign", request))
        assert len(reply.messages) == MAX_MESSAGES_OF_NODE


@pytest.mark.parametrize("forwarding", ["store", "stream"])
@pytest.mark.parametrize(("verb", "to_come"), [("sign", 2), ("exchange", 1), ("exchange", 2)])
@pytest.mark.parametrize("is_over", [0, 1])
async def test_a_signature_has_its_place_until_node_and_client_are_done(
    is_over, verb, to_come, forwarding, gateway, client, ec_share
):
    """However early the one of them says so (L4)."""
    answer_with(gateway, OPERATOR, verb, lambda answer: replace(answer, open=1 - is_over))
    party, messages = await client.begun(ec_share)
    sessions = gateway.gateway.sessions
    if verb == "exchange":
        sessions.open_sessions[0].requests_to_come = to_come
        await client.ask("exchange", wire.Exchange(party.session_id, messages))
    assert bool(sessions.open_sessions) == (to_come > 1 or not is_over)
    await sessions.cancel(sessions.open_sessions)


@pytest.mark.parametrize(
    ("failure", "verbs_closed"),
    [
        (node_unreachable(OPERATOR), {"exchange"}),  # so an opening has not arrived
        (node_timed_out(OPERATOR), {"sign", "exchange"}),
        (Refused(409, "no"), set()),
    ],
)
@pytest.mark.parametrize("verb", ["sign", "exchange"])
async def test_a_session_is_closed_where_it_may_be_open(
    verb, failure, verbs_closed, monkeypatch, gateway, client, ec_share
):
    asked, original = [], gateway.links[OPERATOR].call

    async def call(scope, *rest):
        asked.append(scope.verb)
        if scope.verb == verb:
            raise failure
        return await original(scope, *rest)

    monkeypatch.setattr(gateway.links[OPERATOR], "call", call)
    with pytest.raises(service.Failed):
        await client.sign(ec_share)
    assert asked.count("close") == (verb in verbs_closed)


async def test_messages_that_a_fault_holds_back_for_too_long_are_the_links_failure(
    monkeypatch, gateway, client, ec_share
):
    held_back = AsyncMock(side_effect=TimeoutError)
    monkeypatch.setattr(gateway.gateway._router._carrier, "apply_faults", held_back)
    status, error = await refusal(client.sign(ec_share))
    assert (status, error) == (504, str(node_timed_out(OPERATOR)))


@pytest.mark.parametrize("makes_key", [False, True])
@pytest.mark.parametrize(("status", "code"), [(503, Code.DISK_FULL), (500, Code.INTERNAL)])
async def test_an_abort_that_a_node_could_not_store_counts_as_one(
    status, code, makes_key, monkeypatch, gateway, client, ec_share
):
    heard = AsyncMock()

    async def call(scope, *rest):
        raise NodeFailed(status, "no", OPERATOR, code=code)

    monkeypatch.setattr(gateway.gateway._router, "_on_node_abort", heard)
    monkeypatch.setattr(gateway.links[OPERATOR], "call", call)
    with pytest.raises(service.Failed):
        await (client.generate("ed25519") if makes_key else client.sign(ec_share))
    assert heard.call_count == (code == Code.DISK_FULL and not makes_key)


@pytest.mark.parametrize("deliveries", [MAX_DELIVERIES - 1, MAX_DELIVERIES, math.inf])
async def test_mpc_nodes_talk_to_each_other_so_often_in_a_request(deliveries, gateway, client):
    """Whoever would go on for ever is heard no more, and the caller is answered."""
    client.give_key("ed25519")
    asked = []

    def talkative(answer, party):
        asked.append(party)
        if asked.count(party) >= deliveries:
            return replace(answer, messages=())
        other = OPERATOR + INSTITUTION - party
        message = Envelope(9, 1, False, party, other, session_id, b"").encode()
        return replace(answer, messages=(message,))

    for party in MPC_NODES:
        for verb in ("recover", "exchange"):
            answer_with(gateway, party, verb, partial(talkative, party=party))
    session_id = bytes(31) + b"\1"
    await client.ask("recover", wire.Recover(session_id, "ed25519"))
    assert [asked.count(party) for party in MPC_NODES] == [min(deliveries, MAX_DELIVERIES)] * 2


@pytest.mark.options(forwarding="stream")
@pytest.mark.parametrize("under_way", [0, 1, 2])
async def test_so_many_bodies_go_on_while_they_come(under_way, monkeypatch, gateway):
    monkeypatch.setattr(streaming, "MAX_STREAMS", 2)
    stream = gateway.gateway._streaming  # bodies of other callers, which would take long to send
    stream._under_way |= {object() for _ in range(under_way)}
    looked_at = []

    async def find(asking, body):
        looked_at.append(body)

    monkeypatch.setattr(stream, "_session", find)
    assert await stream.exchange(None, "a body") is None
    assert looked_at == ["a body"] * (under_way < 2)


# ---------------------------------------------------------------------- a node that lies


def lie(gateway, party, verb, change):
    """From now on, what an MPC node answers to a verb is changed."""
    node = gateway.links[party].node
    honest = node.handle
    node.handle = lambda asked, *rest: (
        change(honest(asked, *rest)) if asked == verb else honest(asked, *rest)
    )


def be_honest(gateway):
    for link in gateway.links.values():
        link.node.__dict__.pop("handle", None)


# ---------------------------------------------------------------------- what is no answer


async def asked(gateway, client, verb, party):
    """Have the gateway ask both MPC nodes for something; it is refused."""
    share = client.give_key("ed25519")
    halves = client.store(share).halves
    signing = client.give_key("secp256k1") if verb == "exchange" else share

    async def work():
        match verb:
            case "open":
                await client.ask("open", client.opening(share, halves))
            case "recover":
                await client.recover("ed25519")
            case "generate" | "standing":
                await service.Client.of(gateway, "bob").generate("ed25519")
            case _:
                await client.sign(signing, signer=party)

    return work


def no_answer_of(party):
    return 502, f"the {ROLES[party]}'s MPC node answers something else than it was asked"


def forged(**header):
    """Messages with another header; the sender is their receiver unless another one is given."""

    def change(reply):
        answer = wire.Answer.from_bytes(reply)
        mail = [
            replace(envelope, **(header or {"receiver": envelope.sender})).encode()
            for envelope in service.envelopes(answer.messages)
        ]
        return replace(answer, messages=tuple(mail)).to_bytes()

    return change


def no_envelope(reply):
    return replace(wire.Answer.from_bytes(reply), messages=(b"?",)).to_bytes()


GARBAGE = [lambda reply: b"?", lambda reply: bytes(200)]
FOREIGN_MAIL = [
    forged(session_id=bytes(32)),
    forged(sender=CLIENT),
    forged(),
    forged(receiver=7),
    no_envelope,
]
SAID = {
    **dict.fromkeys(("open", "standing"), GARBAGE),
    **dict.fromkeys(("generate", "recover", "sign", "exchange"), GARBAGE + FOREIGN_MAIL),
}


@pytest.mark.parametrize("verb", SAID)
async def test_what_no_mpc_node_says_is_its_failure(verb, party, gateway, client):
    asking = await asked(gateway, client, verb, party)
    for change in SAID[verb]:
        lie(gateway, party, verb, change)
        with pytest.raises(service.Failed) as failed:
            await asking()
        assert (failed.value.status, failed.value.error) == no_answer_of(party)
        assert failed.value.response.json()["party"] == party
        be_honest(gateway)
    if verb != "standing":
        await asking()  # nothing is left behind
