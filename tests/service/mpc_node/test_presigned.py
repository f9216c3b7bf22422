"""What an MPC node refuses about presignatures, whichever of both signs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest

from mpcsim.crypto.bip32 import path_bytes
from mpcsim.crypto.encoding import NO_CONTEXT
from mpcsim.crypto.rng import SeededRng
from mpcsim.ids import CLIENT, INSTITUTION, MPC_NODES, OPERATOR, ROLES
from mpcsim.service.errors import Refused, node_unreachable
from mpcsim.service.mpc_node import presignatures
from mpcsim.service.mpc_node.presignatures import PresignatureShares, UsageTokens
from mpcsim.service.rpc import wire
from mpcsim.service.vault import SigningRequest, VaultUse
from tests.helpers.gateway import REPLY_KEY, Failed, refusal
from tests.helpers.gateway import ask_node as asked


@pytest.fixture
def share(ec_share):
    return ec_share


@pytest.fixture
def store(client, share):
    """Of the vault of Alice's key."""
    return client.store(share)


def presigning(client, share, vault, count, signer=OPERATOR):
    """A request to make presignatures, with a proof of its own."""
    session_id, first = bytes(32), (bytes(32),)
    use = VaultUse.for_signing(
        share.record.epoch,
        client.token_user,
        client._boot(signer),
        SigningRequest(signer, session_id, b"", presignatures=count),
        first,
        vault.reply_key if vault else b"",
    )
    proof = wire.UseProof(use.boot, use.mac(share.auth_key(signer)))
    epoch = share.record.epoch
    return wire.Sign(session_id, epoch, signer, b"", (), first, proof, vault, count=count)


@pytest.mark.parametrize("signer", MPC_NODES)
@pytest.mark.parametrize("how", ["no vault", "a whole", "too many", "just as many as may be"])
async def test_presignatures_that_are_not_made(gateway, client, share, store, how, signer):
    count = wire.MAX_BATCH + (how == "too many")
    vault = client._vault(share, store, signer, presignatures=count)
    node = gateway.links[signer].node
    node._vault.rewrap = lambda *_, **__: b"a half"
    asking = {
        "no vault": None,
        "a whole": replace(vault, halves={signer: vault.halves[signer]}, whole=1),
    }.get(how, vault)
    body = presigning(client, share, asking, count, signer)
    if how == "just as many as may be":
        assert (await client.post("sign", body)).is_success
    else:
        said = f"1 to {wire.MAX_BATCH} presignatures, and with a vault"
        assert await refusal(client.ask("sign", body)) == (400, said)
    assert node.sessions == (how == "just as many as may be")


def opening(client, share, store, party=INSTITUTION, **about):
    """A request to an MPC node to open its half, with a proof."""
    using = about.get("using")
    use = VaultUse.for_opening(
        share.record.epoch,
        client.token_user,
        client._boot(party),
        REPLY_KEY,
        presignatures=about.get("count", 0),
        using=using.encode(NO_CONTEXT) if using else b"",
    )
    proof = wire.UseProof(use.boot, use.mac(share.auth_key(party)))
    return wire.OpenHalf(share.record.epoch, REPLY_KEY, store.halves[party], proof, **about)


USING = wire.HiddenPresignedRequest(OPERATOR, bytes(32), bytes(16), 0, bytes(32))


@pytest.mark.parametrize("signer", MPC_NODES)
async def test_either_side_lets_a_presignature_be_used_once(gateway, client, share, store, signer):
    """The one that signs, and the one that only opens its half: neither relies on the other."""
    other, user_id = 5 - signer, await client.user_id()
    (part,), allowance = await client.presign(share, store, signer=signer)
    body = client.begin_presigned(share, store, part, allowance, signer=signer)
    half = {signer: store.halves[signer]}
    signing = replace(body, vault=replace(body.vault, halves=half, proofs={}))
    for party, verb, request in (
        (signer, "presigned", signing),
        (other, "open", opening(client, share, store, other, using=body.using.hide())),
    ):
        asked(gateway.links[party], verb, user_id, request)
        with pytest.raises(Refused, match="no such presignature") as again:
            asked(gateway.links[party], verb, user_id, request)
        assert again.value.status == 410


