"""One misbehaviour for every reason to abort, and a test that none is forgotten.

Each scenario says who cheats how, and what the accuser must then say: the reason, the culprits, in
which step, what to do next, and with which of the culprit's messages as evidence.

How real the adversaries are: all but two need no more power than any participant has. Two reasons
guard against coincidences that no participant can bring about, because everyone is committed
before anything is revealed: DEGENERATE_KEY and DEGENERATE_NONCE. Their adversary is given the
honest parties' seeds, so that it can aim; the session around it is real.

Where a pair had no keys before the session (key generation), blame rests on the transport's word
and nobody is banned. Dealers of a resharing have keys from the start: there the same checks ban.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from mpcsim.crypto import Message, SeededRng, Tag
from mpcsim.crypto.mta import direction_sid
from mpcsim.errors import (
    Aborted,
    Blame,
    Consequence,
    InRound,
    OnReceipt,
    Reason,
    Where,
)
from mpcsim.protocols import LocalRun, ecdsa, keys, reshare
from mpcsim.protocols.dkg import Reveal
from mpcsim.protocols.dkg import steps as dkg_steps
from mpcsim.protocols.dkg.messages import Commit
from mpcsim.protocols.engine import Done, Party
from mpcsim.testing.runs.fields import alterations
from tests.helpers.adversary import Adversary, Tampered, alter_kind, drawing, with_round
from tests.helpers.sessions import HASH, Session, judge, run_with, session

ACCUSER, CHEATER = 1, 2
PLACES = {1: 2, 2: 1, 3: 3}
to_place: Callable[[int], int] = int
Cheat = Callable[[Session], Adversary]


@dataclass(frozen=True)
class Scenario:
    """Party 2 cheats; party 1 (or ``accuser``) finds out."""

    session: str
    cheat: Cheat
    where: Where
    consequence: Consequence
    blame: Blame
    culprits: frozenset[int] = frozenset({CHEATER})
    suspects: frozenset[int] = frozenset()
    evidence: tuple[str, ...] = ()
    """Kinds of message that the evidence must contain, as the cheater sent them."""
    about: frozenset[int] = frozenset({CHEATER})
    accuser: int = ACCUSER
    detail: str = field(default="", kw_only=True)


def altering(party: Party, kind: str, change: str, to: Collection[int] | None = None) -> Adversary:
    """Makes one of the changes of ``mpcsim.testing.runs.fields``, by its name."""

    def tamper(message: Message) -> Tampered:
        found = {a.name: a for a in alterations(message, party.wire)}
        return found[change].apply(message)

    return Adversary(party, alter_kind(kind, tamper, to))


def altered(kind: str, change: str, to: Collection[int] = ()) -> Cheat:
    return lambda s: altering(s.party(CHEATER), kind, change, {*map(to_place, to)} or None)


def malformed(s: Session) -> Adversary:
    party = s.party(CHEATER)
    return Adversary(party, alter_kind("SignatureShare", lambda m: m.encode(party.wire)[:-1]))


def two_versions(s: Session) -> Adversary:
    return Adversary(
        s.party(CHEATER), alter_kind("Commitments", lambda m: [m, replace(m, context=bytes(32))])
    )


def consistently(change: Callable[[Reveal], Reveal]) -> Cheat:
    """A cheating dealer that commits to what it will reveal."""

    def cheat(s: Session) -> Adversary:
        adversary = Adversary(s.party(CHEATER))
        party = adversary.party

        def tamper(kind: str, to: int, message: Message) -> Tampered:
            if isinstance(message, Reveal):
                return change(message)
            if isinstance(message, Commit):
                kept = party.keep
                opened = change(
                    Reveal(
                        {},
                        kept.coefficients,
                        None,
                        kept.chain_code,
                        kept.channel_key,
                        kept.blinding,
                    )
                )
                commitment = dkg_steps.commit_to_reveal(
                    party.session_id,
                    party.me,
                    opened.blinding,
                    message.nonce,
                    opened.coefficients,
                    opened.channel_key,
                    c=opened.chain_code,
                )
                sent = replace(message, commitment=commitment)
                party.inbox.own[Commit] = (party.me, sent)  # so that it echoes what it sent
                return sent
            return message

        adversary.tamper = tamper
        return adversary

    return cheat


def one_more_coefficient(reveal: Reveal) -> Reveal:
    return replace(reveal, coefficients=(*reveal.coefficients, reveal.coefficients[-1]))


def no_chain_code(reveal: Reveal) -> Reveal:
    return replace(reveal, chain_code=None)


def a_chain_code(reveal: Reveal) -> Reveal:
    return replace(reveal, chain_code=bytes(32))


def low_order_key(reveal: Reveal) -> Reveal:
    return replace(reveal, channel_key=bytes(32))


def replaced(s: Session, definition, setup=None) -> Party:
    """The cheater's party with another definition or set-up."""
    party = s.party(CHEATER)
    return Party(
        definition,
        setup or party.setup,
        party.me,
        session_id=party.session_id,
        rng=SeededRng("cheater"),
    )


