"""Tests for checks whose removal no other test had noticed, or none within a second."""

from dataclasses import replace

import pytest

from mpcsim.crypto import SeededRng, Tag
from mpcsim.crypto.encoding import NO_CONTEXT, U8, Message, PerParty, Reader, Seq
from mpcsim.crypto.hashing import tagged_hash
from mpcsim.errors import InvalidEncoding, Reason, UsageError
from mpcsim.ids import MAX_PARTIES
from mpcsim.protocols import LocalRun, dkg, ecdsa, frost, keys, session_id
from mpcsim.protocols.dkg.messages import Confirm, Deal
from mpcsim.protocols.engine import Party
from mpcsim.protocols.engine.envelope import ABORT_KIND, AbortNotice, Envelope
from mpcsim.protocols.engine.events import Ignored
from mpcsim.protocols.engine.party import MAX_UNOPENED
from mpcsim.protocols.frost.rounds import FrostSetup
from mpcsim.protocols.frost.steps import SigningNonces
from tests.helpers.adversary import Adversary, alter_kind
from tests.helpers.sessions import HASH, Ears, judge, run_with, session

NAME = session_id("survivors")


def stored(content: bytes) -> bytes:
    """A snapshot's content with a checksum that fits: what damage by accident never has."""
    return content + tagged_hash(Tag.STORED, content)


# ------------------------------------------------------------------ encodings


def test_a_sequence_beyond_its_limit():
    assert Seq(U8, limit=2).read(Reader(b"\0\2ab"), NO_CONTEXT) == (97, 98)
    with pytest.raises(InvalidEncoding, match="sequence of 3, at most 2"):
        Seq(U8, limit=2).read(Reader(b"\0\3abc"), NO_CONTEXT)


def test_a_mapping_of_more_parties_than_there_may_be():
    def encoded(n: int) -> bytes:
        entries = b"".join(i.to_bytes(2, "big") + b"x" for i in range(1, n + 1))
        return n.to_bytes(2, "big") + entries

    assert len(PerParty(U8).read(Reader(encoded(MAX_PARTIES)), NO_CONTEXT)) == MAX_PARTIES
    with pytest.raises(InvalidEncoding, match="mapping of 257 parties"):
        PerParty(U8).read(Reader(encoded(MAX_PARTIES + 1)), NO_CONTEXT)


# ------------------------------------------------------------------ set-ups made by hand


def test_signers_out_of_order():
    agreed = FrostSetup(keys("ed25519")[1], (2, 1), HASH)
    with pytest.raises(UsageError, match="ascending"):
        frost.party(agreed, session_id=NAME)


def test_a_signer_with_the_share_of_another():
    agreed = FrostSetup(keys("ed25519")[1], (1, 2), HASH)
    with pytest.raises(UsageError, match="party 1, whose share this is, is not a signer"):
        Party(frost.FROST, agreed, 2, session_id=NAME)


def test_signing_with_a_pair_whose_state_was_discarded():
    share = keys("secp256k1")[1].without_multiplication(2)
    agreed = ecdsa.EcdsaSetup(share, (1, 2), HASH)
    with pytest.raises(UsageError, match="state with party 2 was discarded"):
        ecdsa.party(agreed, session_id=NAME)


# ------------------------------------------------------------------ snapshots


def frost_snapshot() -> bytes:
    """Without its checksum."""
    party = frost.party(
        frost.setup(keys("ed25519")[1], (1, 2), HASH), session_id=NAME, rng=SeededRng(1)
    )
    party.start()
    return party.snapshot()[:-32]


def altered(content: bytes, at: int, value: int) -> bytes:
    return content[:at] + bytes([value]) + content[at + 1 :]


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, 2), (1, dkg.DKG.number), (2, 2), (3, 2)],
    ids=["version", "protocol", "started", "refused"],
)
def test_the_head_of_a_snapshot(at, value):
    content = frost_snapshot()
    Party.resume(frost.FROST, stored(content))
    with pytest.raises(InvalidEncoding, match="not a snapshot of this protocol and version"):
        Party.resume(frost.FROST, stored(altered(content, at, value)))


def test_a_snapshot_with_more_behind_it():
    with pytest.raises(InvalidEncoding, match="trailing"):
        Party.resume(frost.FROST, stored(frost_snapshot() + b"\0"))


def test_a_snapshot_of_a_party_that_takes_no_part():
    with pytest.raises(InvalidEncoding, match="snapshot: party 1, whose share this is"):
        Party.resume(frost.FROST, stored(altered(frost_snapshot(), 5, 9)))


def test_a_snapshot_goes_on_with_its_own_holders_share_only():
    held = keys("secp256k1")
    party = ecdsa.party(ecdsa.setup(held[1], (1, 2), HASH), session_id=NAME, rng=SeededRng(1))
    Party.resume(ecdsa.ECDSA, party.snapshot(), share=held[1])
    with pytest.raises(UsageError, match="another share"):
        Party.resume(ecdsa.ECDSA, party.snapshot(), share=held[2])
    with pytest.raises(UsageError, match="as it is stored now"):
        Party.resume(ecdsa.ECDSA, party.snapshot())


