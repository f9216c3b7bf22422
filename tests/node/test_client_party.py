"""The client's party against real peers in memory, with all that can happen on the way."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from coincurve import PublicKey
from nacl.signing import VerifyKey

from mpcsim.errors import Aborted, InRound, Reason
from mpcsim.ids import CLIENT, INSTITUTION, MPC_NODES, OPERATOR, PartyId
from mpcsim.protocols import dkg, ecdsa, frost, reshare
from mpcsim.protocols.engine import Done, Party, Send, Waiting
from mpcsim.protocols.engine.envelope import Envelope
from mpcsim.protocols.sample_keys import keys, session_id, with_fresh_guard
from mpcsim.service.error_codes import Code
from node import errors
from node.process.timing import Timing
from node.process.workers import Workers
from node.signing import client_party
from node.signing.client_party import AbortHandling, ClientParty, SessionAborted, SessionStuck
from tests.helpers.adversary import Adversary, alter_kind

HASH = bytes(range(32))
ALL = (CLIENT, OPERATOR, INSTITUTION)


@dataclass
class Peers:
    """The other parties, and what carries messages: as the gateway, but without one."""

    parties: dict[PartyId, Any]
    posts: list[Sequence[bytes]] = field(default_factory=list)
    meddle: Callable[[int, list[bytes]], list[bytes]] = lambda number, mail: mail
    """Gets the number of the post, and the client's mail."""
    fail: Callable[[int], BaseException | None] = lambda number: None
    told: list[tuple[str, object]] = field(default_factory=list)
    aborts: Counter[Reason] = field(default_factory=Counter)
    """By the client."""

    def start(self):
        return self._carry([(m, o) for m, p in self.parties.items() for o in p.start()])

    async def begin(self, messages):
        """Open the session with the client's first messages."""
        mail = self.start()
        return mail + list(await self.post(messages))

    async def post(self, messages):
        self.posts.append(messages)
        self.told.append(("post", len(messages)))
        await asyncio.sleep(0)
        if error := self.fail(len(self.posts)):
            raise error
        outputs = []
        for data in messages:
            receiver = Envelope.decode(data).receiver
            outputs += [(receiver, o) for o in self.parties[receiver].receive(CLIENT, data)]
        return self.meddle(len(self.posts), self._carry(outputs))

    async def suspend(self, culprit):
        self.told.append(("suspend", culprit))
        return True

    def _carry(self, outputs):
        mail = []
        while outputs:
            sender, output = outputs.pop(0)
            if not isinstance(output, Send):
                continue
            if output.to == CLIENT:
                mail.append(output.data)
            else:
                more = self.parties[output.to].receive(sender, output.data)
                outputs += [(output.to, o) for o in more]
        return mail

    def aborted(self):
        """Those that heard that the client gave up."""
        found = set()
        for i, party in self.parties.items():
            if isinstance(party.outcome, Aborted):
                assert party.outcome.reason is Reason.PEER_ABORTED
                found.add(i)
        return found


def parties(kind, curve="ed25519"):
    """Everyone who takes part in a session of a kind."""
    sid = session_id(f"client party, {kind}")
    held = {i: with_fresh_guard(share) for i, share in keys(curve).items()}
    if kind == "dkg":
        agreed = dkg.setup(curve, 2, ALL)
        return {i: dkg.party(agreed, i, session_id=sid) for i in ALL}
    if kind == "reshare":
        found = {}
        for i in ALL:
            share = held[i] if i != CLIENT else None
            setup = reshare.setup(held[1].record, MPC_NODES, share=share, receivers=ALL)
            found[i] = reshare.party(setup, i, session_id=sid)
        return found
    signers = (CLIENT, OPERATOR)
    protocol = ecdsa if kind == "ecdsa" else frost
    return {
        i: protocol.party(protocol.setup(held[i], signers, HASH), session_id=sid) for i in signers
    }


def drive(kind, curve, prepare=lambda peers: None, *, threaded=False, **behaviour):
    """A run with the client driven by a ``ClientParty``: the peers, and the result or error."""
    everyone = parties(kind, curve)
    peers = Peers({i: party for i, party in everyone.items() if i != CLIENT}, **behaviour)
    prepare(peers)

    async def run():
        workers = Workers()
        client = ClientParty(
            everyone[CLIENT],
            peers.post,
            workers=workers,
            timing=Timing(),
            threaded=threaded,
            on_abort=AbortHandling(peers.suspend, peers.aborts),
        )
        try:
            async with client:
                if kind == "reshare":
                    return await client.join(peers.start())
                return await client.run(peers.begin, last_word=kind == "dkg")
        except (errors.ApiError, asyncio.CancelledError, ZeroDivisionError) as error:
            return error
        finally:
            await workers.close()

    return peers, asyncio.run(run())


