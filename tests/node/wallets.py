"""A wallet over a gateway in this process, with a hand on the requests between the two."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from mpcsim.ids import PartyId
from mpcsim.primitives.bip32 import Path
from mpcsim.rpc import wire
from mpcsim.rpc.tokens import TokenVerifier
from mpcsim.rpc.transport import AsgiTransport, Reply
from mpcsim.service import OpenGateway
from mpcsim.vault import Argon2Cost
from node.gateway_client import GatewayClient
from node.models import KeyShareRecord, StoredShare
from node.sessions import Caller
from node.settings import Settings
from node.timing import Timing
from node.wallet import Wallet
from tests.helpers.adversary import Adversary
from tests.helpers.gateway import open_with

CHEAP = Argon2Cost(operations=1, memory_kib=8)
PASSWORD = "correct horse"

Pass = Callable[[], Awaitable[Reply]]
Hook = Callable[[str, Pass], Awaitable[Reply]]
"""Gets ``verb`` (or path, of what is no MPC verb) and what lets the request through."""


def stored_share(record: KeyShareRecord, **changed: Any) -> StoredShare:
    """What a caller sends back of a record; ``changed`` replaces members of it."""
    return StoredShare.model_construct(**(record.model_dump(exclude={"public_key"}) | changed))


@dataclass
class Meddler:
    """A transport that notes every request and can meddle with it."""

    inner: AsgiTransport
    hook: Hook | None = None
    seen: list[str] = field(default_factory=list)

    async def request(
        self,
        method: str,
        path: str,
        *,
        token: str | None,
        body: bytes | None = None,
        **options: Any,
    ) -> Reply:
        name = path.removeprefix("/mpc/v1/").removesuffix(f"?{wire.NO_GUESS.decode()}")
        self.seen.append(name)

        async def go_on() -> Reply:
            return await self.inner.request(method, path, token=token, body=body, **options)

        return await (go_on() if self.hook is None else self.hook(name, go_on))

    async def close(self) -> None:
        await self.inner.close()


class House:
    """Gateway, client, wallet."""

    def __init__(
        self,
        gateway: OpenGateway | None = None,
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
        token = self.gateway.token(name)
        return Caller(
            token, TokenVerifier(self.gateway.issuer.jwks(), "node", self.now).verify(token)
        )

    async def generate(
        self, curve: Any, name: str = "alice", key: str | None = None
    ) -> KeyShareRecord:
        """
        Args:
            key: ``Idempotency-Key``.
        """
        return await self.wallet.generate(self.caller(name), curve, PASSWORD, Timing(), key)

    async def recover(
        self, curve: Any, name: str = "alice", key: str | None = None
    ) -> KeyShareRecord:
        return await self.wallet.recover(self.caller(name), curve, PASSWORD, Timing(), key)

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


async def settled(house: House) -> None:
    """Let tasks that outlive their request come to an end."""
    while house.wallet._workers._tasks:
        await asyncio.wait(house.wallet._workers._tasks)
