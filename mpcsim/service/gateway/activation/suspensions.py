"""Keys that are suspended: nothing is done with their shares any more but recovering the key.

A client that catches an MPC node cheating asks for it (``wire.Suspend``). The gateway cannot tell
whether that is so: the notices are sealed for the MPC nodes. It remembers them before anything
else, opens no vault and begins no signature with these shares from then on, and tells both MPC
nodes until each has said, and signed, whether its notice opened. Only if neither did, nobody with a
share has asked: then the suspension is lifted.

The client is answered once both have been asked: what one MPC node knows outlives a registry that
is put back from a backup of before. If neither could be reached by then, the registry alone knows.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from mpcsim.crypto.hashing import Tag, tagged_mac, u32
from mpcsim.ids import MPC_NODES, ROLES, PartyId
from mpcsim.service.error_codes import Code
from mpcsim.service.errors import (
    BAD_REQUEST,
    FORBIDDEN,
    UNAVAILABLE,
    Refused,
    no_such_key,
    suspended,
)
from mpcsim.service.gateway.links.links import Link, Times, answered
from mpcsim.service.gateway.registry import Registry, SuspensionNotice
from mpcsim.service.gateway.sessions.sessions import Sessions
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.grants import Scope
from mpcsim.service.rpc.notices import digest
from mpcsim.service.rpc.statements import Suspended, signed_by
from mpcsim.service.rpc.wire import Occasion
from mpcsim.service.storage.database import StoreFailed
from mpcsim.service.web.threads import in_thread
from mpcsim.service.web.user_limits import TokenBucket

LOG = logging.getLogger(__name__)

PROMPT_S: Final = 2.0
"""How long the client may wait until the MPC nodes have been asked once."""
FIRST_RETRY_S: Final = 0.5
LAST_RETRY_S: Final = 60.0
"""Between two attempts to tell an MPC node: doubled after each, up to this."""
MAX_OF_KEY: Final = 8
"""Suspensions of one key that are remembered: an honest client asks for one, and clients that had
sessions one after the other for a few. Whoever has more tags and no share fills the registry with
no more than these."""
MOST_OFTEN: Final = TokenBucket(64, 60.0)
"""How often one key can be suspended: each time is written down and logged, also those that are
lifted at once."""
DAY_S: Final = 86_400.0
TAG_DAYS: Final = 7
"""How long a tag is good after the day of its session: for longer than a token, so that a client
can wait until the gateway is back; not for ever, or whoever once had a token could refuse the key
until it is recovered."""
FULL_S: Final = 60.0
"""How long a key is refused, beyond that, for one that could not be taken: its client asks again
before that (``signing.suspensions``), and by then some of the others have been seen through."""


class Suspensions:
    """The suspended keys. For one thread."""

    def __init__(
        self,
        registry: Registry,
        links: Mapping[PartyId, Link],
        sessions: Sessions,
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        """As the registry remembers them; nothing is delivered before ``deliver``.

        Args:
            links: to the operator and the institution.
            sessions: of which those that sign with a suspended key end.
            clock: monotonic seconds.
            now: seconds since 1970 UTC.
        """
        self._registry = registry
        self._links = links
        self._sessions = sessions
        self._tag_key = registry.suspension_key()
        self._now = now
        self._clock = clock
        self._full_at: dict[bytes, float] = {}
        """When keys that were suspended lately may be so as often as ever."""
        self._notices: dict[Occasion, dict[PartyId, SuspensionNotice]] = {}
        for notice in registry.suspension_notices():
            self._notices.setdefault(notice.at, {})[notice.party] = notice
        self._blocked_by = Counter(at.key_id for at in self._notices)
        """Why a key is not to be used: one for each suspension, and one more while one that found
        no room is asked for again."""
        self._full: dict[bytes, asyncio.TimerHandle] = {}
        """Keys of which there was no room for another suspension, until it is asked for again."""
        self._writing = asyncio.Lock()
        """Held while the registry and what is in memory are changed together."""
        self._undelivered: dict[Occasion, asyncio.Task[None] | None] = {
            at: None for at, notices in self._notices.items() if _undelivered(notices)
        }
        """Those of which an MPC node has yet to say what it makes of them, and who asks it."""
        self._pending: dict[Occasion, Mapping[PartyId, bytes]] = {}
        """Of those: what the registry could not write."""
        registry.database.hold_reserve()
        self._delivery_tried: dict[Occasion, asyncio.Event] = {}
        """Of those: that the MPC nodes have been asked once by this process;"""
        self._waiting = Counter[Occasion]()
        """and how many wait for that."""

    def session_tag(self, at: Occasion) -> bytes:
        """Return what shows, for some days, that somebody had this session."""
        return _tag(self._tag_key, at, self._day)

    @property
    def _day(self) -> int:
        return int(self._now() // DAY_S)

    def is_authentic_tag(self, at: Occasion, tag: bytes) -> bool:
        """Return whether a tag is this session's, and of one of the last days."""
        # A clock may have been put back since.
        days = range(max(0, self._day - TAG_DAYS), self._day + 2)
        return any(hmac.compare_digest(tag, _tag(self._tag_key, at, day)) for day in days)

    def check(self, key_id: bytes) -> None:
        """See that a key may be used.

        Raises:
            Refused: it is suspended.
        """
        if self._blocked_by[key_id] > 0:
            raise suspended()

    async def suspend(self, body: wire.Suspend) -> bytes:
        """Suspend a key. It is, for good or until both MPC nodes object, when this returns.

        Returns:
            Nothing; or, of shares that are not the present ones, the ``SignedRecord`` of those
            that are: whoever asks sees whether they are newer.

        Raises:
            Refused: the tag is not of this session, or old; or the key is none, or no longer one,
                of the user's; or, for now, there are too many of this key already: it is suspended.
            StoreFailed: it is suspended, but that could not be written, and is tried again.
        """
        at = body.occasion
        if not self.is_authentic_tag(at, body.tag):
            raise Refused(FORBIDDEN, "the suspension tag is not of this session")
        if set(body.notices) != set(MPC_NODES):
            raise Refused(BAD_REQUEST, "suspend: one notice for each MPC node expected")
        if not self._registry.is_present_key(at.user_id, at.key_id.hex()):
            present = self._registry.key(at.user_id, body.curve_name)
            if present is None or present.record is None:
                raise no_such_key()
            return present.record
        try:
            async with self._writing:
                if at in self._pending:
                    await self._write(at)
                elif at not in self._notices and self._has_room(at.key_id):
                    await self._remember(at, body.notices)
        finally:
            signing = [s for s in self._sessions.of_key(at.key_id.hex()) if not s.makes_key]
            await self._sessions.cancel(signing)
        self.deliver()
        if self._waiting[at] < MAX_OF_KEY:  # no token is needed, and each holds a connection
            self._waiting[at] += 1
            try:
                with suppress(KeyError, TimeoutError):
                    await asyncio.wait_for(self._delivery_tried[at].wait(), PROMPT_S)
            finally:
                self._waiting[at] -= 1
                self._waiting += Counter()  # without those of nobody
        return b""

    def _has_room(self, key_id: bytes) -> bool:
        """Whether one more suspension of a key is to be remembered. If not, it is suspended for
        good: an MPC node has said so.

        Raises:
            Refused: no more can be, and nothing is known of those that are.
        """
        known = [notices for at, notices in self._notices.items() if at.key_id == key_id]
        if any(notice.opened for notices in known for notice in notices.values()):
            return len(known) < MAX_OF_KEY
        if len(known) < MAX_OF_KEY and self._take_turn(key_id):
            return True
        if key_id in self._full:
            self._full.pop(key_id).cancel()
        else:
            self._blocked_by[key_id] += 1
        loop = asyncio.get_running_loop()
        self._full[key_id] = loop.call_later(FULL_S, self._make_room, key_id)
        text = "too many suspensions of this key"
        raise Refused(UNAVAILABLE, text, round(FULL_S / 2), code=Code.BUSY)

    def _take_turn(self, key_id: bytes) -> bool:
        """Count a suspension of a key; return False if there were too many lately."""
        now = self._clock()
        self._full_at = {key: at for key, at in self._full_at.items() if at > now}
        self._full_at[key_id], wait_s = MOST_OFTEN.take(self._full_at.get(key_id, now), now)
        return not wait_s

    async def _remember(self, at: Occasion, notices: Mapping[PartyId, bytes]) -> None:
        """First in memory, where it counts at once and stays: if the registry fails, it is owed."""
        self._notices[at] = {p: SuspensionNotice(at, p, notices[p]) for p in MPC_NODES}
        self._blocked_by[at.key_id] += 1
        self._undelivered[at] = None
        LOG.warning("%s is suspended", _label(at))
        self._pending[at] = notices
        try:
            await self._write(at)
        finally:
            self.deliver()

    async def _write(self, at: Occasion) -> None:
        """What is owed; whoever waits may leave when it is as good as written."""
        await in_thread(self._registry.suspend, at, self._pending[at])
        self._pending.pop(at, None)

    @property
    def pending(self) -> int:
        """How many suspensions the registry could not write."""
        return len(self._pending)

    def _forget(self, at: Occasion) -> None:
        del self._notices[at]
        self._pending.pop(at, None)
        self._release(at.key_id)

    def _make_room(self, key_id: bytes) -> None:
        del self._full[key_id]
        self._release(key_id)

    def _release(self, key_id: bytes) -> None:
        self._blocked_by[key_id] -= 1
        if not self._blocked_by[key_id]:
            del self._blocked_by[key_id]

    # ------------------------------------------------------------------ telling the MPC nodes

    def deliver(self) -> None:
        """Tell the MPC nodes, in the background, what they have not acknowledged yet."""
        for at, task in self._undelivered.items():
            if task is None or task.done():
                self._delivery_tried.setdefault(at, asyncio.Event())
                self._undelivered[at] = asyncio.get_running_loop().create_task(self._deliver(at))

    @property
    def undelivered(self) -> int:
        """How many notices an MPC node has yet to acknowledge."""
        return sum(len(_undelivered(self._notices.get(at, {}))) for at in list(self._undelivered))

    async def stop(self) -> None:
        """Deliver nothing more, in this process."""
        tasks = [task for task in self._undelivered.values() if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _deliver(self, at: Occasion) -> None:
        delay = FIRST_RETRY_S
        while True:
            try:
                if at in self._pending:
                    async with self._writing:
                        if at in self._pending:
                            await self._write(at)
            except Exception as error:  # its text may quote anything
                LOG.error("%s: that is not stored yet: %s", _label(at), type(error).__name__)
            await asyncio.gather(
                *(self._deliver_notice(n) for n in _undelivered(self._notices[at]))
            )
            self._delivery_tried[at].set()
            try:
                if await self._is_settled(at):
                    del self._undelivered[at], self._delivery_tried[at]
                    return
            except StoreFailed as error:
                LOG.error("%s stays suspended: %s", _label(at), error)
            await asyncio.sleep(delay)
            delay = min(2 * delay, LAST_RETRY_S)

    async def _deliver_notice(self, notice: SuspensionNotice) -> None:
        at, who, link = notice.at, ROLES[notice.party], self._links[notice.party]
        try:
            scope = Scope("suspend", at.user_id, at.key_id, at.session_id)
            reply = await link.call(scope, wire.SuspendKey(at, notice.notice), Times())
            said = answered(wire.Acknowledged, notice.party, reply)
            statement = Suspended(at.key_id, digest(notice.notice), said.opened)
            identity = (await link.hello(fresh=True)).identity
            if not signed_by(identity, statement, said.signature):
                LOG.error("the %s has not signed what it says of %s", who, _label(at))
                return
            if at in self._pending:
                return  # it is told once more when that can be written down
            answered_notice = replace(notice, opened=said.opened)
            await in_thread(self._registry.acknowledge, answered_notice, said.signature)
            self._notices[at][notice.party] = answered_notice
        except (Refused, StoreFailed) as error:
            LOG.warning("the %s has not suspended %s yet: %s", who, _label(at), error)

    async def _is_settled(self, at: Occasion) -> bool:
        """Whether nobody is left to be told. A suspension that nobody with a share has asked for is
        lifted; those of shares that are used no more are forgotten, this one and earlier ones of
        its user."""
        notices = self._notices[at]
        recovered = self._is_replaced(at)
        if _undelivered(notices) and not recovered:
            return False
        over = [
            each
            for each in self._notices
            if each.user_id == at.user_id
            and each not in self._undelivered
            and self._is_replaced(each)
        ]
        if recovered or not any(notice.opened for notice in notices.values()):
            over.append(at)
        for each in over:
            async with self._writing:
                if each in self._notices:
                    await in_thread(self._registry.lift, each)
                    self._forget(each)
            lifted = each == at and not recovered
            why = "no holder of a share asked for it" if lifted else "it has been recovered"
            LOG.warning("%s is suspended no more: %s", _label(each), why)
        return True

    def _is_replaced(self, at: Occasion) -> bool:
        """Return whether the shares are not the present ones of their user's key."""
        return not self._registry.is_present_key(at.user_id, at.key_id.hex())


def _tag(key: bytes, at: Occasion, day: int) -> bytes:
    """Return the tag of a session that was opened on a day, counted from 1970 UTC."""
    return tagged_mac(Tag.SUSPENSION_TAG, key, at.to_bytes(), u32(day))


def _undelivered(notices: Mapping[PartyId, SuspensionNotice]) -> list[SuspensionNotice]:
    return [notice for notice in list(notices.values()) if notice.opened is None]


def _label(at: Occasion) -> str:
    return f"key {at.key_id.hex()} of user {at.user_id}"
