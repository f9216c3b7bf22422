"""Who catches what, where: edits of live sessions, and the check that the explorer points at."""

import pytest

from mpcsim.errors import Reason
from mpcsim.lab.explorer import Explorer
from mpcsim.lab.explorer.model.checks import CHECKS, EVERY, ON_RECEIPT
from mpcsim.lab.explorer.model.fields import FLIP, PLUS_G, PLUS_ONE
from mpcsim.protocols.signing import PROTOCOLS
from tests.lab.explorer.wallets import presigned, simulation

# sender, receiver, kind, path, operation -> reason, round (ON_RECEIPT: none), kind of the message
ECDSA = [
    (3, 1, "Commit", "context", FLIP, Reason.SESSION_MISMATCH, 2, "Commit"),
    (3, 1, "Offer", "offer.x", FLIP, Reason.OT_EXTENSION_CHECK, 3, "Offer"),
    (3, 1, "Respond", "R_i", PLUS_G, Reason.COMMITMENT_OPENING, 4, "Respond"),
    (3, 1, "Respond", "reply.mu", FLIP, Reason.MULTIPLICATION_CHECK, 4, "Respond"),
    (3, 1, "Respond", "psi", PLUS_ONE, Reason.SIGNATURE_INVALID, 5, "SignatureShare"),
    (3, 1, "SignatureShare", "", "append a byte", Reason.MALFORMED_MESSAGE, ON_RECEIPT,
     "SignatureShare"),
]  # fmt: skip
PRESIGN = [
    (3, 1, "Commit", "context", FLIP, Reason.SESSION_MISMATCH, 2, "Commit"),
    (3, 1, "Offer", "offers[1].x", FLIP, Reason.OT_EXTENSION_CHECK, 3, "Offer"),
    (3, 1, "Respond", "responses", "drop the last", Reason.MALFORMED_MESSAGE, 4, "Respond"),
    (3, 1, "Respond", "responses[1].Gamma_v", PLUS_G, Reason.GAMMA_V_MISMATCH, 4, "Respond"),
]
PRESIGNED = [(3, 1, "Answer", "rho_i", FLIP, Reason.COMMITMENT_OPENING, 3, "Answer")]
FROST = [
    (2, 1, "Commitments", "context", FLIP, Reason.SESSION_MISMATCH, 2, "Commitments"),
    (2, 1, "Commitments", "hiding", PLUS_G, Reason.ECHO_MISMATCH, 3, "SignatureShare"),
    (2, 1, "SignatureShare", "share", PLUS_ONE, Reason.SIGNATURE_SHARE_INVALID, 3,
     "SignatureShare"),
]  # fmt: skip
DKG = [
    (2, 1, "Commit", "context", FLIP, Reason.SESSION_MISMATCH, 2, "Commit"),
    (2, 1, "Reveal", "blinding", FLIP, Reason.COMMITMENT_OPENING, 3, "Reveal"),
    (2, 1, "Reveal", "proof.z", PLUS_ONE, Reason.PROOF_OF_KNOWLEDGE, 3, "Reveal"),
    (2, 1, "Deal", "share", PLUS_ONE, Reason.SHARE_INCONSISTENT, 4, "Deal"),
]


def caught(explorer: Explorer, edit, expected):
    sender, receiver, *what = edit
    reason, round_, kind = expected
    view = explorer.edit(sender, receiver, *what).view
    assert view.verdict == "aborted"
    assert view.edits == (str(explorer.edits[0]),)
    own = next(a for a in view.aborts if a.party == receiver)
    assert own.reason == reason.name
    where = f"in round {round_}" if round_ else f"while receiving from party {sender}"
    assert own.where.startswith(where)
    assert own.message is not None
    blamed = view.messages[own.message]
    assert (blamed.kind, blamed.sender, blamed.receiver) == (kind, sender, receiver)
    failed = [c for c in blamed.checks if c.outcome == "failed"]
    assert [(c.reason, c.round) for c in failed] == [(reason.name, round_)]
    at = blamed.checks.index(failed[0])
    here = [c.outcome for c in blamed.checks if c.round == round_]
    assert all(c.outcome == "passed" for c in blamed.checks[:at] if c.round <= round_)
    assert here.index("failed") == len(here) - 1 - here[::-1].index("failed")
    assert all(c.outcome == "open" for c in blamed.checks[at + 1 :] if c.round >= round_)
    altered = [m for m in view.messages if m.altered]
    assert [(m.kind, m.sender, m.receiver) for m in altered] == [(what[0], sender, receiver)]
    last = [s for s in view.steps if s.party == receiver and s.ended]
    assert [s.ended for s in last] == ["aborted"]
    return view


