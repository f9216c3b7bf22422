"""Any schedule: order, duplication, delay, loss, crash and restart, and messages from elsewhere.

Honest parties finish and agree, or say exactly whom they wait for; nothing raises and nobody is
blamed.
"""

from collections.abc import Callable, Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.ids import PartyId
from mpcsim.protocols.engine import Done, Party, Waiting
from mpcsim.protocols.engine.envelope import ABORT_KIND, HEADER_BYTES, Envelope
from mpcsim.protocols.local_run import InFlight, LocalRun
from tests.helpers import sessions
from tests.helpers.sessions import Ears, RecordedRun, Session, judge
from tests.helpers.tiers import examples

# Sessions small enough to run by the hundred, by protocol: (t, n) and the signers or dealers vary.


@st.composite
def quorums(draw: st.DrawFn, max_n: int) -> tuple[int, int, tuple[int, ...]]:
    """t, n, and at least t of the parties 1..n."""
    n = draw(st.integers(2, max_n))
    t = draw(st.integers(2, min(3, n)))
    order = draw(st.permutations(range(1, n + 1)))
    return t, n, tuple(sorted(order[: draw(st.integers(t, n))]))


@st.composite
def cheap(draw: st.DrawFn) -> Session:
    """A cheap session: ed25519 up to (3, 5), and ECDSA with the shares of three keys."""
    kind = draw(st.sampled_from(["dkg", "ecdsa", "presign", "presigned", "frost", "reshare"]))
    if kind in ("ecdsa", "presign", "presigned"):
        t, n = draw(st.sampled_from([(2, 2), (2, 3), (3, 3)]))
        order = draw(st.permutations(range(1, n + 1)))
        signers = tuple(sorted(order[: draw(st.integers(t, n))]))
        if kind == "presign":
            return sessions.presign_session(signers, t, n, draw(st.integers(1, 2)))
        if kind == "presigned":
            return sessions.presigned_session(signers, t, n, draw(st.sampled_from(signers)))
        return sessions.ecdsa_session(signers, t, n)
    t, n, chosen = draw(quorums(5))
    if kind == "dkg":
        return sessions.dkg_session("ed25519", t, n)
    if kind == "frost":
        return sessions.frost_session(chosen, t, n)
    receivers = draw(st.sets(st.integers(1, 6), min_size=2, max_size=4))
    threshold = draw(st.integers(2, min(3, len(receivers))))
    return sessions.reshare_session(
        "ed25519", chosen, tuple(sorted(receivers)), t=t, n=n, threshold=threshold
    )


def finish(run: LocalRun, pick: Callable[[int], int], fate: Callable[[], str]) -> None:
    """Deliver everything; ``fate`` says what else happens to each message.

    ``again``: it stays in flight as well. ``restart``: its receiver crashes right after it,
    resumes from its snapshot, and delivers all it ever sent once more.
    """
    run.start()
    while run.in_flight:
        index = pick(len(run.in_flight))
        message = run.in_flight[index]
        run.deliver(index)
        match fate():
            case "again":
                run.in_flight.append(message)
            case "restart":
                restart(run, message.send.to)


def restart(run: LocalRun, i: int) -> None:
    """Replace a party by what its snapshot gives back, and deliver all it ever sent again."""
    old = run.parties[PartyId(i)]
    saved = old.snapshot()
    new, outputs = Party.resume(old.definition, saved, share=old.share)
    assert new.snapshot() == saved
    assert (new.outcome, _waits_for(new)) == (old.outcome, _waits_for(old))
    run.parties[PartyId(i)] = new
    run._take(PartyId(i), outputs)


def _waits_for(party: Party) -> object:
    waiting = party.waiting_state()
    return waiting and (waiting.round, waiting.missing)


def choices(data: st.DataObject, fates: Collection[str]) -> tuple[Callable, Callable]:
    """``pick`` and ``fate`` for ``finish``, drawn as the run goes; at most a dozen events."""
    events = data.draw(st.lists(st.sampled_from([*sorted(fates), "", "", ""]), max_size=30))
    numbers = data.draw(st.lists(st.integers(0, 2**16), min_size=1, max_size=60))
    turn = iter(range(2**30))
    return (
        lambda count: numbers[next(turn) % len(numbers)] % count,
        lambda: events.pop() if events else "",
    )


def assert_honest_run(session: Session, run: LocalRun) -> None:
    outcomes = judge(session, run)
    assert all(isinstance(outcome, Done) for outcome in outcomes.values()), outcomes


@examples(50)
@given(session=cheap(), data=st.data())
def test_any_order_with_duplicates_and_restarts(session, data):
    run = LocalRun(session.parties())
    finish(run, *choices(data, {"again", "restart"}))
    assert_honest_run(session, run)


# ---------------------------------------------------------------------- loss


def expected_waiting(session: Session, lost: set[tuple[int, int, str]]) -> dict[int, object]:
    """Who waits for what if these (sender, receiver, kind) never arrive, from the tables alone."""
    definition = session.definition
    parties = {i: session.party(i) for i in session.members}
    roles = next(iter(parties.values()))._roles
    position = dict.fromkeys(session.members, 0)  # rounds each has run
    offers = {sends.message: (round_, sends) for round_, sends in definition.kinds()}

    def missing(i: int) -> dict[str, frozenset[int]]:
        found = {}
        for kind in definition.rounds[position[i]].needs:
            round_, sends = offers[kind]
            if i not in roles[sends.receivers]:
                continue
            who = frozenset(
                j
                for j in roles[sends.senders]
                if j != i
                and (position[j] <= definition.rounds.index(round_) or (j, i, sends.kind) in lost)
            )
            if who:
                found[sends.kind] = who
        return found

    moved = True
    while moved:
        moved = False
        for i in session.members:
            while position[i] < len(definition.rounds) and not missing(i):
                position[i] += 1
                moved = True
    return {
        i: "done" if position[i] == len(definition.rounds) else missing(i) for i in session.members
    }


