"""The first message of a signature travels with the request that opens the vault."""

import asyncio
import os
from dataclasses import replace

import pytest

from mpcsim.crypto.rng import SystemRng
from mpcsim.errors import Aborted, Consequence
from mpcsim.ids import CLIENT, INSTITUTION, MPC_NODES, OPERATOR
from mpcsim.protocols import frost
from mpcsim.protocols.engine.channel import seal
from mpcsim.protocols.engine.envelope import Envelope
from mpcsim.protocols.sample_keys import keys
from mpcsim.service.rpc import wire
from mpcsim.service.vault import SecretStore
from mpcsim.service.web.transport import Reply
from node.errors import BadRequest, Upstream
from tests.helpers.gateway import CURVES
from tests.helpers.tiers import fast_few
from tests.node.wallets import failing, losing, on, settled

HASH = bytes(range(32))
ONE_CURVE = fast_few(CURVES[::-1], 1)


def sent(house, verb="sign"):
    """Keep the bodies of the requests of one verb that pass, decoded."""
    found = []
    request = house.transport.request

    async def kept(method, path, **options):
        if path.endswith(f"/{verb}"):
            found.append(wire.Sign.from_bytes(options["body"]))
        return await request(method, path, **options)

    house.transport.request = kept
    return found


@pytest.mark.parametrize("curve", ONE_CURVE)
async def test_every_attempt_has_a_session_nonces_and_a_reply_key_of_its_own(curve, house, record):
    """One that failed may have been answered: before the answer was lost, for one."""

    asked = sent(house)
    await house.client.nodes()
    house.gateway.links[INSTITUTION].node.restart()  # refused: another boot
    await house.sign(record, HASH)

    lost = losing(Reply(503, b'{"error": "lost", "party": %d}' % OPERATOR))
    told = asyncio.Event()

    async def held(name, go_on):
        await told.wait()
        return await go_on()

    sign, exchange = on("sign", lost), on("exchange", held)
    house.transport.hook = lambda name, go_on: sign(name, lambda: exchange(name, go_on))
    # Who was not answered does not wait until the others have heard that it is over.
    await failing(Upstream, house.sign(record, HASH))
    assert house.wallet._workers._tasks
    told.set()
    await settled(house)
    await house.sign(record, HASH, signer="institution")
    assert [body.signer for body in asked] == [OPERATOR, OPERATOR, OPERATOR, INSTITUTION]
    for distinct in ("session_id", "first"):
        assert len({getattr(body, distinct) for body in asked}) == 4
    assert len({body.vault.reply_key for body in asked}) == 4


@pytest.mark.parametrize("curve", ONE_CURVE)
async def test_what_does_not_open_ends_the_session(curve, house, record):
    """Though the request is in order otherwise: the MPC node may have begun by then."""

    other = house.give_key("ed25519" if curve == "secp256k1" else "secp256k1")
    store = SecretStore.from_text(record.secret_store)
    damaged = record.encrypted_share[:500] + "AAAA" + record.encrypted_share[504:]
    closed = "Invalid encrypted_share: it does not open with this secret_store"
    bad = [({"encrypted_share": each}, closed) for each in (damaged, other.encrypted_share)]
    for party in MPC_NODES:
        half = store.halves[party]
        spoilt = {**store.halves, party: half[:-1] + bytes([half[-1] ^ 1])}
        keys = {**store.auth_keys, party: os.urandom(32)}
        for each in (replace(store, halves=spoilt), replace(store, auth_keys=keys)):
            bad.append(({"secret_store": each.to_text()}, "Invalid secret_store"))
    for changed, said in bad:
        assert await failing(BadRequest, house.sign(record, **changed)) == said
        await settled(house)
        # Of open sessions nothing else tells at once.
        assert not house.gateway.gateway.sessions._sessions
        assert not house.gateway.links[OPERATOR].node._sessions
    await house.sign(record)


def test_an_early_message_opens_for_its_session_and_the_first_round_alone():
    """With the authentication key, nobody can say anything later than the first message."""
    held = keys("ed25519")
    session = b"s" * 32
    agreed = frost.setup(held[OPERATOR], (CLIENT, OPERATOR), b"m")
    for kind, opens in ((1, True), (2, False)):
        party = frost.party(agreed, session_id=session)
        party.start()
        key = held[CLIENT].auth_key(OPERATOR)
        plain = Envelope(frost.FROST.number, kind, True, CLIENT, OPERATOR, session, b"?")
        party.receive(CLIENT, seal(key, plain, b"?", SystemRng()).encode())
        outcome = party.outcome
        assert isinstance(outcome, Aborted) == opens
        if isinstance(outcome, Aborted):
            assert outcome.consequence is Consequence.RETRY
            assert not outcome.culprits, "whoever has the store has that key"
