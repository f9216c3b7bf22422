"""What happens when the gateway, after its start, first reaches both MPC nodes."""

import asyncio
import gc
import logging
from contextlib import asynccontextmanager
from unittest.mock import AsyncMock

import pytest

from mpcsim.crypto.rng import SystemRng
from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR, ROLES
from mpcsim.service.errors import LinkFailed, Refused, node_unreachable
from mpcsim.service.gateway import introduction as introduction_module
from mpcsim.service.gateway.activation import activation
from mpcsim.service.gateway.introduction import NodeIntroduction
from mpcsim.service.gateway.links.links import Times
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.activation_messages import (
    ACTIVE,
    PAGE,
    VOTED,
    ActivationState,
    ListShares,
    ShareInfo,
    ShareInfoPage,
)
from mpcsim.service.rpc.statements import HeldShare, SealKeyStatement
from mpcsim.service.storage.database import StoreFailed, StoreProblem
from mpcsim.sim.run.realtime.clock import run
from tests.helpers import gateway as service
from tests.helpers.voting import vote_of


def anew(gateway, clock):
    """The meeting of a gateway that has been started anew, while its MPC nodes have not."""
    gateway.gateway.introduction = NodeIntroduction(
        gateway.links, gateway.gateway.activation, gateway.gateway.attestations, clock
    )
    return gateway.gateway.introduction


def strange(node):
    """What an MPC node says once that is not itself, as a stranger would be vouched for; and what
    nobody vouches for."""
    true, other = node.hello(), Identity.generate(SystemRng())
    signature = other.sign(SealKeyStatement(true.party, true.seal_key, 0))
    forged = [
        wire.Hello(true.party, other.public, true.seal_key, signature, true.boot, 0),
        wire.Hello(true.party, true.identity, true.seal_key, bytes(64), true.boot, 0),
    ]
    texts = [
        "the {it} has another identity than when the {other} first met it: put the right "
        "{it}.sqlite back",
        "this is not who the {it} is, says the {other}",
    ]
    names = {"it": ROLES[true.party], "other": ROLES[5 - true.party]}
    return [(hello, text.format(**names)) for hello, text in zip(forged, texts, strict=True)]


async def refused(making, text, party):
    with pytest.raises(service.Failed) as failed:
        await making
    assert failed.value.status == 503
    assert failed.value.response.json() == {"error": text, "party": party}


@pytest.mark.parametrize("kind", range(2))
async def test_a_stranger_at_a_start_is_refused_and_forgotten(party, kind, caplog, gateway, client):
    """A gateway is started anew, and one MPC node says once that it is somebody else."""

    clock = service.Clock()

    share, node = client.give_key("ed25519"), gateway.links[party].node
    true, (false, text) = node.hello(), strange(node)[kind]
    node._boot._hello = false
    await anew(gateway, clock).introduce()
    assert caplog.messages == [text]
    for _ in range(2):  # it is asked again, and said once
        clock.now += 1
        await refused(client.generate("secp256k1"), text, party)
        await refused(client.recover("ed25519"), text, party)
    assert caplog.messages == [text]
    await client.check_works(share)  # without the other MPC node
    node._boot._hello = true
    clock.now += 1
    await client.check_works(await client.recover("ed25519"))
    bob = service.Client.of(gateway, "bob")
    await bob.check_works(await bob.generate("ed25519"))


async def test_a_stranger_while_sessions_are_open_ends_none_of_them(party, gateway, client, share):
    """One MPC node says once, to a REST node that asks, that it is somebody else."""
    bob, node = service.Client.of(gateway, "bob"), gateway.links[party].node
    theirs = bob.give_key("secp256k1")
    signing, messages = await bob.begun(theirs, party)
    session_id, new = await client.begin_recover("ed25519")
    true, (false, _) = node.hello(), strange(node)[0]
    node._boot._hello = false
    assert (await client.request("GET", "/mpc/v1/nodes")).is_success
    node._boot._hello = true
    # Both that are under way come to their end, and others begin.
    await bob.finished(theirs, signing, messages)
    await client.activate(session_id, new)
    assert new.public_key == share.public_key
    await client.check_works(new)
    await bob.check_works(await bob.generate("ed25519"))


async def test_sessions_of_an_earlier_run_keep_nobody_from_a_key(gateway, client, ec_share):
    before = service.shares_of(gateway)
    await client.post("sign", client.begin_sign(ec_share)[1])
    await client.begin_recover("secp256k1")
    nodes = [gateway.links[party].node for party in MPC_NODES]
    assert all(node.sessions for node in nodes)
    assert service.shares_of(gateway) != before
    await anew(gateway, service.Clock()).introduce()
    assert not any(node.sessions or node._sessions._exclusive for node in nodes)
    assert service.shares_of(gateway) == before