KINDS = [
    ("dkg", "secp256k1"),
    ("dkg", "ed25519"),
    ("reshare", "secp256k1"),
    ("reshare", "ed25519"),
    ("ecdsa", "secp256k1"),
    ("frost", "ed25519"),
]


# ---------------------------------------------------------------------- runs that end well


@pytest.mark.few(6)
@pytest.mark.parametrize("threaded", [True, False])
@pytest.mark.parametrize(("kind", "curve"), KINDS)
def test_everyone_is_done(kind, curve, threaded):
    peers, result = drive(kind, curve, threaded=threaded)
    assert len(peers.posts) == (1 if kind == "frost" else 2)
    if kind in ("dkg", "reshare"):
        for party in peers.parties.values():
            assert isinstance(party.outcome, Done)
            assert party.outcome.result.record == result.record
    elif kind == "frost":
        VerifyKey(keys(curve)[1].public_key.encode()).verify(HASH, result.encode())
    else:
        compact = result.compact() + bytes([result.recovery_id])
        found = PublicKey.from_signature_and_message(compact, HASH, hasher=None)
        assert found.format() == keys(curve)[1].public_key.encode()


def test_the_last_word_of_a_recovery_is_heard():
    """If a peer's share comes late, the client confirms only when it is done itself."""
    late = []

    def delay(number, mail):
        if number == 1:
            late.append(mail.pop())
            return mail
        return [*late, *mail]

    peers, result = drive("reshare", "ed25519", meddle=delay)
    assert result.record == peers.parties[OPERATOR].outcome.result.record
    assert len(peers.posts) == 3
    assert all(isinstance(party.outcome, Done) for party in peers.parties.values())


def test_who_leaves_early_does_not_leave_a_step_half_done(monkeypatch):
    everyone = parties("dkg")
    peers = Peers({i: party for i, party in everyone.items() if i != CLIENT})
    at_work, go_on = threading.Event(), threading.Event()
    receive = Party.receive

    def slow(self, sender, data):
        if self.me == CLIENT:
            at_work.set()
            go_on.wait(20)
        return receive(self, sender, data)

    monkeypatch.setattr(Party, "receive", slow)

    async def run():
        workers = Workers()
        client = ClientParty(
            everyone[CLIENT], peers.post, workers=workers, timing=Timing(), threaded=True
        )

        async def work():
            async with client:
                await client.run(peers.begin)

        task = asyncio.create_task(work())
        assert await asyncio.to_thread(at_work.wait, 20)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert len(peers.posts) == 1
        go_on.set()
        await workers.close()

    asyncio.run(run())
    assert len(peers.posts) == 2
    assert peers.aborted() == peers.parties.keys()


@pytest.mark.parametrize(("kind", "curve"), [KINDS[0], KINDS[3], *KINDS[4:]])
def test_noise_in_the_mail_is_ignored(kind, curve):
    noise = [b"", b"noise", b"\x01" * 60]
    _, result = drive(kind, curve, meddle=lambda number, mail: [*noise, *mail, *mail])
    assert not isinstance(result, BaseException)


# ---------------------------------------------------------------------- runs that fail


ERRORS = {
    "caller gone": asyncio.CancelledError,
    "no reply": errors.UpstreamTimeout,
    "lost connection": errors.Unreachable,
    "bug": ZeroDivisionError,
    "busy proxy": partial(errors.Upstream, 502, "Bad Gateway", "no explanation"),
}
GIVEN_UP = [(*KINDS[1], post, why) for post in (1, 2) for why in ERRORS] + [
    (*kind, post, "no reply") for kind in (KINDS[0], *KINDS[2:5]) for post in (1, 2)
]


@pytest.mark.parametrize("threaded", [False, pytest.param(True, marks=pytest.mark.soak)])
@pytest.mark.parametrize(("kind", "curve", "post", "why"), GIVEN_UP)
def test_the_others_hear_of_a_run_that_is_given_up(kind, curve, post, why, threaded):
    error = ERRORS[why]()
    fail = {post: error}.get
    peers, result = drive(kind, curve, fail=fail, threaded=threaded)
    assert result is error
    assert len(peers.posts) == post + 1
    # Prepared parties do not end for that (they may not); the gateway's registry decides.
    waiting = {i for i, p in peers.parties.items() if isinstance(p.waiting_state(), Waiting)}
    assert peers.aborted() | waiting == peers.parties.keys()
    assert not waiting or kind == "reshare"


NO_SESSION = [
    (errors.Conflict("secp256k1 key already exists for this user"), 1),
    (errors.Upstream(409, "Conflict", "busy"), 1),
    (errors.Upstream(410, "Gone", "expired"), 1),
    (errors.NotFound("no such key"), 1),
    (errors.BadRequest("Invalid curve"), 1),
    (errors.Unauthorized({"code": 757, "message": "JWT_EXPIRED"}), 1),
    (errors.Unreachable(), 2),  # the gateway is gone for good: it is tried
]


