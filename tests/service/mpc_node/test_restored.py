"""An MPC node whose store was put back, by itself: it serves no key until the other node is heard.

In memory, and without a gateway that would have the two hear each other; what a whole service makes
of backups in files is in ``tests/service/operations/test_restore.py``.
"""

import os
from collections import Counter
from contextlib import asynccontextmanager, closing
from dataclasses import replace

import pytest

from mpcsim.ids import BOOT_BYTES, CLIENT, INSTITUTION, MPC_NODES, OPERATOR, ROLES
from mpcsim.service.errors import Refused, Unmerged
from mpcsim.service.gateway.links.links import Times
from mpcsim.service.mpc_node import store as stores
from mpcsim.service.mpc_node.agreement.voting import Voting
from mpcsim.service.mpc_node.events import EMPTY
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.rpc import statements, wire
from mpcsim.service.rpc.activation_messages import ACTIVE, PREPARED, GetActivationState, ListShares
from mpcsim.service.rpc.grants import Scope
from tests.helpers import gateway as service


@pytest.fixture
@asynccontextmanager
async def restored(request, gateway, share):
    """The gateway, after the store of the operator (or of the test's ``party``) was put back."""
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    link = gateway.links[params.get("party", OPERATOR)]
    link.node.store.mark_restored("yesterday", both=False)
    link.node.restart()
    await link.hello(fresh=True)
    yield gateway  # noqa: PT022 -- the event loop enters it


def unmerged(gateway, party):
    (share,) = gateway.links[party].node.store.of_key(*_user_and_curve(gateway))
    return bool(share.unmerged)


def _user_and_curve(gateway):
    return gateway.gateway.registry.user_by_name("alice").user_id, "ed25519"


# ---------------------------------------------------------------------- verb by verb


async def test_what_a_node_does_with_a_key_that_it_has_not_heard_of(party, restored, client, share):
    link, user_id, epoch = restored.links[party], await client.user_id(), share.record.epoch
    halves = client.store(share).halves
    half, proof = halves[party], client.opening(share, halves).proofs[party]
    using = wire.PresignedRequest(party, bytes(32), bytes(16), 0, bytes(32), (), os.urandom(32))
    vault = wire.Vault(service.REPLY_KEY, {party: half}, {})
    no = {
        "open": wire.OpenHalf(epoch, service.REPLY_KEY, half, proof),
        "sign": client.begin_sign(share, signer=party)[1],
        "presigned": wire.Presigned(epoch, using, proof, vault),
        "generate": wire.Generate(os.urandom(32), "ed25519", ()),
        "recover": wire.Recover(os.urandom(32), "ed25519"),
    }
    me, other = ROLES[party], ROLES[5 - party]
    unheard = f"the {me}'s store has been restored and has not heard from the {other} about"
    for verb, body in no.items():
        with pytest.raises(Unmerged, match=unheard) as failed:
            service.ask_node(link, verb, user_id, body, epoch if verb != "generate" else None)
        assert (failed.value.status, failed.value.party) == (424, party), verb
    gone = {
        "exchange": wire.Exchange(os.urandom(32), ()),
        "vote": wire.Activate(os.urandom(32), epoch),
    }
    for verb, body in gone.items():  # no session outlives a start
        with pytest.raises(Refused) as refusal:
            service.ask_node(link, verb, user_id, body, epoch)
        assert refusal.value.status == 410, verb
    record = statements.SignedRecord.from_bytes(
        restored.gateway.registry.key(user_id, "ed25519").record
    )
    before = service.shares_of(restored)
    yes = {
        "standing": GetActivationState(user_id, "ed25519"),
        "testify": statements.GetReconciliationStatement(user_id, "ed25519", bytes(BOOT_BYTES)),
        "activate": record,
    }
    for verb, body in yes.items():
        service.ask_node(link, verb, user_id, body)
    service.ask_node(link, "holdings", "", ListShares(""))
    service.ask_node(link, "attest", "", statements.GetAttestation())
    assert service.shares_of(restored) == before
    assert unmerged(restored, party)
    await client.ask("suspend", await client.suspension(share, 5 - party))
    await service.delivered(restored)
    said = f"the client caught party {5 - party} cheating"
    assert service.shares_of(restored)[party][0][-1] == said


# ---------------------------------------------------------------------- who brings what


