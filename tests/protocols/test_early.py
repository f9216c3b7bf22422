"""A first message that is said before the share is there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mpcsim.errors import UsageError
from mpcsim.ids import CLIENT, OPERATOR
from mpcsim.protocol.channel import seal
from mpcsim.protocol.early import FIRST_KIND
from mpcsim.protocol.envelope import Envelope
from mpcsim.protocols import presign, signing
from mpcsim.rng import SystemRng
from mpcsim.sample_keys import keys

PAIR = (CLIENT, OPERATOR)
CURVES = ("secp256k1", "ed25519")


def early(curve, message=bytes(32), epoch=None):
    share = keys(curve)[CLIENT]
    return signing.early(
        curve,
        share.record.epoch if epoch is None else epoch,
        PAIR,
        message,
        me=CLIENT,
        auth_keys=share.auth_keys(PAIR),
        session_id=bytes(32),
    )


@pytest.mark.parametrize("curve", CURVES)
def test_what_it_was_not_about(curve):
    share = keys(curve)[CLIENT]
    assert early(curve).party(share).definition is signing.of_curve(curve)
    with pytest.raises(UsageError, match="the first message was about something else"):
        early(curve, epoch=b"another epoch".ljust(32)).party(share)


@pytest.mark.parametrize("curve", CURVES)
def test_it_becomes_one_party_only(curve):
    """Two would sign with the same nonces."""
    share, begun = keys(curve)[CLIENT], early(curve)
    begun.party(share)
    with pytest.raises(UsageError, match="has been made"):
        begun.party(share)


@pytest.mark.parametrize("curve", CURVES)
def test_no_mpc_node_speaks_early(curve):
    """Whoever has the client's store has those keys, too, and could speak in its name."""
    held, definition = keys(curve), signing.of_curve(curve)
    party = early(curve).party(held[CLIENT])
    plain = Envelope(definition.number, FIRST_KIND, True, OPERATOR, CLIENT, bytes(32), b"?")
    party.receive(
        OPERATOR, seal(held[OPERATOR].auth_key(CLIENT), plain, b"?", SystemRng()).encode()
    )
    assert party.outcome is None
    assert party.waiting().unopened == {OPERATOR}


@pytest.mark.parametrize(
    ("curve", "message", "why"),
    [
        ("secp256k1", bytes(31), "message hash of 31 bytes, expected 32"),
        ("ed25519", bytes((1 << 16) + 1), "message of 65537 bytes; at most"),
    ],
)
def test_what_cannot_be_signed_is_seen_at_once(curve, message, why):
    with pytest.raises(UsageError, match=why):
        early(curve, message)


@pytest.mark.parametrize("count", [0, 65])
def test_how_many_presignatures_there_can_be_is_seen_at_once(count):
    share = keys("secp256k1")[CLIENT]
    with pytest.raises(UsageError, match=f"{count} presignatures; a session makes 1 to 64"):
        presign.early(
            share.record.epoch,
            PAIR,
            count,
            me=CLIENT,
            auth_keys=share.auth_keys(PAIR),
            session_id=bytes(32),
        )


def test_a_share_that_cannot_be_used():
    share = keys("secp256k1")[CLIENT]
    begun = early("secp256k1")
    mine = replace(share, guard=type(share.guard)())
    mine.guard.discard(OPERATOR)
    with pytest.raises(UsageError, match="discarded after an attack"):
        begun.party(mine)
