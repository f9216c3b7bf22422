"""Every way to cheat in presigning and with presignatures, and what the others say to it."""

from dataclasses import replace

import pytest

from mpcsim.errors import Aborted, Consequence, InRound, Reason
from mpcsim.protocols import LocalRun, keys, presigned, run
from mpcsim.protocols.engine import Done, Party
from mpcsim.protocols.sample_keys import as_unused
from tests.helpers.sessions import judge, presigning_parties, run_with, session
from tests.protocols.test_misbehaviour import altered, altering

CHEATER = 2
DIGEST, RHO = bytes(range(32)), bytes(32)

OFFER, RESPOND, FINISH = InRound(2, "offer"), InRound(3, "respond"), InRound(4, "finish")
ANSWER, LAST = InRound(2, "answer"), InRound(3, "finish")
BAN, RETRY, DISCARD = Consequence.BAN, Consequence.RETRY, Consequence.BAN_AND_DISCARD_OT

# kind, alteration, reason, where, consequence
ONE_PEER = [
    ("Commit", ".context first bit flipped", Reason.SESSION_MISMATCH, OFFER, RETRY),
    ("Commit", ".commitments empty", Reason.MALFORMED_MESSAGE, OFFER, BAN),
    ("Commit", ".commitments last element twice", Reason.MALFORMED_MESSAGE, OFFER, BAN),
    ("Commit", ".later empty", Reason.MALFORMED_MESSAGE, OFFER, BAN),
    ("Commit", ".later last element twice", Reason.MALFORMED_MESSAGE, OFFER, BAN),
    ("Offer", ".echo [first] first bit flipped", Reason.ECHO_MISMATCH, RESPOND, RETRY),
    ("Offer", ".offers empty", Reason.MALFORMED_MESSAGE, RESPOND, BAN),
    ("Offer", ".offers last element twice", Reason.MALFORMED_MESSAGE, RESPOND, BAN),
    ("Offer", ".offers [first].t first bit flipped", Reason.OT_EXTENSION_CHECK, RESPOND, DISCARD),
    ("Offer", ".offers [last].x first bit flipped", Reason.OT_EXTENSION_CHECK, RESPOND, DISCARD),
    ("Offer", ".offers first two swapped", Reason.OT_EXTENSION_CHECK, RESPOND, DISCARD),
    ("Respond", ".responses empty", Reason.MALFORMED_MESSAGE, FINISH, BAN),
    ("Respond", ".responses last element twice", Reason.MALFORMED_MESSAGE, FINISH, BAN),
    ("Respond", ".responses first two swapped", Reason.COMMITMENT_OPENING, FINISH, BAN),
    ("Respond", ".responses [first].R_i + G", Reason.COMMITMENT_OPENING, FINISH, BAN),
    ("Respond", ".responses [last].R_i + G", Reason.COMMITMENT_OPENING, FINISH, BAN),
    ("Respond", ".responses [last].blinding all 0", Reason.COMMITMENT_OPENING, FINISH, BAN),
    ("Respond", ".responses [first].reply.eta + 1", Reason.MULTIPLICATION_CHECK, FINISH, BAN),
    ("Respond", ".responses [last].reply.eta + 1", Reason.MULTIPLICATION_CHECK, FINISH, BAN),
    ("Respond", ".responses [first].Gamma_u + G", Reason.GAMMA_U_MISMATCH, FINISH, BAN),
    ("Respond", ".responses [last].Gamma_u + G", Reason.GAMMA_U_MISMATCH, FINISH, BAN),
    ("Respond", ".responses [first].Gamma_v + G", Reason.GAMMA_V_MISMATCH, FINISH, BAN),
    ("Respond", ".responses [last].Gamma_v + G", Reason.GAMMA_V_MISMATCH, FINISH, BAN),
]
ONLINE = [
    ("Answer", ".context first bit flipped", Reason.SESSION_MISMATCH, LAST, RETRY),
    ("Answer", ".rho_i first bit flipped", Reason.COMMITMENT_OPENING, LAST, BAN),
    ("Answer", ".blinding first bit flipped", Reason.COMMITMENT_OPENING, LAST, BAN),
    ("Answer", ".w_i + 1", Reason.SIGNATURE_INVALID, LAST, BAN),
    ("Answer", ".u_i + 1", Reason.SIGNATURE_INVALID, LAST, BAN),
]


def name(case) -> str:
    return f"{case[0]}{case[1]}"


@pytest.mark.parametrize("case", ONE_PEER, ids=name)
def test_presigning(case):
    """Of two alterations that one check refuses, each party makes one."""
    kind, change, reason, where, consequence = case
    s, cheater = session("presign-2"), 1 if "last" in change else CHEATER
    outcomes = judge(s, run_with(s, altering(s.party(cheater), kind, change)), {cheater})
    assert_blamed(outcomes[3 - cheater], reason, where, consequence, cheater)


@pytest.mark.parametrize("case", ONLINE, ids=name)
def test_signing(case):
    kind, change, reason, where, consequence = case
    s = session("presigned-2")
    aborted = judge(s, run_with(s, altered(kind, change)(s)), {CHEATER})[1]
    assert_blamed(aborted, reason, where, consequence)


