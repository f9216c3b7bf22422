"""A wallet over a gateway in this process, with a hand on the requests between the two."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import coincurve
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256

from mpcsim.crypto.bip32 import Path
from mpcsim.crypto.rng import SystemRng
from mpcsim.ids import PartyId
from mpcsim.protocols import ecdsa
from mpcsim.service.operations import RunningGateway
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.tokens import TokenVerifier
from mpcsim.service.vault import Argon2Cost, DerivedKey, new_salt, password_key
from mpcsim.service.web.transport import AsgiTransport, Reply
from node.errors import ApiError
from node.gateway_client.client import GatewayClient
from node.models import KeyShareRecord, PublicKey, StoredShare
from node.process.settings import Settings
from node.process.timing import Timing
from node.signing.sessions import Caller
from node.wallet.wallet import Wallet
from tests.helpers.adversary import Adversary
from tests.helpers.gateway import Client, open_with, seal

CHEAP = Argon2Cost(operations=1, memory_kib=8)
PASSWORD = "correct horse"

Pass = Callable[[], Awaitable[Reply]]
Hook = Callable[[str, Pass], Awaitable[Reply]]
"""Gets ``verb`` (or path, of what is no MPC verb) and what lets the request through."""


def stored_share(record: KeyShareRecord, **changed: Any) -> StoredShare:
    """What a caller sends back of a record; ``changed`` replaces members of it."""
    return StoredShare.model_construct(**(record.model_dump(exclude={"public_key"}) | changed))


def check_signature(public_key: str, message: bytes, signature: str) -> None:
    """By OpenSSL, and by libsecp256k1, of the recovery; keys and signatures as callers see them."""
    key, data = bytes.fromhex(public_key.removeprefix("0x")), bytes.fromhex(signature)
    if len(key) == 32:
        Ed25519PublicKey.from_public_bytes(key).verify(data, message)
        return
    r, s, v = int.from_bytes(data[:32], "big"), int.from_bytes(data[32:64], "big"), data[64]
    ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256K1(), key).verify(
        utils.encode_dss_signature(r, s), message, ec.ECDSA(utils.Prehashed(SHA256()))
    )
    assert s <= ecdsa.SECP256K1.order // 2
    compact = data[:64] + bytes([v - 27])
    found = coincurve.PublicKey.from_signature_and_message(compact, message, hasher=None)
    assert (len(data), found.format()) == (65, key)


@dataclass
class Meddler:
    """A transport that notes every request and can meddle with it."""

    inner: AsgiTransport
    hook: Hook | None = None
    seen: list[str] = field(default_factory=list)

    async def request(self, method: str, path: str, **options: Any) -> Reply:
        name = path.removeprefix("/mpc/v1/").removesuffix(f"?{wire.NO_GUESS.decode()}")
        self.seen.append(name)

        async def go_on() -> Reply:
            return await self.inner.request(method, path, **options)

        return await (go_on() if self.hook is None else self.hook(name, go_on))

    async def close(self) -> None:
        await self.inner.close()


class House:
    """Gateway, client, wallet."""

    def __init__(
        self,
        gateway: RunningGateway | None = None,
        *,
        identities: Mapping[PartyId, bytes] | None = None,
        settings: Settings | None = None,
        now: Callable[[], float] = time.time,
        **options: Any,
    ) -> None:
        self.now = now
        self.gateway = gateway or open_with(now=now, **options)
        self.transport = Meddler(AsgiTransport(self.gateway.app))
        self.client = GatewayClient(self.transport, identities)
        self.wallet = Wallet(self.client, cost=CHEAP, settings=settings or Settings(), now=now)

    def caller(self, name: str = "alice") -> Caller:
        token, verifier = self.gateway.token(name), self.gateway.issuer.jwks()
        return Caller(token, TokenVerifier(verifier, "node", self.now).verify(token))

    def give_key(self, curve: Any, name: str = "alice") -> KeyShareRecord:
        """A key in force, out of shares that were made before: where its making is not tested."""
        client, salt = Client.of(self.gateway, name), new_salt(SystemRng())
        share = client.give_key(curve)
        sealed = seal(
            self.gateway,
            client.token_user,
            share,
            share.to_bytes(),
            DerivedKey(password_key(PASSWORD, salt, CHEAP), salt, CHEAP),
            whole=self.wallet._whole,
        )
        public_key = "0x" + share.public_key.encode().hex()
        return KeyShareRecord(
            key_id=share.record.epoch.hex(),
            encrypted_share=sealed[0],
            secret_store=sealed[1],
            public_key=public_key,
            curve=curve,
        )

    async def generate(self, curve: Any, name: str = "alice", key: Any = None) -> KeyShareRecord:
        """
        Args:
            key: ``Idempotency-Key``.
        """
        return await self.wallet.generate(self.caller(name), curve, PASSWORD, Timing(), key)

    async def recover(self, curve: Any, name: str = "alice", key: Any = None) -> KeyShareRecord:
        return await self.wallet.recover(self.caller(name), curve, PASSWORD, Timing(), key)

    async def public_key(
        self,
        record: KeyShareRecord,
        path: Path | None = None,
        password: str = PASSWORD,
        **changed: Any,
    ) -> PublicKey:
        """Look into the vault of a stored record; ``changed`` replaces members of it."""
        sealed, caller = stored_share(record, **changed), self.caller()
        return await self.wallet.public_key(
            caller, sealed, password=password, path=path, timing=Timing()
        )

    async def matches(self, record: KeyShareRecord, password: str = PASSWORD) -> bool:
        """Whether it is the password of a stored record."""
        store, caller = record.secret_store, self.caller()
        return await self.wallet.validate_password(
            caller, password=password, secret_store=store, timing=Timing()
        )

    async def opens(self, record: KeyShareRecord) -> bool:
        """Whether the two strings of a stored record belong together."""
        strings = {n: getattr(record, n) for n in ("encrypted_share", "secret_store")}
        return await self.wallet.validate_share(self.caller(), **strings, timing=Timing())

    async def sign(
        self,
        record: KeyShareRecord,
        message: bytes = bytes(32),
        name: str = "alice",
        signer: str | None = None,
        path: Path = (),
        **changed: Any,
    ) -> str:
        """Sign with a stored record; ``changed`` replaces members of it."""
        signature, _ = await self.wallet.sign(
            self.caller(name),
            stored_share(record, **changed),
            message=message,
            signer=signer,
            path=path,
            timing=Timing(),
        )
        return signature

    async def presign(
        self, record: KeyShareRecord, count: int = 2, name: str = "alice", signer: str = "operator"
    ) -> list[str]:
        """Presignatures for a stored record."""
        sealed, caller = stored_share(record), self.caller(name)
        return await self.wallet.presign(
            caller, sealed, count=count, signer=signer, timing=Timing()
        )

    async def __aenter__(self) -> House:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.wallet.close()
        await self.client.close()


def refuse(house: House, record: KeyShareRecord) -> None:
    """Have the node know that a key is suspended, which the gateway has not heard of yet."""
    never = asyncio.get_running_loop().create_future()
    house.wallet._suspensions._refused[bytes.fromhex(record.key_id)] = never


def on(verb: str, act: Hook, *, nth: int = 1) -> Hook:
    """A hook that acts on the nth request of one kind and lets all others pass."""
    count = 0

    async def hook(name: str, go_on: Pass) -> Reply:
        nonlocal count
        count += name == verb
        return await (act(name, go_on) if name == verb and count == nth else go_on())

    return hook


def playing(protocol: Any, party: int, tamper: Any) -> Any:
    """A protocol as MPC nodes see it one of which tampers with what it sends."""

    def make(agreed: Any, **options: Any) -> Any:
        honest = protocol.party(agreed, **options)
        if honest.me != party:
            return honest
        adversary: Any = Adversary(honest, tamper)
        adversary.session_id, adversary.definition = honest.session_id, honest.definition
        return adversary

    return SimpleNamespace(**{**vars(protocol), "party": make})


async def refused(error: type[ApiError], call: Awaitable[object]) -> ApiError:
    """The error that comes of a call: of just this type, unless any will do."""
    with pytest.raises(error) as caught:
        await call
    assert error is ApiError or type(caught.value) is error
    return caught.value


async def failing(error: type[ApiError], call: Awaitable[object]) -> str:
    """What such an error says."""
    return (await refused(error, call)).message


def altering(kind: Any, change: Callable[[Any], Any]) -> Hook:
    """For a hook: a reply of one kind (a body of ``wire``) comes changed."""

    async def alter(name: str, go_on: Pass) -> Reply:
        reply = await go_on()
        return replace(reply, body=change(kind.from_bytes(reply.body)).to_bytes())

    return alter


def altering_vault(**changes: Any) -> Hook:
    """For a hook: the answer to a signature's first request has something else of the vault."""

    def change(begun: wire.SignReply) -> wire.SignReply:
        assert begun.vault is not None
        return replace(begun, vault=replace(begun.vault, **changes))

    return altering(wire.SignReply, change)


