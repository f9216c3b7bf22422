"""The gateway starts though an MPC node says what cannot be; what the other can do is done."""

import asyncio
import logging
from contextlib import closing

import pytest

from mpcsim.ids import INSTITUTION, OPERATOR
from mpcsim.service.errors import LinkFailed, Refused
from mpcsim.service.gateway.activation import activation
from mpcsim.service.operations import open_gateway
from mpcsim.service.rpc.activation_messages import (
    ACTIVE,
    PAGE,
    VOTED,
    ActivationState,
    ListShares,
    ShareInfo,
    ShareInfoPage,
)
from mpcsim.service.rpc.statements import HeldShare
from tests.helpers.gateway import Client
from tests.helpers.voting import vote_of


def start(work, **lies):
    """Run ``work(gateway, client)``, the operator answering by verb with lies: of its node, the
    user and the request to what it says."""

    async def whole():
        with closing(open_gateway()) as gateway:
            client = Client.of(gateway)
            share = await client.generate("ed25519")
            user_id, node = await client.user_id(), gateway.links[OPERATOR].node
            asked = []

            def handle(verb, grant, body, honest=node.handle):
                asked.append(verb)
                return lies[verb](user_id, body) if verb in lies else honest(verb, grant, body)

            node.handle = handle
            await work(gateway.gateway.activation)
            await client.sign(share, signer=INSTITUTION)
            return asked

    return asyncio.run(whole())


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
def test_what_a_node_cannot_hold_is_that_nodes_failure(monkeypatch, lie):
    monkeypatch.setattr(activation, "MOST_HOLDINGS", 3 * PAGE)

    async def work(activating):
        with pytest.raises(LinkFailed) as failed:
            await activating.resolve_at_start()
        assert failed.value.party == OPERATOR

    assert start(work, holdings=lie).count("holdings") <= 5


def test_pages_that_are_full_have_others_behind_them(monkeypatch):
    """As many as there may be, exactly."""
    monkeypatch.setattr(activation, "MOST_HOLDINGS", 2 * PAGE)
    pages, afters = iter([PAGE, PAGE, 0]), []

    async def work(activating):
        await activating.resolve_at_start()

    def holdings(user_id, body):
        afters.append(ListShares.from_bytes(body).after)
        return page(body, next(pages))

    start(work, holdings=holdings)
    assert afters == ["", *(f"{many * PAGE:064x}" for many in (1, 2))]


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
def test_a_node_that_says_first_this_and_then_that_is_reported(caplog, curve, state, lie):
    """Of a key that there is, and of one that there is not."""

    async def work(activating):
        with caplog.at_level(logging.WARNING):
            await activating.resolve_at_start()

    def holdings(user_id, body):
        return ShareInfoPage.of([held("ab" * 32, user_id, curve, state)]).to_bytes()

    start(work, holdings=holdings, standing=lie)
    assert "key of user" in caplog.text
    own = [
        r.getMessage()
        for r in caplog.records
        if r.name == "mpcsim.service.gateway.activation.activation"
    ]
    assert all(line.startswith(("ed25519 key of user ", f"{curve} key of user ")) for line in own)
