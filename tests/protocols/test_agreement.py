"""Set-ups that differ: each agreed value alone gives the right reason, and nobody is named."""

from dataclasses import fields, replace

import pytest

from mpcsim.errors import Aborted, Reason
from mpcsim.protocols import keys, run
from mpcsim.protocols.dkg import DEFAULT_MTA
from mpcsim.protocols.engine import Party
from tests.helpers.sessions import DEFINITIONS, session

OTHER_SCHEME = "ot/128"


def record(setup, **changes):
    return {"record": replace(setup.record, **changes)}


def share(setup, **changes):
    return {"share": replace(setup.share, record=replace(setup.share.record, **changes))}


def presignature(setup, **changes):
    return {"presignature": replace(setup.presignature, **changes)}


DIFFERENCES = {
    "dkg-secp256k1": {
        "curve_name": lambda setup: {"curve_name": "ed25519", "scheme": ""},
        "threshold": lambda setup: {"threshold": 3},
        "parties": lambda setup: {"parties": (1, 2, 3, 4)},
        "scheme": lambda setup: {"scheme": OTHER_SCHEME},
    },
    "reshare-ed25519": {
        "record": lambda setup: record(setup, epoch=bytes(32)) | share(setup, epoch=bytes(32)),
        "dealer_ids": lambda setup: {"dealer_ids": (1, 2, 3)},
        "receiver_ids": lambda setup: {"receiver_ids": (1, 2, 3, 4)},
        "threshold": lambda setup: {"threshold": 3},
        "share": None,  # each has its own
    },
    "reshare-secp256k1": {
        "record": lambda setup: (
            record(setup, chain_code=bytes(32)) | share(setup, chain_code=bytes(32))
        ),
        "scheme": lambda setup: {"scheme": OTHER_SCHEME},
    },
    "ecdsa-2": {
        "share": lambda setup: share(setup, epoch=bytes(32)),
        "signers": lambda setup: {"signers": (1, 2, 3)},
        "message_hash": lambda setup: {"message_hash": bytes(32)},
        "path": lambda setup: {"path": (0,)},
        "hedge": None,  # a secret of the signer's own
    },
    "presign-2": {
        "share": lambda setup: share(setup, epoch=bytes(32)),
        "signers": lambda setup: {"signers": (1, 2, 3)},
        "count": lambda setup: {"count": setup.count + 1},
    },
    "presigned-2": {
        "finisher": None,  # who finishes is waited for by both, or by neither
        "presignature": lambda setup: presignature(setup, id=bytes(32)),
        "share": lambda setup: presignature(setup, R=setup.share.public_key),
        "message_hash": lambda setup: {"message_hash": bytes(32)},
        "rho": lambda setup: {"rho": b"\1" * 32},
        "path": lambda setup: {"path": (0,)},
    },
    "frost-2": {
        "share": lambda setup: share(setup, epoch=bytes(32)),
        "signers": lambda setup: {"signers": (1, 2, 3)},
        "message": lambda setup: {"message": b"another"},
        "hedge": None,
    },
}
"""By session and field of its set-up; None: parties may differ in it."""

CASES = [
    (name, what, misled)
    for name, all_ in DIFFERENCES.items()
    for what, change in all_.items()
    for misled in (1, 2)
    if change and (name, misled) != ("presigned-2", 1)  # who finishes alone compares
]


@pytest.mark.parametrize(("name", "what", "misled"), CASES)
def test_a_difference_names_nobody(name, what, misled):
    s = session(name)
    parties = {party.me: party for party in s.parties()}
    honest = parties[misled]
    setup = replace(honest.setup, **DIFFERENCES[name][what](honest.setup))
    parties[misled] = Party(honest.definition, setup, misled, session_id=honest.session_id)
    outcomes = run(parties.values())
    ended = [o for i, o in outcomes.items() if i != misled and isinstance(o, Aborted)]
    assert ended
    for outcome in ended:
        assert outcome.reason in (Reason.SESSION_MISMATCH, Reason.PEER_ABORTED)
        assert not outcome.culprits | outcome.suspects
    first = outcomes[3 - misled]
    assert first.reason is Reason.SESSION_MISMATCH
    assert first.about == {misled}
    assert first.where.round == (3 if name == "presigned-2" else 2), "noticed late"


def test_no_field_of_a_set_up_is_left_out():
    for definition in {d.number: d for d in DEFINITIONS.values()}.values():
        seen = {
            field
            for name, differences in DIFFERENCES.items()
            if DEFINITIONS[name] is definition
            for field in differences
        }
        assert seen >= {f.name for f in fields(definition.setup)}, definition.name
    assert OTHER_SCHEME != DEFAULT_MTA


@pytest.mark.parametrize(
    ("name", "curve"),
    [("frost-2", "ed25519"), ("presign-2", "secp256k1"), ("ecdsa-2", "secp256k1")],
)
def test_a_damaged_store_convicts_nobody(name, curve):
    """Party 1 holds another key's share, consistent in itself, under the epoch of this one."""
    good, foreign = keys(curve), keys(curve, name="another")[1]
    mine = replace(
        foreign, record=replace(foreign.record, epoch=good[1].record.epoch), peers=good[1].peers
    )
    s = session(name)
    parties = s.parties()
    first = parties[0]
    assert first.me == 1
    other = Party(
        first.definition, replace(first.setup, share=mine), 1, session_id=first.session_id
    )
    ended = run([other, *parties[1:]])
    for outcome in ended.values():
        assert isinstance(outcome, Aborted)
        assert not outcome.culprits, outcome
