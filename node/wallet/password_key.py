"""Argon2id in a thread, beside a protocol run."""

from __future__ import annotations

import asyncio
from typing import Self

from mpcsim.service.vault import Argon2Cost, password_key, wipe
from node.process.argon2_queue import Argon2Queue, Computation
from node.process.timing import Timing
from node.signing.sessions import Caller


class PasswordKey:
    """pw_key of a new vault in the making. A context manager: at its end the key is overwritten,
    or as soon as it is there, whichever is later."""

    def __init__(
        self,
        password: str,
        salt: bytes,
        cost: Argon2Cost,
        *,
        queue: Argon2Queue,
        caller: Caller,
        timing: Timing,
    ) -> None:
        """
        Args:
            caller: whose turn it will be.

        Raises:
            PasswordsBusy: there is no room for another one to wait.
        """
        queue.check(caller.claims.user_id)
        self.salt = salt
        self.cost = cost
        self.timing = timing
        self._password = password
        self._queue = queue
        self._caller = caller
        self._computation: Computation[bytearray] | None = None

    def start(self) -> None:
        """Line up to be computed; not before.

        Raises:
            PasswordsBusy: there is no room any more.
        """

        def work() -> bytearray:
            with self.timing.span("argon2"):
                return password_key(self._password, self.salt, self.cost)

        self._computation = self._queue.submit(self._caller.claims.user_id, work, self._caller.gone)

    async def key(self) -> bytearray:
        """pw_key.

        Raises:
            CallerGone: the caller has hung up while it waited.
        """
        if self._computation is None:
            self.start()
        assert self._computation is not None
        return await self._computation.result()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._computation is None:
            return
        self._computation.abandon()
        if self._computation.future.done():
            _wipe_result(self._computation.future)
        else:
            self._computation.future.add_done_callback(_wipe_result)

    def __repr__(self) -> str:
        return "PasswordKey(<redacted>)"


def _wipe_result(future: asyncio.Future[bytearray]) -> None:
    if not future.cancelled() and future.exception() is None:
        wipe(future.result())
