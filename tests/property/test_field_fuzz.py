"""One party spoils one field of one kind of message: nobody crashes, nobody innocent is blamed,
and no honest party accepts a wrong result.

Which fields there are, and how to spoil them, comes from the messages' own codecs
(``mpcsim.testing.runs.fields``): a new message or field is fuzzed without a word here.
"""

from collections.abc import Callable
from functools import partial

import pytest

from mpcsim.crypto.encoding import Message
from mpcsim.crypto.hashing import Tag, tagged_hash
from mpcsim.errors import Aborted, Reason
from mpcsim.protocols.dkg.messages import MultiplicationOffer
from mpcsim.protocols.engine import Done, Send
from mpcsim.protocols.engine.envelope import ABORT_KIND
from mpcsim.protocols.local_run import LocalRun
from mpcsim.testing.protocols import somebody_is_named
from mpcsim.testing.runs.fields import Alteration, Malformation, alterations, malformations
from tests.helpers import sessions
from tests.helpers.adversary import Adversary, Tampered, alter_kind

CHEATERS = {
    "reshare-ed25519": (1, 3),  # a dealer; a party that only receives
    "reshare-ed25519-handover": (1, 2, 4),  # only deals; both; only receives
}
"""Who cheats, where not simply the second party."""


ALL = [
    (name, sends.kind)
    for name in sessions.DEFINITIONS
    for sends in sessions.kinds(sessions.DEFINITIONS[name])
]
UNSENT = {("dkg-ed25519", "MultiplicationOffer"), ("presigned-2", "Open")} | {
    (name, "MultiplicationOffer")
    for name in sessions.DEFINITIONS
    if name.startswith("reshare-ed25519")
}
"""Kinds that a session never sends."""


SLOW = [name for name in sessions.DEFINITIONS if "-secp256k1" in name or name == "presign-3"]
"""Sessions that set up the multiplication, or presign with three parties."""
REPEATED = ["dkg-secp256k1-k4", "ecdsa-2-child", "ecdsa-3", "presign-2", "frost-3"]
"""Sessions with the messages of a smaller one; presigning has those of signing."""


def cases(pairs: list[tuple[str, str]], soak: list[str]) -> pytest.MarkDecorator:
    marked = [
        pytest.param(*pair, marks=pytest.mark.soak if pair[0] in soak else ()) for pair in pairs
    ]
    return pytest.mark.parametrize(("name", "kind"), marked)


EVERY_FIELD = cases(ALL, [*SLOW, *REPEATED, "reshare-ed25519-handover"])
EVERY_SENT = cases([pair for pair in ALL if pair not in UNSENT], SLOW)


def scopes(s: sessions.Session, cheater: int, kind: str) -> list[frozenset[int]]:
    """Toward every receiver, and toward a single one."""
    party = s.party(cheater)
    role = next(sends.receivers for sends in sessions.kinds(s.definition) if sends.kind == kind)
    receivers = [i for i in party._roles[role] if i != cheater]
    return [frozenset(receivers), frozenset(receivers[:1])][: len(receivers)]


def spoil(
    name: str, kind: str, wanted: Callable[[str], bool] = lambda field: True, narrow: bool = False
) -> tuple[int, list[str]]:
    """Run every alteration and malformation of one kind; count the runs and list what was wrong.

    Args:
        wanted: which of them, by name.
        narrow: only toward one receiver.
    """
    s = sessions.session(name)
    runs, wrong = 0, []
    for cheater in CHEATERS.get(name, s.members[1:2]):
        sample = sessions.samples(s, cheater).get(kind)
        if sample is None:
            continue
        wire = s.party(cheater).wire
        changes = [*alterations(sample, wire), *malformations(sample, wire)]
        for to in scopes(s, cheater, kind)[int(narrow) :]:
            for change in changes:
                if not wanted(change.name):
                    continue
                runs += 1
                try:
                    one_run(s, cheater, kind, change, to)
                except Exception as error:
                    where = f"{kind}{change.name} by {cheater} toward {sorted(to)}"
                    wrong.append(f"{where}: {type(error).__name__}: {error}")
    return runs, wrong


