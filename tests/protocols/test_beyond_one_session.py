"""What outlives a session or runs beside it: discarded set-ups, rollback, relays, two phases."""

from dataclasses import replace

import pytest

from mpcsim.crypto import SeededRng
from mpcsim.crypto.mta import OtMta
from mpcsim.errors import (
    Aborted,
    CheckFailed,
    InRound,
    InvalidEncoding,
    Reason,
    UsageError,
)
from mpcsim.protocols import LocalRun, dkg, ecdsa, keys, reshare, run, session_id
from mpcsim.protocols.dkg import DKG
from mpcsim.protocols.ecdsa import ECDSA
from mpcsim.protocols.engine import Done, Envelope, Party, Prepared, Waiting
from mpcsim.protocols.key_share import KeyShare, PublicKeyRecord
from mpcsim.protocols.reshare import RESHARE
from tests.helpers.adversary import Adversary, alter_kind


def sign_party(share, label, digest=bytes(32)):
    return ecdsa.party(
        ecdsa.setup(share, (1, 2), digest),
        session_id=session_id(label),
        rng=SeededRng(f"{label} {share.identifier}"),
    )


def reshare_party(i, label, dealers=(2, 3), receivers=None):
    """Of a key on ed25519, of which party 1 has lost its share."""
    old = keys("ed25519")
    share = old[i] if i in dealers else None
    return reshare.party(
        reshare.setup(old[1].record, dealers, share=share, receivers=receivers),
        i,
        session_id=bytes(32),
        rng=SeededRng(f"{label} {i}"),
    )


def all_prepared(label):
    """A resharing in which everybody is through the first phase."""
    local = LocalRun([reshare_party(i, label) for i in (1, 2, 3)])
    local.start()
    while len(local.prepared) < 3:
        local.deliver()
    return local


def dkg_parties(curve, members, label):
    agreed = dkg.setup(curve, 2, members)
    return [
        dkg.party(agreed, i, session_id=bytes(32), rng=SeededRng(f"{label} {i}")) for i in members
    ]


def flip_u(message):
    offer = message.offer
    return replace(message, offer=replace(offer, u=bytes([offer.u[0] ^ 1]) + offer.u[1:]))


# ------------------------------------------------------------------ selective abort (O2)


@pytest.mark.parametrize("step", ["sender", "receiver_finish"])
def test_whichever_step_of_a_multiplication_fails_so_the_set_up_is_discarded(monkeypatch, step):
    """A scheme of one's own may learn in either that its set-up must not be used again."""

    def fail(*arguments):
        raise CheckFailed(Reason.OT_EXTENSION_CHECK)

    shares = keys("secp256k1")
    monkeypatch.setattr(OtMta, step, fail)
    local = LocalRun([sign_party(shares[i], step) for i in (1, 2)])
    local.start()
    found = local.finish()
    failed = [i for i, aborted in found.items() if aborted.reason is Reason.OT_EXTENSION_CHECK]
    assert failed
    for i in failed:
        assert found[i].culprits == {3 - i}
        assert not shares[i].can_multiply(3 - i)
        assert shares[i].can_multiply(3)


def test_the_driver_hears_of_an_abort_before_anyone_else():
    honest, cheater, _ = dkg_parties("ed25519", (1, 2, 3), "order")
    honest.start()
    said = next(send for send in cheater.start() if send.to == 1)
    aborted, *notices = honest.receive(2, said.data[:-1])
    assert isinstance(aborted, Aborted)
    assert [notice.kind for notice in notices] == ["AbortNotice"] * 2


