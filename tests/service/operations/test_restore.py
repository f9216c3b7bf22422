"""One store put back from a backup of an earlier moment: no share that has been replaced or
suspended since is used again, what can be helped is helped, and everything else says why."""

import asyncio
from contextlib import contextmanager

import pytest

from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR, ROLES
from mpcsim.service.gateway.activation import attestations
from mpcsim.service.operations.backups import back_up, restore
from tests.helpers.gateway import Failed, Stuck, cheating, started
from tests.service.gateway.test_cheating import bad_offer, malformed_frost


class Place:
    """A data folder, and backups of it."""

    def __init__(self, folder):
        self.data, self.folder = folder / "data", folder
        self.seconds = 1_800_000_000.0

    def now(self):
        self.seconds += 1
        return self.seconds

    def started(self):
        return started(self.data)

    def save(self, name, *parts):
        for part in parts or ("gateway", "operator", "institution"):
            back_up(self.data, part, self.folder / f"{part} {name}", self.now)

    def restore(self, name, *parts, **options):
        for part in parts or ("operator",):
            restore(self.data, part, self.folder / f"{part} {name}", self.now, **options)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


async def refused(client, share, text, signer=OPERATOR):
    response = await client.post("sign", client.begin_sign(share, signer=signer)[1])
    assert text in response.json()["error"], response.text
    return response.status_code


@contextmanager
def away(gateway, party):
    gateway.links[party].down = True
    yield
    gateway.links[party].down = False


def epoch(share):
    return share.record.epoch


# ---------------------------------------------------------------------- both


async def test_if_both_were_put_back_somebody_has_to_decide(party, place):
    with place.started() as (_, client):
        share = client.give_key("ed25519")
    place.save("old")
    place.restore("old", "operator", "institution")
    with place.started() as (_, client):
        text = "the operator's store has been restored and so has the institution's: neither knows"
        assert await refused(client, share, text) == 424
        with pytest.raises(Failed, match="--other-restored-too"):
            await client.recover("ed25519")
    place.restore("old", ROLES[party], other_restored_too=True)
    with place.started() as (_, client):
        await client.check_works(share)
        await client.check_works(await client.recover("ed25519"))


# ---------------------------------------------------------------------- what the other is told


@pytest.mark.parametrize(("curve", "forwarding"), [("ed25519", "store"), ("secp256k1", "stream")])
async def test_the_other_hears_of_an_abort_before_the_client(
    gateway, client, share, curve, forwarding
):
    tamper = {"ed25519": malformed_frost, "secp256k1": bad_offer}[curve]
    with pytest.raises(Stuck):
        await client.sign(share, wrap=cheating(tamper))
    operator, institution = (gateway.links[party].node.store for party in MPC_NODES)
    assert institution.find(epoch(share).hex()).suspended_there == 1
    assert operator.find(epoch(share).hex()).suspended


async def test_what_could_not_be_told_is_told_later(place, monkeypatch):
    monkeypatch.setattr(attestations, "FIRST_RETRY_S", 0.01)
    with place.started() as (gateway, client):
        share = client.give_key("ed25519")
        store = gateway.links[INSTITUTION].node.store

        def told():
            return store.find(epoch(share).hex()).suspended_there == 1

        monkeypatch.setattr(attestations, "PROMPT_S", 0.01)
        with away(gateway, INSTITUTION), pytest.raises(Stuck):
            await client.sign(share, wrap=cheating(malformed_frost))
        assert not told()
        async with asyncio.timeout(60):
            while not told():
                await asyncio.sleep(0.01)
        store._database._writer.execute("UPDATE shares SET suspended_there = 0")
    with place.started() as (gateway, _):
        store = gateway.links[INSTITUTION].node.store
        assert told()
