"""Suspension of a key, and its attestation between the MPC nodes.

A suspended epoch (these shares of a key) is used for nothing more but recovering the key, since
another signing session with it would leak long-lived secrets. A recovery makes a new epoch.

Participants
    C      a client (the REST node, stateless) that caught an MPC node cheating in a signing session
    X, Y   the MPC nodes, X one and Y the other; each shares a pair secret with C in every epoch
    G      the gateway: remembers and delivers; cannot read a notice, and is not believed

Messages in order; [...] is durable at the sender before the message leaves
  by the client
    1   G -> C       tag: a MAC over (user, epoch, session, day), in the reply that opens a session
    2   C -> G       suspend(session, tag, a notice sealed for each node). C refuses the epoch from
                     then on, and repeats 2 until G has answered. No access token is needed
    3   G -> X, Y    [suspended; both notices] suspend(notice), repeated until answered
    4   X, Y -> G    [suspended, if the notice opens] signature over (epoch, notice, opened or not)
    5   G -> C       taken: when both nodes have been asked once, or after ``PROMPT_S``. If the
                     epoch has been replaced: the signed record of the present one instead of 3
    6   G            [the answers; lifted if both say "not opened"; forgotten after a recovery]
  by an MPC node
    1'  X            [suspended] its party aborted in a way that must not be tried again; only then
                     does anybody hear of the abort
  attestation, carried by ``attestations``
    2'  G -> X       attest
    3'  X -> G       signature over (X, time, all suspended epochs in force at X)
    4'  G -> Y       hear(signed statement)
    5'  Y            [these epochs are suspended at X]; the newest statement stays in memory
  Y uses an epoch only if neither itself nor X (5') has suspended it. Where Y opens a vault alone,
  it demands a statement of X that is at most an hour old; and it refuses if an hour has passed
  since it voted for newer shares, which may be in force at X.

Invariants
    S1  A node that has suspended an epoch never opens, signs or presigns with it again.
    S2  Only a holder of the client's share can make a notice open. Whoever had a session can
        suspend its key at G alone, until both nodes have signed that the notice does not open.
    S3  What cannot be written for want of space counts in memory, and is written later.
    S4  G keeps at most ``MAX_OF_KEY`` suspensions of a key, and takes ``MOST_OFTEN``; one more
        blocks it for ``FULL_S``, unless a node has confirmed one.

Crashes
    C after 2                G has the suspension, or C's next request is refused by the node
    G between 3 and 6        its next start delivers what is not answered
    G's registry restored    the nodes know: 5 waits until both have been asked
    a node's store restored  Y's statements tell it (``mpc_node.agreement.restore_reconciliation``,
                             and 2' to 5' at G's start)

Checked by: ``tests/service/gateway/test_suspensions``, ``test_cheating``; ``tests/node``:
``test_suspensions``, ``test_vault_policy``; the rows of ``tests/attacks/test_service`` on cheating.
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
    key_suspended,
    no_such_key,
)
from mpcsim.service.gateway.links.links import Link, Times, decode_answer
from mpcsim.service.gateway.registry import Registry, SuspensionNotice
from mpcsim.service.gateway.sessions.sessions import Sessions
from mpcsim.service.process.backoff import retry_pauses
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.grants import Scope
from mpcsim.service.rpc.statements import SuspensionReceipt, is_signed_by
from mpcsim.service.rpc.suspension_notices import notice_digest
from mpcsim.service.rpc.wire import AbortedSession
from mpcsim.service.storage.database import StoreFailed
from mpcsim.service.web.threads import in_thread
from mpcsim.service.web.user_limits import KeyedBuckets, TokenBucket

LOG = logging.getLogger(__name__)

PROMPT_S: Final = 2.0
"""Longest time that the client waits until both MPC nodes have been asked once."""
FIRST_RETRY_S: Final = 0.5
LAST_RETRY_S: Final = 60.0
"""Pause between two deliveries to an MPC node: doubled after each, up to this."""
MAX_OF_KEY: Final = 8
"""Suspensions of one key that are stored: an honest client asks for one, and clients that had
sessions one after the other for a few. The limit bounds what a client without a share, but with
many session tags, can store."""
MOST_OFTEN: Final = TokenBucket(64, 60.0)
"""Rate at which one key can be suspended: each time is written down and logged, also those that are
lifted at once."""
DAY_S: Final = 86_400.0
TAG_DAYS: Final = 7
"""Days for which a tag is good after that of its session: longer than a token, so that a client can
wait until the gateway is back; not for ever, or whoever once had a token could block the key until
it is recovered."""
FULL_S: Final = 60.0
"""Time for which a key is blocked by a suspension beyond that limit. Its client repeats the request
before (``node.signing.suspensions``); by then some of the others may have been lifted."""


class Suspensions:
    """Suspended keys of the gateway, and the delivery of notices. For one event loop."""

    def __init__(
        self,
        registry: Registry,
        links: Mapping[PartyId, Link],
        sessions: Sessions,
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        """Load the suspensions of the registry; nothing is delivered before ``deliver``.

        Args:
            links: to the operator and the institution.
            sessions: open sessions; those that sign with a suspended key are cancelled.
            clock: monotonic seconds.
            now: seconds since 1970 UTC.
        """
        self._registry = registry
        self._links = links
        self._sessions = sessions
        self._tag_key = registry.suspension_key()
        self._now = now
        self._clock = clock
        self._rate_limits = KeyedBuckets(MOST_OFTEN)
        """Rate limit of each key."""
        self._notices: dict[AbortedSession, dict[PartyId, SuspensionNotice]] = {}
        for notice in registry.suspension_notices():
            self._notices.setdefault(notice.at, {})[notice.party] = notice
        self._blocked_by = Counter(at.key_id for at in self._notices)
        """Number of reasons why a key is blocked: suspensions, and one more while a suspension that
        found no room is asked for again."""
        self._full: dict[bytes, asyncio.TimerHandle] = {}
        """Timers of keys that had no room for another suspension, until it is asked for again."""
        self._writing = asyncio.Lock()
        """Held while registry and memory are changed together."""
        self._undelivered: dict[AbortedSession, asyncio.Task[None] | None] = {
            at: None for at, notices in self._notices.items() if _undelivered(notices)
        }
        """Suspensions that an MPC node has yet to answer, and the task that delivers each."""
        self._pending: dict[AbortedSession, Mapping[PartyId, bytes]] = {}
        """Notices of those suspensions that the registry could not write yet (S3)."""
        registry.database.hold_reserve()
        self._delivery_tried: dict[AbortedSession, asyncio.Event] = {}
        """Events, set when this process has asked both MPC nodes once."""
        self._waiting = Counter[AbortedSession]()
        """Number of requests that wait for such an event."""

    def session_tag(self, at: AbortedSession) -> bytes:
        """Return the MAC that shows, for some days, that a client had this session (1)."""
        return _tag(self._tag_key, at, self._day)

    @property
    def _day(self) -> int:
        return int(self._now() // DAY_S)

    def is_authentic_tag(self, at: AbortedSession, tag: bytes) -> bool:
        """Return whether a tag is this session's, and of one of the last days."""
        # A clock may have been put back since.
        days = range(max(0, self._day - TAG_DAYS), self._day + 2)
        return any(hmac.compare_digest(tag, _tag(self._tag_key, at, day)) for day in days)

    def check(self, key_id: bytes) -> None:
        """Check that a key may be used.

        Raises:
            Refused: it is suspended.
        """
        if self._blocked_by[key_id] > 0:
            raise key_suspended()

    async def suspend(self, body: wire.Suspend) -> bytes:
        """Suspend a key (2 to 5); it stays so unless both MPC nodes answer "not opened".

        Returns:
            Nothing; if the epoch has been replaced, the present ``SignedRecord``, by which the
            client sees whether its own shares are older.

        Raises:
            Refused: the tag is not of this session, or old; or the user has no such key; or there
                are too many suspensions of this key, which is blocked for now.
            StoreFailed: the key is suspended in memory, and the write is repeated (S3).
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
            self.deliver()
            signing = [s for s in self._sessions.of_key(at.key_id.hex()) if not s.makes_key]
            await self._sessions.cancel(signing)
        if self._waiting[at] < MAX_OF_KEY:  # needs no token, and holds a connection
            self._waiting[at] += 1
            try:
                with suppress(KeyError, TimeoutError):
                    await asyncio.wait_for(self._delivery_tried[at].wait(), PROMPT_S)
            finally:
                self._waiting[at] -= 1
                self._waiting += Counter()  # drops zero counts
        return b""

    def _has_room(self, key_id: bytes) -> bool:
        """Return whether to store one more suspension of a key (S4); if not, an MPC node has
        confirmed one already, and the key is suspended for good.

        Raises:
            Refused: the limit is reached, and no MPC node has confirmed any; the key is blocked.
        """
        known = [notices for at, notices in self._notices.items() if at.key_id == key_id]
        if any(notice.opened for notices in known for notice in notices.values()):
            return len(known) < MAX_OF_KEY
        if len(known) < MAX_OF_KEY and not self._rate_limits.take(key_id, self._clock()):
            return True
        if key_id in self._full:
            self._full.pop(key_id).cancel()
        else:
            self._blocked_by[key_id] += 1
        loop = asyncio.get_running_loop()
        self._full[key_id] = loop.call_later(FULL_S, self._make_room, key_id)
        text = "too many suspensions of this key"
        raise Refused(UNAVAILABLE, text, round(FULL_S / 2), code=Code.BUSY)

    async def _remember(self, at: AbortedSession, notices: Mapping[PartyId, bytes]) -> None:
        """Suspend in memory first, where it counts at once, then in the registry (S3)."""
        self._notices[at] = {p: SuspensionNotice(at, p, notices[p]) for p in MPC_NODES}
        self._blocked_by[at.key_id] += 1
        self._undelivered[at] = None
        LOG.warning("%s is suspended", _label(at))
        self._pending[at] = notices
        await self._write(at)

    async def _write(self, at: AbortedSession) -> None:
        """Write a pending suspension to the registry."""
        await in_thread(self._registry.suspend, at, self._pending[at])
        self._pending.pop(at, None)

    @property
    def pending_count(self) -> int:
        """Number of suspensions that the registry could not write yet."""
        return len(self._pending)

    def _forget(self, at: AbortedSession) -> None:
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

    # ------------------------------------------------------------------ delivery

    def deliver(self) -> None:
        """Start to deliver, in the background, notices that are not answered yet (3)."""
        for at, task in self._undelivered.items():
            if task is None or task.done():
                self._delivery_tried.setdefault(at, asyncio.Event())
                self._undelivered[at] = asyncio.get_running_loop().create_task(self._deliver(at))

    @property
    def undelivered_count(self) -> int:
        """Number of notices that an MPC node has yet to answer."""
        return sum(len(_undelivered(self._notices.get(at, {}))) for at in list(self._undelivered))

    async def stop(self) -> None:
        """Cancel all deliveries; the next start resumes them."""
        tasks = [task for task in self._undelivered.values() if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _deliver(self, at: AbortedSession) -> None:
        """Repeat steps 3, 4 and 6 until the suspension is concluded."""
        for pause_s in retry_pauses(FIRST_RETRY_S, LAST_RETRY_S):
            try:
                if at in self._pending:
                    async with self._writing:
                        if at in self._pending:
                            await self._write(at)
            except Exception as error:  # its text may quote anything
                LOG.error(
                    "%s: the suspension is not stored yet: %s", _label(at), type(error).__name__
                )
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
            await asyncio.sleep(pause_s)

    async def _deliver_notice(self, notice: SuspensionNotice) -> None:
        """Ask one MPC node (3), and store its answer if its signature is authentic (4)."""
        at, who, link = notice.at, ROLES[notice.party], self._links[notice.party]
        try:
            scope = Scope("suspend", at.user_id, at.key_id, at.session_id)
            reply = await link.call(scope, wire.SuspendKey(at, notice.notice), Times())
            acknowledgement = decode_answer(wire.SuspendReply, notice.party, reply)
            statement = SuspensionReceipt(
                at.key_id, notice_digest(notice.notice), acknowledgement.opened
            )
            identity = (await link.hello()).identity  # of now: the node has just answered
            if not is_signed_by(identity, statement, acknowledgement.signature):
                LOG.error("the %s has not signed what it says of %s", who, _label(at))
                return
            if at in self._pending:
                return  # delivered again once the suspension can be written
            answered = replace(notice, opened=acknowledgement.opened)
            await in_thread(self._registry.acknowledge, answered, acknowledgement.signature)
            self._notices[at][notice.party] = answered
        except (Refused, StoreFailed) as error:
            LOG.warning("the %s has not suspended %s yet: %s", who, _label(at), error)

    async def _is_settled(self, at: AbortedSession) -> bool:
        """Conclude a suspension if it needs no more deliveries (6), and return whether it does not.

        A suspension for which no notice opened is lifted. After a recovery this one and earlier
        ones of the user are forgotten.
        """
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
            LOG.warning("%s is no longer suspended: %s", _label(each), why)
        return True

    def _is_replaced(self, at: AbortedSession) -> bool:
        """Return whether the shares are not the present ones of their user's key."""
        return not self._registry.is_present_key(at.user_id, at.key_id.hex())


def _tag(key: bytes, at: AbortedSession, day: int) -> bytes:
    """Return the tag of a session that was opened on a day, counted from 1970 UTC."""
    return tagged_mac(Tag.SUSPENSION_TAG, key, at.to_bytes(), u32(day))


def _undelivered(notices: Mapping[PartyId, SuspensionNotice]) -> list[SuspensionNotice]:
    return [notice for notice in list(notices.values()) if notice.opened is None]


def _label(at: AbortedSession) -> str:
    return f"key {at.key_id.hex()} of user {at.user_id}"
