"""Presigning, and signing with what it made: honest runs, judged by libsecp256k1."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from mpcsim.crypto import SeededRng
from mpcsim.errors import InvalidEncoding, UsageError
from mpcsim.protocols import LocalRun, ecdsa, keys, presign, presigned, results, run, session_id
from mpcsim.protocols.engine import Party
from mpcsim.protocols.presign import Presignature, presignature
from mpcsim.protocols.presign.presignature import Use
from mpcsim.protocols.presigned import PRESIGNED
from mpcsim.protocols.sample_keys import as_unused, presignatures
from tests.helpers.reviewed import check_calls
from tests.helpers.sessions import check_ecdsa, presigning_parties

DIGEST, RHO = bytes(range(32)), bytes(reversed(range(32)))
QUORUMS = [ids for size in (2, 3) for ids in combinations((1, 2, 3), size)]


def signers_with(shares, parts, finisher, digest=DIGEST, rho=RHO, label="presigned", path=()):
    return [
        presigned.party(
            presigned.setup(shares[i], as_unused(part), finisher, digest, rho, path=path),
            session_id=session_id(label),
            rng=SeededRng(f"{label} {i}"),
        )
        for i, part in parts.items()
    ]


def sign(shares, parts, finisher, digest=DIGEST, rho=RHO):
    found = results(run(signers_with(shares, parts, finisher, digest, rho)))
    assert [i for i, result in found.items() if result is not None] == [finisher]
    return found[finisher]


@pytest.mark.parametrize("signers", QUORUMS, ids=str)
def test_every_quorum_signs_whoever_finishes(signers):
    shares = keys("secp256k1")
    parts = presignatures(2, 3, signers, count=len(signers))
    for k, finisher in enumerate(signers):
        signature = sign(shares, {i: part[k] for i, part in parts.items()}, finisher)
        check_ecdsa(shares[1].public_key.encode(), {finisher: signature}, DIGEST)


def test_paths_that_lead_nowhere():
    shares = keys("secp256k1")
    part = as_unused(presignatures(2, 3, (1, 2))[1][0])
    for path in ((2**31,), (0,) * 11, (-1,)):
        with pytest.raises(UsageError):
            presigned.setup(shares[1], part, 1, DIGEST, RHO, path=path)


def test_no_two_parts_are_alike():
    parts = presignatures(2, 3, (1, 2, 3), count=2)
    for names, count in ((("id", "R"), 4), (("phi_i", "u_i", "v_i", "rho_i", "blinding"), 30)):
        every = [getattr(p, name) for part in parts.values() for p in part for name in names]
        assert len(set(every)) == count


def test_with_three_signers_those_who_answer_show_each_other_their_part_first():
    shares = keys("secp256k1")
    parts = {i: part[0] for i, part in presignatures(2, 3, (1, 2, 3)).items()}
    online = LocalRun(signers_with(shares, parts, finisher=2))
    online.start()
    assert {(m.sender, m.send.to, m.send.kind) for m in online.in_flight} == {
        (1, 3, "Open"),
        (3, 1, "Open"),
    }
    results(online.finish())
    assert online.delivered == 4


# ---------------------------------------------------------------------- what is kept


def test_stored_and_loaded():
    part = presignatures(2, 3, (1, 2))[1][0]
    data = part.to_bytes()
    assert Presignature.from_bytes(data) == part
    assert len(data) < 400
    for damaged in (data[:-1], data + b"\0", b"\x7f" + data[1:], b""):
        with pytest.raises(InvalidEncoding):
            Presignature.from_bytes(damaged)
    for other in (
        replace(part, signers=(1, 3)),
        replace(part, signers=(2, 1)),
        replace(part, holder=2),
        replace(part, commitments={}),
    ):
        with pytest.raises(InvalidEncoding, match="do not fit"):
            Presignature.from_bytes(other.to_bytes())


# ---------------------------------------------------------------------- single use


@pytest.mark.parametrize("finisher", [1, 2], ids=["who answers", "who finishes"])
def test_a_presignature_is_used_once(finisher):
    shares = keys("secp256k1")
    mine = results(run(presigning_parties(shares, (1, 2), 1, f"once {finisher}")))[2][0]

    def signer(presignature: Presignature) -> Party:
        agreed = presigned.setup(shares[2], presignature, finisher, DIGEST, RHO)
        return presigned.party(agreed, session_id=bytes(32))

    early, late = signer(mine), signer(mine)  # before either has begun
    early.start()
    with pytest.raises(UsageError, match="has been used"):
        late.start()
    for again in (mine, Presignature.from_bytes(mine.to_bytes())):
        with pytest.raises(UsageError, match="has been used"):
            signer(again)
    resumed, outputs = Party.resume(PRESIGNED, early.snapshot())
    sent = [o.kind for o in outputs if hasattr(o, "kind")]
    assert sent == (["Answer"] if finisher == 1 else [])
    assert resumed.outcome == early.outcome


def test_using_it_up_is_remembered_beyond_the_object(monkeypatch):
    monkeypatch.setattr(presignature, "REMEMBERED", 9)
    use = Use.of(b"\5" * 32, 1)
    use.spend()
    del use
    assert Use.of(b"\5" * 32, 1).spent
    assert not Use.of(b"\5" * 32, 2).spent
    for n in range(8):
        Use.of(n.to_bytes(32, "big"), 9).spend()
    assert Use.of(b"\5" * 32, 1).spent
    Use.of(b"\6" * 32, 9).spend()
    assert not Use.of(b"\5" * 32, 1).spent


@pytest.mark.parametrize("finisher", [1, 2], ids=["who answers", "who finishes"])
def test_a_resumed_session_uses_its_presignature_up_in_the_new_process(finisher):
    shares = keys("secp256k1")
    mine = results(run(presigning_parties(shares, (1, 2), 1, f"elsewhere {finisher}")))[2][0]
    agreed = presigned.setup(shares[2], as_unused(mine), finisher, DIGEST, RHO)
    party = presigned.party(agreed, session_id=bytes(32))
    party.start()  # in a process that does not tell this one
    assert not mine.use.spent
    Party.resume(PRESIGNED, party.snapshot())
    assert mine.use.spent


# ---------------------------------------------------------------------- usage


def test_usage_errors_of_presigning():
    shares, discarded = keys("secp256k1"), keys("secp256k1")[1]
    discarded.guard.discard(2)
    names = {"SHARES": shares, "ED": keys("ed25519"), "DISCARDED": discarded}
    names |= {"EPOCH": shares[1].record.epoch, "AUTH_KEYS": shares[1].auth_keys((1, 2))}
    check_calls(Path(__file__).with_name("wrong_setups.txt"), presign, **names)


def test_usage_errors_of_signing():
    part = as_unused(presignatures(2, 3, (1, 2))[1][0])
    names = {"SHARES": keys("secp256k1"), "OTHER": keys("secp256k1", name="another"), "PART": part}
    names |= {"DIGEST": DIGEST, "RHO": RHO, "replace": replace}
    check_calls(Path(__file__).with_name("wrong_uses.txt"), presigned, **names)


def test_an_envelope_larger_than_those_of_its_protocol_is_ignored():
    shares = keys("secp256k1")
    agreed = ecdsa.setup(shares[1], (1, 2), DIGEST)
    why = []

    def listener(event):
        if hasattr(event, "why"):
            why.append(event.why.name)

    party = ecdsa.party(agreed, session_id=bytes(32), listener=listener)
    party.start()
    party.receive(2, b"\1\2\1\1\0\2\0\1" + bytes(32) + bytes(1 << 17))
    assert why == ["TOO_LARGE"]
    party.receive(2, b"\1\2\1\1\0\2\0\1" + bytes(32) + bytes((1 << 17) - 40))
    assert why == ["TOO_LARGE", "DOES_NOT_OPEN"]
