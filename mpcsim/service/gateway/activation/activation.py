"""A key comes into force: both MPC nodes are asked to vote, and told of each other's votes.

What is asked, and what it comes to, is ``decision``'s; here it is carried out, for a key that has
just been made (``activate``), and to bring to its end what was interrupted (``resolve``): at the
start, before a key is made, and when a node does not know a registered key. The registry remembers
what was decided before either node acts on it.

An MPC node whose store was put back serves no key before it has heard of it from the other one:
then, and at the start for keys that do not simply fit, it is brought the other's testimony.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Final
from weakref import WeakValueDictionary

from mpcsim.crypto.groups.curves import CURVES
from mpcsim.ids import ROLES, PartyId
from mpcsim.service.errors import (
    BAD_REQUEST,
    CONFLICT,
    NOT_FOUND,
    UNAVAILABLE,
    LinkFailed,
    NodeFailed,
    Refused,
    Unmerged,
    disagreement,
    do_not_fit,
    failed,
    key_exists,
    no_such_key,
    recovered_meanwhile,
    undecided,
    unintelligible,
)
from mpcsim.service.gateway import store_consistency
from mpcsim.service.gateway.activation.decision import Decision, Request
from mpcsim.service.gateway.activation.idempotency import IdempotencyKeys
from mpcsim.service.gateway.links.links import Link, Times, answered
from mpcsim.service.gateway.registry import KeyChanged, KeyExists, Registry
from mpcsim.service.gateway.sessions.sessions import CallerContext, Session, Sessions
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.grants import Scope
from mpcsim.service.rpc.standing import PAGE, Holding, Holdings, ListHoldings
from mpcsim.service.rpc.statements import SignedRecord, SignedTestimony, Testify
from mpcsim.service.storage.database import StoreFailed
from mpcsim.service.web.threads import in_thread, to_the_end

LOG = logging.getLogger(__name__)

MOST_HOLDINGS: Final = 1 << 20
"""Shares that an MPC node may say it holds, so that one that goes on for ever comes to an end."""


class Activation:
    """Sees to it that both MPC nodes and the registry agree which shares are in force."""

    def __init__(
        self, registry: Registry, links: Mapping[PartyId, Link], sessions: Sessions
    ) -> None:
        self._registry = registry
        self._links = links
        self._sessions = sessions
        self.idempotency_keys = IdempotencyKeys(registry, sessions)
        self._deciding: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    # ------------------------------------------------------------------ a key that has been made

    async def activate(self, caller: CallerContext, body: wire.Activate) -> SignedRecord:
        """Make the key of a session the user's key, or call the session off.

        Returns:
            The key's record, signed by both MPC nodes.
        """
        session = await self._sessions.find(caller.claims, body.session_id)
        if not session.makes_key:
            raise Refused(BAD_REQUEST, "a signing session makes no key")
        async with self._sessions.serve_in_turn(session):
            return await to_the_end(self._decide(caller, session, body))

    async def _decide(
        self, caller: CallerContext, session: Session, body: wire.Activate
    ) -> SignedRecord:
        async with self.decision_lock(session.user_id, session.curve):
            try:
                record = await self._vote(caller, session, body)
            except BaseException:
                await self._sessions.cancel([session])
                raise
            self._sessions.end(session)
            if session.key_id is not None:
                for other in self._sessions.of_key(session.key_id):
                    self._sessions.end(other)
            return record

    async def _vote(
        self, caller: CallerContext, session: Session, body: wire.Activate
    ) -> SignedRecord:
        """Ask for both votes, and see what comes of them; under the decision's lock.

        Raises:
            Refused: the key is not in force, and will not be. ``Undecided``: nobody knows.
        """
        user_id, curve = session.user_id, session.curve
        present = self._registry.key(user_id, curve)
        if session.key_id is None and present is not None:
            raise key_exists(curve)
        if session.key_id is not None and (present is None or present.key_id != session.key_id):
            raise recovered_meanwhile()
        if present is not None and present.key_id == body.key_id.hex():
            raise Refused(CONFLICT, "this session has not made that key")
        await self.idempotency_keys.remember(session.named_call, body.key_id)
        decision = await self._new_decision(user_id, curve, body)
        try:
            await self._run_decision(decision, caller.times)
        except StoreFailed as error:
            # It has been decided, and is remembered as soon as the registry can be written.
            LOG.error("%s key of user %s: %s", curve, user_id, error)
            raise undecided(Refused(UNAVAILABLE, error.told)) from error
        if decision.record is not None and decision.record.record.epoch == body.key_id:
            for failure in decision.failures:
                LOG.warning("a new key is in force, but not everywhere: %s", failure)
            return decision.record
        at_odds = disagreement("the MPC nodes do not vote for the same record")
        failure = decision.failures[0] if decision.failures else at_odds
        raise undecided(failure) if decision.is_open(body.key_id) else failure

    # ------------------------------------------------------------------ what was interrupted

    async def resolve(
        self, user_id: str, curve: str, times: Times, *, aborting: bool = True
    ) -> None:
        """Bring to its end what has been voted for, with both MPC nodes; under the decision's lock.

        Args:
            aborting: end votes that have stayed alone, too; which only the next making needs. They
                may be what is left of a newer state, if files have been put back.

        Raises:
            Refused: a node cannot do its part, or the nodes' stores do not fit together.
        """
        decision = await self._new_decision(user_id, curve, aborting=aborting)
        await self._run_decision(decision, times)
        for failure in decision.failures:
            if isinstance(failure, NodeFailed):
                raise failure
        if not decision.is_consistent or (aborting and decision.has_lone_vote):
            raise do_not_fit()

    async def resolve_at_start(self) -> None:
        """See what fits together (``store_consistency``), and bring to its end whatever the last
        run left undecided, before the first request.

        Raises:
            Refused: an MPC node cannot be reached, or does not do its part.
        """
        held = {party: await share_inventory(link) for party, link in self._links.items()}
        consistency = store_consistency.compare(self._registry, held)
        for at in consistency.to_resolve:
            async with self.decision_lock(*at):
                decision = await self._resume_interrupted(*at)
                if await self._merge_restored(*at):
                    decision = await self._resume_interrupted(*at)
            if decision.first_link_failure is not None:
                raise decision.first_link_failure
            for failure in decision.failures:  # one user's trouble; the others' keys work
                LOG.error("%s key of user %s: %s", at[1], at[0], failure)
            consistency.record_outcome(
                at, self._registry.key(*at), decision.is_consistent, decision.has_lone_vote
            )
        consistency.report()

    async def _resume_interrupted(
        self, user_id: str, curve: str, times: Times | None = None
    ) -> Decision:
        """What came of what has been voted for."""
        decision = await self._new_decision(user_id, curve, aborting=False)
        await self._run_decision(decision, times)
        return decision

    # ------------------------------------------------------------------ stores that were put back

    async def ask_merging(
        self,
        party: PartyId,
        user_id: str,
        curve: str,
        times: Times,
        ask: Callable[[], Awaitable[bytes]],
    ) -> bytes:
        """Ask an MPC node for something about a key; if it has to hear of that key first, once
        more."""
        try:
            return await ask()
        except Unmerged:
            await self.merge(party, user_id, curve, times)
        return await ask()

    async def merge(self, party: PartyId, user_id: str, curve: str, times: Times) -> None:
        """Have an MPC node whose store was put back hear of a key.

        Raises:
            Refused: the other node cannot be reached, or what it knows does not do.
        """
        async with self.decision_lock(user_id, curve):
            await self._resume_interrupted(user_id, curve, times)
            refused = (await self._merge_each_restored(user_id, curve, times)).get(party)
        if refused is not None:
            raise refused

    async def _merge(
        self, party: PartyId, user_id: str, curve: str, times: Times | None = None
    ) -> None:
        """Bring an MPC node what the other one says of a key; under the decision's lock."""
        (other,) = self._links.keys() - {party}
        said = await self._reconciliation_statement(other, party, user_id, curve, times)
        await self._links[party].call_or_ask(Scope("merge", user_id), said, times)

    async def _reconciliation_statement(
        self, by: PartyId, to: PartyId, user_id: str, curve: str, times: Times | None = None
    ) -> SignedTestimony:
        """What an MPC node says of a key, to the other one as that one is since its last start."""
        boot = (await self._links[to].hello(fresh=True)).boot
        scope, body = Scope("testify", user_id), Testify(user_id, curve, boot)
        return answered(SignedTestimony, by, await self._links[by].call_or_ask(scope, body, times))

    async def _merge_restored(self, user_id: str, curve: str, times: Times | None = None) -> bool:
        """Have MPC nodes whose stores were put back hear of a key, if they have not; whether there
        was one. Under the decision's lock.

        Raises:
            LinkFailed: one cannot be reached.
        """
        found = await self._merge_each_restored(user_id, curve, times)
        for refused in filter(None, found.values()):
            LOG.error("%s key of user %s: %s", curve, user_id, refused)
        return bool(found)

    async def _merge_each_restored(
        self, user_id: str, curve: str, times: Times | None
    ) -> Mapping[PartyId, Refused | None]:
        """Have MPC nodes whose stores were put back hear of a key; of each that had not: why it
        still has not. Under the decision's lock.

        Raises:
            LinkFailed: one cannot be reached.
        """
        one, other = self._links
        found: dict[PartyId, Refused | None] = {}
        for party, witness in ((one, other), (other, one)):
            try:
                said = await self._reconciliation_statement(party, witness, user_id, curve, times)
                if said.statement.restored:
                    found[party] = None
            except LinkFailed:
                raise
            except Refused as refused:
                found[party] = refused
        waiting = [party for party, refused in found.items() if refused is None]
        # If both were, it may be the second one that goes on from what is there.
        for party in (*waiting, *waiting[:-1]):
            try:
                await self._merge(party, user_id, curve, times)
                found[party] = None
            except LinkFailed:
                raise
            except Refused as refused:
                found[party] = refused
        return found

    async def signed_record(
        self, user_id: str, curve: str, times: Times, key_id: str | None = None
    ) -> bytes:
        """A present key's ``SignedRecord``; if the registry's is damaged, that of the MPC nodes.

        Args:
            key_id: of the shares it must be about; by default, of those that are in force.

        Raises:
            Refused: they cannot, or the shares have been replaced.
        """
        key = self._registry.key(user_id, curve)
        if key is not None and key.record is None:
            async with self.decision_lock(user_id, curve):
                await self.resolve(user_id, curve, times, aborting=False)
            key = self._registry.key(user_id, curve)
        if key is not None and key_id not in (None, key.key_id):
            raise no_such_key()
        if key is None or key.record is None:
            raise do_not_fit()
        return key.record

    # ------------------------------------------------------------------ both

    async def _new_decision(
        self,
        user_id: str,
        curve: str,
        vote: wire.Activate | None = None,
        *,
        aborting: bool = True,
    ) -> Decision:
        identities: dict[PartyId, bytes] = {}
        for party, link in self._links.items():
            with suppress(LinkFailed):
                identities[party] = (await link.hello()).identity
        registered = self._registry.key(user_id, curve)
        return Decision(user_id, curve, identities, registered, vote, aborting=aborting)

    async def _run_decision(self, decision: Decision, times: Times | None = None) -> None:
        """
        Args:
            times: None: nothing else is under way, and no time passes.
        """
        while requests := decision.requests():
            answers = await asyncio.gather(*[self._ask(r, times) for r in requests])
            for request, answer in zip(requests, answers, strict=True):
                decision.take_answer(request, answer)
            if decision.record_to_store is not None:
                await in_thread(self._remember, decision)

    def _remember(self, decision: Decision) -> None:
        """Write down what is in force."""
        if decision.record_to_store is not None:
            try:
                decision.stored_key = self._registry.put(decision.record_to_store)
            except (KeyExists, KeyChanged) as error:
                LOG.error(
                    "the registry does not take a record that both MPC nodes signed: %s", error
                )

    async def _ask(self, request: Request, times: Times | None) -> bytes | Refused:
        try:
            return await self._links[request.party].call_or_ask(request.scope, request.body, times)
        except Refused as refused:
            return refused
        except Exception as error:  # what it has done by then is not known
            LOG.error("%s %s: %s", ROLES[request.party], request.scope.verb, type(error).__name__)
            return failed(request.party)

    def decision_lock(self, user_id: str, curve: str) -> asyncio.Lock:
        """Held while it is decided which key of a user and curve is in force."""
        return self._deciding.setdefault((user_id, curve), asyncio.Lock())

    # ------------------------------------------------------------------ keys in use

    async def ask_about_key(
        self,
        caller: CallerContext,
        party: PartyId,
        scope: Scope,
        body: wire.Body,
        curve: str,
        key_id: str,
    ) -> bytes:
        """Ask for something a node does with a registered key; if it has not heard of it, tell it
        what is in force."""
        link, user_id = self._links[party], caller.claims.user_id
        try:
            return await link.call(scope, body, caller.times)
        except Unmerged:
            await self.merge(party, user_id, curve, caller.times)
        except Refused as refused:
            if refused.status != NOT_FOUND:
                raise
            async with self.decision_lock(user_id, curve):
                if not self._registry.is_present_key(user_id, key_id):
                    raise no_such_key() from None
                await self._merge_restored(user_id, curve, caller.times)
                await self.resolve(user_id, curve, caller.times, aborting=False)
        return await link.call(scope, body, caller.times)


async def share_inventory(link: Link) -> list[Holding]:
    """What an MPC node says it holds, all pages of it.

    Raises:
        Refused: it does not say. ``LinkFailed``: it says what cannot be.
    """
    party, found = link.port.me, list[Holding]()
    while len(found) <= MOST_HOLDINGS:
        after = found[-1].key_id if found else ""
        reply = await link.ask(Scope("holdings"), ListHoldings(after))
        page = answered(Holdings, party, reply).holdings()
        ids = [after, *(holding.key_id for holding in page)]
        if any(one >= other for one, other in pairwise(ids)):
            LOG.error("the %s lists its shares out of order", ROLES[party])
            raise unintelligible(party)
        if any(holding.curve not in CURVES for holding in page):
            LOG.error("the %s lists a share on a curve that there is not", ROLES[party])
            raise unintelligible(party)
        found += page
        if len(page) < PAGE:
            return found
    LOG.error("the %s lists more than %s shares", ROLES[party], MOST_HOLDINGS)
    raise unintelligible(party)