@pytest.mark.parametrize(("error", "posts"), NO_SESSION, ids=lambda value: type(value).__name__)
def test_nobody_is_told_where_there_is_no_session(error, posts):
    peers, result = drive("dkg", "ed25519", fail=lambda number: error)
    assert result is error
    assert len(peers.posts) == posts


def cheating(kind, change, to=CLIENT):
    """Prepare peers of which the operator changes its messages of one kind."""

    def prepare(peers):
        honest = peers.parties[OPERATOR]
        spoil = alter_kind(kind, lambda message: change(message.encode(honest.wire)), to={to})
        peers.parties[OPERATOR] = Adversary(honest, spoil)

    return prepare


def shorter(data):
    return data[:-1]


def flipped(data):
    return data[:-1] + bytes([data[-1] ^ 1])


def test_a_farewell_that_takes_too_long_is_none(monkeypatch):
    monkeypatch.setattr(client_party, "FAREWELL_S", 0)
    assert not asyncio.run(client_party._succeeds_in_time(asyncio.sleep(60)))


def test_a_cheat_is_named_and_the_others_hear_of_it():
    peers, result = drive("dkg", "ed25519", cheating("Reveal", shorter))
    assert isinstance(result, SessionAborted)
    assert result.status == 500
    assert result.message.startswith(
        "MPC session aborted while receiving from party 2: message does not decode (Reveal: "
    )
    assert result.message.endswith("; party 2 (operator); try again")  # sealed it was not yet
    assert peers.aborted() == {OPERATOR, INSTITUTION}
    assert ("suspend", 2) not in peers.told


def test_what_must_not_be_tried_again_is_acted_on_before_anyone_hears():
    peers, result = drive("ecdsa", "secp256k1", cheating("Offer", flipped))
    assert isinstance(result, SessionAborted)
    assert result.aborted.reason is Reason.OT_EXTENSION_CHECK
    assert peers.aborts == {Reason.OT_EXTENSION_CHECK: 1}
    assert peers.told == [("post", 1), ("suspend", 2), ("post", 2)]
    assert result.message.endswith(
        "; party 2 (operator); recover the key before it signs again; it is suspended until then"
    )


TEXTS = [
    (
        *(Reason.SIGNATURE_SHARE_INVALID, {"culprits": frozenset({3})}),
        "; party 3 (institution); stop working with it",
    ),
    (
        *(Reason.ECHO_MISMATCH, {"suspects": frozenset({3, 2})}),
        "; one of parties 2 (operator), 3 (institution); try again",
    ),
    (
        *(Reason.SETUP_DISCARDED, {"detail": "party 2"}),
        " (party 2); nobody can be named; recover the key",
    ),
]


@pytest.mark.parametrize(("reason", "details", "text"), TEXTS)
def test_texts(reason, details, text):
    error = SessionAborted(Aborted(reason, InRound(3, "aggregate"), **details), None)
    assert error.message == f"MPC session aborted in round 3 (aggregate): {reason.text}{text}"
    assert error.code is (Code.SUSPENDED if text.endswith("recover the key") else Code.ABORTED)


def test_a_peer_that_aborts_is_quoted():
    peers, result = drive("dkg", "ed25519", cheating("Reveal", shorter, to=INSTITUTION))
    assert result.message == (
        "MPC session aborted while receiving from party 3: a peer reported that it aborted "
        "(party 3 reports MALFORMED_MESSAGE); party 3 (institution); try again"
    )
    last = {Envelope.decode(data).receiver for data in peers.posts[-1]}
    assert INSTITUTION not in last


@pytest.mark.parametrize(
    ("kind", "curve", "waits"),
    [("dkg", "ed25519", "reveal"), ("ecdsa", "secp256k1", "offer"), ("frost", "ed25519", "sign")],
)
def test_a_run_that_gets_nowhere(kind, curve, waits):
    def prepare(peers):
        peers.start = list
        for party in peers.parties.values():
            party.start()

    peers, result = drive(kind, curve, prepare, meddle=lambda number, mail: [])
    assert isinstance(result, SessionStuck)
    assert result.status == 500
    where = f"round 2 ({waits}) without a message from party 2 (operator)"
    assert f"MPC session ended in {where}" in result.message
    assert len(peers.posts) == 2
    assert peers.aborted() == peers.parties.keys() or kind == "frost"


def test_messages_that_do_not_open_are_mentioned():
    _, result = drive(
        "ecdsa", "secp256k1", meddle=lambda number, mail: [flipped(data) for data in mail]
    )
    assert result.message == (
        "MPC session ended in round 3 (respond) without a message from party 2 (operator); "
        "messages in the name of party 2 (operator) do not open"
    )
