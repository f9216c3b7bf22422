"""The gateway starts though an MPC node says what cannot be; what the other can do is done."""

import logging
from contextlib import asynccontextmanager

import pytest

from mpcsim.ids import INSTITUTION, OPERATOR
from mpcsim.service.errors import LinkFailed, Refused
from mpcsim.service.gateway.activation import activation
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
from tests.helpers.voting import vote_of


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