def heard(gateway, user_id, by=INSTITUTION, to=OPERATOR, nonce=None, curve="ed25519"):
    """A testimony, as the gateway brings it."""
    boot = gateway.links[to].node.hello().boot if nonce is None else nonce
    reply = service.ask_node(
        gateway.links[by],
        "testify",
        user_id,
        statements.GetReconciliationStatement(user_id, curve, boot),
    )
    return statements.SignedReconciliationStatement.from_bytes(reply)


def forged(said, identity, **changes):
    statement = replace(said.statement, **changes)
    return statements.SignedReconciliationStatement(statement, identity.sign(statement))


def merge(gateway, said, to=OPERATOR):
    link = gateway.links[to]
    scope = Scope("merge", said.statement.user_id)
    link.node.handle("merge", link.grant(scope), said.to_bytes())


async def test_what_a_node_says_of_a_key(gateway, client):
    share, user_id = client.give_key("ed25519"), await client.user_id()
    epoch, store = share.record.epoch, gateway.links[OPERATOR].node.store
    said = heard(gateway, user_id, by=OPERATOR).statement
    assert (said.active.epoch, said.suspended, said.restored) == (epoch, (), 0)
    store.mark_suspended_at_peer({epoch.hex()})
    store.mark_restored("yesterday", both=True)
    said = heard(gateway, user_id, by=OPERATOR).statement
    assert (said.suspended, said.restored) == ((epoch,), 2)


@pytest.mark.parametrize("party", MPC_NODES)
async def test_nothing_but_the_other_s_own_words_of_now_is_taken(restored, client, share, party):
    by, user_id = OPERATOR + INSTITUTION - party, await client.user_id()
    node, other = restored.links[party].node, restored.links[by].node

    def brought(who, by=by, to=party, **about):
        return heard(restored, who, by=by, to=to, **about)

    true = brought(user_id)
    assert statements.is_signed_by(other.hello().identity, true.statement, true.signature)
    older = brought(user_id)
    mallory = await service.Client.of(restored, "mallory").user_id()
    stranger = Identity(bytes(32))
    not_its, started = (
        f"this is no statement of the {ROLES[by]}",
        "has another boot than this is for",
    )
    for bad, text in (
        (replace(true, signature=bytes(64)), not_its),
        (replace(true, statement=replace(true.statement, restored=1)), not_its),
        (forged(true, stranger), not_its),
        (forged(true, node._context.identity), not_its),
        (forged(true, other._context.identity, party=party), not_its),
        (brought(user_id, by=party), not_its),
        (brought(user_id, nonce=bytes(BOOT_BYTES)), started),
        (forged(true, other._context.identity, restored=1), f"so has the {ROLES[by]}'s"),
        (forged(true, other._context.identity, active=None), "does not know its share of this key"),
    ):
        with pytest.raises(Refused, match=text):
            merge(restored, bad, to=party)
        assert unmerged(restored, party)
    for harmless in (  # of another key
        brought(mallory),
        brought(user_id, curve="secp256k1"),
    ):
        merge(restored, harmless, to=party)
        assert unmerged(restored, party)
    node.restart()
    await restored.links[party].hello(fresh=True)
    with pytest.raises(Refused, match=started):
        merge(restored, older, to=party)
    merge(restored, brought(user_id), to=party)
    assert not unmerged(restored, party)
    await client.check_works(share)


async def test_what_has_been_replaced_is_shown_by_both_votes_and_nothing_less(
    restored, client, share
):
    true = heard(restored, await client.user_id())
    identities = {p: link.node._context.identity for p, link in restored.links.items()}
    strangers = {**identities, OPERATOR: Identity(bytes(32))}
    old = true.statement.active.record
    newer = replace(old.record, epoch=bytes(32), predecessor=old.record.epoch, number=1)

    def voted(record, by=identities):
        votes = {p: i.sign(statements.Vote(record, old.heads[p], 0)) for p, i in by.items()}
        return replace(old, record=record, signatures=votes)

    def shown(signed):
        held = statements.HeldShare(newer.epoch, newer.public_key, newer.number, signed)
        merge(restored, forged(true, identities[INSTITUTION], active=held))

    good = voted(newer)
    alien = replace(newer, identities={p: i.public for p, i in strangers.items()})
    for bad in (
        replace(good, signatures={INSTITUTION: good.signatures[INSTITUTION]}),
        replace(good, signatures=dict.fromkeys(MPC_NODES, good.signatures[INSTITUTION])),
        replace(good, record=replace(newer, number=7)),
        voted(replace(newer, user_id="another")),
        voted(alien, strangers),
    ):
        with pytest.raises(Unmerged, match="does not know its share of this key"):
            shown(bad)
    with pytest.raises(Unmerged, match="has been replaced since, as both MPC nodes have signed"):
        shown(good)
    # It stays: one that lies has both votes for an epoch of which it has signed the abort, too.
    assert unmerged(restored, OPERATOR)


