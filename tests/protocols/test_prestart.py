"""A first message that is said before the share is there, by the client or by somebody else.

Whoever has a client's ``secret_store`` has the key that early messages are sealed with, and no
share. So no check of any round names a client for what opened early.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from mpcsim.crypto import SystemRng
from mpcsim.errors import Aborted, Reason, UsageError
from mpcsim.ids import CLIENT, OPERATOR
from mpcsim.protocols import ecdsa, frost, keys, presign, signing
from mpcsim.protocols.engine import Envelope, Party, Send
from mpcsim.protocols.engine.channel import seal
from mpcsim.protocols.engine.prestart import FIRST_KIND
from mpcsim.testing.runs.fields import alterations, malformations
from tests.helpers.adversary import Adversary, alter_kind

PAIR = (CLIENT, OPERATOR)
CURVES = ("secp256k1", "ed25519")


def early(curve, message=bytes(32), epoch=None):
    share = keys(curve)[CLIENT]
    return signing.prestart(
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
    assert early(curve).party(share).definition is signing.protocol_of_curve(curve)
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
def test_it_resumes_with_the_same_nonces(curve):
    share = keys(curve)[CLIENT]
    party = early(curve).party(share)
    again, (said,) = Party.resume(party.definition, party.snapshot(), share=share)
    assert said.to == OPERATOR
    assert again.inbox.own == party.inbox.own
    assert again.snapshot() == party.snapshot()


@pytest.mark.parametrize("curve", CURVES)
def test_no_mpc_node_speaks_early(curve):
    """Whoever has the client's store has those keys, too, and could speak in its name."""
    held, definition = keys(curve), signing.protocol_of_curve(curve)
    party = early(curve).party(held[CLIENT])
    plain = Envelope(definition.number, FIRST_KIND, True, OPERATOR, CLIENT, bytes(32), b"?")
    party.receive(
        OPERATOR, seal(held[OPERATOR].auth_key(CLIENT), plain, b"?", SystemRng()).encode()
    )
    assert party.outcome is None
    assert party.waiting_state().unopened == {OPERATOR}


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


def test_a_share_that_cannot_be_used():
    share = keys("secp256k1")[CLIENT]
    begun = early("secp256k1")
    mine = replace(share, guard=type(share.guard)())
    mine.guard.discard(OPERATOR)
    with pytest.raises(UsageError, match="discarded after an attack"):
        begun.party(mine)


# ---------------------------------------------------------------------- nobody is named for it


SID = b"s" * 32


def operator(name: str) -> Party:
    """The operator's party of one session of each protocol that has early messages."""
    held = keys("ed25519" if name == "frost" else "secp256k1")[OPERATOR]
    match name:
        case "ecdsa":
            return ecdsa.party(ecdsa.setup(held, PAIR, bytes(32)), session_id=SID)
        case "presign":
            return presign.party(presign.setup(held, PAIR, 2), session_id=SID)
        case "frost":
            return frost.party(frost.setup(held, PAIR, b"message"), session_id=SID)
    raise AssertionError(name)


def honest_first(name: str):
    """The client's first message, as the client itself says it."""
    party = operator(name)
    share = keys("ed25519" if name == "frost" else "secp256k1")[CLIENT]
    mine = Party(
        party.definition, replace(party.setup, share=share), CLIENT, session_id=SID, rng=SystemRng()
    )
    mine.start()
    ((_, message),) = mine.inbox.own.values()
    return mine, message


def sealed_early(party: Party, payload: bytes) -> bytes:
    """A first message of the client's, sealed by whoever has its ``secret_store``."""
    plain = Envelope(party.definition.number, FIRST_KIND, True, CLIENT, OPERATOR, SID, payload)
    return seal(party.share.auth_key(CLIENT), plain, payload, SystemRng()).encode()


NAMES = ("ecdsa", "presign", "frost")


def spoiled(name: str):
    """Every way in which the first message can be wrong in one field, as bytes."""
    mine, message = honest_first(name)
    for each in alterations(message, mine.wire):
        yield each.name, each.apply(message).encode(mine.wire)
    for each in malformations(message, mine.wire):
        yield each.name, each.apply(message)


@pytest.mark.parametrize("first", [True, False], ids=["before the start", "after the start"])
@pytest.mark.parametrize("name", NAMES)
def test_no_field_of_an_early_message_convicts_the_client(name, first):
    """The operator may end the session: it names nobody, and so keeps the key in use."""
    ended = 0
    for field, payload in spoiled(name):
        party = operator(name)
        outputs = [] if first else party.start()
        outputs += party.receive(CLIENT, sealed_early(party, payload))
        outputs += party.start() if first else []
        for aborted in (each for each in outputs if isinstance(each, Aborted)):
            ended += 1
            assert not aborted.culprits | aborted.suspects, (field, aborted)
            assert not aborted.evidence
            assert party.share.after_abort(aborted) == party.share
    assert ended


@pytest.mark.parametrize("name", NAMES)
def test_a_second_early_message_convicts_nobody_either(name):
    mine, message = honest_first(name)
    party = operator(name)
    party.start()
    party.receive(CLIENT, sealed_early(party, message.encode(mine.wire)))
    _, other = honest_first(name)
    for each in party.receive(CLIENT, sealed_early(party, other.encode(mine.wire))):
        if isinstance(each, Aborted):
            assert not each.culprits | each.suspects


def test_a_client_that_has_sealed_with_the_pair_secret_is_named():
    """What is wrong then is its own: the first message may have come early, or not."""
    mine, message = honest_first("ecdsa")
    party = operator("ecdsa")
    party.start()
    party.receive(CLIENT, sealed_early(party, message.encode(mine.wire)))
    offer = party.definition.kinds()[1][1]
    assert offer.kind == "Offer"
    plain = Envelope(party.definition.number, 2, True, CLIENT, OPERATOR, SID, b"")
    wrong = seal(mine.pair_secrets[OPERATOR], plain, b"nonsense", SystemRng()).encode()
    (aborted,) = [each for each in party.receive(CLIENT, wrong) if isinstance(each, Aborted)]
    assert aborted.culprits == {CLIENT}


@pytest.mark.parametrize("late", [False, True], ids=["first message first", "first message last"])
def test_a_failed_ot_check_names_the_client_in_whatever_order_it_speaks(late):
    """Or it could guess again after each restart of the operator, whose store would not know."""
    mine, message = honest_first("ecdsa")
    party = operator("ecdsa")
    guess = alter_kind(
        "Offer", lambda offer: replace(offer, offer=replace(offer.offer, t=bytes(32)))
    )
    (send,) = (each for each in party.start() if isinstance(each, Send))
    (offer,) = Adversary(mine, guess).receive(OPERATOR, send.data)
    mail = [sealed_early(party, message.encode(mine.wire)), offer.data]
    outputs = [each for data in mail[:: -1 if late else 1] for each in party.receive(CLIENT, data)]
    (aborted,) = (each for each in outputs if isinstance(each, Aborted))
    assert aborted.reason is Reason.OT_EXTENSION_CHECK
    assert aborted.culprits == {CLIENT}
    assert party.share.after_abort(aborted).peers[CLIENT].multiplication is None
