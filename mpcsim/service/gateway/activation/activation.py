"""Gateway's driver of key activation: sends what ``decision`` chooses, and stores the outcome.

It is run for a key that has just been made (``activate``), and to resume what was interrupted
(``resolve``): at the gateway's start, before the next key is made, and when a node does not know a
registered key. An MPC node whose store was restored must first merge the key, that is hear the
other node's statement about it (``mpc_node.agreement.restore_reconciliation``): ``ask_about_key``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
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
    key_exists,
    key_recovered_meanwhile,
    node_failed,
    outcome_undecided,
    stores_inconsistent,
    unintelligible_reply,
)
from mpcsim.service.gateway import store_consistency
from mpcsim.service.gateway.activation.decision import Decision, Request
from mpcsim.service.gateway.activation.idempotency import IdempotencyKeys
from mpcsim.service.gateway.links.links import Link, Times, decode_answer
from mpcsim.service.gateway.registry import KeyChanged, KeyExists, Registry
from mpcsim.service.gateway.sessions.sessions import CallerContext, Session, Sessions
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.activation_messages import PAGE, ListShares, ShareInfo, ShareInfoPage
from mpcsim.service.rpc.grants import Scope
from mpcsim.service.rpc.statements import (
    GetReconciliationStatement,
    SignedReconciliationStatement,
    SignedRecord,
)
from mpcsim.service.storage.database import StoreFailed
from mpcsim.service.web.threads import in_thread, shielded

LOG = logging.getLogger(__name__)

MOST_HOLDINGS: Final = 1 << 20
"""Largest number of shares that an MPC node may list: one that lists without end is cut off."""


class Activation:
    """Makes both MPC nodes and the registry agree which shares of a key are in force."""

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
        """Activate the key that a session has made (steps 1 to 6'), or cancel the session.

        Returns:
            The key's record, signed by both MPC nodes.
        """
        session = await self._sessions.find(caller.claims, body.session_id)
        if not session.makes_key:
            raise Refused(BAD_REQUEST, "a signing session makes no key")
        async with self._sessions.serve_in_turn(session):
            return await shielded(self._decide(caller, session, body))

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
        """Run the protocol for a new key; the decision lock is held.

        Raises:
            Refused: the key is not in force, and will not be. ``Undecided``: that is not known.
        """
        user_id, curve = session.user_id, session.curve
        present = self._registry.key(user_id, curve)
        if session.key_id is None and present is not None:
            raise key_exists(curve)
        if session.key_id is not None and (present is None or present.key_id != session.key_id):
            raise key_recovered_meanwhile()
        if present is not None and present.key_id == body.key_id.hex():
            raise Refused(CONFLICT, "this session has not made that key")
        await self.idempotency_keys.remember(session.named_call, body.key_id)
        decision = await self._new_decision(user_id, curve, body)
        try:
            await self._run_decision(decision, caller.times)
        except StoreFailed as error:
            # Decided by both votes; the next ``resolve`` stores it, if the registry can be written.
            LOG.error("%s key of user %s: %s", curve, user_id, error)
            raise outcome_undecided(Refused(UNAVAILABLE, error.public_text)) from error
        if decision.record is not None and decision.record.record.epoch == body.key_id:
            for failure in decision.failures:
                LOG.warning(
                    "a new key is in force, but an MPC node has not activated it yet: %s", failure
                )
            return decision.record
        no_agreement = disagreement("the MPC nodes do not vote for the same record")
        failure = decision.failures[0] if decision.failures else no_agreement
        raise outcome_undecided(failure) if decision.is_open(body.key_id) else failure

    # ------------------------------------------------------------------ what was interrupted

    async def resolve(
        self, user_id: str, curve: str, times: Times, *, aborting: bool = True
    ) -> None:
        """Resume an interrupted activation at step 2', with both nodes; the decision lock is held.

        Args:
            aborting: abort votes that have stayed alone, too, which only the next key needs.

        Raises:
            Refused: a node cannot do its part, or the nodes' stores are inconsistent.
        """
        decision = await self._new_decision(user_id, curve, aborting=aborting)
        await self._run_decision(decision, times)
        for failure in decision.failures:
            if isinstance(failure, NodeFailed):
                raise failure
        if not decision.is_consistent or (aborting and decision.has_lone_vote):
            raise stores_inconsistent()

    async def resolve_at_start(self) -> None:
        """Compare the three stores (``store_consistency``), resume activations that the last run
        left undecided, and log what is inconsistent, before the first request.

        Raises:
            Refused: an MPC node cannot be reached, or does not do its part.
        """
        held = {party: await share_inventory(link) for party, link in self._links.items()}
        consistency = store_consistency.compare(self._registry, held)
        for at in consistency.to_resolve:
            async with self.decision_lock(*at):
                decision = await self._resume_interrupted(*at)
                await self._merge_restored(*at)
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
        """Resume an interrupted activation without aborting lone votes."""
        decision = await self._new_decision(user_id, curve, aborting=False)
        await self._run_decision(decision, times)
        return decision

    # ------------------------------------------------------------------ restored stores

    async def merge(self, party: PartyId, user_id: str, curve: str, times: Times) -> None:
        """Make an MPC node whose store was restored merge a key.

        Raises:
            Refused: the other node cannot be reached, or the key stays unmerged.
        """
        async with self.decision_lock(user_id, curve):
            await self._resume_interrupted(user_id, curve, times)
            refused = (await self._merge_each_restored(user_id, curve, times)).get(party)
        if refused is not None:
            raise refused

    async def _merge(
        self, party: PartyId, user_id: str, curve: str, times: Times | None = None
    ) -> None:
        """Bring an MPC node the other's statement about a key; the decision lock is held."""
        (other,) = self._links.keys() - {party}
        signed = await self._reconciliation_statement(other, party, user_id, curve, times)
        await self._links[party].call(Scope("merge", user_id), signed, times)

    async def _reconciliation_statement(
        self, by: PartyId, to: PartyId, user_id: str, curve: str, times: Times | None = None
    ) -> SignedReconciliationStatement:
        """Get an MPC node's signed statement about a key, made for the other's present boot."""
        # Where the statement is taken to, that node has just answered: its last hello is of now.
        boot = (await self._links[to].hello()).boot
        scope, body = Scope("testify", user_id), GetReconciliationStatement(user_id, curve, boot)
        return decode_answer(
            SignedReconciliationStatement, by, await self._links[by].call(scope, body, times)
        )

    async def _merge_restored(self, user_id: str, curve: str, times: Times | None = None) -> None:
        """Make restored MPC nodes merge a key, and log refusals; the decision lock is held.

        Raises:
            LinkFailed: one cannot be reached.
        """
        outcomes = await self._merge_each_restored(user_id, curve, times)
        for refused in filter(None, outcomes.values()):
            LOG.error("%s key of user %s: %s", curve, user_id, refused)

    async def _merge_each_restored(
        self, user_id: str, curve: str, times: Times | None
    ) -> Mapping[PartyId, Refused | None]:
        """Make restored MPC nodes merge a key; the decision lock is held.

        Returns:
            For each node that had yet to merge it: None, or why it still has to.

        Raises:
            LinkFailed: one cannot be reached.
        """
        one, other = self._links
        outcomes: dict[PartyId, Refused | None] = {}
        for party, witness in ((one, other), (other, one)):
            try:
                signed = await self._reconciliation_statement(party, witness, user_id, curve, times)
                if signed.statement.restored:
                    outcomes[party] = None
            except LinkFailed:
                raise
            except Refused as refused:
                outcomes[party] = refused
        waiting = [party for party, refused in outcomes.items() if refused is None]
        # If both were restored, the first may merge only after the second (--other-restored-too).
        for party in (*waiting, *waiting[:-1]):
            try:
                await self._merge(party, user_id, curve, times)
                outcomes[party] = None
            except LinkFailed:
                raise
            except Refused as refused:
                outcomes[party] = refused
        return outcomes

    async def signed_record(
        self, user_id: str, curve: str, times: Times, key_id: str | None = None
    ) -> bytes:
        """Return the encoded ``SignedRecord`` of a present key.

        If the registry's copy is damaged, it is fetched from the MPC nodes.

        Args:
            key_id: epoch that the record must be of; by default the one in force.

        Raises:
            Refused: there is no such record, or the shares have been replaced.
        """
        key = self._registry.key(user_id, curve)
        if key is not None and key.record is None:
            async with self.decision_lock(user_id, curve):
                await self.resolve(user_id, curve, times, aborting=False)
            key = self._registry.key(user_id, curve)
        if key is not None and key_id is not None and key_id != key.key_id:
            raise self._registry.missing_key(user_id, key_id)
        if key is None or key.record is None:
            raise stores_inconsistent()
        return key.record

    # ------------------------------------------------------------------ running a decision

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
        """Send requests until there are none, and store a new record before the next ones (3).

        Args:
            times: None: no other request is under way, and the links cost no time.
        """
        while requests := decision.requests():
            answers = await asyncio.gather(*[self._ask(r, times) for r in requests])
            for request, answer in zip(requests, answers, strict=True):
                decision.take_answer(request, answer)
            if (record := decision.record_to_store) is not None:
                await in_thread(self._remember, decision, record)

    def _remember(self, decision: Decision, record: SignedRecord) -> None:
        """Store the record in force."""
        try:
            decision.stored_key = self._registry.put(record)
        except (KeyExists, KeyChanged) as error:
            LOG.error("the registry does not take a record that both MPC nodes signed: %s", error)

    async def _ask(self, request: Request, times: Times | None) -> bytes | Refused:
        try:
            return await self._links[request.party].call(request.scope, request.body, times)
        except Refused as refused:
            return refused
        except Exception as error:  # how much the node has done is not known
            LOG.error("%s %s: %s", ROLES[request.party], request.scope.verb, type(error).__name__)
            return node_failed(request.party)

    def decision_lock(self, user_id: str, curve: str) -> asyncio.Lock:
        """Return the lock under which it is decided which key of a user and curve is in force."""
        return self._deciding.setdefault((user_id, curve), asyncio.Lock())

    # ------------------------------------------------------------------ keys in use

    async def ask_about_key(
        self,
        caller: CallerContext,
        party: PartyId,
        scope: Scope,
        body: wire.Body,
        curve: str,
        key_id: str | None = None,
    ) -> bytes:
        """Ask an MPC node to make or use a user's key on a curve.

        If the node has to merge the key first, or does not know a registered one, that is put
        right, and it is asked once more.

        Args:
            key_id: registered epoch to use; None: a key is made.
        """
        link, user_id = self._links[party], caller.claims.user_id
        try:
            return await link.call(scope, body, caller.times)
        except Unmerged:
            await self.merge(party, user_id, curve, caller.times)
        except Refused as refused:
            if refused.status != NOT_FOUND or key_id is None:
                raise
            async with self.decision_lock(user_id, curve):
                if not self._registry.is_present_key(user_id, key_id):
                    raise self._registry.missing_key(user_id, key_id) from None
                await self._merge_restored(user_id, curve, caller.times)
                await self.resolve(user_id, curve, caller.times, aborting=False)
        return await link.call(scope, body, caller.times)


async def share_inventory(link: Link) -> list[ShareInfo]:
    """List all shares that an MPC node says it holds, page by page.

    Raises:
        Refused: it refuses. ``LinkFailed``: the list cannot be true.
    """
    party, found = link.port.me, list[ShareInfo]()
    while len(found) <= MOST_HOLDINGS:
        after = found[-1].key_id if found else ""
        reply = await link.ask(Scope("holdings"), ListShares(after))
        page = decode_answer(ShareInfoPage, party, reply).shares()
        ids = [after, *(holding.key_id for holding in page)]
        if any(one >= other for one, other in pairwise(ids)):
            LOG.error("the %s lists its shares out of order", ROLES[party])
            raise unintelligible_reply(party)
        if any(holding.curve not in CURVES for holding in page):
            LOG.error("the %s lists a share on an unknown curve", ROLES[party])
            raise unintelligible_reply(party)
        found += page
        if len(page) < PAGE:
            return found
    LOG.error("the %s lists more than %s shares", ROLES[party], MOST_HOLDINGS)
    raise unintelligible_reply(party)
