"""Argon2id in a thread, beside a protocol run."""

from __future__ import annotations

import asyncio
from typing import Self

from mpcsim.vault import Argon2Cost, password_key, wipe
from node.timing import Timing
from node.workers import Workers


class PasswordKey:
    """pw_key of a new vault in the making. A context manager: at its end the key is overwritten,
    or as soon as it is there, whichever is later."""

    def __init__(
        self, password: str, salt: bytes, cost: Argon2Cost, workers: Workers, timing: Timing
    ) -> None:
        self.salt = salt
        self.cost = cost
        self.timing = timing
        self._password = password
        self._workers = workers
        self._pw_key: asyncio.Future[bytearray] | None = None

    def start(self) -> None:
        """Begin; nothing is computed before."""

        def work() -> bytearray:
            with self.timing.span("argon2"):
                return password_key(self._password, self.salt, self.cost)

        self._pw_key = self._workers.argon2(work)

    async def key(self) -> bytearray:
        """pw_key."""
        if self._pw_key is None:
            self.start()
        assert self._pw_key is not None
        return await asyncio.shield(self._pw_key)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._pw_key is None:
            return
        if self._pw_key.done():
            _wipe_result(self._pw_key)
        else:
            self._pw_key.add_done_callback(_wipe_result)

    def __repr__(self) -> str:
        return "PasswordKey(<redacted>)"


def _wipe_result(future: asyncio.Future[bytearray]) -> None:
    if not future.cancelled() and future.exception() is None:
        wipe(future.result())
