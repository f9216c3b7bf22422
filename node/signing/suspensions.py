"""Keys with which this node has caught an MPC node cheating.

The node refuses them at once, and sees to it that the gateway hears of it: from then on the gateway
refuses them, and whatever other nodes there are need not know.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from mpcsim.crypto.rng import Rng
from mpcsim.ids import MPC_NODES
from mpcsim.service.errors import key_suspended
from mpcsim.service.process.backoff import retry_pauses
from mpcsim.service.rpc import suspension_notices
from mpcsim.service.rpc.wire import AbortedSession, Suspend
from node.checks import OpenedShare, cannot_begin
from node.errors import ApiError, Upstream
from node.gateway_client.client import GatewayClient
from node.process.logs import logger
from node.process.workers import Workers

REPORT_S: Final = 3.0
"""Seconds that a caller waits for the gateway to know."""
FIRST_RETRY_S: Final = 0.5
LAST_RETRY_S: Final = 30.0
"""Between two attempts: doubled after each, up to this."""
MAX_REPORTS: Final = 4096
"""Keys that the gateway does not know of and is told of again and again. Those beyond are refused,
too, but reported once."""


@dataclass
class Report:
    """Report that suspends a key, for an MPC node caught cheating in one session."""

    suspensions: Suspensions
    user_id: str
    opened: OpenedShare = field(repr=False)
    session_id: bytes
    rng: Rng = field(repr=False)
    tag: bytes = b""
    """The session's, once it is known."""

    async def __call__(self, culprit: int) -> bool:
        """Report; says whether the gateway has taken note already."""
        share = self.opened.share
        at = AbortedSession(self.user_id, share.record.epoch, self.session_id)
        sealed = {
            j: suspension_notices.seal_notice(share.peers[j].pair_secret, at, j, culprit, self.rng)
            for j in MPC_NODES
        }
        body = Suspend(at, self.tag, sealed, share.record.curve_name)
        return await self.suspensions.report(body, self.opened)


class Suspensions:
    """Suspensions that the gateway has not taken note of yet."""

    def __init__(self, gateway: GatewayClient, workers: Workers) -> None:
        self._gateway = gateway
        self._workers = workers
        self._refused: dict[bytes, asyncio.Task[bool]] = {}
        """Keys that are refused here, for as long as the gateway does not know of them."""
        self._closing = asyncio.Event()

    def check(self, key_id: bytes) -> None:
        """Check that a key is not suspended, as far as this node knows.

        Raises:
            ApiError: it is suspended.
        """
        if key_id in self._refused:
            raise cannot_begin(key_suspended())

    async def report(self, body: Suspend, opened: OpenedShare) -> bool:
        """Report a suspension. This goes on, whether or not the caller still waits.

        Args:
            opened: the share that must not be used any more.

        Returns:
            Whether the gateway has taken note already.
        """
        key_id = body.occasion.key_id
        once = len(self._refused) >= MAX_REPORTS
        task = self._refused[key_id] = self._workers.run_in_background(
            self._report_until_noted(body, opened, once)
        )
        await asyncio.wait([task], timeout=REPORT_S)
        return task.done() and not task.cancelled() and task.result()

    def close(self) -> None:
        """Make every waiting report try a last time now."""
        self._closing.set()

    async def _report_until_noted(self, body: Suspend, opened: OpenedShare, once: bool) -> bool:
        """Ask until the gateway has taken note, or will not. That it knows no such key is no
        answer: its registry may have been put back."""
        key_id = body.occasion.key_id
        for pause_s in retry_pauses(FIRST_RETRY_S, LAST_RETRY_S):
            last = once or self._closing.is_set()
            try:
                await self._gateway.suspend(body, opened)
            except ApiError as error:
                final = isinstance(error, Upstream) and 400 <= error.upstream_status < 500
                if final or last:
                    text = "key %s is refused by this process, but could not be suspended: %s"
                    logger.error(text, key_id.hex(), error.message)
                    return False
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._closing.wait()
            else:
                break
        self._refused.pop(key_id, None)
        return True
