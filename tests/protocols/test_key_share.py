"""Stored shares: every way in which one can be wrong is refused with a reason."""

from dataclasses import replace

import pytest

from mpcsim.crypto.mta.schemes import mta_scheme
from mpcsim.errors import Aborted, InRound, InvalidEncoding, Reason, UsageError
from mpcsim.protocols import key_share as keyshare
from mpcsim.protocols import keys
from mpcsim.protocols.key_share import Guard, KeyShare, PublicKeyRecord


def stored(content: bytes) -> bytes:
    """Content with a checksum that fits."""
    return content + keyshare.tagged_hash(keyshare.Tag.STORED, content)[:8]


def wrong_shares():
    secp, ed = keys("secp256k1")[1], keys("ed25519")[1]
    one = ed.group.scalar(1)
    yield replace(ed, secret_share=ed.secret_share + one), "does not match its public share"
    yield replace(ed, identifier=7), "not in its record"
    moved = replace(ed.record, public_key=ed.public_key + ed.public_key)
    yield replace(ed, record=moved), "do not interpolate to the public key"
    yield replace(ed, peers={2: ed.peers[2]}), "does not cover the other holders"
    yield replace(ed, peers={**ed.peers, 9: ed.peers[2]}), "does not cover the other holders"
    yield replace(ed, mta=mta_scheme("ot/80")), "scheme and curve do not fit"
    yield (
        replace(
            secp,
            mta=None,
            peers={j: replace(p, multiplication=None) for j, p in secp.peers.items()},
        ),
        "scheme and curve do not fit",
    )


def test_what_is_discarded_outlives_the_shares(monkeypatch):
    """If somebody can ask for it by name."""
    monkeypatch.setattr(Guard, "_kept", {})
    Guard().discard(2)
    assert Guard._kept == {}
    Guard.of(b"epoch", 1).discard(2)
    assert Guard.of(b"epoch", 1).discarded == {2}
    monkeypatch.setattr("mpcsim.protocols.key_share.MAX_DISCARDED", 2)
    for later in (b"second", b"third"):
        Guard.of(later, 1).discard(2)
    discarded = [Guard.of(each, 1).discarded for each in (b"epoch", b"second", b"third")]
    assert discarded == [set(), {2}, {2}]


@pytest.mark.parametrize(("share", "text"), list(wrong_shares()), ids=lambda v: str(v)[:30])
def test_wrong_shares(share, text):
    with pytest.raises(InvalidEncoding, match=text):
        KeyShare.from_bytes(share.to_bytes())


def test_wrong_headers():
    share = keys("secp256k1")[1]
    content = share.to_bytes()[:-8]
    name = content.index(b"secp256k1")
    scheme = content.index(b"ot/80")
    for bad, text in [
        (b"\2" + content[1:], "version 2, expected 1"),
        (content[:name] + b"nistp256k" + content[name + 9 :], "unknown curve"),
        (content[:name] + b"\xff" * 9 + content[name + 9 :], "unknown curve"),
        (content[:scheme] + b"ot/99" + content[scheme + 5 :], "scheme is not known: lambda_s"),
        (content[:scheme] + b"ot\xff80" + content[scheme + 5 :], "scheme has no name"),
        (content + b"\0", "trailing"),
        (b"", "truncated"),
    ]:
        with pytest.raises(InvalidEncoding, match=text):
            KeyShare.from_bytes(stored(bad))
    record = keys("ed25519")[1].record
    other = replace(record, curve_name="secp256k1")
    data = record.to_bytes()[:9] + other.encode(None)[:0] + record.to_bytes()[9:]
    assert PublicKeyRecord.from_bytes(data) == record
    inner = record.to_bytes()[:-8].replace(b"\0\0\0\x07ed25519", b"\0\0\0\x07ed25518")
    with pytest.raises(InvalidEncoding, match="curve name"):
        PublicKeyRecord.from_bytes(stored(inner))


def test_the_share_after_an_abort():
    share = keys("secp256k1")[1]
    with pytest.raises(UsageError, match="not a peer"):
        share.without_multiplication(9)
    after = share.after_abort(
        Aborted(Reason.OT_EXTENSION_CHECK, InRound(3, "respond"), frozenset({2, 3}))
    )
    assert KeyShare.from_bytes(after.to_bytes()) == after
    assert not any(after.can_multiply(j) for j in (2, 3))
    assert "redacted" in repr(share)
    assert str(share.secret_share.n) not in repr(share)


def test_so_many_records_are_remembered_as_consistent(monkeypatch):
    known = set()
    monkeypatch.setattr(keyshare, "_KNOWN_CONSISTENT", known)
    monkeypatch.setattr(keyshare, "KNOWN_RECORDS", 2)
    counts = []
    for curve, holders in (("secp256k1", 2), ("secp256k1", 2), ("ed25519", 2), ("ed25519", 3)):
        PublicKeyRecord.from_bytes(keys(curve, 2, holders)[1].record.to_bytes())
        counts.append(len(known))
    assert counts == [1, 1, 2, 1]


def test_a_share_of_another_shape_is_refused_before_it_is_computed_with(monkeypatch):
    """Seal keys are public: a share may name 256 holders, and checking that takes seconds."""

    def not_reached(*arguments):
        raise AssertionError("the record was checked")

    data = keys("ed25519", 3, 5)[1].to_bytes()
    monkeypatch.setattr(keyshare, "_consistent", not_reached)
    with pytest.raises(InvalidEncoding, match="holders"):
        KeyShare.from_bytes(data, shape=(2, (1, 2, 3)))
