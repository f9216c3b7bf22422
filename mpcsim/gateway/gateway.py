"""The gateway's part in the protocols: it routes, it counts, and it decides which key is in force.

It carries envelopes between the client (in a node) and the two MPC nodes and reads only their
headers. Each request of a node is carried on until nothing is under way between the MPC nodes, so
that a node sees as few round trips as the protocol allows.

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
import math
from collections.abc import Callable, Coroutine, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakValueDictionary

from mpcsim.algebra.curves import CURVES
from mpcsim.errors import InvalidEncoding
from mpcsim.gateway import fitting
from mpcsim.gateway.links import LINK_TIMEOUT_S, Link, Times
from mpcsim.gateway.registry import Registry
from mpcsim.gateway.turns import Turns
from mpcsim.ids import CLIENT, MPC_NODES, SESSION_ID_BYTES, PartyId
from mpcsim.protocol.envelope import Envelope
from mpcsim.protocol.party import ABORT_KIND
from mpcsim.rpc import wire
from mpcsim.rpc.carrier import GATEWAY, Carrier
from mpcsim.rpc.database import CommitInDoubt
from mpcsim.rpc.errors import (
    BAD_REQUEST,
    CONFLICT,
    GENERATION,
    NOT_FOUND,
    RECOVERY,
    SIGNING,
    TIMED_OUT,
    UNAVAILABLE,
    LinkFailed,
    NodeFailed,
    Refused,
    busy,
    do_not_fit,
    key_exists,
    no_such_key,
    no_such_session,
    no_such_user,
    recovered_meanwhile,
    timed_out,
    undecided,
)
from mpcsim.rpc.lifetimes import MAKING_S, SIGNING_S
from mpcsim.rpc.threads import in_thread, to_the_end
from mpcsim.rpc.tokens import Claims

LOG = logging.getLogger(__name__)

LEASE_S: Final = 5.0
"""How long a session's caller may be silent before the key's next caller takes its place."""
CALLING_OFF_S: Final = 1.0
"""How long a request waits for the MPC nodes to hear that a session is off."""
MAX_WAVES: Final = 16
"""Deliveries between the MPC nodes within one request; honest protocols need at most 4."""


@dataclass
class _Session:
    """A session as the gateway sees it."""

    session_id: bytes
    user_id: str
    curve: str
    nodes: tuple[PartyId, ...]
    """MPC nodes that take part."""
    expires_at: float
    key_id: str | None
    """The key it acts on or replaces; None while it generates one."""
    making: bool
    """It makes a key, in steps that take tens of milliseconds."""
    place: Hashable
    """What the session has to itself while it is open."""
    leave: Callable[[], None]
    """Gives up the place."""
    heard_at: float
    """When the caller's last request was answered."""
    serving: int = 0
    """Requests of the caller that are not answered yet."""
    open_at: set[PartyId] = field(default_factory=set)
    """MPC nodes that may have it in their books."""
    expiry: asyncio.TimerHandle | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True)
class Asking:
    """Who asks, and where the time goes."""

    claims: Claims
    token: str = field(repr=False)
    times: Times = field(default_factory=Times)


