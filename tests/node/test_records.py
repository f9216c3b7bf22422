"""What the gateway says of keys: believed where both MPC nodes have signed it for this user."""

import base64
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from mpcsim.crypto.rng import SystemRng
from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.addresses import addresses
from mpcsim.service.rpc.statements import SignedRecord, Vote
from node.errors import ApiError, OutcomeUnknown, Upstream
from node.gateway_client.records import RecordVerifier, UnsignedRecord
from node.models import KeyShareRecord
from tests.helpers.voting import PUBLIC, USER, vote_of
from tests.node import wallets
from tests.node.wallets import House, failing, on

CURVE = "ed25519"


@dataclass
class Scene:
    """A key that has been recovered, and records that could be shown in the place of its own."""

    house: House
    mine: KeyShareRecord
    older: SignedRecord
    others: SignedRecord

    @property
    def own(self):
        return record_of(self.house, "alice", CURVE)

    @property
    def another_curve(self):
        return record_of(self.house, "alice", "secp256k1")

    def sign(self, own, **changed):
        """What both MPC nodes might have signed, though they have not."""
        record = replace(own.record, **changed)
        nodes = {p: link.node for p, link in self.house.gateway.links.items()}
        votes = {party: Vote(record, own.heads[party], 0) for party in MPC_NODES}
        signatures = {
            party: nodes[party]._context.identity.sign(vote) for party, vote in votes.items()
        }
        return replace(own, record=record, signatures=signatures)


def record_of(house, name, curve):
    registry = house.gateway.gateway.registry
    user = registry.user_by_name(name)
    assert user is not None
    key = registry.key(user.user_id, curve)
    assert key is not None
    assert key.record is not None
    return SignedRecord.from_bytes(key.record)


@pytest.fixture
@asynccontextmanager
async def scene(house):
    async with house:
        await house.generate(CURVE, "bob")
        house.give_key("secp256k1")
        house.give_key(CURVE)
        older = record_of(house, "alice", CURVE)
        mine = await house.recover(CURVE)
        yield Scene(house, mine, older, record_of(house, "bob", CURVE))
        house.transport.hook = None
        await wallets.settled(house)
        await house.sign(mine)


def other_nodes(scene):
    """Signed by nodes that the gateway has made up."""
    fakes = {party: Identity.generate(SystemRng()) for party in MPC_NODES}
    identities = {party: fake.public for party, fake in fakes.items()}
    record = replace(scene.own.record, identities=identities)
    signatures = {p: fake.sign(Vote(record, scene.own.heads[p], 0)) for p, fake in fakes.items()}
    return replace(scene.own, record=record, signatures=signatures)


CHEATS = {
    "other nodes": (other_nodes, "the record is of another operator than the one known"),
    "another user's": (lambda scene: scene.others, "it is another user's"),
    "another curve's": (lambda scene: scene.another_curve, "it is of another curve"),
    "an older one": (lambda scene: scene.older, "it is of other shares"),
}
other_shares = pytest.mark.parametrize(
    "change", [{"shares": bytes(32)}, {"public_key": b"\x02" * 32}, {"chain_code": bytes(32)}]
)


def shown(scene, cheat):
    """What the gateway shows, and what is said to that."""
    make, reason = CHEATS[cheat]
    return make(scene).to_bytes(), f"The gateway's record of the key cannot be believed: {reason}"


# ---------------------------------------------------------------------- a record by itself

MINE = vote_of(OPERATOR, "mine").with_vote(vote_of(INSTITUTION, "mine"))
ABOUT = {"identities": PUBLIC, "user_id": USER, "curve": CURVE, "key_id": MINE.record.key_id}
NOT_BELIEVED = [
    (b"?", {}, "it is none"),
    (vote_of(OPERATOR, "mine").to_bytes(), {}, "the institution has not signed this record"),
    (None, {"identities": {**PUBLIC, OPERATOR: bytes(32)}}, "of another operator than the one"),
    (None, {"user_id": "another"}, "it is another user's"),
    (None, {"curve": "secp256k1"}, "it is of another curve"),
    (None, {"key_id": 64 * "0"}, "it is of other shares"),
]


@pytest.mark.parametrize(("data", "changed", "said"), NOT_BELIEVED)
def test_a_record_is_of_both_mpc_nodes_and_of_what_is_asked_for(data, changed, said):
    """Whether or not its signatures are known to be genuine already."""
    known = RecordVerifier()
    assert known.check(MINE.to_bytes(), **ABOUT) == MINE.record
    for records in (known, RecordVerifier()):
        with pytest.raises(UnsignedRecord, match=said):
            records.check(data or MINE.to_bytes(), **ABOUT | changed)


def test_a_record_is_verified_once_and_only_so_many_are_remembered(monkeypatch):
    monkeypatch.setattr("node.gateway_client.records.REMEMBERED", 2)
    records, verified, check = RecordVerifier(), [], SignedRecord.check
    monkeypatch.setattr(
        SignedRecord, "check", lambda signed, known: verified.append(signed) or check(signed, known)
    )
    for name in ("a", "a", "b", "c", "c"):
        both = vote_of(OPERATOR, name).with_vote(vote_of(INSTITUTION, name))
        records.check(both.to_bytes(), PUBLIC, USER)
    assert (len(verified), len(records._genuine)) == (3, 2)


