"""Secrets of round 1 when a generator repeats itself: a cloned machine, a restored snapshot."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import combinations

import pytest

from mpcsim.crypto import SeededRng
from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.ids import CLIENT, INSTITUTION, OPERATOR
from mpcsim.protocols import LocalRun, dkg, ecdsa, frost, keys, presign, reshare
from mpcsim.protocols.engine import Party
from mpcsim.protocols.local_run import oldest_first
from tests.helpers.sessions import session

SECP, OTHER, ED = keys("secp256k1"), keys("secp256k1", name="another"), keys("ed25519")
A, B = b"a" * 32, b"b" * 32
PAIR, REST = (CLIENT, OPERATOR), (CLIENT, INSTITUTION)


def started(protocol, setup, session_id=A, me=()):
    """Make a party that has said its first message, of a given generator."""

    def make(rng):
        party = protocol.party(setup, *me, session_id=session_id, rng=rng)
        party.start()
        return party

    return make


def early(protocol, *about, session_id=A, share=SECP[CLIENT], signers=PAIR, **more):
    """The same of a client that has said it before it had its share."""
    keys = share.auth_keys((OPERATOR, INSTITUTION))
    who = {"me": CLIENT, "auth_keys": keys, "session_id": session_id, **more}
    return lambda rng: protocol.prestart(share.record.epoch, signers, *about, rng=rng, **who).party(
        share
    )


SESSIONS = {
    "ecdsa": [
        started(ecdsa, ecdsa.setup(SECP[1], PAIR, A)),
        started(ecdsa, ecdsa.setup(SECP[1], PAIR, A), B),
        started(ecdsa, ecdsa.setup(SECP[1], PAIR, B)),
        started(ecdsa, ecdsa.setup(SECP[1], REST, A)),
        started(ecdsa, ecdsa.setup(SECP[1], (1, 2, 3), A)),
        started(ecdsa, ecdsa.setup(SECP[1], PAIR, A, path=(0,))),
        started(ecdsa, ecdsa.setup(OTHER[1], PAIR, A)),
        started(ecdsa, ecdsa.setup(SECP[2], PAIR, A)),
        early(ecdsa, A),
        early(ecdsa, A, session_id=B),
        early(ecdsa, B),
        early(ecdsa, A, signers=REST),
        early(ecdsa, A, path=(0,)),
        early(ecdsa, A, share=OTHER[CLIENT]),
    ],
    "presign": [
        started(presign, presign.setup(SECP[1], PAIR, 1)),
        started(presign, presign.setup(SECP[1], PAIR, 1), B),
        started(presign, presign.setup(SECP[1], PAIR, 2)),
        started(presign, presign.setup(SECP[1], REST, 1)),
        started(presign, presign.setup(OTHER[1], PAIR, 1)),
        early(presign, 1),
        early(presign, 2),
        early(presign, 1, session_id=B),
        early(presign, 1, signers=REST),
    ],
    "frost": [
        started(frost, frost.setup(ED[1], PAIR, A)),
        started(frost, frost.setup(ED[1], PAIR, A), B),
        started(frost, frost.setup(ED[1], PAIR, B)),
        started(frost, frost.setup(ED[1], REST, A)),
        started(frost, frost.setup(ED[2], PAIR, A)),
        early(frost, A, share=ED[CLIENT]),
        early(frost, B, share=ED[CLIENT]),
        early(frost, A, share=ED[CLIENT], signers=REST),
    ],
    "dkg": [
        started(dkg, dkg.setup("ed25519", 2, (1, 2, 3)), me=(1,)),
        started(dkg, dkg.setup("ed25519", 2, (1, 2, 3)), B, me=(1,)),
        started(dkg, dkg.setup("ed25519", 2, (1, 2, 3)), me=(2,)),
        started(dkg, dkg.setup("ed25519", 2, (1, 2)), me=(1,)),
        started(dkg, dkg.setup("ed25519", 3, (1, 2, 3)), me=(1,)),
    ],
    "reshare": [
        started(reshare, reshare.setup(ED[1].record, PAIR, share=ED[1]), me=(1,)),
        started(reshare, reshare.setup(ED[1].record, PAIR, share=ED[1]), B, me=(1,)),
        started(reshare, reshare.setup(ED[1].record, REST, share=ED[1]), me=(1,)),
        started(reshare, reshare.setup(ED[2].record, PAIR, share=ED[2]), me=(2,)),
    ],
}
"""Sessions of which any two are about something else, or of another session, signer or peer."""


def leaves(value: object) -> Iterator[bytes]:
    """Every secret, point and nonce in a party's state and messages."""
    match value:
        case bytes() if len(value) >= 16:
            yield value
        case Scalar() | Point():
            yield value.encode()
        case Mapping():
            yield from (leaf for part in value.values() for leaf in leaves(part))
        case tuple() | list():
            yield from (leaf for part in value for leaf in leaves(part))
        case _ if is_dataclass(value):
            yield from leaves([getattr(value, field.name) for field in fields(value)])


def drawn(party: Party) -> set[bytes]:
    """What a party keeps and says after round 1."""
    return set(leaves([party.keep, *(message for _, message in party.inbox.own.values())]))


@pytest.mark.parametrize("name", SESSIONS)
def test_a_repeated_seed_gives_independent_secrets(name):
    secrets = [
        drawn(make(SeededRng("a cloned machine"))) - drawn(make(SeededRng("another machine")))
        for make in SESSIONS[name]
    ]
    assert all(secrets)
    for (i, mine), (j, others) in combinations(enumerate(secrets), 2):
        assert not mine & others, (i, j)


def test_nothing_that_is_drawn_depends_on_the_order_in_which_messages_arrive():
    said = []
    for schedule in (oldest_first, lambda messages: len(messages) - 1):
        run = LocalRun(session("ecdsa-3").parties())
        run.start()
        run.finish(schedule)
        said.append([drawn(party) for party in run.parties.values()])
    assert said[0] == said[1]