def altering_json(change: Callable[[Any], None]) -> Hook:
    """For a hook: the document of a reply is edited."""

    async def alter(name: str, go_on: Pass) -> Reply:
        reply = await go_on()
        document = json.loads(reply.body)
        change(document)
        return replace(reply, body=json.dumps(document).encode())

    return alter


def answering(answer: Reply | Exception) -> Hook:
    """For a hook: this, in the place of what the gateway would say; it is not asked."""

    async def say(name: str, go_on: Pass) -> Reply:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return say


def losing(answer: Reply | Exception) -> Hook:
    """For a hook: the gateway is asked, and its answer replaced."""

    async def lose(name: str, go_on: Pass) -> Reply:
        await go_on()
        return await answering(answer)(name, go_on)

    return lose


def meddling(house: House, verb: str, alter: Callable[[bytes], bytes]) -> None:
    """Have the gateway act on something else than what it is asked for."""
    inner = house.transport.inner
    request = inner.request

    async def meddled(method: str, path: str, *, body: Any = None, **options: Any) -> Reply:
        if path.partition("?")[0].endswith(verb) and body is not None:
            body = alter(body)
        return await request(method, path, body=body, **options)

    inner.request = meddled  # type: ignore[method-assign]


async def settled(house: House) -> None:
    """Let tasks that outlive their request come to an end."""
    while house.wallet._workers._tasks:
        await asyncio.wait(house.wallet._workers._tasks)