class Gateway:
    """Sessions between nodes and MPC nodes, and the registry of keys."""

    def __init__(
        self,
        registry: Registry,
        links: Mapping[PartyId, Link],
        carrier: Carrier,
        *,
        clock: Callable[[], float],
        queue: int = 0,
        signing_s: float = SIGNING_S,
        making_s: float = MAKING_S,
        lease_s: float = LEASE_S,
    ) -> None:
        """A gateway.

        Args:
            links: to the operator and the institution.
            clock: monotonic seconds, for the expiry of sessions.
            queue: signing requests that may wait for one key at one MPC node; with 0 a second
                request is refused at once.
            signing_s: how long a signing session may take; ``making_s``: the others.
            lease_s: how long a session's caller may be silent before another takes its place.
        """
        self.registry = registry
        self.links = links
        self.carrier = carrier
        self._clock = clock
        self._sessions: dict[bytes, _Session] = {}
        self._signing_s = signing_s
        self._making_s = making_s
        self._lease_s = lease_s
        # Whoever waits for a client that is lost is to see its session end.
        self._signing = Turns(queue, signing_s + CALLING_OFF_S)
        self._making = Turns(0, 0.0)
        self._unclosed: dict[tuple[PartyId, str], dict[bytes, float]] = {}
        """By MPC node and key: sessions that are off though the node could not be told, and when
        it has forgotten them anyway."""
        self._misfits: set[fitting.At] = set()
        """Keys whose shares do not fit the registry: none of them is touched."""
        self._under_way: set[asyncio.Task[None]] = set()
        self._deciding: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._verbs: Mapping[str, Callable[[Asking, bytes], Any]] = {
            "open": self._open,
            "generate": self._generate,
            "recover": self._recover,
            "sign": self._sign,
            "exchange": self._exchange,
            "activate": self._activate,
            "suspend": self._suspend,
        }

    @property
    def verbs(self) -> frozenset[str]:
        """What a node may ask for."""
        return frozenset(self._verbs)

    def hellos(self) -> dict[PartyId, wire.Hello]:
        """Who the MPC nodes are."""
        return {party: link.node.hello() for party, link in self.links.items()}

    async def handle(self, verb: str, asking: Asking, data: bytes) -> bytes:
        """Answer one request of a node; ``wire`` says what the bodies are.

        Raises:
            Refused: with an HTTP status.
            TokenError: an MPC node does not accept the token.
        """
        await self.carrier.carry(CLIENT, GATEWAY, len(data))
        try:
            reply = await self._verbs[verb](asking, data)
        except InvalidEncoding as error:
            raise Refused(BAD_REQUEST, f"{verb}: {error}") from None
        found: bytes = b"" if reply is None else reply.to_bytes()
        await self.carrier.carry(GATEWAY, CLIENT, len(found))
        return found

    # ------------------------------------------------------------------ vault

    async def _open(self, asking: Asking, data: bytes) -> wire.Body:
        body = wire.OpenVault.from_bytes(data)
        key_id = body.key_id.hex()
        curve = self._curve_of(asking.claims, key_id)
        if set(body.halves) != set(MPC_NODES):
            raise Refused(BAD_REQUEST, "Invalid secret_store")

        async def ask(party: PartyId) -> bytes:
            request = wire.OpenHalf(body.key_id, body.reply_key, body.halves[party])
            reply = await self._ask_about_key(
                asking, party, "open", request, curve, key_id, quick=True
            )
            return wire.Half.from_bytes(reply).half

        halves = await _all([ask(party) for party in MPC_NODES])
        return wire.VaultOpened(dict(zip(MPC_NODES, halves, strict=True)))

    # ------------------------------------------------------------------ sessions begin

    async def _generate(self, asking: Asking, data: bytes) -> wire.Body:
        body = wire.Generate.from_bytes(data)
        user_id, curve = asking.claims.user_id, body.curve_name
        _whole_wallet(asking.claims)
        if curve not in CURVES:
            raise Refused(BAD_REQUEST, "Invalid curve")
        if self.registry.user(user_id) is None:  # it is older than the token
            raise no_such_user()
        async with self._decision(user_id, curve):
            if self.registry.key(user_id, curve):
                raise key_exists(curve)
            await self._settle(user_id, curve, asking.times)
        session = await self._begin(asking, body.session_id, curve, GENERATION)
        first = {party: wire.Generate(body.session_id, curve, ()) for party in MPC_NODES}
        mail, _ = await self._carry_on(asking, session, body.messages, "generate", first)
        return wire.Mail(mail)

    async def _recover(self, asking: Asking, data: bytes) -> wire.Body:
        body = wire.Recover.from_bytes(data)
        user_id, curve = asking.claims.user_id, body.curve_name
        _whole_wallet(asking.claims)
        if curve not in CURVES:
            raise Refused(BAD_REQUEST, "Invalid curve")
        async with self._decision(user_id, curve):
            key = self.registry.key(user_id, curve)
            if key is None:
                raise Refused(NOT_FOUND, f"no {curve} key is registered for this user")
            await self._settle(user_id, curve, asking.times)
        session = await self._begin(asking, body.session_id, curve, RECOVERY, key.key_id)
        first = dict.fromkeys(MPC_NODES, body)
        mail, records = await self._carry_on(asking, session, (), "recover", first)
        return wire.Recovering(records, mail)

    async def _sign(self, asking: Asking, data: bytes) -> wire.Body:
        body = wire.Sign.from_bytes(data)
        key_id = body.key_id.hex()
        curve = self._curve_of(asking.claims, key_id)
        signer = PartyId(body.signer)
        if signer not in MPC_NODES:
            raise Refused(BAD_REQUEST, "the signer is neither the operator nor the institution")
        session = await self._begin(asking, body.session_id, curve, SIGNING, key_id, (signer,))
        mail, _ = await self._carry_on(asking, session, body.messages, "sign", {signer: body})
        return wire.Mail(mail)

    async def _begin(
        self,
        asking: Asking,
        session_id: bytes,
        curve: str,
        what: str,
        key_id: str | None = None,
        nodes: tuple[PartyId, ...] = MPC_NODES,
    ) -> _Session:
        """Enter a session in the books, after its turn has come.

        Of makings, generations and recoveries, there is one for a user and curve; of signing
        sessions, one for a key at an MPC node.

        Raises:
            Refused: another session has the place, and its caller is not silent.
        """
        await self._expire()
        user_id, making = asking.claims.user_id, what != SIGNING
        place: Hashable = (user_id, curve) if making else (nodes, key_id)
        leave = await self._take(self._making if making else self._signing, place, what)
        if session_id in self._sessions:
            leave()
            raise Refused(CONFLICT, "a session of this id is open")
        lifetime_s = self._making_s if making else self._signing_s
        now = self._clock()
        session = _Session(
            session_id,
            user_id,
            curve,
            nodes,
            now + lifetime_s,
            key_id,
            making,
            place,
            leave,
            heard_at=now,
        )
        self._sessions[session_id] = session
        # Those who wait for the key's turn must not depend on the next request coming by.
        session.expiry = asyncio.get_running_loop().call_later(
            lifetime_s, lambda: self._start(self._call_off(session))
        )
        return session

    # ------------------------------------------------------------------ whose turn it is

    async def _take(self, turns: Turns, place: Hashable, what: str) -> Callable[[], None]:
        """Take the turn, from a caller who is silent if need be; returns what gives it up."""
        holder = self._holder(turns, place)
        if holder is not None and self._lease_left(holder) <= 0:
            await self._stop([holder])
            holder = self._holder(turns, place)
        relief = None
        if turns.queue and turns.taken(place):
            relief = self._start(self._relieve(turns, place))
        try:
            return await turns.take(place)
        except TimeoutError:
            holder = self._holder(turns, place)
            left = self._lease_left(holder) if holder is not None else 0.0
            raise busy(what, max(1, math.ceil(left))) from None
        finally:
            if relief is not None:
                relief.cancel()

    async def _relieve(self, turns: Turns, place: Hashable) -> None:
        """For somebody who waits for a place: end the session that has it once its caller is
        silent for too long."""
        soon = min(CALLING_OFF_S, self._lease_s)
        while turns.taken(place):
            holder = self._holder(turns, place)  # none while one is being called off
            left = soon if holder is None else self._lease_left(holder)
            if holder is not None and left <= 0:
                self._start(self._call_off(holder))
                left = soon
            await asyncio.sleep(left)

    def _holder(self, turns: Turns, place: Hashable) -> _Session | None:
        """The session that has a place."""
        if not turns.taken(place):
            return None
        return next((s for s in self._sessions.values() if s.place == place), None)

    def _lease_left(self, session: _Session) -> float:
        """Seconds after which others may take the session's place."""
        if session.serving:
            return self._lease_s
        return session.heard_at + self._lease_s - self._clock()

    @contextmanager
    def _serving(self, session: _Session) -> Iterator[None]:
        """While a request of the session's caller is being served, the caller is not silent."""
        session.serving += 1
        try:
            yield
        finally:
            session.serving -= 1
            session.heard_at = self._clock()

    # ------------------------------------------------------------------ sessions go on

    async def _exchange(self, asking: Asking, data: bytes) -> wire.Body:
        body = wire.Exchange.from_bytes(data)
        session = await self._session(asking.claims, body.session_id)
        mail, _ = await self._carry_on(asking, session, body.messages)
        return wire.Mail(mail)

    async def abandon(self, user_id: str, data: bytes) -> None:
        """Call off the session that a body names, if it is the user's; its token has expired."""
        session = self._sessions.get(data[:SESSION_ID_BYTES])
        if session is not None and session.user_id == user_id:
            await self._stop([session])

    async def _session(self, claims: Claims, session_id: bytes) -> _Session:
        await self._expire()
        session = self._sessions.get(session_id)
        if session is None or session.user_id != claims.user_id:
            raise no_such_session()
        if claims.key_id not in (None, session.key_id):
            raise no_such_session()
        return session

    async def _carry_on(
        self,
        asking: Asking,
        session: _Session,
        messages: Sequence[bytes],
        verb: str = "exchange",
        first: Mapping[PartyId, Any] | None = None,
    ) -> tuple[tuple[bytes, ...], dict[PartyId, bytes]]:
        """Carry messages until none is under way between MPC nodes.

        Args:
            first: what opens the session at each MPC node; it takes the messages along.

        Returns:
            The client's mail, and the records the MPC nodes gave.
        """
        with self._serving(session):
            return await self._in_turn(asking, session, messages, verb, first)

    async def _in_turn(
        self,
        asking: Asking,
        session: _Session,
        messages: Sequence[bytes],
        verb: str,
        first: Mapping[PartyId, Any] | None,
    ) -> tuple[tuple[bytes, ...], dict[PartyId, bytes]]:
        async with session.lock:
            self._check_open(session)
            try:
                sent = _addressed(session, CLIENT, messages)
                found = await self._waves(asking, session, sent, verb, first)
            except asyncio.CancelledError:
                self._start(self._call_off(session))
                raise
            except BaseException:
                await self._stop([session])
                raise
            struck_out = self._sessions.get(session.session_id) is not session
            if struck_out or any(envelope.kind == ABORT_KIND for envelope, _ in sent):
                await self._stop([session])  # the client will not go on, whoever else would
            elif not session.open_at:
                self._end(session)
            return found

    async def _waves(
        self,
        asking: Asking,
        session: _Session,
        sent: list[tuple[Envelope, bytes]],
        verb: str,
        first: Mapping[PartyId, Any] | None,
    ) -> tuple[tuple[bytes, ...], dict[PartyId, bytes]]:
        under_way = {CLIENT: sent}
        mail: list[tuple[Envelope, bytes]] = []
        records: dict[PartyId, bytes] = {}
        for _ in range(MAX_WAVES):
            boxes: dict[PartyId, list[tuple[Envelope, bytes]]] = {}
            for box in under_way.values():
                for envelope, data in box:
                    if envelope.receiver == CLIENT:
                        mail.append((envelope, data))
                    else:
                        boxes.setdefault(envelope.receiver, []).append((envelope, data))
            receivers = [p for p in session.nodes if first or (p in boxes and p in session.open_at)]
            if not receivers:
                break
            answers = await _all(
                [
                    self._deliver(asking, session, party, boxes.get(party, []), verb, first)
                    for party in receivers
                ]
            )
            under_way = {}
            for party, answer in zip(receivers, answers, strict=True):
                under_way[party] = _addressed(session, party, answer.messages)
                if answer.record is not None:
                    records[party] = answer.record
                if not answer.open:
                    session.open_at.discard(party)
            verb, first = "exchange", None
        return await self.carrier.strike(mail), records

    async def _deliver(
        self,
        asking: Asking,
        session: _Session,
        party: PartyId,
        box: Sequence[tuple[Envelope, bytes]],
        verb: str,
        first: Mapping[PartyId, Any] | None,
    ) -> wire.Answer:
        try:
            async with asyncio.timeout(self.links[party].timeout_s):
                messages = await self.carrier.strike(box)
        except TimeoutError:
            raise timed_out(party) from None
        request: wire.Body = wire.Exchange(session.session_id, messages)
        if first is not None:
            request = _with_messages(first[party], messages)
            await self._close_old(party, session.key_id)
            session.open_at.add(party)
        try:
            if verb == "sign":
                key_id = session.key_id or ""
                reply = await self._ask_about_key(
                    asking, party, verb, request, session.curve, key_id, quick=True
                )
            else:
                reply = await self._ask(asking, party, verb, request, quick=not session.making)
        except Refused as refused:
            never_had_it = first is not None and refused.status == UNAVAILABLE
            if never_had_it or not isinstance(refused, LinkFailed):
                session.open_at.discard(party)
            raise
        return wire.Answer.from_bytes(reply)

    # ------------------------------------------------------------------ sessions end

    def _check_open(self, session: _Session) -> None:
        """For whoever has waited for the session's lock."""
        if self._sessions.get(session.session_id) is not session:
            raise no_such_session()

    def _end(self, session: _Session) -> None:
        """Strike a session out of the books; its key's turn is free."""
        if self._sessions.get(session.session_id) is session:
            del self._sessions[session.session_id]
        if session.expiry is not None:
            session.expiry.cancel()
        session.leave()

    async def _call_off(self, session: _Session) -> None:
        """End a session before its time: tell the MPC nodes first, if they can be reached, so that
        whoever has the next turn does not find them busy."""
        if self._sessions.get(session.session_id) is session:
            del self._sessions[session.session_id]
        try:
            await _all([self._close(party, session) for party in session.open_at])
        finally:
            self._end(session)

    async def _close(self, party: PartyId, session: _Session) -> None:
        """Tell an MPC node that a session is off; remember if it cannot be told."""
        try:
            await self._close_at(party, session.session_id)
        except LinkFailed:
            if session.key_id is not None:
                # A node may have entered it in its books a little later than we did.
                old = self._unclosed.setdefault((party, session.key_id), {})
                old[session.session_id] = session.expires_at + LINK_TIMEOUT_S
        except NodeFailed:
            pass  # It cannot drop a prepared share now, and has said so; settling will.

    async def _close_at(self, party: PartyId, session_id: bytes) -> None:
        await self.links[party].call("close", "", wire.Close(session_id), Times())

    async def _close_old(self, party: PartyId, key_id: str | None) -> None:
        """Tell an MPC node what it could not be told before, as far as it matters for a key."""
        if key_id is not None and (old := self._unclosed.pop((party, key_id), None)):
            try:
                await _all([self._close_at(party, session_id) for session_id in old])
            except LinkFailed:
                self._unclosed[party, key_id] = old
                raise

    async def _stop(self, sessions: Sequence[_Session]) -> None:
        """Call sessions off; do not wait for it for long."""
        if tasks := [self._start(self._call_off(session)) for session in sessions]:
            await asyncio.wait(tasks, timeout=CALLING_OFF_S)

    async def _expire(self) -> None:
        now = self._clock()
        for at, old in list(self._unclosed.items()):
            if max(old.values()) <= now:
                del self._unclosed[at]
        await self._stop([s for s in self._sessions.values() if s.expires_at <= now])

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work that goes on whoever waits for it; the event loop itself would not hold on to it."""
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    # ------------------------------------------------------------------ a key comes into force

    async def _activate(self, asking: Asking, data: bytes) -> None:
        body = wire.Activate.from_bytes(data)
        session = await self._session(asking.claims, body.session_id)
        if not session.making:
            raise Refused(BAD_REQUEST, "a signing session makes no key")
        deadline = self._clock() + body.patience_ms / 1000
        with self._serving(session):
            async with session.lock:
                self._check_open(session)
                await to_the_end(self._decide(asking, session, body, deadline))

    async def _decide(
        self, asking: Asking, session: _Session, body: wire.Activate, deadline: float
    ) -> None:
        """Make the session's key the user's key, or call the session off."""
        user_id, curve = session.user_id, session.curve
        async with self._decision(user_id, curve):
            try:
                await self._vote(asking, session, body, deadline)
            except BaseException:
                await self._stop([session])
                raise
            # Decided. A node that misses the following hears of it when it is next asked.
            self._end(session)
            for other in list(self._sessions.values()):
                if session.key_id is not None and other.key_id == session.key_id:
                    self._end(other)
            try:
                await self._settle(user_id, curve, asking.times)
            except Exception as error:
                LOG.warning("a new key is in force, but not everywhere: %s", error)

    async def _vote(
        self, asking: Asking, session: _Session, body: wire.Activate, deadline: float
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
        present = self.registry.key(user_id, curve)
        if session.key_id is None and present is not None:
            raise key_exists(curve)
        if session.key_id is not None and (present is None or present.key_id != session.key_id):
            raise recovered_meanwhile()
        await in_thread(self.registry.intend, user_id, curve, key_id)
        replies = await _all([self._ask(asking, p, "vote", body) for p in MPC_NODES])
        keys = {wire.Voted.from_bytes(reply).public_key for reply in replies}
        if len(keys) != 1:
            raise Refused(CONFLICT, "the MPC nodes hold shares of different keys")
        if self._clock() > deadline:
            raise Refused(TIMED_OUT, "the MPC nodes' votes came too late")
        try:
            if session.key_id is None:
                await in_thread(self.registry.register, user_id, key_id, curve, keys.pop())
            else:
                await in_thread(self.registry.replace, user_id, curve, session.key_id, key_id)
        except CommitInDoubt as error:
            # Only the next start sees what was decided. Until then, no share may be dropped.
            self._misfits.add((user_id, curve))
            LOG.error("%s key of user %s: restart the gateway: %s", curve, user_id, error)
            raise undecided(error.told) from error

    async def _settle(self, user_id: str, curve: str, times: Times) -> None:
        """Bring both MPC nodes' stores in line with the registry; under the decision's lock."""
        if (user_id, curve) in self._misfits:
            raise do_not_fit()
        request = self._registered(user_id, curve)
        await _all([self.links[p].call("settle", "", request, times) for p in MPC_NODES])

    def settle_at_start(self) -> None:
        """See what fits together (``fitting``), and end whatever the last run left undecided,
        before the first request."""
        held = {party: link.node.holdings() for party, link in self.links.items()}
        fit = fitting.compare(self.registry, held)
        if fit.follow:
            self.registry.follow(fit.follow)
        self._misfits = fit.misfits
        for user_id, curve in fit.unsettled:
            for link in self.links.values():
                request = self._registered(user_id, curve)
                try:
                    link.node.handle("settle", "", request.to_bytes())
                except Refused as refused:  # one user's trouble; the others' keys work
                    LOG.error("%s key of user %s: %s", curve, user_id, refused)

    def _registered(self, user_id: str, curve: str) -> wire.Settle:
        """What the registry says."""
        key = self.registry.key(user_id, curve)
        return wire.Settle(user_id, curve, bytes.fromhex(key.key_id) if key else None)

    def _decision(self, user_id: str, curve: str) -> asyncio.Lock:
        """Held while it is decided which key of a user and curve is in force."""
        return self._deciding.setdefault((user_id, curve), asyncio.Lock())

    # ------------------------------------------------------------------ asking MPC nodes

    async def _suspend(self, asking: Asking, data: bytes) -> None:
        body = wire.Suspend.from_bytes(data)
        key_id = body.key_id.hex()
        curve = self._curve_of(asking.claims, key_id)
        calls = [
            self._ask_about_key(asking, party, "suspend", body, curve, key_id)
            for party in MPC_NODES
        ]
        await _all(calls)
        signing = [s for s in self._sessions.values() if s.key_id == key_id and not s.making]
        await self._stop(signing)

    def _curve_of(self, claims: Claims, key_id: str) -> str:
        """The curve of one of the caller's keys."""
        if claims.key_id in (None, key_id):
            for key in self.registry.keys(claims.user_id):
                if key.key_id == key_id:
                    return key.curve
        raise no_such_key()

    async def _ask(
        self, asking: Asking, party: PartyId, verb: str, body: wire.Body, *, quick: bool = False
    ) -> bytes:
        return await self.links[party].call(verb, asking.token, body, asking.times, quick=quick)

    async def _ask_about_key(
        self,
        asking: Asking,
        party: PartyId,
        verb: str,
        body: wire.Body,
        curve: str,
        key_id: str,
        *,
        quick: bool = False,
    ) -> bytes:
        """Ask for something a node does with a registered key; settle if it has not heard of it."""
        try:
            return await self._ask(asking, party, verb, body, quick=quick)
        except Refused as refused:
            if refused.status != NOT_FOUND:
                raise
        user_id = asking.claims.user_id
        async with self._decision(user_id, curve):
            if not self.registry.owns(user_id, key_id):
                raise no_such_key()
            await self._settle(user_id, curve, asking.times)
        return await self._ask(asking, party, verb, body, quick=quick)