async def test_it_waits_for_both_and_takes_place_once(caplog, gateway, client, ec_share):
    caplog.set_level(logging.INFO, "mpcsim.service.gateway.introduction")
    clock = service.Clock()

    introduction = anew(gateway, clock)
    for link in gateway.links.values():
        link._hello = None
    gateway.links[INSTITUTION].down = True
    with pytest.raises(LinkFailed):
        await introduction.introduce()
    tried = []
    hello = gateway.links[OPERATOR].port.hello

    async def asked():
        tried.append(clock())
        return await hello()

    gateway.links[OPERATOR].port.hello = asked
    for _ in range(3):  # nothing is asked more than once a second
        gateway.links[OPERATOR]._hello = None
        await introduction.ensure_introduced()
    assert len(tried) == 1
    gateway.links[INSTITUTION].down = False
    clock.now += 1
    await client.check_works(ec_share)  # which attends to it
    assert caplog.messages.count("connected to operator and institution") == 1
    _, request = client.begin_sign(ec_share)
    clock.now += 10
    assert (await client.post("sign", request)).is_success
    await introduction.ensure_introduced()
    assert gateway.links[OPERATOR].node.sessions


@pytest.mark.parametrize("verb", ["reset", "holdings", "standing"])
async def test_an_mpc_node_that_fails_at_the_start_stops_nobody(verb, monkeypatch, gateway, client):
    monkeypatch.setattr(introduction_module, "START_WAIT_S", -1.0)
    clock = service.Clock()

    share, node = client.give_key("ed25519"), gateway.links[OPERATOR].node
    node.store._database._writer.execute("UPDATE shares SET state = 'voted'")
    honest = node.handle

    def handle(asked, *rest):
        if asked == verb:
            raise Refused(409, "not now")
        return honest(asked, *rest)

    node.handle = handle
    introduction = anew(gateway, clock)
    await introduction.introduce_at_start()
    node.handle = honest
    node.store._database._writer.execute("UPDATE shares SET state = 'active'")
    clock.now += 1
    await client.check_works(share)
    assert introduction.start_is_over
    await introduction.stop()


# ---------------------------------------------------------------------- when it is due


class Known:
    """A link to an MPC node, which notes what that is asked."""

    def __init__(self, party, asked):
        self.party, self.asked, self.last_hello = party, asked, None
        self.identity = bytes(32)

    async def hello(self, *, fresh):
        hello = wire.Hello(self.party, self.identity, bytes(32), bytes(64), bytes(16), 0)
        self.last_hello = hello
        return hello

    async def ask(self, scope, body):
        self.asked.append((self.party, scope.verb))


async def test_who_has_another_identity_is_introduced_again_and_nobodys_sessions_end_twice():
    asked = []
    links_of = {party: Known(party, asked) for party in MPC_NODES}
    introduction = NodeIntroduction(links_of, AsyncMock(), AsyncMock(), service.Clock())
    await introduction.introduce()
    assert sorted(asked) == [(p, verb) for p in MPC_NODES for verb in ("meet", "reset")]
    asked.clear()
    await introduction.ensure_introduced()
    assert asked == []
    links_of[OPERATOR].identity = b"\1" * 32
    await links_of[OPERATOR].hello(fresh=True)
    await introduction.ensure_introduced()
    assert sorted(asked) == [(p, "meet") for p in MPC_NODES]


@pytest.mark.parametrize(
    "failure", [StoreFailed("registry", StoreProblem.FULL), Refused(503, "not now")]
)
def test_a_start_waits_for_three_seconds_and_goes_on_in_the_background(failure, caplog):
    owed = AsyncMock()  # what a starting gateway owes its MPC nodes
    owed.resolve_at_start.side_effect = failure

    async def start():
        now = asyncio.get_running_loop().time
        introduction = NodeIntroduction({}, owed, owed, now)
        await introduction.introduce_at_start()
        waited = now()
        await asyncio.sleep(1.5)
        owed.resolve_at_start.side_effect = None
        await asyncio.sleep(1.0)
        await introduction.stop()
        return waited, introduction.start_is_over

    waited, is_over = run(start())
    assert (3.0 < waited < 3.1, is_over) == (True, True)
    gc.collect()
    (said,) = caplog.messages
    assert said.endswith("; the gateway retries in the background")


# ---------------------------------------------------------------------- lies at the start


@pytest.fixture
@asynccontextmanager
async def lies(gateway, client):
    """By verb, what the operator answers in place of the truth: of the user and the request; and
    what it has been asked. Afterwards the other one signs."""
    share = client.give_key("ed25519")
    user_id, node = await client.user_id(), gateway.links[OPERATOR].node
    lies, asked = {}, []

    def handle(verb, grant, body, honest=node.handle):
        asked.append(verb)
        return lies[verb](user_id, body) if verb in lies else honest(verb, grant, body)

    node.handle = handle
    yield lies, asked
    await client.sign(share, signer=INSTITUTION)


def held(key_id, user_id="nobody", curve="ed25519", state=VOTED):
    return ShareInfo(key_id, user_id, curve, b"\2" * 32, state, 0)


def page(body, many=PAGE):
    """One more page, always."""
    after = int(ListShares.from_bytes(body).after or "0", 16)
    return ShareInfoPage.of([held(f"{after + n + 1:064x}") for n in range(many)]).to_bytes()