@pytest.mark.parametrize("curve", ["ed25519", "secp256k1"])
async def test_with_a_suspension_goes_the_multiplication_state(curve, restored, client, share):
    key_id, user_id = share.record.epoch.hex(), await client.user_id()
    node, other = (restored.links[p].node for p in MPC_NODES)
    other.store.suspend(key_id, "seen cheating")
    merge(restored, heard(restored, user_id, curve=curve))
    stored = node.store.find(key_id)
    assert (stored.suspended, stored.suspended_there) == (
        "the other MPC node says that it is suspended",
        1,
    )
    kept = node._shares.decode(stored)  # a share is shown to nobody
    assert {kept.peers[j].multiplication for j in (CLIENT, INSTITUTION)} == {None}


async def test_all_that_a_merge_asks_for_is_timed(restored, client, share):
    times, user_id = Times(), await client.user_id()
    await restored.gateway.activation.merge(OPERATOR, user_id, "ed25519", times)
    assert not unmerged(restored, OPERATOR)
    asked = {"standing": MPC_NODES, "testify": (*MPC_NODES, INSTITUTION), "merge": (OPERATOR,)}
    roles = Counter(ROLES[party] for parties in asked.values() for party in parties)
    assert Counter(name for name, _, _ in times.spans if not name.endswith("link")) == roles


# ---------------------------------------------------------------------- the store's part


def stored(key_id, predecessor=None, recoveries=0):
    made = stores.StoredShare(key_id, "u", "ed25519", b"public", b"share", PREPARED)
    return replace(made, predecessor=predecessor, recoveries=recoveries)


@pytest.fixture
def store():
    """With a share in force, voted shares beside it, and one that nobody has voted for."""
    with closing(stores.ShareStore()) as opened:
        opened.prepare(stored("a"))
        opened.vote("a", lambda share, head: b"one vote")
        opened.activate("a", b"both votes", EMPTY)
        opened.prepare(stored("prepared", "a", 1))
        yield opened


AT = "u", "ed25519"
SAID = stores.NodeStatement(
    "u", "ed25519", stores.ActiveShare(b"public", 0), "a", None, frozenset(), restored=False
)
HEARD = {
    "the same as here": ({}, None),
    "the other has only voted for it": ({"in_force": None, "active": None, "voted": "a"}, None),
    "both have replaced it": (
        {"in_force": stores.ActiveShare(b"public", 1), "active": "b"},
        stores.UnmergedReason.REPLACED,
    ),
    "it has replaced it by itself": (
        {"in_force": None, "active": "b"},
        stores.UnmergedReason.UNKNOWN,
    ),
    "it has nothing": ({"in_force": None, "active": None}, stores.UnmergedReason.UNKNOWN),
    "it was put back, too": ({"restored": True}, stores.UnmergedReason.BOTH_RESTORED),
    "it has voted for another": ({"voted": "b"}, stores.UnmergedReason.DOUBTFUL),
    "it is of an older key": ({"in_force": stores.ActiveShare(b"another", 7)}, None),
}


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("what", HEARD)
def test_what_is_still_open_after_the_other_was_heard(store, what, both):
    """Replaced shares are served in no case; all else, where whoever runs it has said so."""
    changes, left = HEARD[what]
    store.mark_restored("yesterday", both=both)
    assert store.both_restored == both
    assert [share.key_id for share in store.of_key("u", "ed25519")] == ["a"]  # voted for
    if both and left is not stores.UnmergedReason.REPLACED:
        left = None
    for _ in range(2):
        assert store.merge(replace(SAID, **changes), lambda share: None) is left
        assert store.find("a").unmerged == (left is not None)
    store.mark_restored("the day before", both=not both)
    assert store.find("a").unmerged, "once more"
    assert store.both_restored == (not both), "the last one counts"


def test_what_was_made_since_leaves_the_rest_to_be_merged(store):
    store.mark_restored("yesterday", both=False)
    store.prepare(stored("since", "a", 1))
    assert (
        store.merge(replace(SAID, restored=True), lambda share: None)
        is stores.UnmergedReason.BOTH_RESTORED
    )
    assert store.merge(SAID, lambda share: None) is None
    assert not store.find("a").unmerged