# ------------------------------------------------------------------ messages


def test_a_message_of_kind_zero():
    """Kinds count from one; zero would be read as the last of them."""
    agreed = frost.setup(keys("ed25519")[1], (1, 2), HASH)
    ears = Ears()
    party = frost.party(agreed, session_id=NAME, listener=ears)
    party.start()
    message = Envelope(frost.FROST.number, 0, True, 2, 1, NAME, bytes(64))
    assert party.receive(2, message.encode()) == []
    assert ears.why == [Ignored.UNKNOWN_KIND]


def message_from(party: Party, kind: type[Message], to: int, payload: bytes) -> bytes:
    """A message of that kind, sealed by its sender, whether it may send such a one or not."""
    number = next(
        n for n, (_, sends) in enumerate(party.definition.kinds(), 1) if sends.message is kind
    )
    return party._pack(number, to, payload, sealed=True)


@pytest.mark.parametrize(
    ("kind", "sender", "receiver", "payload"),
    [(Confirm, 1, 3, bytes(32)), (Deal, 2, 1, b"")],
    ids=["from one who sends none", "to one who receives none"],
)
def test_a_message_outside_the_roles(kind, sender, receiver, payload):
    """Party 1 deals and receives nothing: it has nothing to confirm, and nobody deals to it."""
    s = session("reshare-ed25519-handover")
    run = LocalRun(s.parties())
    run.start()
    while min(run.parties[i].waiting_state().round for i in (sender, receiver)) < 4:
        run.deliver()
    ears = run.parties[receiver].listener = Ears()
    data = message_from(run.parties[sender], kind, receiver, payload)
    assert run.parties[receiver].receive(sender, data) == []
    assert ears.why == [Ignored.WRONG_WAY]
    run.finish()
    judge(s, run)


@pytest.mark.parametrize("started", [False, True], ids=["before the start", "before the keys"])
def test_what_cannot_be_judged_yet_is_kept_once_and_up_to_a_limit(started):
    ears = Ears()
    party = dkg.party(
        dkg.setup("ed25519", 2, (1, 2, 3)), 1, session_id=NAME, rng=SeededRng(1), listener=ears
    )
    if started:
        party.start()
    kind, sealed = (4, True) if started else (1, False)
    junk = [
        Envelope(dkg.DKG.number, kind, sealed, 2, 1, NAME, bytes([i]) * 64).encode()
        for i in range(MAX_UNOPENED + 1)
    ]
    for data in (junk[0], *junk):
        assert party.receive(2, data) == []
    assert ears.why == [Ignored.DUPLICATE, Ignored.TOO_MANY]
    kept = party.snapshot()
    party.receive(2, junk[-1])
    assert party.snapshot() == kept


@pytest.mark.parametrize(
    ("name", "kind", "withheld", "reason"),
    [
        ("reshare-ed25519", "Reveal", {"proof": None}, Reason.THRESHOLD_MISMATCH),
        ("dkg-secp256k1", "Deal", {"reply": None}, Reason.MALFORMED_MESSAGE),
    ],
    ids=["proof of knowledge", "reply of the multiplication set-up"],
)
def test_a_part_withheld(name, kind, withheld, reason):
    s = session(name)
    cheater = Adversary(s.party(2), alter_kind(kind, lambda message: replace(message, **withheld)))
    accused = run_with(s, cheater).parties[1].outcome
    assert (accused.reason, accused.culprits) == (reason, {2})


def test_a_stranger_cannot_end_a_session_and_nothing_is_heard_after_the_end():
    """Or two parties that gave up would tell each other so for ever."""
    agreed = dkg.setup("ed25519", 2, (1, 2, 3))
    ears = Ears()
    party = dkg.party(agreed, 1, session_id=NAME, listener=ears)
    party.start()
    notice = AbortNotice("ECHO_MISMATCH").encode(party.wire)
    for sender in (9, 2, 3):
        envelope = Envelope(dkg.DKG.number, ABORT_KIND, False, sender, 1, NAME, notice)
        outputs = party.receive(sender, envelope.encode())
        assert bool(outputs) == (sender == 2)
        assert (party.outcome is None) == (sender == 9)
    assert party.outcome.reported_by == 2
    assert ears.why == [Ignored.NOT_PARTICIPANTS, Ignored.OVER]


# ------------------------------------------------------------------ nonces


def test_used_nonces_give_no_commitment():
    """Nor would it be the one that was sent."""
    group = keys("ed25519")[1].group
    nonces = SigningNonces(group.scalar(2), group.scalar(3))
    assert nonces.bound_commitment(group.scalar(1)) == group.base(group.scalar(5))
    nonces.take()
    with pytest.raises(UsageError, match="used up"):
        nonces.bound_commitment(group.scalar(1))
