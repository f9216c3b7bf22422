"""A caller's sessions with the MPC nodes, through the gateway."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mpcsim.crypto.rng import Rng
from mpcsim.errors import AbortReason
from mpcsim.ids import PartyId
from mpcsim.protocols.engine import Party
from mpcsim.protocols.engine.envelope import ABORT_KIND, Envelope
from mpcsim.service.rpc.session_keys import SessionKey
from mpcsim.service.rpc.tokens import Claims, TokenError, TokenFault
from mpcsim.service.rpc.wire import Hello
from mpcsim.service.web.request_records import annotate_request
from node.errors import NotFound, Unauthorized
from node.gateway_client.client import GatewayClient
from node.process.timing import Timing
from node.process.workers import Workers
from node.signing.client_party import AbortHandling, ClientParty, Messages, OnCheat, Post

R = TypeVar("R")
Nodes = Mapping[PartyId, Hello]
"""Hello of each MPC node."""


@dataclass(frozen=True)
class Caller:
    """Caller of the node: a verified access token."""

    token: str = field(repr=False)
    claims: Claims
    gone: Callable[[], Coroutine[Any, Any, None]] | None = field(
        default=None, repr=False, compare=False
    )
    """Returns once nobody waits for the answer, where that can be told."""


def seal_keys(nodes: Nodes) -> dict[PartyId, bytes]:
    return {party: hello.seal_key for party, hello in nodes.items()}


def identities(nodes: Nodes) -> dict[PartyId, bytes]:
    return {party: hello.identity for party, hello in nodes.items()}


def boots(nodes: Nodes) -> dict[PartyId, bytes]:
    return {party: hello.boot for party, hello in nodes.items()}


class Sessions:
    """Makes the client's parties."""

    def __init__(
        self,
        gateway: GatewayClient,
        workers: Workers,
        rng: Rng,
        now: Callable[[], float] = time.time,
        *,
        apart: bool = False,
    ) -> None:
        """
        Args:
            now: seconds since 1970 UTC, for the expiry of tokens.
            apart: messages to an MPC node that go at one time go in requests of their own.
        """
        self._gateway = gateway
        self._apart = apart
        self._workers = workers
        self._rng = rng
        self._now = now
        self.aborts: Counter[AbortReason] = Counter()
        """Sessions that a client's party has aborted, by reason."""

    def fresh_key(self) -> SessionKey:
        """Return the key of a new session."""
        return SessionKey(self._rng)

    def exchange(self, token: str, key: SessionKey, *, apart: bool = False) -> Post:
        """Return what sends further messages of a session.

        Args:
            apart: each in a request of its own. These go at once, over connections of their own,
                whose windows are their own, too; the gateway takes them in any order.
        """

        async def post(messages: Messages) -> Sequence[bytes]:
            if not apart or any(Envelope.decode(m).kind == ABORT_KIND for m in messages):
                return await self._gateway.exchange(token, key, messages)
            parts = [self._gateway.exchange(token, key, (m,)) for m in messages]
            answers = await asyncio.gather(*parts, return_exceptions=True)
            errors = [each for each in answers if isinstance(each, BaseException)]
            if errors:  # what ended the session says more than that it has ended
                raise next((e for e in errors if not isinstance(e, NotFound)), errors[0])
            return [data for mail in answers for data in mail]  # type: ignore[union-attr]

        return post

    def client(
        self,
        caller: Caller,
        party: Party[Any, R],
        key: SessionKey,
        timing: Timing,
        *,
        nodes: Nodes | None = None,
        threaded: bool = False,
        suspend: OnCheat | None = None,
    ) -> ClientParty[R]:
        """
        Args:
            nodes: of a session in which the client and the MPC nodes do not know each other yet.
        """
        annotate_request(session_id=party.session_id)
        apart = self._apart and nodes is None
        return ClientParty(
            party,
            self.exchange(caller.token, key, apart=apart),
            workers=self._workers,
            timing=timing,
            identities=identities(nodes or {}),
            threaded=threaded,
            check_token=lambda: self.check_token(caller),
            on_abort=AbortHandling(suspend, self.aborts, self._rng),
        )

    def check_token(self, caller: Caller) -> None:
        """
        Raises:
            Unauthorized: the caller's token has expired meanwhile.
        """
        if self._now() >= caller.claims.expires_at:
            raise Unauthorized(TokenError(TokenFault.JWT_EXPIRED).detail())