def test_a_stored_session_of_a_discarded_pair_does_not_come_back():
    """In a process that has never seen the failed check, either."""
    shares = keys("secp256k1", name="stored")
    party = sign_party(shares[1], "stored")
    party.start()
    snapshot = party.snapshot()
    resumed, _ = Party.resume(ECDSA, snapshot, share=shares[1])
    assert resumed.waiting_state() == party.waiting_state()
    stored = shares[1].without_multiplication(2).to_bytes()
    for _ in range(2):
        late, outputs = Party.resume(ECDSA, snapshot, share=KeyShare.from_bytes(stored))
        peer = sign_party(shares[2], "stored")
        local = LocalRun([late, peer])
        local.replace_party(late, outputs)
        local.replace_party(peer, peer.start())
        assert local.finish()[1].reason is Reason.SETUP_DISCARDED
        shares[1].guard.discarded = frozenset()
    with pytest.raises(UsageError, match="another share"):
        Party.resume(ECDSA, snapshot, share=keys("secp256k1", name="another")[1])
    with pytest.raises(InvalidEncoding, match="damaged"):
        damaged = snapshot[:60] + bytes([snapshot[60] ^ 1]) + snapshot[61:]
        Party.resume(ECDSA, damaged, share=shares[1])


def test_shares_loaded_again_and_again_have_one_guard():
    shares = keys("secp256k1", name="loaded")
    stored = shares[1].to_bytes()
    outcomes = []
    runs = []
    for n in range(3):
        honest = sign_party(KeyShare.from_bytes(stored), f"loaded {n}")
        cheater = Adversary(sign_party(shares[2], f"loaded {n}"), alter_kind("Offer", flip_u))
        runs.append(LocalRun([honest, cheater]))
        runs[-1].start()
    outcomes = [local.finish()[1].reason for local in runs]
    assert outcomes == [Reason.OT_EXTENSION_CHECK] + [Reason.SETUP_DISCARDED] * 2
    # A replay of what was refused is refused again, and one of what was done is done again.
    for local in runs:
        party = local.parties[1]
        resumed, _ = Party.resume(ECDSA, party.snapshot(), share=KeyShare.from_bytes(stored))
        assert resumed.outcome == party.outcome
        assert resumed.snapshot() == party.snapshot()


# ------------------------------------------------------------------ rollback


def test_a_party_rolled_back_draws_other_randomness_when_it_receives_something_else():
    """Or the proof of knowledge would use one nonce for two challenges and give a_0 away."""
    agreed = dkg.setup("ed25519", 2, (1, 2, 3))

    def fresh(i, seed):
        return dkg.party(agreed, i, session_id=bytes(32), rng=SeededRng(f"{i} {seed}"))

    party = fresh(1, "a")
    party.start()
    snapshot = party.snapshot()
    proofs, envelopes = [], []
    for seed in ("a", "b"):
        copy, _ = Party.resume(DKG, snapshot)
        for j in (2, 3):
            for send in fresh(j, seed).start():
                if send.to == 1:
                    outputs = copy.receive(j, send.data)
        reveal = copy.inbox.own[next(k for k in copy.inbox.own if k.__name__ == "Reveal")][1]
        proofs.append(reveal.proof)
        envelopes.append(outputs)
    assert proofs[0].R != proofs[1].R
    assert envelopes[0] != envelopes[1]


# ------------------------------------------------------------------ a relay between the parties


def relay(parties, change):
    """Run with a relay that may change any envelope."""
    local = LocalRun(parties)
    local.start()
    while local.in_flight:
        message = local.in_flight[0]
        envelope = Envelope.decode(message.send.data)
        altered = change(message, envelope)
        if altered is not None:
            send = replace(message.send, data=altered.encode())
            local.in_flight[0] = replace(message, send=send)
        local.deliver()
    return local.outcomes()


def test_a_relay_that_swaps_base_ot_points_is_noticed_before_the_key_is_used():
    def swap(message, envelope):
        if message.send.kind != "MultiplicationOffer" or message.sender != 1:
            return None
        half = len(envelope.body) // 2
        return replace(envelope, body=envelope.body[half:] + envelope.body[:half])

    outcomes = relay(dkg_parties("secp256k1", (1, 2), "swap"), swap)
    assert outcomes[1].reason is Reason.ECHO_MISMATCH
    assert not outcomes[1].culprits
    assert outcomes[1].suspects == {2}


def test_a_relay_cannot_touch_what_dealers_tell_each_other():
    parties = [reshare_party(i, "dealers", receivers=(2, 3)) for i in (2, 3)]
    kinds = set()

    def flip(message, envelope):
        kinds.add((message.send.kind, envelope.sealed))
        return replace(envelope, body=envelope.body[:-1] + bytes([envelope.body[-1] ^ 1]))

    for outcome in relay(parties, flip).values():
        assert isinstance(outcome, Waiting)
        assert len(outcome.unopened) == 1
    assert kinds == {("Commit", True)}