def cancelling_key(s: Session) -> Adversary:
    """Knows the others' seeds: its constant term is minus the sum of theirs."""
    total = None
    for i in s.members:
        if i != CHEATER:
            honest = s.party(i)
            honest.start()
            a_0 = honest.keep.polynomial[0]
            total = a_0 if total is None else total + a_0
    return Adversary(replaced(s, with_round(s.definition, 1, drawing(-total))))


def cancelling_nonce(s: Session) -> Adversary:
    """Knows the other signer's seed: its nonce share is minus the other's."""
    honest = s.party(ACCUSER)
    honest.start()
    return Adversary(replaced(s, with_round(s.definition, 1, drawing(-honest.keep.r_i))))


class ShiftedSetup(reshare.ReshareSetup):
    """Of a dealer that would rather have another key."""

    def constant_term(self, view):
        return super().constant_term(view) + self.group.scalar(1)


def another_constant_term(s: Session) -> Adversary:
    honest = s.party(CHEATER).setup
    shifted = ShiftedSetup(**{name: getattr(honest, name) for name, _ in honest.CODECS})
    return Adversary(replaced(s, s.definition, shifted))


def another_key_share(s: Session) -> Adversary:
    """Signs, quite consistently, with a key share that is not its own."""
    setup = s.party(CHEATER).setup
    share = replace(setup.share, secret_share=setup.share.secret_share + setup.share.secret_share)
    return Adversary(replaced(s, s.definition, replace(setup, share=share)))


def annihilating_offer(s: Session) -> Adversary:
    """r_0 = -H_0(r_1), so that the sender's first combined point is the identity."""
    adversary = Adversary(s.party(CHEATER))
    party = adversary.party

    def tamper(kind: str, to: int, message: Message) -> Tampered:
        if kind != "MultiplicationOffer":
            return message
        offer = message.offer
        sid = direction_sid(party.keep.transcript, CHEATER, to)
        group = offer.r1[0].group
        parts = (sid, (0).to_bytes(4, "big"), (0).to_bytes(4, "big"), offer.r1[0].encode())
        r_0 = -group.hash_to_point(Tag.OT_BASE_POINT, *parts)
        return replace(message, offer=replace(offer, r0=(r_0, *offer.r0[1:])))

    adversary.tamper = tamper
    return adversary


def annihilating_share(s: Session) -> Adversary:
    """Speaks last, and picks its denominator so that the sum is zero."""
    adversary = Adversary(s.party(CHEATER), hold={"SignatureShare"})

    def tamper(message: Message) -> Tampered:
        inbox = adversary.party.inbox.received(type(message))
        return replace(
            message, u_i=-sum((m.u_i for m in inbox.values()), message.u_i.group.scalar(0))
        )

    adversary.tamper = alter_kind("SignatureShare", tamper)
    return adversary


