"""Authentication of callers: access tokens, verified with the gateway's public keys.

The gateway's keys, which are public, and which of the last tokens were good are all that the node
keeps between requests.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from mpcsim.errors import InvalidEncoding
from mpcsim.service.error_codes import Code
from mpcsim.service.rpc.tokens import Claims, TokenError, TokenVerifier, UnknownSigningKey, bearer
from node.errors import ApiError, Unauthorized, Upstream
from node.gateway_client.client import GatewayClient
from node.signing.sessions import Caller

AUDIENCE: Final = "node"
MOST_WAITING: Final = 250
"""Requests that may wait for keys, unless somebody says otherwise."""
TOO_MANY: Final = "too many requests wait for the gateway's keys; try again"
REFETCH_AFTER_S: Final = 0.25
"""Tokens that name an unknown key make the node ask the gateway for its keys at most this often;
until then they wait, since the key may be new."""


class Authenticator:
    """Checks bearer tokens; fetches the gateway's keys when it first needs them.

    Args:
        now: seconds since 1970 UTC, for the tokens' expiry.
        clock: seconds, monotonic.
        most_waiting: requests that may wait for keys at a time. Nobody knows yet who sent
            them, so that they must leave places to those whose tokens are good.
    """

    def __init__(
        self,
        gateway: GatewayClient,
        *,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._gateway = gateway
        self._most_waiting = most_waiting
        self._waiting = 0
        self._now = now
        self._clock = clock
        self._verifier: TokenVerifier | None = None
        self._asked = 0
        """Number of times that the keys have been asked for."""
        self._asked_at = -math.inf
        self._known_as_of = 0
        """Number of the fetch that the verifier is from."""
        self._fetching: asyncio.Task[TokenVerifier] | None = None

    async def caller(self, authorization: str | None) -> Caller:
        """The caller that an ``Authorization`` header names.

        Raises:
            Unauthorized: the token is missing, expired, invalid, or not an access token.
            ApiError: the gateway's keys cannot be had, or too many wait for the first ones.
        """
        try:
            token, asked = bearer(authorization), self._asked
            if (verifier := self._verifier) is None:
                with self._hold_place(ApiError(503, TOO_MANY, Code.BUSY)):
                    verifier = await self._fetch()
            try:
                claims = verifier.verify(token)
            except UnknownSigningKey:
                claims = await self._verify_with_new_keys(token, asked)
            return Caller(token, claims.require_access())
        except TokenError as error:
            raise Unauthorized(error.detail(), error.why) from None

    async def _verify_with_new_keys(self, token: str, asked: int) -> Claims:
        """Return the claims of a token whose key may be newer than the known ones.

        Args:
            asked: how often the keys had been asked for when it came. One answer that was asked
                for later has the key, if it is the gateway's.

        Raises:
            UnknownSigningKey: the key is not the gateway's, or too many wait already.
            ApiError: the keys cannot be had.
        """
        with self._hold_place(UnknownSigningKey()):
            while self._known_as_of <= asked:
                with suppress(UnknownSigningKey):
                    return (await self._fetch()).verify(token)
        raise UnknownSigningKey

    @contextmanager
    def _hold_place(self, full: Exception) -> Iterator[None]:
        """Wait for keys in the block, as one of so many.

        Args:
            full: raised if there is no place.
        """
        if self._waiting >= self._most_waiting:
            raise full
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    async def _fetch(self) -> TokenVerifier:
        """Ask for the keys; requests that come meanwhile wait for the same answer."""
        # One that is done is over, though it may not have been told so: whoever waited for it again
        # would not wait at all, and so without end.
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.create_task(self._fetch_now())
            self._fetching.add_done_callback(self._on_fetched)
        return await asyncio.shield(self._fetching)

    async def _fetch_now(self) -> TokenVerifier:
        early_s = self._asked_at + REFETCH_AFTER_S - self._clock()
        if self._verifier is not None and early_s > 0:
            await asyncio.sleep(early_s)
        self._asked += 1
        self._asked_at, number = self._clock(), self._asked
        jwks = await self._gateway.jwks()
        try:
            self._verifier = TokenVerifier(jwks, AUDIENCE, self._now)
        except InvalidEncoding as error:
            raise Upstream(200, "OK", str(error)) from None
        self._known_as_of = number
        return self._verifier

    def _on_fetched(self, task: asyncio.Task[TokenVerifier]) -> None:
        if self._fetching is task:
            self._fetching = None
        if not task.cancelled():
            task.exception()  # everyone who waited has it; nobody left is no reason to complain
