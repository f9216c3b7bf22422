"""Resharing: the key stays, the shares change, and no crash point strands the key."""

from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.crypto import SeededRng
from mpcsim.crypto.groups import ED25519
from mpcsim.errors import Reason
from mpcsim.protocols import LocalRun, keys, reshare, results, run, session_id
from mpcsim.protocols.engine import Done, Party
from mpcsim.protocols.reshare import RESHARE, definition
from tests.helpers.reviewed import check_calls
from tests.helpers.sessions import reassemble, signing_parties
from tests.helpers.tiers import examples


def parties(shares, dealers, receivers=None, threshold=None, label="reshare"):
    record = next(iter(shares.values())).record
    everyone = sorted({*dealers, *(receivers or record.holders)})
    return [
        reshare.party(
            reshare.setup(
                record,
                dealers,
                share=shares.get(i) if i in dealers else None,
                receivers=receivers,
                threshold=threshold,
            ),
            i,
            session_id=session_id(label),
            rng=SeededRng(f"{label} {i}"),
        )
        for i in everyone
    ]


@pytest.mark.few(2)
@pytest.mark.parametrize("curve", ["secp256k1", "ed25519"])
@pytest.mark.parametrize("dealers", [(2, 3), (1, 2), (1, 2, 3)], ids=str)
def test_refresh_keeps_the_key_and_changes_every_share(curve, dealers):
    old = keys(curve)
    new = results(run(parties(old, dealers)))
    assert set(new) == {1, 2, 3}
    for i, share in new.items():
        assert share.record.public_key == old[i].record.public_key
        assert share.record.chain_code == old[i].record.chain_code
        assert share.record.epoch != old[i].record.epoch
        assert share.secret_share != old[i].secret_share
        assert share.peers != old[i].peers
    for quorum in combinations((1, 2, 3), 2):
        assert reassemble({i: new[i] for i in quorum}) == reassemble(dict(old))


def test_a_lost_share_is_replaced():
    """Party 1 brings nothing but the public record, and can sign afterwards."""
    old = keys("ed25519")
    made = parties({2: old[2], 3: old[3]}, (2, 3))
    new = results(run(made))
    signed = results(run(signing_parties(new, (1, 2), b"back again")))
    assert len(set(signed.values())) == 1


@examples(6)
@given(st.data())
def test_other_holders_other_threshold(data):
    old = keys("ed25519", 2, 3)
    dealers = tuple(data.draw(st.sampled_from([(1, 2), (1, 3), (2, 3), (1, 2, 3)])))
    receivers = tuple(
        sorted(data.draw(st.sets(st.integers(1, 8), min_size=2, max_size=5), "receivers"))
    )
    threshold = data.draw(st.integers(2, len(receivers)), "threshold")
    outcomes = results(run(parties(dict(old), dealers, receivers, threshold)))
    new = {i: share for i, share in outcomes.items() if share is not None}
    assert set(new) == set(receivers)
    assert set(outcomes) == set(receivers) | set(dealers)
    key = reassemble(dict(old))
    ids = data.draw(st.permutations(receivers), "quorum")
    assert reassemble({i: new[i] for i in ids[:threshold]}) == key
    assert reassemble({i: new[i] for i in ids[: threshold - 1]}) != key


def test_no_crash_point_leaves_too_few_matching_shares():
    """Whoever is done has dropped its old share; then everybody must hold the new one."""
    old = keys("ed25519")
    total = 0
    while True:
        local = LocalRun(parties(old, (2, 3)))
        local.start()
        for _ in range(total):
            if local.in_flight:
                local.deliver()
        dropped = {i for i, p in local.parties.items() if isinstance(p.outcome, Done)}
        holds_old = {2, 3} - dropped
        holds_new = set(local.prepared)
        assert len(holds_old) >= 2 or len(holds_new) == 3
        # After the crash of everyone, those who come back finish from their snapshots.
        again = LocalRun(local.parties.values())
        for party in local.parties.values():
            again.replace_party(*Party.resume(RESHARE, party.snapshot()))
        new = results(again.finish())
        assert len({share.record.to_bytes() for share in new.values()}) == 1
        if not local.in_flight:
            break
        total += 1
    assert total > 10


def party(agreed, me):
    reshare.party(agreed, me, session_id=bytes(32))


def test_a_setup_made_by_hand_is_checked_all_the_same():
    shares = keys("ed25519")

    def made(**changes):
        fields = {"dealer_ids": (2, 3), "receiver_ids": (1, 2, 3), "threshold": 2, "scheme": ""}
        return reshare.ReshareSetup(shares[1].record, **{**fields, "share": shares[2], **changes})

    other = keys("ed25519", name="another")
    check_calls(Path(__file__).with_name("made_by_hand.txt"), party=party, made=made, OTHER=other)


def test_a_shifted_key_is_noticed_even_if_the_record_is_not_sound(monkeypatch):
    """Records are checked before a session begins; without that, the result is compared."""
    monkeypatch.setattr(definition, "check_record", lambda record: None)
    shares = dict(keys("ed25519"))
    one = ED25519.scalar(1)
    record = shares[1].record
    moved = {**record.public_shares, 3: record.public_shares[3] + ED25519.base(one)}
    unsound = replace(record, public_shares=moved)
    shares[3] = replace(shares[3], secret_share=shares[3].secret_share + one)
    parties = [
        Party(
            RESHARE,
            reshare.ReshareSetup(
                unsound,
                (1, 3),
                (1, 2, 3),
                2,
                "",
                replace(shares[i], record=unsound) if i != 2 else None,
            ),
            i,
            session_id=bytes(32),
        )
        for i in (1, 2, 3)
    ]
    # Setups decode their records, so snapshots of such parties are refused; running them is not.
    outcomes = run(parties)
    assert {o.reason for o in outcomes.values()} <= {
        Reason.PUBLIC_KEY_MISMATCH,
        Reason.PEER_ABORTED,
    }
    assert any(o.reason is Reason.PUBLIC_KEY_MISMATCH for o in outcomes.values())
    assert not any(o.culprits for o in outcomes.values())


def test_usage_errors():
    shares, other = keys("ed25519"), keys("ed25519", name="another")
    names = {"setup": partial(reshare.setup, shares[1].record), "party": party}
    check_calls(Path(__file__).with_name("wrong_setups.txt"), **names, SHARES=shares, OTHER=other)