def same_shares() -> Session:
    """Signing in which all sessions of a party use one object as its share."""
    shares = keys("secp256k1")
    signing = session("ecdsa-2")
    scenario = replace(
        signing.scenario,
        make=lambda i, sid, rng: ecdsa.party(
            ecdsa.setup(shares[i], (1, 2), HASH), session_id=sid, rng=rng
        ),
    )
    return replace(signing, scenario=scenario)


def attack_in_another_session(s: Session) -> Adversary:
    """While this session is open, gets caught in another one, and goes on with this one."""
    caught: list[bool] = []

    def tamper(message: Message) -> Tampered:
        if not caught:
            caught.append(True)
            spoilt = altered("Offer", ".offer.t first bit flipped")(s)
            run = LocalRun([other, spoilt])
            run.start()
            assert run.finish()[ACCUSER].reason is Reason.OT_EXTENSION_CHECK
        return message

    other = s.party(ACCUSER)  # open before anything happens
    return Adversary(s.party(CHEATER), alter_kind("Offer", tamper))


RETRY, BAN = Consequence.RETRY, Consequence.BAN
PUBLIC, PRIVATE, NOBODY = Blame.PUBLIC, Blame.PRIVATE, Blame.NOBODY
NONE: frozenset[int] = frozenset()
SUSPECT = {"suspects": frozenset({CHEATER})}
DEAL, FINISH = InRound(3, "deal"), InRound(4, "finish")
RESPOND, SHARE, ASSEMBLE = InRound(3, "respond"), InRound(4, "share"), InRound(5, "assemble")


def banned(
    session: str, cheat: Cheat, where: Where, *evidence: str, blame: Blame = PRIVATE, **more: Any
) -> Scenario:
    """The cheater is caught, and not worked with again."""
    return Scenario(session, cheat, where, BAN, blame, evidence=evidence, **more)


def unsealed(
    session: str, cheat: Cheat, where: Where, *evidence: str, detail: str = ""
) -> Scenario:
    """The cheater is named on the transport's word."""
    blame = Blame.TRANSPORT
    return Scenario(session, cheat, where, RETRY, blame, evidence=evidence, detail=detail)


def unnamed(session: str, cheat: Cheat, where: Where, *evidence: str, **more: Any) -> Scenario:
    """Nobody is blamed; there may be suspects."""
    return Scenario(session, cheat, where, RETRY, NOBODY, culprits=NONE, evidence=evidence, **more)