# ---------------------------------------------------------------------- the vault


@pytest.mark.few(8)
@pytest.mark.parametrize("cheat", CHEATS)
@pytest.mark.parametrize("what", ["sign", "public_key", "matches", "opens"])
async def test_a_vault_is_opened_with_the_keys_own_record(cheat, what, scene):
    house, mine = scene.house, scene.mine
    data, said = shown(scene, cheat)

    if what == "sign":
        house.transport.hook = on("sign", wallets.altering_vault(record=data))
    else:
        lie = wallets.altering(wire.VaultOpened, lambda opened: replace(opened, record=data))
        house.transport.hook = on("open", lie)
    if cheat == "another curve's":
        said = said.replace("another curve", "other shares")  # named by their epoch alone
    assert await failing(UnsignedRecord, getattr(house, what)(mine)) == said


@other_shares
async def test_the_share_in_the_vault_is_the_one_that_the_record_is_of(change, scene):
    data = scene.sign(scene.own, **change).to_bytes()
    scene.house.transport.hook = on("sign", wallets.altering_vault(record=data))
    said = await failing(ApiError, scene.house.sign(scene.mine))
    assert said == "The MPC nodes have signed a record of other shares than these"


# ---------------------------------------------------------------------- making keys


@pytest.mark.few(5)
@pytest.mark.parametrize("cheat", CHEATS)
@pytest.mark.parametrize("making", ["generate", "recover"])
async def test_a_key_is_made_when_both_have_signed_it(cheat, making, scene):
    house, (data, said) = scene.house, shown(scene, cheat)
    name = "carol" if making == "generate" else "bob"
    if cheat == "another user's":
        data = scene.own.to_bytes()
    elif cheat in ("another curve's", "an older one"):
        said = said.partition(": ")[0] + ": it is another user's"  # which is looked at first

    async def lie(name, go_on):
        return replace(await go_on(), body=data)

    house.transport.hook = on("activate", lie)
    message = await failing(OutcomeUnknown, getattr(house, making)(CURVE, name))
    assert message.startswith(f"{said}. The outcome is unknown")


@other_shares
async def test_a_key_that_is_made_is_the_one_that_the_record_is_of(change, scene):
    async def lie(name, go_on):
        reply = await go_on()
        own = record_of(scene.house, "bob", CURVE)
        return replace(reply, body=scene.sign(own, **change).to_bytes())

    scene.house.transport.hook = on("activate", lie)
    said = await failing(OutcomeUnknown, scene.house.recover(CURVE, "bob"))
    assert said.startswith("The MPC nodes have signed a record of other shares than these. ")


# ---------------------------------------------------------------------- what is registered


def told(data):
    return base64.urlsafe_b64encode(data).decode()


@pytest.mark.parametrize("cheat", [*CHEATS][:3])
@pytest.mark.parametrize("path", ["keys", "wallet"])
async def test_keys_and_addresses_are_those_of_the_record(cheat, path, scene):
    house, (data, said) = scene.house, shown(scene, cheat)

    def lie(document):
        for entry in document.get("keys") or document["wallets"]:
            entry = entry.get("key", entry)
            if entry["curve"] == CURVE:
                entry["record"] = told(data)

    house.transport.hook = on(f"/wallet/v1/{path}", wallets.altering_json(lie))
    ask = house.wallet.keys if path == "keys" else house.wallet.wallet_info
    assert await failing(UnsignedRecord, ask(house.caller())) == said


async def test_nothing_but_the_record_counts(scene):
    """What else the gateway says of a key is not even looked at."""

    house, other = scene.house, scene.others.record.public_key

    def lie(document):
        for entry in document.get("keys") or document["wallets"]:
            entry.get("key", entry)["public_key"] = "0x" + other.hex()
            if "address" in entry:
                entry["address"] = addresses(CURVE, other)
            else:
                entry["key_id"] = scene.others.record.key_id

    house.transport.hook = on("/wallet/v1/keys", wallets.altering_json(lie))
    keys = {key.curve: key for key in (await house.wallet.keys(house.caller())).keys}
    assert keys[CURVE].key_id == scene.mine.key_id
    assert keys[CURVE].public_key == scene.mine.public_key
    house.transport.hook = on("/wallet/v1/wallet", wallets.altering_json(lie))
    wallet = await house.wallet.wallet_info(house.caller())
    for entry in wallet.wallets:
        public_key = bytes.fromhex(entry.key.public_key[2:])
        assert public_key != other
        assert entry.address == addresses(entry.key.curve, public_key)


@pytest.mark.parametrize("record", [None, "", "?", "AA", 7, told(b"nothing")])
async def test_what_is_no_record(record, scene):
    lie = wallets.altering_json(lambda document: document["keys"][0].update(record=record))
    scene.house.transport.hook = on("/wallet/v1/keys", lie)
    with pytest.raises((Upstream, UnsignedRecord)):
        await scene.house.wallet.keys(scene.house.caller())