def assert_blamed(aborted, reason, where, consequence, cheater=CHEATER):
    assert isinstance(aborted, Aborted), aborted
    assert (aborted.reason, aborted.where) == (reason, where)
    assert aborted.consequence is consequence
    assert aborted.about == {cheater}
    assert aborted.culprits == (set() if consequence is RETRY else {cheater})


@pytest.mark.parametrize("kind", ["Open", "Answer"])
@pytest.mark.parametrize("field", [".rho_i", ".blinding", ".context"])
def test_signing_among_three(kind, field):
    """Party 3 answers, too, and party 1 finishes: each judges what it gets."""
    s = session("presigned-3")
    cheat = altered(kind, f"{field} first bit flipped")(s)
    outcomes = judge(s, run_with(s, cheat), {CHEATER})
    accuser, where = (3, ANSWER) if kind == "Open" else (1, LAST)
    found = outcomes[accuser]
    assert found.where == where
    if field == ".context":
        assert (found.reason, found.culprits) == (Reason.SESSION_MISMATCH, frozenset())
    else:
        assert (found.reason, found.culprits) == (Reason.COMMITMENT_OPENING, {CHEATER})


def test_a_false_psi_shows_when_it_is_used_and_convicts_a_single_peer():
    s = session("presign-2")
    made = run_with(s, altered("Respond", ".responses [first].psi + 1")(s))
    assert all(isinstance(outcome, Done) for outcome in made.outcomes().values())
    found = sign_with({i: o.result[0] for i, o in made.outcomes().items()})[1]
    assert (found.reason, found.culprits) == (Reason.SIGNATURE_INVALID, {CHEATER})
    found = sign_with({i: o.result[1] for i, o in made.outcomes().items()})[1]
    assert isinstance(found, Done)


def sign_with(parts, shares=None):
    shares = shares or keys("secp256k1")
    return run(
        presigned.party(
            presigned.setup(shares[i], as_unused(part), 1, DIGEST, RHO), session_id=bytes(32)
        )
        for i, part in parts.items()
    )


# ---------------------------------------------------------------------- OT state


def test_ot_state_is_discarded_and_open_sessions_stop():
    shares = keys("secp256k1")
    still_open, _ = presigning_parties(shares, (1, 2), 2, "open")
    one, two = presigning_parties(shares, (1, 2), 2)
    cheat = altering(two, "Offer", ".offers [last].t first bit flipped")
    aborted = run([one, cheat])[1]
    assert aborted.reason is Reason.OT_EXTENSION_CHECK
    assert not shares[1].can_multiply(2)
    assert shares[1].after_abort(aborted).peers[2].multiplication is None
    found = run([still_open, presigning_parties(keys("secp256k1"), (1, 2), 2, "open")[1]])[1]
    assert found.reason is Reason.SETUP_DISCARDED
    assert not found.culprits


def test_the_echo_comes_before_any_ot_check():
    """With other commitments the transcripts differ, and every OT check would fail."""
    s = session("presign-3")
    cheat = altered("Commit", ".nonce first bit flipped", to={3})(s)
    outcomes = judge(s, run_with(s, cheat), {CHEATER})
    for i in (1, 3):
        assert outcomes[i].reason in (Reason.ECHO_MISMATCH, Reason.PEER_ABORTED)
        assert not outcomes[i].culprits


def test_an_abort_does_not_say_which_presignature_it_is_about():
    """Whoever guesses at OT state in many offers learns no more than from one."""
    s = session("presign-2")

    def told(change):
        run_ = LocalRun([s.party(1), altered("Offer", change)(s)])
        run_.start()
        notices = []
        while run_.in_flight:
            message = run_.deliver()
            if message.sender == 1 and message.send.kind == "AbortNotice":
                notices.append(message.send.data)
        return notices, run_.outcomes()[1]

    first, one = told(".offers [first].t first bit flipped")
    last, other = told(".offers [last].t first bit flipped")
    assert len(first[0]) == len(last[0])
    assert (one.reason, one.detail, one.where) == (other.reason, other.detail, other.where)


# ---------------------------------------------------------------------- what may not be mixed


def test_those_who_answer_do_not_if_they_were_given_different_requests():
    """The one who finishes tells party 2 one message and party 3 another: nobody signs either."""
    s = session("presigned-3")
    party = s.party(3)
    told = replace(party.setup, message_hash=bytes(32))
    misled = Party(party.definition, told, 3, session_id=party.session_id)
    local = LocalRun([s.party(1), s.party(2), misled])
    local.start()
    kinds = {m.send.kind for m in local.in_flight}
    while local.in_flight:
        kinds.add(local.deliver().send.kind)
    assert "Answer" not in kinds
    assert local.outcomes()[2].reason in (Reason.SESSION_MISMATCH, Reason.PEER_ABORTED)
    assert local.outcomes()[3].reason in (Reason.SESSION_MISMATCH, Reason.PEER_ABORTED)
