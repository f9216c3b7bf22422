"""What an MPC node refuses about presignatures, whichever of both signs."""

from dataclasses import replace

import pytest

from mpcsim.crypto.bip32 import path_bytes
from mpcsim.crypto.encoding import NO_CONTEXT
from mpcsim.crypto.rng import SeededRng
from mpcsim.ids import CLIENT, INSTITUTION, MPC_NODES, OPERATOR, ROLES
from mpcsim.service.errors import Refused, node_unreachable
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


def presigning(client, share, vault, count):
    """A request to make presignatures, with a proof of its own."""
    signer, session_id, first = OPERATOR, bytes(32), (bytes(32),)
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


@pytest.mark.parametrize("how", ["no vault", "a whole", "too many", "just as many as may be"])
async def test_presignatures_that_are_not_made(gateway, client, share, store, how):
    count = wire.MAX_BATCH + (how == "too many")
    vault = client._vault(share, store, OPERATOR, presignatures=count)
    node = gateway.links[OPERATOR].node
    node._vault.rewrap = lambda *_, **__: b"a half"
    asking = {
        "no vault": None,
        "a whole": replace(vault, halves={OPERATOR: vault.halves[OPERATOR]}, whole=1),
    }.get(how, vault)
    body = presigning(client, share, asking, count)
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


async def test_as_many_are_allowed_as_a_session_may_make(gateway, client, share, store, party):
    link, user_id, most = gateway.links[party], await client.user_id(), wire.MAX_BATCH
    for count in (most - 1, most, most + 1, 255):
        body = opening(client, share, store, party, count=count)
        allowance = wire.Half.from_bytes(asked(link, "open", user_id, body)).allowance
        assert allowance is not None
        for index in range(most + 1):
            using = replace(USING, signer=5 - party, allowance=allowance, index=index)
            body = opening(client, share, store, party, using=using)
            if index < min(count, most):
                asked(link, "open", user_id, body)
            with pytest.raises(Refused, match="no such presignature"):  # or no more
                asked(link, "open", user_id, body)


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


async def test_a_session_draws_from_its_nodes_generator(gateway, client, share, store):
    node, vault = gateway.links[OPERATOR].node, client._vault(share, store, OPERATOR)
    body = presigning(client, share, vault, 1)
    held, said = node._shares.decoded(node.store.find(share.record.epoch.hex())), []
    for _ in range(2):
        rng = SeededRng("the same")
        node._signing.context = replace(node._context, rng=rng)
        said.append(node._signing.signer(held, body).start())
    assert said[0] == said[1]


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
