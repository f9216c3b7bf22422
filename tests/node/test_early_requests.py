"""The first message of a signature travels with the request that opens the vault."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import Any

import pytest

from mpcsim import Network
from mpcsim.errors import Aborted, Consequence
from mpcsim.ids import CLIENT, INSTITUTION, MPC_NODES, OPERATOR, PartyId
from mpcsim.protocol.channel import seal, unseal
from mpcsim.protocol.envelope import Envelope
from mpcsim.protocols import frost
from mpcsim.protocols.frost.messages import Commitments
from mpcsim.rng import SystemRng
from mpcsim.rpc import wire
from mpcsim.rpc.transport import Reply
from mpcsim.sample_keys import keys
from mpcsim.vault import SecretStore
from node.checks import SealedShare
from node.early import Asked, Beginning
from node.errors import ApiError, BadRequest, Upstream
from node.local import LocalService
from node.settings import Settings
from tests.helpers.gateway import CURVES
from tests.node.wallets import CHEAP, House, Pass, on, settled, stored_share

HASH = bytes(range(32))


def anew(test: Any, **options: Any) -> None:
    """Run ``test(house)`` on a gateway of its own."""

    async def run() -> None:
        async with House(**options) as house:
            await test(house)

    asyncio.run(run())


async def failing(error: type[ApiError], call: Any) -> str:
    with pytest.raises(error) as caught:
        await call
    return caught.value.message


def sent(house: House, verb: str = "sign") -> list[Any]:
    """Keep the bodies of the requests of one verb that pass, decoded."""
    found: list[Any] = []
    request = house.transport.request

    async def kept(method: str, path: str, **options: Any) -> Reply:
        if path.endswith(f"/{verb}"):
            found.append(wire.Sign.from_bytes(options["body"]))
        return await request(method, path, **options)

    house.transport.request = kept  # type: ignore[method-assign]
    return found


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize(("curve", "trips"), [("ed25519", 1), ("secp256k1", 2)])
def test_round_trips(curve: str, trips: int, early: bool) -> None:
    """Of 200 ms; on secp256k1 the second exchange has windows to fill besides."""
    settings = Settings(waas_api_url="http://gateway", early_requests=early)
    network = Network.star(client=50, operator=50, institution=50)
    with LocalService(network, cost=CHEAP, settings=settings) as service:
        alice = service.user("alice")
        share = alice.post("/v3/wallet/generate", json={"curve": curve, "password": "x" * 8}).json()
        order = {**share, "message": HASH.hex()}
        alice.post("/v3/wallet/sign", json=order)
        answer = alice.post("/v3/wallet/sign", json=order)
        assert answer.status_code == 200
        spans = {part.split(";")[0].strip() for part in answer.headers["server-timing"].split(",")}
        rounds = {span for span in spans if span.startswith("round")}
        assert len(rounds) == trips
        if curve == "ed25519":
            assert 200 <= service.elapsed_ms - (0 if early else 200) < 201


@pytest.mark.parametrize("curve", CURVES)
def test_nothing_else_is_asked_for(curve: str) -> None:
    async def test(house: House) -> None:
        record = await house.generate(curve)
        house.transport.seen.clear()
        await house.sign(record, HASH)
        await settled(house)
        assert house.transport.seen == ["sign", "exchange"][: 1 if curve == "ed25519" else 2]

    anew(test)


@pytest.mark.parametrize("curve", CURVES)
def test_every_attempt_has_a_session_nonces_and_a_reply_key_of_its_own(curve: str) -> None:
    """One that failed may have been answered: before the answer was lost, for one."""

    async def test(house: House) -> None:
        record = await house.generate(curve)
        asked = sent(house)
        await house.client.nodes()
        house.gateway.links[INSTITUTION].node.restart()  # refused: another boot
        await house.sign(record, HASH)

        async def lose(name: str, go_on: Pass) -> Reply:
            await go_on()
            return Reply(503, b'{"error": "lost", "party": %d}' % OPERATOR)

        house.transport.hook = on("sign", lose)
        await failing(Upstream, house.sign(record, HASH))
        await house.sign(record, HASH, signer="institution")
        assert [body.signer for body in asked] == [OPERATOR, OPERATOR, OPERATOR, INSTITUTION]
        for distinct in ("session_id", "first"):
            assert len({getattr(body, distinct) for body in asked}) == 4
        assert len({body.vault.reply_key for body in asked}) == 4

    anew(test)


def test_nonces_are_hedged_with_what_there_is_before_the_share() -> None:
    """A generator that repeats itself gives other nonces for any other session, signer, message or
    store; for the very same, the same ones."""

    class Stuck:
        reproducible = False

        def bytes(self, n: int) -> bytes:
            return bytes(n)

    kept = {OPERATOR: b"o" * 32, INSTITUTION: b"i" * 32}
    epoch, session = b"e" * 32, b"s" * 32

    def nonces(**changes: Any) -> bytes:
        given = {
            "epoch": epoch,
            "signers": (CLIENT, OPERATOR),
            "message": b"m",
            "auth_keys": kept,
            "session_id": session,
        } | changes
        early = frost.early(me=CLIENT, rng=Stuck(), **given)
        said = Commitments.decode(early._payload, frost.FROST.wire(None))  # type: ignore[arg-type]
        return said.hiding.encode() + said.binding.encode()

    assert nonces() == nonces()
    others = [
        {"message": b"n"},
        {"session_id": b"t" * 32},
        {"signers": (CLIENT, INSTITUTION)},
        {"auth_keys": kept | {OPERATOR: b"x" * 32}},
        {"auth_keys": kept | {INSTITUTION: b"x" * 32}},
    ]
    assert len({nonces(), *(nonces(**other) for other in others)}) == 1 + len(others)


@pytest.mark.parametrize("curve", CURVES)
def test_an_answer_to_another_request_blames_nobody(curve: str) -> None:
    """Whoever has the store and carries the request puts another first message in its place; what
    the MPC node answers is looked at no further."""

    async def test(house: House) -> None:
        record = await house.generate(curve)
        sealed = SealedShare.parse(stored_share(record))
        caller = house.caller()
        boots = {j: hello.boot for j, hello in (await house.client.nodes()).items()}
        handle = house.gateway.links[OPERATOR].node.handle

        def swapped(verb: str, grant: bytes, data: bytes) -> bytes:
            if verb == "sign":
                asked = wire.Sign.from_bytes(data)
                other = Beginning(
                    Asked(sealed, OPERATOR, asked.message),
                    user_id=caller.claims.user_id,
                    boots=boots,
                    session_id=asked.session_id,
                    rng=house.wallet._rng,
                ).request
                assert asked.vault is not None
                assert other.vault is not None
                halves = asked.vault.halves
                data = replace(other, vault=replace(other.vault, halves=halves)).to_bytes()
                answer = wire.Answer.from_bytes(handle(verb, grant, data))
                # It was opened to the thief's reply key; so that the client sees its own:
                return replace(answer, half=_rewrapped(house, asked)).to_bytes()
            reply: bytes = handle(verb, grant, data)
            return reply

        house.gateway.links[OPERATOR].node.handle = swapped
        said = await failing(ApiError, house.sign(record, HASH, signer="operator"))
        assert said == "The operator has answered another request than this one; try again"
        house.gateway.links[OPERATOR].node.handle = handle
        await settled(house)
        await house.sign(record, HASH)

    anew(test)


def _rewrapped(house: House, asked: wire.Sign) -> bytes:
    node = house.gateway.links[OPERATOR].node
    stored = node._store.find(asked.key_id.hex())
    assert asked.vault is not None
    half, reply_key = asked.vault.halves[OPERATOR], asked.vault.reply_key
    rewrapped: bytes = node._rewrapped(stored, half, reply_key, whole=False)
    return rewrapped


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("answers", [None, bytes(32)])
def test_an_answer_that_does_not_say_what_it_answers(
    curve: str, answers: bytes | None, early: bool
) -> None:
    async def test(house: House) -> None:
        record = await house.generate(curve)
        node = house.gateway.links[OPERATOR].node
        handle = node.handle

        def stripped(verb: str, grant: bytes, data: bytes) -> bytes:
            reply: bytes = handle(verb, grant, data)
            if verb == "sign":
                reply = replace(wire.Answer.from_bytes(reply), answers=answers).to_bytes()
            return reply

        node.handle = stripped
        said = await failing(ApiError, house.sign(record, HASH, signer="operator"))
        assert said == "The operator has answered another request than this one; try again"
        node.handle = handle
        await settled(house)
        await house.sign(record, HASH)

    anew(test, settings=Settings(early_requests=early))


@pytest.mark.parametrize("curve", CURVES)
def test_what_does_not_open_ends_the_session(curve: str) -> None:
    """The share is damaged, though its store is whole: the MPC node has begun by then."""

    async def test(house: House) -> None:
        record = await house.generate(curve)
        other = await house.generate("ed25519" if curve == "secp256k1" else "secp256k1")
        damaged = record.encrypted_share[:500] + "AAAA" + record.encrypted_share[504:]
        for share in (damaged, other.encrypted_share):
            said = await failing(BadRequest, house.sign(record, encrypted_share=share))
            assert said == "Invalid encrypted_share: it does not open with this secret_store"
            await settled(house)
            assert not house.gateway.gateway.sessions._sessions
            assert not house.gateway.links[OPERATOR].node._sessions
        await house.sign(record)

    anew(test)


@pytest.mark.parametrize("away", MPC_NODES)
@pytest.mark.parametrize("curve", CURVES)
def test_nothing_signs_while_one_half_is_missing(curve: str, away: PartyId) -> None:
    async def test(house: House) -> None:
        record = await house.generate(curve)
        house.gateway.links[away].down = True
        for signer in ("operator", "institution", None):
            said = await failing(Upstream, house.sign(record, signer=signer))
            assert "503 Service Unavailable" in said
        await settled(house)
        assert not house.gateway.gateway.sessions._sessions
        house.gateway.links[away].down = False
        await house.sign(record)

    anew(test)


@pytest.mark.parametrize("party", MPC_NODES)
@pytest.mark.parametrize("curve", CURVES)
def test_halves_that_do_not_open(curve: str, party: PartyId) -> None:
    async def test(house: House) -> None:
        record = await house.generate(curve)
        store = SecretStore.from_text(record.secret_store)
        half = store.halves[party]
        bad = replace(store, halves={**store.halves, party: half[:-1] + bytes([half[-1] ^ 1])})
        said = await failing(BadRequest, house.sign(record, secret_store=bad.to_text()))
        assert said == "Invalid secret_store"
        await settled(house)
        assert not house.gateway.gateway.sessions._sessions
        await house.sign(record)

    anew(test)


@pytest.mark.parametrize("party", MPC_NODES)
def test_a_store_whose_authentication_key_is_wrong(party: PartyId) -> None:
    async def test(house: House) -> None:
        record = await house.generate("secp256k1")
        store = SecretStore.from_text(record.secret_store)
        keys = {**store.auth_keys, party: os.urandom(32)}
        bad = replace(store, auth_keys=keys).to_text()
        assert await failing(BadRequest, house.sign(record, secret_store=bad)) == (
            "Invalid secret_store"
        )
        await settled(house)
        assert not house.gateway.gateway.sessions._sessions
        assert not house.gateway.links[OPERATOR].node._sessions

    anew(test)


@pytest.mark.parametrize(
    "changes",
    [
        {"vault": None},
        {"reply_key": bytes(31) + b"\x09"},
        {"first": (bytes(32),)},
        {"message": bytes(32)},
    ],
)
def test_requests_that_were_changed_on_the_way(changes: dict[str, Any]) -> None:
    """Nothing is opened or begun; nobody is blamed."""

    async def test(house: House) -> None:
        record = await house.generate("ed25519")
        node = house.gateway.links[OPERATOR].node
        handle = node.handle

        def changed(verb: str, grant: bytes, data: bytes) -> bytes:
            if verb == "sign":
                body = wire.Sign.from_bytes(data)
                assert body.vault is not None
                if "reply_key" in changes:
                    body = replace(body, vault=replace(body.vault, **changes))
                else:
                    body = replace(body, **changes)
                data = body.to_bytes()
            reply: bytes = handle(verb, grant, data)
            return reply

        node.handle = changed
        with pytest.raises(ApiError):
            await house.sign(record, HASH, signer="operator")
        node.handle = handle
        assert not node._signed
        assert not node._sessions
        await settled(house)
        await house.sign(record, HASH)

    anew(test)


def test_an_early_message_opens_for_its_session_and_the_first_round_alone() -> None:
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


@pytest.mark.parametrize("curve", CURVES)
def test_who_cannot_open_the_share_gets_nothing_that_it_could_use(curve: str) -> None:
    """With token and secret store, but not the encrypted share, a thief has the MPC node answer a
    message of its choice; the signature still lacks the client's part."""

    async def test(house: House) -> None:
        record = await house.generate(curve)
        sealed = SealedShare.parse(stored_share(record))
        caller = house.caller()
        boots = {j: hello.boot for j, hello in (await house.client.nodes()).items()}
        beginning = Beginning(
            Asked(sealed, OPERATOR, HASH),
            user_id=caller.claims.user_id,
            boots=boots,
            session_id=os.urandom(32),
            rng=house.wallet._rng,
        )
        reply = await house.client.sign(caller.token, beginning.request)
        # Without a pair secret, which only the shares give, the answer does not even open.
        for message in reply.messages:
            envelope = Envelope.decode(message)
            assert envelope.sealed
            for secret in sealed.secret_store.auth_keys.values():
                assert unseal(secret, envelope) is None

    anew(test)


def test_stores_without_authentication_keys_take_two_steps() -> None:
    """Those of version 1: there is nothing to seal a first message with."""

    async def test(house: House) -> None:
        record = await house.generate("ed25519")
        sealed = SealedShare.parse(stored_share(record))
        old = replace(sealed.secret_store, auth_keys={}, identities={})
        assert sealed.fits
        assert not replace(sealed, secret_store=old).fits
        assert not replace(sealed, key_id="ab" * 32).fits
        assert not replace(sealed, curve="secp256k1").fits

    anew(test)