RUNS = {
    "ecdsa": (ECDSA, simulation, "sign", {"signers": (1, 3)}),
    "presign": (PRESIGN, simulation, "presign", {"count": 2, "signers": (1, 3)}),
    "presigned": (PRESIGNED, presigned, "sign_presigned", {"signers": (1, 3)}),
    "frost": (FROST, lambda: simulation("ed25519"), "sign", {"signers": (1, 2)}),
    "dkg": (DKG, simulation, "generate", {}),
}
CASES = [(name, case) for name, (cases, *_) in RUNS.items() for case in cases]


@pytest.mark.few(9)
@pytest.mark.parametrize(
    ("name", "case"), CASES, ids=[f"{name} {c[2]}.{c[3]} {c[4]}" for name, c in CASES]
)
def test_who_catches_what_where(name, case):
    _, wallet, operation, options = RUNS[name]
    caught(Explorer.live(wallet(), operation, **options), case[:5], case[5:])


def test_resharing_notices_another_key_record(wallet):
    explorer = Explorer.live(wallet, "recover", lost=1, dealers=(2, 3))
    view = explorer.edit(2, 1, "Confirm", "digest", FLIP).view
    assert [(a.party, a.reason) for a in view.aborts] == [(1, "CONFIRMATION_MISMATCH")]
    failed = [c.text for m in view.messages for c in m.checks if c.outcome == "failed"]
    assert failed == ["sender confirms the key record that we have"]


def test_equivocation_is_seen_by_those_who_compare(wallet):
    """What is still under way then, nobody heeds."""
    explorer = Explorer.live(wallet, "sign", signers=(1, 2, 3))
    view = explorer.edit(2, 3, "Commit", "nonce", FLIP).view
    assert {a.reason for a in view.aborts} == {"ECHO_MISMATCH"}
    honest = [a for a in view.aborts if a.party != 2]
    assert honest
    for abort in honest:
        assert abort.culprits == ()
        assert 2 in abort.suspects
        assert view.messages[abort.message].kind == "Offer"
    late = [m for m in view.messages if m.ignored == "the run is over"]
    assert late
    for message in late:
        if message.checks[0].outcome != "open":
            assert message.checks[0].outcome == "ignored"
            assert {c.outcome for c in message.checks[1:]} == {"open"}


def test_the_same_toward_everyone_is_no_equivocation(ed_wallet):
    explorer = Explorer.live(ed_wallet, "sign", signers=(1, 2, 3))
    view = explorer.edit(2, 3, "SignatureShare", "share", PLUS_ONE, everyone=True).view
    assert [m.receiver for m in view.messages if m.altered] == [1, 3]
    honest = [a for a in view.aborts if a.party != 2]
    assert [(a.reason, a.culprits) for a in honest] == [("SIGNATURE_SHARE_INVALID", (2,))] * 2


def test_an_honest_run_passes_every_check(session):
    view = session.view
    assert view.good
    outcomes = {c.outcome for m in view.messages for c in m.checks}
    assert outcomes == {"passed"}


def test_the_tables_cover_every_kind_of_message_and_every_reason():
    for name, definition in PROTOCOLS.items():
        assert set(CHECKS[name]) == {sends.kind for _, sends in definition.kinds()}
        rounds = {r.number for r in definition.rounds}
        assert all(c.round in rounds for checks in CHECKS[name].values() for c in checks)
    tables = [c for kinds in CHECKS.values() for checks in kinds.values() for c in checks]
    named = {c.reason for c in (*EVERY, *tables)}
    assert set(Reason) - named == {Reason.PEER_ABORTED}