SCENARIOS: dict[Reason, Scenario] = {
    Reason.MALFORMED_MESSAGE: banned(
        *("frost-2", malformed, OnReceipt(2, "SignatureShare"), "SignatureShare"),
        blame=PUBLIC,
        detail="SignatureShare: truncated: 32 bytes expected at offset 32",
    ),
    Reason.CONFLICTING_MESSAGE: unnamed(
        *("frost-3", two_versions, OnReceipt(2, "Commitments"), "Commitments"),
        **SUSPECT,
        detail="Commitments of round 1",
    ),
    Reason.PEER_ABORTED: unnamed(
        *("ecdsa-3", altered("Respond", ".Gamma_u + G", to={1}), OnReceipt(1, "AbortNotice")),
        about=frozenset({1}),
        accuser=3,
        detail="party 1 reports GAMMA_U_MISMATCH",
    ),
    Reason.SESSION_MISMATCH: unnamed(
        *("frost-2", altered("Commitments", ".context first bit flipped"), InRound(2, "sign")),
        detail="party 2 signs something else, or with other shares or signers",
    ),
    Reason.ECHO_MISMATCH: unnamed(
        *("dkg-ed25519", altered("Commit", ".nonce first bit flipped", to={1}), DEAL),
        *("Commit", "Reveal"),
        **SUSPECT,
        detail="broadcast of party 2 as seen by party 2",
    ),
    Reason.COMMITMENT_OPENING: unsealed(
        "dkg-ed25519", altered("Reveal", ".blinding first bit flipped"), DEAL, "Commit", "Reveal"
    ),
    Reason.THRESHOLD_MISMATCH: unsealed(
        *("dkg-ed25519", consistently(one_more_coefficient), DEAL, "Commit", "Reveal"),
        detail="3 coefficients, 2 expected",
    ),
    Reason.PROOF_OF_KNOWLEDGE: unsealed(
        "dkg-ed25519", altered("Reveal", ".proof.z + 1"), DEAL, "Commit", "Reveal"
    ),
    Reason.SHARE_INCONSISTENT: unsealed(
        "dkg-ed25519", altered("Deal", ".share + 1"), FINISH, "Reveal", "Deal"
    ),
    Reason.DEGENERATE_KEY: unnamed("dkg-ed25519", cancelling_key, FINISH, about=NONE),
    Reason.WRONG_CONSTANT_TERM: banned(
        "reshare-ed25519", another_constant_term, DEAL, "Reveal", blame=PUBLIC
    ),
    Reason.CONFIRMATION_MISMATCH: Scenario(
        *("reshare-ed25519", altered("Confirm", ".digest first bit flipped")),
        *(InRound(5, "activate"), RETRY, PRIVATE),
        evidence=("Confirm",),
    ),
    Reason.CHANNEL_KEY_INVALID: unsealed(
        "dkg-ed25519", consistently(low_order_key), DEAL, "Reveal"
    ),
    Reason.BASE_OT_DEGENERATE: unsealed(
        *("dkg-secp256k1", annihilating_offer, DEAL, "MultiplicationOffer"), detail="instance 0"
    ),
    Reason.ALL_BUT_ONE_OT_CHECK: unsealed(
        *("dkg-secp256k1-k4", altered("Deal", ".reply.all_but_one.digests first bit flipped")),
        *(FINISH, "Deal"),
    ),
    Reason.OT_EXTENSION_CHECK: Scenario(
        *("ecdsa-2", altered("Offer", ".offer.t first bit flipped"), RESPOND),
        *(Consequence.BAN_AND_DISCARD_OT, PRIVATE),
        evidence=("Offer",),
    ),
    Reason.SETUP_DISCARDED: unnamed(
        *("ecdsa-2, same shares", attack_in_another_session, RESPOND),
        detail="party 2; reshare the key",
    ),
    Reason.MULTIPLICATION_CHECK: banned(
        "ecdsa-2", altered("Respond", ".reply.mu first bit flipped"), SHARE, "Respond"
    ),
    Reason.GAMMA_U_MISMATCH: banned(
        "ecdsa-3", altered("Respond", ".Gamma_u + G"), SHARE, "Respond"
    ),
    Reason.GAMMA_V_MISMATCH: banned(
        "ecdsa-3", altered("Respond", ".Gamma_v + G"), SHARE, "Respond"
    ),
    Reason.PUBLIC_KEY_MISMATCH: banned("ecdsa-2", another_key_share, SHARE, "Respond", **SUSPECT),
    Reason.DEGENERATE_NONCE: unnamed("ecdsa-2", cancelling_nonce, SHARE, about=NONE),
    Reason.ZERO_DENOMINATOR: banned(
        "ecdsa-2", annihilating_share, ASSEMBLE, "SignatureShare", **SUSPECT
    ),
    Reason.SIGNATURE_INVALID: banned(
        *("ecdsa-2", altered("SignatureShare", ".w_i + 1"), ASSEMBLE, "SignatureShare"), **SUSPECT
    ),
    Reason.SIGNATURE_SHARE_INVALID: banned(
        *("frost-3", altered("SignatureShare", ".share + 1"), InRound(3, "aggregate")),
        *("Commitments", "SignatureShare"),
        blame=PUBLIC,
    ),
}