def test_doubt_is_about_sessions_of_which_the_backup_does_not_know_the_end(store):
    store.enter_epoch("over", *AT)
    store.drop_orphans()
    store.mark_restored("yesterday", both=False)
    store.enter_epoch("since", *AT)
    for known in ("over", "since"):
        assert store.merge(replace(SAID, voted=known), lambda share: None) is None
        assert store.abort("u", "ed25519", known, voted_for=True) is None
    store.enter_epoch("later", *AT)
    store.drop_orphans(["later"])
    store.mark_restored("later", both=False)  # it may have been voted for since
    with pytest.raises(stores.HistoryLost):
        store.abort("u", "ed25519", "later", voted_for=True)


def test_of_each_user_and_curve_the_newest_sessions_without_a_vote_are_remembered(store):
    """What is no more remembered is in doubt after a restore."""
    others = [("v", "ed25519"), ("u", "secp256k1")]
    for at in others:
        store.enter_epoch("first of " + "/".join(at), *at)
    for number in range(stores.ENTERED + 4):
        store.enter_epoch(f"{number}", *AT)
        store.drop_orphans()
    store.enter_epoch("last", *AT)  # and is open
    assert store.database.row("SELECT count(*) FROM entered WHERE over = 1") == (
        stores.ENTERED + 2,
    )
    store.mark_restored("yesterday", both=False)
    for key_id, at in [("4", AT), *(("first of " + "/".join(at), at) for at in others)]:
        assert store.abort(*at, key_id, voted_for=True) is None
    for key_id in ("3", "last"):
        with pytest.raises(stores.HistoryLost):
            store.abort(*AT, key_id, voted_for=True)
        assert (
            store.merge(replace(SAID, voted=key_id), lambda share: None)
            is stores.UnmergedReason.DOUBTFUL
        )


async def test_a_first_key_whose_deal_was_withheld_blocks_nobody(monkeypatch, restored, client):
    """The other node has voted for it; this one never had a share."""

    node, other = (restored.links[party].node for party in MPC_NODES)
    user_id = await client.user_id()

    def withheld(session, made):
        raise Refused(400, "nothing came")

    with monkeypatch.context() as patch:
        patch.setattr(node._runner, "_prepare", withheld)
        patch.setattr(other._expiry, "drop_made", lambda session: None)
        with pytest.raises(service.Failed, match="nothing came"):
            await client.generate("secp256k1")
    (made,) = other.store.of_key(user_id, "secp256k1")
    other._voting.vote(made.key_id)
    await client.check_works(await client.generate("secp256k1"))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (stores.HistoryLost("x"), "may have signed the contrary"),
        (stores.StaleUpdate("x"), "the operator refuses: x"),
    ],
)
def test_what_the_store_refuses_is_refused(error, told):
    voting = object.__new__(Voting)
    voting._me = OPERATOR
    with pytest.raises(Refused, match=told), voting._refusing_stale_updates():
        raise error


MAY_CONTRADICT = [(False, None, False), (False, "b", False), (False, "a", True), (True, None, True)]


@pytest.mark.parametrize(("both", "replaces", "signs"), MAY_CONTRADICT)
def test_an_abort_that_may_contradict_a_forgotten_vote(store, both, replaces, signs):
    """Only if what the epoch would replace is in force here, or somebody has decided."""
    store.mark_restored("yesterday", both=both)
    ended = {"voted_for": True, "replaces": replaces}
    if signs:
        for _ in range(2):  # signed once, it is known
            assert store.abort("u", "ed25519", "x", **ended) is None
            ended = {}
    else:
        for _ in range(2):
            with pytest.raises(stores.HistoryLost, match="may have voted for this epoch"):
                store.abort("u", "ed25519", "x", **ended)


def test_what_is_here_or_aborted_here_is_aborted_however_much_was_forgotten(store):
    store.abort(*AT, "before", voted_for=True)
    store.mark_restored("yesterday", both=False)
    store.prepare(stored("here", "another"))
    for key_id in ("here", "before"):
        assert store.abort(*AT, key_id, voted_for=True, replaces="another") is None


def test_no_more_is_listed_than_a_statement_holds(store):
    store.suspend("a", "why")
    assert (store.suspended_key_ids(0), store.suspended_key_ids(1)) == ([], ["a"])
    assert [share.state for share in store.of_key("u", "ed25519")] == [ACTIVE, PREPARED]
