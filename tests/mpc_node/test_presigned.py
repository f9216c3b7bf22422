"""What an MPC node refuses about presignatures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from mpcsim.encoding import NO_CONTEXT
from mpcsim.ids import CLIENT, INSTITUTION, OPERATOR
from mpcsim.keyshare import KeyShare
from mpcsim.rpc import wire
from mpcsim.rpc.errors import Refused
from mpcsim.vault import SecretStore, VaultUse
from tests.helpers.gateway import REPLY_KEY, Client, open_with, seal
from tests.helpers.gateway import ask_node as asked

Work = Callable[[Any, Client, KeyShare, SecretStore], Awaitable[None]]


def run(work: Work) -> None:
    async def whole() -> None:
        with closing(open_with()) as gateway:
            client = Client.of(gateway)
            share = await client.generate("secp256k1")
            store = SecretStore.from_text(seal(gateway, await client.user_id(), share)[1])
            await client.meet()
            await work(gateway, client, share, store)

    asyncio.run(whole())


async def refused(client: Client, verb: str, body: wire.Body, status: int, text: str) -> None:
    response = await client.post(verb, body)
    assert (response.status_code, response.json()["error"]) == (status, text)


def presigning(client: Client, share: KeyShare, vault: wire.Vault | None, count: int) -> wire.Sign:
    """A request to make presignatures, with a proof of its own."""
    signer, session_id, first = OPERATOR, bytes(32), (bytes(32),)
    use = VaultUse.signing(
        share.record.epoch,
        client._named(),
        client._boot(signer),
        signer=signer,
        session_id=session_id,
        message=b"",
        first=first,
        reply_key=vault.reply_key if vault else b"",
        presignatures=count,
    )
    proof = wire.UseProof(use.boot, use.mac(share.auth_key(signer)))
    epoch = share.record.epoch
    return wire.Sign(session_id, epoch, signer, b"", (), first, proof, vault, count=count)


@pytest.mark.parametrize("how", ["no vault", "a whole", "too many"])
def test_presignatures_that_are_not_made(how: str) -> None:
    async def work(gateway: Any, client: Client, share: KeyShare, store: SecretStore) -> None:
        count = wire.MAX_BATCH + (how == "too many")
        vault = client._vault(share, store, OPERATOR, presignatures=count)
        node = gateway.links[OPERATOR].node
        node._rewrapped = lambda *_, **__: b"a half"
        asking = {
            "no vault": None,
            "a whole": replace(vault, halves={OPERATOR: vault.halves[OPERATOR]}, whole=1),
            "too many": vault,
        }[how]
        said = f"1 to {wire.MAX_BATCH} presignatures, and with a vault"
        await refused(client, "sign", presigning(client, share, asking, count), 400, said)
        assert not node._sessions

    run(work)


def opening(client: Client, share: KeyShare, store: SecretStore, **about: Any) -> wire.OpenHalf:
    """A request to the institution to open its half, with a proof."""
    using = about.get("using")
    use = VaultUse.opening(
        share.record.epoch,
        client._named(),
        client._boot(INSTITUTION),
        REPLY_KEY,
        presignatures=about.get("count", 0),
        using=using.encode(NO_CONTEXT) if using else b"",
    )
    proof = wire.UseProof(use.boot, use.mac(share.auth_key(INSTITUTION)))
    half = store.halves[INSTITUTION]
    return wire.OpenHalf(share.record.epoch, REPLY_KEY, half, proof, **about)


USING = wire.Using(OPERATOR, bytes(32), bytes(16), 0, bytes(32), (), bytes(32))


@pytest.mark.parametrize("about", [{"count": 1}, {"using": USING}], ids=["count", "using"])
def test_nor_are_they_allowed_or_used_with_what_one_mpc_node_opens(about: dict[str, Any]) -> None:
    async def work(gateway: Any, client: Client, share: KeyShare, store: SecretStore) -> None:
        link, user_id = gateway.links[INSTITUTION], await client.user_id()
        body = opening(client, share, store, **about)
        with pytest.raises(Refused, match="vaults that both MPC nodes open"):
            asked(link, "open", user_id, replace(body, whole=1))
        with link.node._store._database.transaction() as cursor:
            cursor.execute("UPDATE shares SET legacy = 1")
        with pytest.raises(Refused, match="a secret_store of version 1 is not this key's"):
            asked(link, "open", user_id, replace(body, proof=None))
        assert link.node._allowances._shelf._size == 0

    run(work)


def test_who_is_not_the_signer_does_not_sign() -> None:
    async def work(gateway: Any, client: Client, share: KeyShare, store: SecretStore) -> None:
        (part,), allowance = await client.presign(share, store)
        body = client.begin_presigned(share, store, part, allowance)
        link, user_id = gateway.links[INSTITUTION], await client.user_id()
        with pytest.raises(Refused, match="the institution is not the signer asked for"):
            asked(link, "presigned", user_id, body)

    run(work)


def test_a_path_to_no_key_uses_nothing_up() -> None:
    async def work(gateway: Any, client: Client, share: KeyShare, store: SecretStore) -> None:
        (part,), allowance = await client.presign(share, store)
        body = client.begin_presigned(share, store, part, allowance, path=(1 << 31,))
        response = await client.post("presigned", body)
        assert response.status_code == 422
        assert gateway.links[OPERATOR].node._parts._shelf._size == 1

    run(work)


def test_a_part_that_was_used_elsewhere_in_the_process() -> None:
    async def work(gateway: Any, client: Client, share: KeyShare, store: SecretStore) -> None:
        (part,), allowance = await client.presign(share, store)
        shelf = gateway.links[OPERATOR].node._parts._shelf
        ((_, kept),) = shelf._of[share.record.epoch.hex()].items()
        assert kept.holder == OPERATOR != CLIENT
        kept.use.spend()
        said = "this presignature has been used: a second signature with it gives the key away"
        body = client.begin_presigned(share, store, part, allowance)
        await refused(client, "presigned", body, 410, said)

    run(work)


def test_the_gateway_asks_nobody_about_a_suspended_key() -> None:
    async def work(gateway: Any, client: Client, share: KeyShare, store: SecretStore) -> None:
        (part,), allowance = await client.presign(share, store)
        body = client.begin_presigned(share, store, part, allowance)
        await client.ask("suspend", await client.suspension(share))
        for link in gateway.links.values():
            link.node.handle = lambda *_: pytest.fail("asked")
        response = await client.post("presigned", body)
        assert response.status_code == 409
        assert "this key is suspended" in response.json()["error"]

    run(work)