# With more than one peer the same deviation leaves only suspects.
_OTHERS = {"suspects": frozenset({2, 3}), "about": frozenset({2, 3})}
_SEVERAL = {
    "session": "ecdsa-3",
    "culprits": NONE,
    "consequence": RETRY,
    "blame": NOBODY,
    **_OTHERS,
}
AMONG_SEVERAL: dict[Reason, Scenario] = {
    Reason.ECHO_MISMATCH: replace(
        SCENARIOS[Reason.ECHO_MISMATCH],
        accuser=3,
        suspects=frozenset({1, 2}),
        about=frozenset({1}),
        detail="broadcast of party 2 as seen by party 1",
    )
} | {
    reason: replace(SCENARIOS[reason], **_SEVERAL)
    for reason in (Reason.PUBLIC_KEY_MISMATCH, Reason.ZERO_DENOMINATOR, Reason.SIGNATURE_INVALID)
}

_HOLDERS = {"consequence": BAN, "blame": PUBLIC}
BETWEEN_KEY_HOLDERS: dict[Reason, Scenario] = {
    reason: replace(SCENARIOS[reason], session="reshare-ed25519", **_HOLDERS)
    for reason in (
        Reason.COMMITMENT_OPENING,
        Reason.THRESHOLD_MISMATCH,
        Reason.PROOF_OF_KNOWLEDGE,
        Reason.CHANNEL_KEY_INVALID,
    )
}
BETWEEN_KEY_HOLDERS[Reason.BASE_OT_DEGENERATE] = replace(
    SCENARIOS[Reason.BASE_OT_DEGENERATE], session="reshare-secp256k1", **_HOLDERS
)
# Nor has a new holder to take the transport's word for who a dealer is: that has proved it.
BETWEEN_KEY_HOLDERS[Reason.SHARE_INCONSISTENT] = banned(
    *("reshare-ed25519", altered("Deal", ".share + 1", to={3}), InRound(4, "prepare")),
    *("Reveal", "Deal"),
    accuser=3,
)

_CHAIN_CODE = unsealed(
    *("dkg-secp256k1", consistently(no_chain_code), DEAL, "Commit", "Reveal"),
    detail="Reveal with a chain code's part missing or too many",
)
_ONE = replace(_CHAIN_CODE, session="dkg-ed25519", cheat=consistently(a_chain_code))
WITH_CHAIN_CODES: dict[str, tuple[Reason, Scenario]] = {
    "none": (Reason.MALFORMED_MESSAGE, _CHAIN_CODE),
    "one on ed25519": (Reason.MALFORMED_MESSAGE, _ONE),
    "another one for the key there is": (
        Reason.MALFORMED_MESSAGE,
        replace(_ONE, session="reshare-secp256k1", **_HOLDERS),
    ),
    "another than committed to": (
        Reason.COMMITMENT_OPENING,
        replace(_CHAIN_CODE, cheat=altered("Reveal", ".chain_code first bit flipped"), detail=""),
    ),
}


def test_every_reason_has_a_scenario():
    assert set(SCENARIOS) == set(Reason)


def play(scenario: Scenario) -> tuple[Aborted, Adversary]:
    """Run it, check what holds of every run, return what the accuser says."""
    s = same_shares() if scenario.session.endswith("same shares") else session(scenario.session)
    adversary = scenario.cheat(s)
    outcomes = judge(s, run_with(s, adversary), {CHEATER})
    aborted = outcomes[scenario.accuser]
    assert isinstance(aborted, Aborted), aborted
    return aborted, adversary