@examples(33)
@given(session=cheap(), data=st.data())
def test_lost_messages_are_waited_for_by_name(session, data):
    run = RecordedRun(session.parties())
    run.start()
    run.finish()
    slots = sorted({(m.sender, m.send.to, m.send.kind) for m in run.recorded})
    lost = set(data.draw(st.lists(st.sampled_from(slots), min_size=1, max_size=3)))

    run = LocalRun(session.parties())
    run.start()
    while run.in_flight:
        index = data.draw(st.integers(0, len(run.in_flight) - 1))
        message = run.in_flight[index]
        if (message.sender, message.send.to, message.send.kind) in lost:
            del run.in_flight[index]
        else:
            run.deliver(index)
    outcomes = judge(session, run, may_wait=True)
    found = {i: dict(o.missing) if isinstance(o, Waiting) else "done" for i, o in outcomes.items()}
    assert found == expected_waiting(session, lost)


# ---------------------------------------------------------------------- messages from elsewhere


def foreign(
    message: InFlight, members: Collection[int], sealed_from_the_start: bool
) -> list[tuple[str, int, bytes]]:
    """(what, claimed sender, bytes): variations of a genuine message that must be ignored."""
    sender, data = message.sender, message.send.data
    envelope = Envelope.decode(data)
    body = data[HEADER_BYTES:]
    another = next(j for j in (*members, 99) if j not in (sender, message.send.to))

    def header(**changes: object) -> bytes:
        return Envelope(**{**envelope.__dict__, **changes}).encode()

    made = [
        ("nothing", sender, b""),
        ("garbage", sender, b"\xff" * 100),
        ("only part of a header", sender, data[: HEADER_BYTES - 1]),
        ("another version", sender, b"\x02" + data[1:]),
        ("a flag that is no flag", sender, data[:3] + b"\2" + data[4:]),
        ("too large", sender, data + bytes(1 << 20)),
        ("another session", sender, header(session_id=bytes(32))),
        ("another protocol", sender, header(protocol=envelope.protocol % 4 + 1)),
        ("a protocol that does not exist", sender, header(protocol=200)),
        ("kind 0", sender, header(kind=0)),
        ("a kind that does not exist", sender, header(kind=77)),
        ("sealed or not", sender, header(sealed=not envelope.sealed)),
        ("for another receiver", sender, header(receiver=another)),
        ("says it is from another", sender, header(sender=another)),
        ("brought by another", another, data),
        ("from a stranger", 99, header(sender=99)),
        ("from oneself", message.send.to, header(sender=message.send.to)),
    ]
    if envelope.sealed:
        made += [
            ("empty body", sender, header(body=b"")),
            ("short body", sender, header(body=body[:31])),
            ("last bit flipped", sender, data[:-1] + bytes([data[-1] ^ 1])),
            ("salt flipped", sender, header(body=bytes([body[0] ^ 1]) + body[1:])),
            ("zeros for a ciphertext", sender, header(body=bytes(len(body)))),
            ("forged abort", sender, header(kind=ABORT_KIND, body=bytes(60))),
        ]
    if sealed_from_the_start:
        made.append(
            ("forged abort, not sealed", sender, header(kind=ABORT_KIND, sealed=False, body=b""))
        )
    return made


SMALL = [
    lambda: sessions.dkg_session("ed25519", 2, 3),
    lambda: sessions.ecdsa_session((1, 2, 3), 2, 3),
    lambda: sessions.presign_session((1, 2), 2, 3),
    lambda: sessions.presigned_session((1, 2, 3), 2, 3, finisher=2),
    lambda: sessions.frost_session((1, 3), 2, 3),
    lambda: sessions.reshare_session("ed25519", (1, 2), (2, 3)),
]


@pytest.mark.parametrize("make", SMALL)
def test_foreign_messages_are_ignored(make):
    """Before every delivery the receiver gets every variation of what is about to come."""
    session = make()
    parties = session.parties()
    run = LocalRun(parties)
    ears = {}
    for party in parties:
        ears[party.me] = party.listener = Ears()
    run.start()
    sent = 0
    while run.in_flight:
        message = run.in_flight[0]
        receiver = run.parties[message.send.to]
        if receiver.outcome is None:
            known = message.sender in receiver._secrets.initial
            for what, sender, data in foreign(message, session.members, known):
                before = _waits_for(receiver)
                assert receiver.receive(sender, data) == [], what
                assert _waits_for(receiver) == before, what
                sent += 1
        run.deliver()
    assert_honest_run(session, run)
    assert sum(len(e.why) for e in ears.values()) >= sent > 0


@examples(20)
@given(data=st.data())
def test_forged_early_messages_do_not_displace_the_real_one(data):
    """Before a pair has keys, sealed messages wait unopened; junk among them is dropped later."""
    session = sessions.dkg_session("ed25519", 2, 3)
    run = LocalRun(session.parties())
    run.start()
    for i, party in run.parties.items():
        for j in session.members:
            if j != i:
                genuine = next(m for m in run.in_flight if m.sender == j and m.send.to == i)
                header = Envelope.decode(genuine.send.data).__dict__
                body = data.draw(st.binary(max_size=60))
                for _ in range(data.draw(st.integers(0, 3))):
                    forged = Envelope(**{**header, "kind": 4, "sealed": True, "body": body})
                    assert party.receive(j, forged.encode()) == []
    run.finish()
    assert_honest_run(session, run)