def refuse(user_id, body):
    raise Refused(400, "no")


IMPOSSIBLE = {
    "no encoding": lambda user_id, body: b"\0",
    "the same page again": lambda user_id, body: ShareInfoPage.of(
        [held(f"{n:064x}") for n in range(PAGE)]
    ).to_bytes(),
    "a share twice": lambda user_id, body: ShareInfoPage.of([held("ab" * 32)] * 2).to_bytes(),
    "out of order": lambda user_id, body: ShareInfoPage.of([held("b"), held("a")]).to_bytes(),
    "a page without end": lambda user_id, body: page(body),
    "no such curve": lambda user_id, body: ShareInfoPage.of(
        [held("a", user_id, "p-256")]
    ).to_bytes(),
}


@pytest.mark.parametrize("lie", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
async def test_what_a_node_cannot_hold_is_that_nodes_failure(monkeypatch, gateway, lies, lie):
    monkeypatch.setattr(activation, "MOST_HOLDINGS", 3 * PAGE)
    lies[0]["holdings"] = lie
    with pytest.raises(LinkFailed) as failed:
        await gateway.gateway.activation.resolve_at_start()
    assert failed.value.party == OPERATOR
    assert lies[1].count("holdings") <= 5


async def test_pages_that_are_full_have_others_behind_them(monkeypatch, gateway, lies):
    """As many as there may be, exactly."""
    monkeypatch.setattr(activation, "MOST_HOLDINGS", 2 * PAGE)
    pages, afters = iter([PAGE, PAGE, 0]), []

    def holdings(user_id, body):
        afters.append(ListShares.from_bytes(body).after)
        return page(body, next(pages))

    lies[0]["holdings"] = holdings
    await gateway.gateway.activation.resolve_at_start()
    assert afters == ["", *(f"{many * PAGE:064x}" for many in (1, 2))]


async def test_a_node_that_makes_no_statement_about_a_key_is_reported(caplog, gateway, lies):
    def holdings(user_id, body):
        return ShareInfoPage.of([held("ab" * 32, user_id)]).to_bytes()

    lies[0].update(holdings=holdings, testify=refuse)
    await gateway.gateway.activation.resolve_at_start()
    assert any(line.endswith(": no") for line in caplog.messages)
    assert "merge" not in lies[1]


@pytest.mark.parametrize("verb", ["testify", "merge"])
async def test_a_node_that_is_out_of_reach_has_not_merged_a_key(verb, monkeypatch, gateway, client):
    client.give_key("ed25519")
    link = gateway.links[OPERATOR]
    call = link.call
    with link.node.store._database.transaction() as cursor:
        cursor.execute("UPDATE shares SET unmerged = 1")

    async def lost(scope, *rest):
        if scope.verb == verb:
            raise node_unreachable(OPERATOR)
        return await call(scope, *rest)

    monkeypatch.setattr(link, "call", lost)
    with pytest.raises(LinkFailed):
        await gateway.gateway.activation.merge(OPERATOR, client.token_user, "ed25519", Times())


async def test_a_node_that_is_out_of_reach_at_the_start_is_not_taken_to_be_done(gateway, lies):
    def holdings(user_id, body):
        return ShareInfoPage.of([held("ab" * 32, user_id)]).to_bytes()

    def lost(user_id, body):
        raise node_unreachable(OPERATOR)

    lies[0].update(holdings=holdings, standing=lost)
    with pytest.raises(LinkFailed):
        await gateway.gateway.activation.resolve_at_start()


def standing(active, voted=None):
    return lambda user_id, body: ActivationState(active, voted).to_bytes()


HELD = HeldShare(b"\xab" * 32, b"\2" * 32, 0, vote_of(OPERATOR, "another"))
OTHERWISE = {
    "in force now": standing(HELD),
    "voted for now": standing(None, HELD),
    "nothing now": standing(None),
    "it refuses": refuse,
}


@pytest.mark.few(8)
@pytest.mark.parametrize("curve", ["ed25519", "secp256k1"])
@pytest.mark.parametrize("state", [ACTIVE, VOTED, "some other"])
@pytest.mark.parametrize("lie", OTHERWISE.values(), ids=OTHERWISE)
async def test_a_node_that_contradicts_itself_is_reported(caplog, gateway, lies, curve, state, lie):
    """Of a key that there is, and of one that there is not."""

    def holdings(user_id, body):
        return ShareInfoPage.of([held("ab" * 32, user_id, curve, state)]).to_bytes()

    lies[0].update(holdings=holdings, standing=lie)
    with caplog.at_level(logging.WARNING):
        await gateway.gateway.activation.resolve_at_start()
    assert "key of user" in caplog.text
    own = [
        r.getMessage()
        for r in caplog.records
        if r.name == "mpcsim.service.gateway.activation.activation"
    ]
    assert all(line.startswith(("ed25519 key of user ", f"{curve} key of user ")) for line in own)
