"""One store put back from a backup of an earlier moment: no share that has been replaced or
suspended since is used again, what can be helped is helped, and everything else says why."""

import asyncio
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR, ROLES
from mpcsim.service.errors import Unmerged
from mpcsim.service.gateway.activation import attestations
from mpcsim.service.gateway.activation.activation import Activation
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.operations.backups import back_up, restore
from mpcsim.service.operations.data_folder import store_file
from mpcsim.service.rpc.statements import HeldShare, SignedRecord, Vote
from tests.helpers.gateway import Failed, Stuck, cheating, live
from tests.service.gateway.test_cheating import bad_offer, malformed_frost
from tests.service.mpc_node.test_restored import brought, forged, merge


async def _nothing(activation, user_id, curve, times=None):
    return False


class Place:
    """A data folder, and backups of it."""

    def __init__(self, folder):
        self.data, self.folder = folder / "data", folder
        self.seconds = 1_800_000_000.0

    def now(self):
        self.seconds += 1
        return self.seconds

    def live(self, work):
        """Run ``work(gateway, client)`` on it."""
        return live(self.data, work)

    def live_quietly(self, work):
        """The same, but nobody merges anything at the start."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Activation, "_merge_restored", _nothing)
            return self.live(work)

    def save(self, name, *parts):
        for part in parts or ("gateway", "operator", "institution"):
            back_up(self.data, part, self.folder / f"{part} {name}", self.now)

    def restore(self, name, *parts, **options):
        for part in parts or ("operator",):
            restore(self.data, part, self.folder / f"{part} {name}", self.now, **options)

    def states(self):
        """Of the shares in the MPC nodes' files."""
        found = {}
        for party in MPC_NODES:
            with closing(sqlite3.connect(store_file(self.data, ROLES[party]))) as database:
                rows = database.execute(
                    "SELECT key_id, state, unmerged FROM shares ORDER BY recoveries"
                ).fetchall()
            found[party] = [(bytes.fromhex(key_id), *rest) for key_id, *rest in rows]
        return found


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


async def generate(gateway, client):
    return await client.generate("ed25519")


async def recover(gateway, client):
    return await client.recover("ed25519")


# ---------------------------------------------------------------------- one MPC node


def test_a_first_key_that_was_cut_off_is_not_dropped_on_the_word_of_one_that_has_forgotten(place):
    async def nothing(gateway, client):
        return client.token

    place.live(nothing)
    place.save("old")

    async def cut(gateway, client):
        """Both have voted, and nobody has heard of it."""
        _, share = await client.begin_generate("ed25519")
        for party in MPC_NODES:
            gateway.links[party].node._voting.vote(epoch(share).hex())
        return share

    share = place.live(cut)
    place.save("new")
    place.restore("old")

    async def work(gateway, client):
        with pytest.raises(Failed, match="may have signed the contrary about these shares before"):
            await client.generate("ed25519")
        assert place.states()[INSTITUTION] == [(epoch(share), "voted", 0)]

    place.live(work)
    place.restore("new")

    async def again(gateway, client):
        await client.check_works(share)

    place.live(again)


# ---------------------------------------------------------------------- both


def test_if_both_were_put_back_somebody_has_to_decide(place):
    share = place.live(generate)
    place.save("old")
    place.restore("old", "operator", "institution")

    async def work(gateway, client):
        text = "the operator's store has been restored and so has the institution's: neither knows"
        assert await refused(client, share, text) == 424
        with pytest.raises(Failed, match="--other-restored-too"):
            await client.recover("ed25519")

    place.live(work)
    place.restore("old", "operator", other_restored_too=True)

    async def decided(gateway, client):
        await client.check_works(share)
        await client.check_works(await client.recover("ed25519"))

    place.live(decided)


# ---------------------------------------------------------------------- who brings what


def test_what_has_been_replaced_is_shown_by_both_nodes_votes_and_nothing_less(place):
    old = place.live(generate)
    place.save("old")
    new = place.live(recover)
    place.restore("old")

    async def work(gateway, client):
        user_id = await client.user_id()
        other = gateway.links[INSTITUTION].node
        true = brought(gateway, user_id)
        held = true.statement.active
        record, heads, votes = held.record.record, held.record.heads, held.record.signatures
        strangers = {OPERATOR: Identity(bytes(32)), INSTITUTION: other._context.identity}
        alien = replace(record, identities={j: i.public for j, i in strangers.items()})
        alien_votes = {j: i.sign(Vote(alien, heads[j], 0)) for j, i in strangers.items()}
        numbers = held.record.seal_numbers
        mine = {INSTITUTION: heads[INSTITUTION]}, {INSTITUTION: votes[INSTITUTION]}
        twice = dict.fromkeys(MPC_NODES, votes[INSTITUTION])
        of_another = replace(record, user_id="another")
        for bad in (
            SignedRecord(record, *mine, numbers),
            SignedRecord(record, heads, twice, numbers),
            SignedRecord(replace(record, number=7), heads, votes, numbers),
            SignedRecord(of_another, heads, votes, numbers),
            SignedRecord(alien, heads, alien_votes, numbers),
        ):
            active = HeldShare(held.epoch, held.public_key, held.number, bad)
            with pytest.raises(Unmerged, match="does not know its share of this key"):
                merge(gateway, forged(true, other._context.identity, active=active))
            assert place.states()[OPERATOR] == [(epoch(old), "active", 1)]
        with pytest.raises(
            Unmerged, match="has been replaced since, as both MPC nodes have signed"
        ):
            merge(gateway, true)
        # It stays: one that lies has both votes for an epoch of which it has signed the abort, too.
        assert place.states()[OPERATOR] == [(epoch(old), "active", 1)]
        assert place.states()[INSTITUTION] == [(epoch(new), "active", 0)]

    place.live_quietly(work)


# ---------------------------------------------------------------------- what the other is told


@pytest.mark.parametrize(("curve", "forwarding"), [("ed25519", "store"), ("secp256k1", "stream")])
async def test_an_abort_is_heard_of_at_the_other_before_the_client_hears(
    gateway, client, share, curve, forwarding
):
    tamper = {"ed25519": malformed_frost, "secp256k1": bad_offer}[curve]
    with pytest.raises(Stuck):
        await client.sign(share, wrap=cheating(tamper))
    operator, institution = (gateway.links[party].node.store for party in MPC_NODES)
    assert institution.find(epoch(share).hex()).suspended_there == 1
    assert operator.find(epoch(share).hex()).suspended


def test_what_could_not_be_told_is_told_later(place, monkeypatch):
    monkeypatch.setattr(attestations, "FIRST_RETRY_S", 0.01)

    async def work(gateway, client):
        share = await client.generate("ed25519")
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
        return share

    share = place.live(work)

    async def started(gateway, client):
        store = gateway.links[INSTITUTION].node.store
        assert store.find(epoch(share).hex()).suspended_there == 1

    place.live(started)