def check_scenario(reason: Reason, scenario: Scenario) -> None:
    aborted, adversary = play(scenario)
    assert aborted.reason is reason
    assert aborted.culprits == scenario.culprits
    assert aborted.suspects == scenario.suspects
    assert aborted.where == scenario.where
    assert aborted.about == scenario.about
    assert aborted.detail == scenario.detail
    assert aborted.consequence is scenario.consequence
    assert aborted.blame is scenario.blame
    received = {
        (send.kind, adversary.payload(send))
        for send in adversary.sent
        if send.to == scenario.accuser
    }
    evidence = {(e.kind, e.payload) for e in aborted.evidence if e.sender == CHEATER}
    assert evidence <= received
    assert set(scenario.evidence) <= {kind for kind, _ in evidence}
    assert aborted.reason.text in str(aborted)
    assert str(aborted.where) in str(aborted)


CASES = {reason.name: (reason, scenario) for reason, scenario in SCENARIOS.items()}
CASES |= {f"{r.name} among several": (r, scenario) for r, scenario in AMONG_SEVERAL.items()}
CASES |= {f"{r.name} of holders": (r, scenario) for r, scenario in BETWEEN_KEY_HOLDERS.items()}
CASES |= {f"chain code: {name}": case for name, case in WITH_CHAIN_CODES.items()}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_misbehaviour(case):
    check_scenario(*case)


@pytest.mark.parametrize("reason", SCENARIOS, ids=lambda reason: reason.name)
def test_misbehaviour_towards_the_other_party(reason, monkeypatch):
    """Parties 1 and 2 in each other's place."""
    scenario = SCENARIOS[reason]
    changed = {
        name: frozenset(PLACES[i] for i in getattr(scenario, name))
        for name in ("culprits", "suspects", "about")
    }
    where = scenario.where
    if isinstance(where, OnReceipt):
        where = replace(where, sender=PLACES[where.sender])
    detail = re.sub(r"(?<=party )[12]", lambda i: str(PLACES[int(i[0])]), scenario.detail)
    changed |= {"accuser": PLACES[scenario.accuser], "detail": detail, "where": where}
    for name, value in (("ACCUSER", CHEATER), ("CHEATER", ACCUSER), ("to_place", PLACES.get)):
        monkeypatch.setattr(f"{__name__}.{name}", value)
    check_scenario(reason, replace(scenario, **changed))


def test_an_abort_says_who_reported_it():
    aborted, _ = play(SCENARIOS[Reason.PEER_ABORTED])
    assert aborted.reported_by == 1


# ---------------------------------------------------------------------- what follows from blame


def test_evidence_of_a_conflict_holds_both_messages():
    aborted, adversary = play(SCENARIOS[Reason.CONFLICTING_MESSAGE])
    received = {adversary.payload(s) for s in adversary.sent if s.to == 1} & {
        adversary.payload(s) for s in adversary.sent if s.kind == "Commitments"
    }
    assert len(received) == 2
    assert {e.payload for e in aborted.evidence} == received


@pytest.mark.parametrize(
    "reason", [r for r in Reason if r is not Reason.OT_EXTENSION_CHECK], ids=lambda r: r.name
)
def test_other_aborts_keep_the_share(reason):
    share = keys("secp256k1")[1]
    assert share.after_abort(Aborted(reason, InRound(3, "respond"), frozenset({2}))) == share


@pytest.mark.parametrize(
    ("kind", "change", "reason", "other"),
    [
        ("Reveal", ".blinding first bit flipped", Reason.COMMITMENT_OPENING, Aborted),
        ("Deal", ".share + 1", Reason.SHARE_INCONSISTENT, Done),
    ],
)
def test_what_one_holder_refuses_the_others_hear_of_before_the_last_round(
    kind, change, reason, other
):
    """Party 1 aborts in round 3 of a key generation, before it has keys; party 3 has some.

    There is no confirmation round: a bad share for one leaves the others done. Callers must not use
    a key before all holders have it; this pins down that nothing says so.
    """
    s = session("dkg-ed25519")
    outcomes = judge(s, run_with(s, altered(kind, change, to={1})(s)), {CHEATER})
    assert outcomes[1].reason is reason
    assert isinstance(outcomes[3], other), outcomes[3]