@pytest.mark.parametrize("signer", MPC_NODES)
@pytest.mark.parametrize("how", ["suspended", "recovered", "restarted"])
async def test_neither_side_keeps_any_of_a_past_key(gateway, client, share, store, signer, how):
    nodes = [gateway.links[party].node for party in MPC_NODES]

    def kept():
        """On how many pools there is any: using one up would be all that shows it."""
        lists = [node._presignatures for node in nodes]
        pools = [pool for each in lists for pool in (each.shares, each.usage_tokens)]
        return sum(share.record.epoch.hex() in pool._of for pool in pools)

    await client.presign(share, store, 2, signer)
    assert kept() == 2
    if how == "suspended":
        await client.ask("suspend", await client.suspension(share))
    elif how == "recovered":
        await client.recover("secp256k1")
    else:
        for node in nodes:
            node.restart()
    assert kept() == 0


@pytest.mark.parametrize("about", [{"count": 1}, {"using": USING}], ids=["count", "using"])
async def test_nor_with_what_one_mpc_node_opens(gateway, client, share, store, about):
    link, user_id = gateway.links[INSTITUTION], await client.user_id()
    body = opening(client, share, store, **about)
    with pytest.raises(Refused, match="vaults that both MPC nodes open"):
        asked(link, "open", user_id, replace(body, whole=1))
    with pytest.raises(Refused, match="takes this for no request"):
        asked(link, "open", user_id, replace(body, proof=replace(body.proof, mac=bytes(32))))
    assert link.node._presignatures.usage_tokens._size == 0


async def test_the_other_node_hears_neither_message_nor_path(gateway, client, share, store):
    """And yet a hash of both, with what the signer alone hears, too: all of it is authenticated."""
    (part,), allowance = await client.presign(share, store)
    body = client.begin_presigned(share, store, part, allowance, path=(0x0A0B0C0D,))
    node, seen = gateway.links[INSTITUTION].node, []
    handle = node.handle
    node.handle = lambda verb, grant, data: (seen.append(data), handle(verb, grant, data))[1]
    await client.ask("presigned", body)
    hidden = body.using.message_hash, path_bytes(body.using.path)[-4:], body.using.rho
    assert not [data for data in seen for said in hidden if said in data]
    assert body.using.hide().encode(NO_CONTEXT) in seen[-1]


@pytest.mark.parametrize("signer", MPC_NODES)
async def test_who_is_not_the_signer_does_not_sign(gateway, client, share, store, signer):
    (part,), allowance = await client.presign(share, store, signer=signer)
    body = client.begin_presigned(share, store, part, allowance, signer=signer)
    link, user_id = gateway.links[5 - signer], await client.user_id()
    said = f"the {ROLES[link.node.me]} is not the signer asked for"
    for verb, request in (
        ("presigned", body),
        ("sign", client.begin_sign(share, signer=signer)[1]),
    ):
        with pytest.raises(Refused, match=said):
            asked(link, verb, user_id, request)


async def test_a_path_to_no_key_uses_nothing_up(gateway, client, share, store):
    (part,), allowance = await client.presign(share, store)
    body = client.begin_presigned(share, store, part, allowance, path=(1 << 31,))
    assert (await client.post("presigned", body)).status_code == 422
    assert gateway.links[OPERATOR].node._presignatures.shares._size == 1


async def test_a_part_that_was_used_elsewhere_in_the_process(gateway, client, share, store):
    (part,), allowance = await client.presign(share, store)
    pool = gateway.links[OPERATOR].node._presignatures.shares
    ((_, kept),) = pool._of[share.record.epoch.hex()].items()
    assert kept.holder == OPERATOR != CLIENT
    kept.use.spend()
    said = "this presignature has been used: a second signature with it gives the key away"
    body = client.begin_presigned(share, store, part, allowance)
    assert await refusal(client.ask("presigned", body)) == (410, said)


async def test_a_session_whose_client_is_told_of_a_failure_is_over(gateway, client, share, store):

    async def failing(*_):
        raise node_unreachable(INSTITUTION)

    gateway.gateway.activation.signed_record = failing
    with pytest.raises(Failed, match="cannot be reached"):
        await client.presign(share, store)
    assert not gateway.gateway.sessions._sessions


