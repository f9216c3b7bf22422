"""A key comes into force: which one it is, both MPC nodes' stores and the registry agree on.

A new key comes into force in two phases. Both MPC nodes *vote*: they are done and hold their new
shares durably. Then one write to the registry decides; and both nodes *settle*, that is, make
their stores agree with the registry. Whatever a crash interrupts, the registry has the old state
or the new one, and settling again (at every start, before every attempt, and when a node does not
know a registered key) brings the stores in line. Stores of different moments must not be settled:
that would drop shares. ``fitting`` finds them at the start, and their keys are left alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from weakref import WeakValueDictionary

from mpcsim.gateway import fitting
from mpcsim.gateway.links import Link, Times
from mpcsim.gateway.registry import Registry
from mpcsim.gateway.sessions import Asking, Session, Sessions
from mpcsim.ids import MPC_NODES, PartyId
from mpcsim.rpc import wire
from mpcsim.rpc.database import CommitInDoubt
from mpcsim.rpc.errors import (
    BAD_REQUEST,
    CONFLICT,
    NOT_FOUND,
    TIMED_OUT,
    Refused,
    do_not_fit,
    key_exists,
    no_such_key,
    recovered_meanwhile,
    undecided,
)
from mpcsim.rpc.grants import Scope
from mpcsim.rpc.threads import all_of, in_thread, to_the_end

LOG = logging.getLogger(__name__)


class Activation:
    """Decides which key of a user and curve is in force."""

    def __init__(
        self,
        registry: Registry,
        links: Mapping[PartyId, Link],
        sessions: Sessions,
        clock: Callable[[], float],
    ) -> None:
        """
        Args:
            clock: monotonic seconds, for what a caller has patience for.
        """
        self._registry = registry
        self._links = links
        self._sessions = sessions
        self._clock = clock
        self._misfits: set[fitting.At] = set()
        """Keys whose shares do not fit the registry: none of them is touched."""
        self._deciding: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def activate(self, asking: Asking, body: wire.Activate) -> None:
        """Make the key of a session the user's key, or call the session off."""
        session = await self._sessions.find(asking.claims, body.session_id)
        if not session.making:
            raise Refused(BAD_REQUEST, "a signing session makes no key")
        deadline = self._clock() + body.patience_ms / 1000
        async with self._sessions.serving(session):
            await to_the_end(self._decide(asking, session, body, deadline))

    async def _decide(
        self, asking: Asking, session: Session, body: wire.Activate, deadline: float
    ) -> None:
        user_id, curve = session.user_id, session.curve
        async with self.decision(user_id, curve):
            try:
                await self._vote(asking, session, body, deadline)
            except BaseException:
                await self._sessions.stop([session])
                raise
            # Decided. A node that misses the following hears of it when it is next asked.
            self._sessions.end(session)
            if session.key_id is not None:
                for other in self._sessions.of_key(session.key_id):
                    self._sessions.end(other)
            try:
                await self.settle(user_id, curve, asking.times)
            except Exception as error:
                LOG.warning("a new key is in force, but not everywhere: %s", error)

    async def _vote(
        self, asking: Asking, session: Session, body: wire.Activate, deadline: float
    ) -> None:
        """Ask for both votes, and write the registry; under the decision's lock.

        Args:
            deadline: after it the node takes the key for not registered, and tells its caller so:
                it must then never be.

        Raises:
            Refused: the registry is as it was. A node may have voted; settling takes that back.
                ``Undecided``: the registry's disk failed at the worst moment.
        """
        user_id, curve, key_id = session.user_id, session.curve, body.key_id.hex()
        present = self._registry.key(user_id, curve)
        if session.key_id is None and present is not None:
            raise key_exists(curve)
        if session.key_id is not None and (present is None or present.key_id != session.key_id):
            raise recovered_meanwhile()
        await in_thread(self._registry.intend, user_id, curve, key_id)
        scope = Scope("vote", user_id, body.key_id, body.session_id)
        votes = [self._links[p].call(scope, body, asking.times) for p in MPC_NODES]
        replies = await all_of(votes)
        keys = {wire.Voted.from_bytes(reply).public_key for reply in replies}
        if len(keys) != 1:
            raise Refused(CONFLICT, "the MPC nodes hold shares of different keys")
        if self._clock() > deadline:
            raise Refused(TIMED_OUT, "the MPC nodes' votes came too late")
        try:
            if session.key_id is None:
                await in_thread(self._registry.register, user_id, key_id, curve, keys.pop())
            else:
                await in_thread(self._registry.replace, user_id, curve, session.key_id, key_id)
        except CommitInDoubt as error:
            # Only the next start sees what was decided. Until then, no share may be dropped.
            self._misfits.add((user_id, curve))
            LOG.error("%s key of user %s: restart the gateway: %s", curve, user_id, error)
            raise undecided(error.told) from error

    async def settle(self, user_id: str, curve: str, times: Times) -> None:
        """Bring both MPC nodes' stores in line with the registry; under the decision's lock."""
        if (user_id, curve) in self._misfits:
            raise do_not_fit()
        scope, request = Scope("settle", user_id), self._registered(user_id, curve)
        await all_of([self._links[p].call(scope, request, times) for p in MPC_NODES])

    def settle_at_start(self) -> None:
        """See what fits together (``fitting``), and end whatever the last run left undecided,
        before the first request."""
        held = {party: link.node.holdings() for party, link in self._links.items()}
        fit = fitting.compare(self._registry, held)
        if fit.follow:
            self._registry.follow(fit.follow)
        self._misfits = fit.misfits
        for user_id, curve in fit.unsettled:
            for link in self._links.values():
                request = self._registered(user_id, curve)
                try:
                    grant = link.grant(Scope("settle", user_id))
                    link.node.handle("settle", grant, request.to_bytes())
                except Refused as refused:  # one user's trouble; the others' keys work
                    LOG.error("%s key of user %s: %s", curve, user_id, refused)

    def _registered(self, user_id: str, curve: str) -> wire.Settle:
        """What the registry says."""
        key = self._registry.key(user_id, curve)
        return wire.Settle(user_id, curve, bytes.fromhex(key.key_id) if key else None)

    def decision(self, user_id: str, curve: str) -> asyncio.Lock:
        """Held while it is decided which key of a user and curve is in force."""
        return self._deciding.setdefault((user_id, curve), asyncio.Lock())

    async def ask_about_key(
        self,
        asking: Asking,
        party: PartyId,
        scope: Scope,
        body: wire.Body,
        curve: str,
        key_id: str,
        *,
        quick: bool = False,
    ) -> bytes:
        """Ask for something a node does with a registered key; settle if it has not heard of it."""
        link = self._links[party]
        try:
            return await link.call(scope, body, asking.times, quick=quick)
        except Refused as refused:
            if refused.status != NOT_FOUND:
                raise
        user_id = asking.claims.user_id
        async with self.decision(user_id, curve):
            if not self._registry.owns(user_id, key_id):
                raise no_such_key()
            await self.settle(user_id, curve, asking.times)
        return await link.call(scope, body, asking.times, quick=quick)