def _addressed(
    session: _Session, source: PartyId, messages: Sequence[bytes]
) -> list[tuple[Envelope, bytes]]:
    """Messages with their headers read: of this session, from this sender, to one of its parties.

    Raises:
        Refused: one is not.
    """
    found = []
    for data in messages:
        try:
            envelope = Envelope.decode(data)
        except InvalidEncoding as error:
            raise Refused(BAD_REQUEST, f"messages: {error}") from None
        if envelope.session_id != session.session_id:
            raise Refused(BAD_REQUEST, "messages: of another session")
        if envelope.sender != source:
            raise Refused(BAD_REQUEST, f"messages: party {source} speaks for {envelope.sender}")
        if envelope.receiver == source or envelope.receiver not in (CLIENT, *session.nodes):
            raise Refused(BAD_REQUEST, f"messages: party {envelope.receiver} takes no part")
        found.append((envelope, data))
    return found


def _with_messages(first: Any, messages: tuple[bytes, ...]) -> wire.Body:
    """A session's opening request with the messages that reach the node with it."""
    match first:
        case wire.Generate():
            return wire.Generate(first.session_id, first.curve_name, messages)
        case wire.Sign():
            return wire.Sign(first.session_id, first.key_id, first.signer, first.message, messages)
        case _:
            return first  # type: ignore[no-any-return]


def _whole_wallet(claims: Claims) -> None:
    """A token for one key neither makes keys nor replaces them."""
    if claims.key_id is not None:
        raise no_such_key()


async def _all(calls: Sequence[Any]) -> list[Any]:
    """Wait for every call, then raise the first error, if any: no call goes on unobserved."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results