async def test_the_gateway_asks_nobody_about_a_suspended_key(gateway, client, share, store):
    (part,), allowance = await client.presign(share, store)
    body = client.begin_presigned(share, store, part, allowance)
    await client.ask("suspend", await client.suspension(share))
    for link in gateway.links.values():
        link.node.handle = lambda *_: pytest.fail("asked")
    gateway.app.recorder.counters.append((entries := []).append)
    for verb, request in (("presigned", body), ("open", client.opening(share, store.halves))):
        response = await client.post(verb, request)
        assert response.status_code == 409
        assert "this key is suspended" in response.json()["error"]
    assert [entry.key_id for entry in entries] == [share.record.epoch] * 2


# ---------------------------------------------------------------------- what is kept of them


class Keeping:
    """Parts or allowances: ``number`` names one of a key's."""

    def __init__(self, parts):
        self.kept = PresignatureShares() if parts else UsageTokens()
        self.parts = parts
        self.usage_tokens = {}

    def put(self, key_id, *numbers):
        for number in numbers:
            if self.parts:
                part = SimpleNamespace(id=bytes([number]))
                self.kept.keep(key_id, [part])
            else:
                self.usage_tokens[key_id, number] = self.kept.issue(key_id, 1, SeededRng(number))

    def take(self, key_id, number):
        if self.parts:
            self.kept.take(key_id, bytes([number]))
        else:
            self.kept.use(key_id, self.usage_tokens[key_id, number], 0)

    def there(self, key_id, *numbers):
        """Those that are there; afterwards they are not."""
        found = []
        for number in numbers:
            with suppress(Refused):
                self.take(key_id, number)
                found.append(number)
        return found


@pytest.fixture(params=[True, False], ids=["parts", "allowances"])
def keeping(request):
    return Keeping(request.param)


def test_each_is_used_once_and_of_its_own_key(keeping):
    keeping.put("a", 1, 2)
    keeping.usage_tokens["b", 1] = keeping.usage_tokens.get(("a", 1), b"")
    assert keeping.there("b", 1) == []
    assert keeping.there("a", 1, 1, 2, 2) == [1, 2]


def test_an_allowance_is_for_each_number_below_its_count():
    usage_tokens = UsageTokens()
    allowance = usage_tokens.issue("a", 2, SeededRng(1))
    for index in (0, 1):
        usage_tokens.use("a", allowance, index)
    for other in ((allowance, 2), (bytes(len(allowance)), 0)):
        with pytest.raises(Refused):
            usage_tokens.use("a", *other)


def test_of_one_key_the_oldest_go(keeping, monkeypatch):
    monkeypatch.setattr(presignatures, "MAX_OF_A_KEY", 3)
    for count, left in ((2, [0, 1]), (3, [0, 1, 2]), (4, [1, 2, 3])):
        keeping.put("other", 9)
        keeping.put("a", *range(count))
        assert keeping.there("a", *range(count)) == left
        assert keeping.there("other", 9) == [9]


def test_of_all_keys_that_one_goes_which_got_none_for_longest(keeping, monkeypatch):
    monkeypatch.setattr(presignatures, "MAX_OF_ALL", 5)
    for more, left in (([], [1, 2]), ([10], [1, 2]), ([10, 11], [])):
        keeping.put("a", 0)
        keeping.put("b", 1, 2)
        keeping.put("a", 3)
        keeping.put("c", *more)
        assert keeping.there("b", 1, 2) == left
        assert keeping.there("a", 0, 3) == [0, 3]
        assert keeping.there("c", *more) == more


def test_what_is_dropped_makes_room(keeping, monkeypatch):
    monkeypatch.setattr(presignatures, "MAX_OF_ALL", 5)
    keeping.put("a", 0, 1)
    keeping.put("b", 2, 3, 4, 5)
    keeping.put("c", 6)
    assert keeping.there("b", 2, 3, 4, 5) == [2, 3, 4, 5]
    assert keeping.there("c", 6) == [6]