def test_all_of_whom_nothing_opens_are_told() -> None:
    waiting = Waiting(2, "deal", {"Deal": frozenset({8, 1})}, frozenset({8, 1}))
    told = "for Deal from 1, 8 (messages in the name of 1, 8 do not open"
    assert told in str(waiting)


# ------------------------------------------------------------------ two phases


def test_a_report_of_an_abort_does_not_end_a_prepared_party():
    """Party 3 confirms to 1 and 2 alike, then tells 2 that it gave up: 2 must finish like 1."""
    local = all_prepared("two-faced")
    two = local.parties[2]
    notice = local.parties[3]._pack(255, 2, b"\0\0\0\x09MALFORMED", sealed=True)
    assert two.receive(3, notice) == []
    assert two.waiting_state().gave_up == {3: "an unknown reason"}
    assert "party 3 reports" in str(two.waiting_state())
    size = len(two.snapshot())
    for _ in range(20):  # replayed by the network: nothing grows
        assert two.receive(3, notice) == []
    assert len(two.snapshot()) == size
    assert all(isinstance(outcome, Done) for outcome in local.finish().values())


def test_a_second_first_message_does_not_end_a_prepared_party():
    """A peer that lost its state begins anew under the same session name, in vain."""
    local = all_prepared("anew")
    for send in reshare_party(1, "again").start():
        assert local.parties[send.to].receive(1, send.data) == []
    assert all(isinstance(outcome, Done) for outcome in local.finish().values())


def test_an_abort_after_the_first_phase_says_so():
    parties = [reshare_party(i, "late") for i in (1, 2, 3)]
    parties[2] = Adversary(
        parties[2], alter_kind("Confirm", lambda m: replace(m, digest=bytes(32)), {2})
    )
    outcomes = run(parties)
    assert outcomes[2].reason is Reason.CONFIRMATION_MISMATCH
    assert outcomes[2].prepared
    assert not Aborted(Reason.CONFIRMATION_MISMATCH, InRound(5, "activate")).prepared


def test_prepared_comes_before_the_confirmation_goes_out():
    a, b = (reshare_party(i, "order", receivers=(2, 3)) for i in (2, 3))
    to_b, to_a = a.start(), b.start()
    while a.outcome is None:
        new_b = [o for s in to_a if hasattr(s, "data") for o in a.receive(3, s.data)]
        kinds = [type(o) if isinstance(o, Prepared) else getattr(o, "kind", None) for o in new_b]
        if Prepared in kinds:
            assert kinds.index(Prepared) < kinds.index("Confirm")
        to_a = [o for s in to_b if hasattr(s, "data") for o in b.receive(2, s.data)]
        to_b = new_b


# ------------------------------------------------------------------ stored records


def test_damaged_shares_are_refused():
    data = keys("secp256k1")[1].to_bytes()
    for at in range(0, len(data), 97):
        damaged = bytearray(data)
        damaged[at] ^= 1
        with pytest.raises(InvalidEncoding):
            KeyShare.from_bytes(bytes(damaged))


def test_inconsistent_records_are_refused():
    record = keys("ed25519")[1].record
    G = record.group.base(record.group.scalar(1))
    moved = {**record.public_shares, 3: record.public_shares[3] + G}
    for bad, text in [
        (replace(record, public_shares=moved), "one polynomial"),
        (replace(record, public_key=record.public_key + G), "interpolate"),
        (replace(record, threshold=3), "fewer shares"),
        (replace(record, threshold=1), "out of range"),
        (replace(record, threshold=4), "out of range"),
    ]:
        with pytest.raises(InvalidEncoding, match=text):
            PublicKeyRecord.from_bytes(bad.to_bytes())
        with pytest.raises(UsageError, match=text):
            Party(
                RESHARE,
                reshare.ReshareSetup(bad, (2, 3), (1, 2, 3), 2, ""),
                1,
                session_id=bytes(32),
            )