def one_run(
    s: sessions.Session,
    cheater: int,
    kind: str,
    change: Alteration | Malformation,
    to: frozenset[int],
) -> None:
    reached: list[Message] = []
    adversary = Adversary(s.party(cheater))

    def tamper(sent: str, receiver: int, message: Message) -> Tampered:
        if sent != kind or receiver not in to:
            return message
        reached.append(message)
        spoilt = change.apply(message)
        if isinstance(spoilt, MultiplicationOffer):  # it knows what it really offered
            digest = tagged_hash(Tag.OFFER, spoilt.encode(adversary.party.wire))
            adversary.party.keep.offer_digests[receiver] = digest
        return spoilt

    adversary.tamper = tamper
    run = sessions.run_with(s, adversary)
    outcomes = sessions.judge(s, run, {cheater})
    assert reached, "the message was never sent"
    somebody_is_named(outcomes, {cheater}, s.scenario.unnamed)
    if isinstance(change, Malformation):
        aborts = [o for o in outcomes.values() if isinstance(o, Aborted)]
        assert any(
            o.reason is Reason.MALFORMED_MESSAGE and o.culprits == {cheater} for o in aborts
        ), f"not refused: {outcomes}"
    sign_with(run, s, cheater)


def sign_with(run: LocalRun, s: sessions.Session, cheater: int) -> None:
    """Where secp256k1 shares came out, each honest party signs with the cheater's."""
    if not str(s).startswith(("key_generation('secp256k1'", "resharing('secp256k1'")):
        return
    outcomes = run.outcomes()
    if not all(isinstance(outcome, Done) for outcome in outcomes.values()):
        return
    shares = {i: o.result for i, o in outcomes.items() if isinstance(o, Done)}
    for i in shares:
        if i != cheater:
            signers = tuple(sorted((i, cheater)))
            signing = sessions.ecdsa_session(signers, 2, 3, shares)
            again = LocalRun(signing.parties())
            again.start()
            again.finish()
            sessions.judge(signing, again, {cheater})


def assert_all_well(runs: int, wrong: list[str], expected: bool = True) -> None:
    assert not wrong, f"{len(wrong)} of {runs} runs went wrong:\n" + "\n".join(wrong)
    assert bool(runs) == expected


@EVERY_FIELD
def test_one_spoilt_field(name, kind):
    runs, wrong = spoil(name, kind)
    assert_all_well(runs, wrong, (name, kind) not in UNSENT)


# ---------------------------------------------------------------------- whole messages


@EVERY_SENT
def test_two_messages_in_one_slot(name, kind):
    """The second one convicts its sender, if it still comes in time."""
    s = sessions.session(name)
    for cheater in CHEATERS.get(name, s.members[1:2]):
        sample = sessions.samples(s, cheater).get(kind)
        if sample is None:
            continue
        other = alterations(sample, s.party(cheater).wire)[0]
        both = sessions.run_against(s, cheater, alter_kind(kind, partial(_and, other)))
        for outcome in sessions.judge(s, both, {cheater}).values():
            if isinstance(outcome, Aborted):
                assert outcome.reason in (Reason.CONFLICTING_MESSAGE, Reason.PEER_ABORTED)


def _and(other: Alteration, message: Message) -> Tampered:
    return [message, other.apply(message)]


# ---------------------------------------------------------------------- notices of an abort


@pytest.mark.parametrize(
    ("payload", "reason", "detail"),
    [
        (b"\0\0\0\x0dECHO_MISMATCH", Reason.PEER_ABORTED, "party 2 reports ECHO_MISMATCH"),
        (b"\0\0\0\x04OOPS", Reason.PEER_ABORTED, "party 2 reports an unknown reason"),
        (b"", Reason.MALFORMED_MESSAGE, "AbortNotice: truncated"),
        (b"\0\0\0\x04OOPS!", Reason.MALFORMED_MESSAGE, "AbortNotice: 1 trailing"),
        (b"\0\0\0\x01\xff", Reason.MALFORMED_MESSAGE, "AbortNotice: text is not UTF-8"),
        (b"\0\0\0\x41" + b"x" * 65, Reason.MALFORMED_MESSAGE, "AbortNotice: field of 65 bytes"),
    ],
)
def test_a_notice_of_an_abort(payload, reason, detail):
    """It ends the run, and says nothing about who is to blame."""
    s = sessions.session("frost-2")
    party = s.party(2)
    notice = Send(1, party._pack(ABORT_KIND, 1, payload, sealed=True), "AbortNotice", 0)
    run = sessions.run_with(s, Adversary(party, alter_kind("Commitments", lambda m: [notice, m])))
    outcome = sessions.judge(s, run, {2})[1]
    assert outcome.reason is reason
    assert outcome.detail.startswith(detail)
    assert outcome.culprits == ({2} if reason is Reason.MALFORMED_MESSAGE else frozenset())
