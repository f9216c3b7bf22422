"""What a node may ask the gateway for: it reads a body, and asks the others.

``sessions`` keeps the books, ``routing`` carries messages, ``activation`` decides which key is in
force.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from mpcsim.crypto.groups.curves import CURVES
from mpcsim.errors import InvalidEncoding
from mpcsim.ids import MPC_NODES, SESSION_ID_BYTES, PartyId
from mpcsim.service.errors import (
    BAD_REQUEST,
    GENERATION,
    NOT_FOUND,
    RECOVERY,
    SIGNING,
    LinkFailed,
    Refused,
    do_not_fit,
    key_exists,
    made_already,
    no_such_key,
    no_such_user,
    not_authentic,
    recovered_meanwhile,
    starting,
)
from mpcsim.service.gateway.activation.activation import Activation
from mpcsim.service.gateway.activation.attestations import Attestations
from mpcsim.service.gateway.activation.suspensions import Suspensions
from mpcsim.service.gateway.introduction import NodeIntroduction
from mpcsim.service.gateway.limits import Limit
from mpcsim.service.gateway.links.links import Link, answered
from mpcsim.service.gateway.registry import Registry
from mpcsim.service.gateway.sessions.routing import MessageRouter
from mpcsim.service.gateway.sessions.sessions import CallerContext, Sessions
from mpcsim.service.gateway.sessions.streaming import Reply, Streaming
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.grants import Scope
from mpcsim.service.rpc.session_keys import is_call_proven
from mpcsim.service.rpc.tokens import Claims
from mpcsim.service.web.entries import note
from mpcsim.service.web.http import Incoming
from mpcsim.service.web.threads import all_of, both

REQUESTS_OF_USER: Final = 128
"""Requests of one user that are answered at a time, besides those that may wait for its keys: while
an MPC node hangs each has a connection of the gateway's to itself, for as long as a link waits."""


@dataclass(frozen=True)
class GatewayParts:
    """Parts that a gateway's verbs are made of, all of them over the same links."""

    sessions: Sessions
    router: MessageRouter
    streaming: Streaming
    activation: Activation
    suspensions: Suspensions
    introduction: NodeIntroduction
    attestations: Attestations


class Gateway:
    """The MPC verbs."""

    def __init__(
        self,
        registry: Registry,
        links: Mapping[PartyId, Link],
        parts: GatewayParts,
        *,
        limits: Mapping[str, Limit] = {},
    ) -> None:
        """
        Args:
            links: to the operator and the institution.
            limits: of what users may ask for, by verb.
        """
        self.registry = registry
        self.links = links
        self.sessions = parts.sessions
        self.activation = parts.activation
        self.suspensions = parts.suspensions
        self.introduction = parts.introduction
        self.attestations = parts.attestations
        self.limits = limits
        self._router = parts.router
        self._streaming = parts.streaming
        self._verbs: dict[str, Any] = {
            "open": self._open,
            "generate": self._generate,
            "recover": self._recover,
            "sign": self._sign,
            "presigned": self._presigned,
            "exchange": self._exchange,
            "activate": self._activate,
        }
        self._verbs |= {verb: limit.limit_verb(self._verbs[verb]) for verb, limit in limits.items()}

    @property
    def verbs(self) -> frozenset[str]:
        """What a node may ask for."""
        return frozenset(self._verbs)

    @property
    def max_requests_of_user(self) -> int:
        """Requests of one user that are to be answered at a time, at most."""
        # Two keys, with each of which either MPC node signs.
        return REQUESTS_OF_USER + 4 * self.sessions.queues["signing"].capacity

    async def hellos(self) -> dict[PartyId, wire.Hello]:
        """Who the MPC nodes are, as far as can be found out now.

        Raises:
            LinkFailed: one has not been heard of yet, and cannot be reached.
        """
        found = await all_of([link.latest_hello() for link in self.links.values()])
        return dict(zip(self.links, found, strict=True))

    async def handle(self, verb: str, caller: CallerContext, data: bytes) -> bytes:
        """Answer one request of a node; ``wire`` says what the bodies are.

        Raises:
            Refused: with an HTTP status.
        """
        await self._before_request()
        return await self._answer(verb, caller, data)

    async def _before_request(self) -> None:
        """What is to be done before any request is answered."""
        await self.introduction.ensure_introduced()
        self.suspensions.deliver()

    async def _answer(self, verb: str, caller: CallerContext, data: bytes) -> bytes:
        try:
            reply: wire.Body | None = await self._verbs[verb](caller, data)
        except InvalidEncoding as error:
            raise Refused(BAD_REQUEST, f"{verb}: {error}") from None
        return b"" if reply is None else reply.to_bytes()

    def can_stream(self, verb: str) -> bool:
        """Whether bodies of a verb may go on while they come (``streaming``)."""
        return verb == "exchange" and self._streaming.on

    async def handle_stream(
        self, verb: str, caller: CallerContext, body: Incoming
    ) -> Reply | bytes:
        """Answer one request while its body comes, or as ``handle`` once it has come.

        Raises:
            Refused: with an HTTP status.
        """
        await self._before_request()
        reply = await self._streaming.exchange(caller, body)
        return await self._answer(verb, caller, await body.whole()) if reply is None else reply

    async def suspend(self, data: bytes) -> bytes:
        """Suspend a key, for whoever shows the tag of a session (``wire.Suspend``); what is
        returned says ``Suspensions.suspend``.

        Raises:
            Refused: with an HTTP status.
        """
        try:
            body = wire.Suspend.from_bytes(data)
        except InvalidEncoding as error:
            raise Refused(BAD_REQUEST, f"suspend: {error}") from None
        try:
            return await self.suspensions.suspend(body)
        except Refused as refused:
            if refused.status == NOT_FOUND and not self.introduction.start_is_over:
                raise starting() from None
            raise

    async def close(self) -> None:
        """Let go of the MPC nodes."""
        await all_of([link.port.close() for link in self.links.values()])

    async def cancel_session(self, user_id: str, verb: str, data: bytes, proof: str | None) -> None:
        """Call off the session that a body names, if it is the user's, and the caller has opened
        it; its token has expired.

        Args:
            proof: as in ``CallerContext``.
        """
        session_id = data[:SESSION_ID_BYTES]
        if is_call_proven(session_id, verb, data, proof):
            await self.sessions.cancel_if_owned(user_id, session_id)

    # ------------------------------------------------------------------ a key is made

    async def _generate(self, caller: CallerContext, data: bytes) -> wire.Body:
        body = wire.Generate.from_bytes(data)
        user_id, curve = caller.claims.user_id, body.curve_name
        _check_access_token(caller.claims)
        if curve not in CURVES:
            raise Refused(BAD_REQUEST, "Invalid curve")
        if self.registry.user(user_id) is None:  # it is older than the token
            raise no_such_user()
        named_call, idempotency_keys = caller.named_call(curve), self.activation.idempotency_keys
        idempotency_keys.check(named_call, GENERATION)
        self.introduction.check_introduced()
        async with self.activation.decision_lock(user_id, curve):
            if self.registry.key(user_id, curve) is None:
                await self._resolve(caller, curve)
            if self.registry.key(user_id, curve):
                if idempotency_keys.in_force(named_call):
                    raise made_already()
                raise key_exists(curve)
        session = await self.sessions.begin(caller, body.session_id, curve, GENERATION)

        def opening(party: PartyId, messages: tuple[bytes, ...]) -> Awaitable[bytes]:
            request = replace(body, messages=messages)

            def ask() -> Awaitable[bytes]:
                return self.links[party].call(session.scope("generate"), request, caller.times)

            return self.activation.ask_merging(party, user_id, curve, caller.times, ask)

        mail, _ = await self._router.route(caller, session, body.messages, opening)
        return wire.Mail(mail)

    async def _recover(self, caller: CallerContext, data: bytes) -> wire.Body:
        body = wire.Recover.from_bytes(data)
        user_id, curve = caller.claims.user_id, body.curve_name
        _check_access_token(caller.claims)
        if curve not in CURVES:
            raise Refused(BAD_REQUEST, "Invalid curve")
        self.activation.idempotency_keys.check(caller.named_call(curve), RECOVERY)
        self.introduction.check_introduced()
        async with self.activation.decision_lock(user_id, curve):
            if self.registry.key(user_id, curve) is None:
                raise Refused(NOT_FOUND, f"no {curve} key is registered for this user")
            await self._resolve(caller, curve)
            key = self.registry.key(user_id, curve)
            if key is None or key.record is None:
                raise do_not_fit()
        session = await self.sessions.begin(caller, body.session_id, curve, RECOVERY, key.key_id)
        if not self.registry.is_present_key(user_id, key.key_id):
            self.sessions.end(session)
            raise recovered_meanwhile()

        def opening(party: PartyId, messages: tuple[bytes, ...]) -> Awaitable[bytes]:
            def ask() -> Awaitable[bytes]:
                return self.links[party].call(session.scope("recover"), body, caller.times)

            return self.activation.ask_merging(party, user_id, curve, caller.times, ask)

        mail, begun = await self._router.route(caller, session, (), opening)
        records = {p: answer.record for p, answer in begun.items() if answer.record is not None}
        return wire.Recovering(key.record, records, mail)

    async def _resolve(self, caller: CallerContext, curve: str) -> None:
        """Bring to its end what was interrupted, before another key is made."""
        try:
            await self.activation.resolve(caller.claims.user_id, curve, caller.times)
        except LinkFailed as failure:
            raise self.activation.idempotency_keys.failure_to_report(
                caller.named_call(curve), failure
            ) from None

    async def _activate(self, caller: CallerContext, data: bytes) -> wire.Body:
        _check_access_token(caller.claims)
        body = wire.Activate.from_bytes(data)
        caller.check_session(body.session_id, "activate", data)
        return await self.activation.activate(caller, body)

    # ------------------------------------------------------------------ a key is used

    async def _open(self, caller: CallerContext, data: bytes) -> wire.Body:
        body = wire.OpenVault.from_bytes(data)
        note(key_id=body.key_id)
        key_id = body.key_id.hex()
        curve = self._curve_of_key(caller.claims, key_id)
        self.suspensions.check(body.key_id)
        parties = _vault_openers(body.halves, body.whole)
        requests = [
            wire.OpenHalf(
                body.key_id, body.reply_key, body.halves[j], _proof_for(j, body.proofs), body.whole
            )
            for j in parties
        ]
        asked = zip(parties, requests, strict=True)
        halves = await all_of([self._half(caller, j, request, curve) for j, request in asked])
        opened = {j: half.half for j, half in zip(parties, halves, strict=True)}
        return await self._opened(caller, key_id, curve, opened)

    async def _half(
        self, caller: CallerContext, party: PartyId, request: wire.OpenHalf, curve: str
    ) -> wire.Half:
        """Have one MPC node open its half, or the whole."""
        key_id, scope = request.key_id, Scope("open", caller.claims.user_id, request.key_id)

        def ask() -> Awaitable[bytes]:
            return self.activation.ask_about_key(caller, party, scope, request, curve, key_id.hex())

        reply = await (
            self.attestations.ask_with_attestation(party, ask) if request.whole else ask()
        )
        return answered(wire.Half, party, reply)

    async def _opened(
        self,
        caller: CallerContext,
        key_id: str,
        curve: str,
        halves: Mapping[PartyId, bytes],
        allowance: bytes | None = None,
    ) -> wire.VaultOpened:
        """With the key's record: it may have been recovered meanwhile."""
        record = await self.activation.signed_record(
            caller.claims.user_id, curve, caller.times, key_id
        )
        return wire.VaultOpened(halves, record, allowance)

    async def _sign(self, caller: CallerContext, data: bytes) -> wire.Body:
        body = wire.Sign.from_bytes(data)
        key_id, user_id = body.key_id.hex(), caller.claims.user_id
        curve = self._curve_of_key(caller.claims, key_id)
        signer = _signer_of(body.signer)
        self.suspensions.check(body.key_id)
        vault = body.vault
        others: list[tuple[PartyId, wire.OpenHalf]] = []
        if vault is not None:  # what is refused here leaves no session
            others = [
                (party, _half_request(body.key_id, vault, party, count=body.count))
                for party in _other_openers(vault, signer)
            ]
        session = await self.sessions.begin(
            caller, body.session_id, curve, SIGNING, key_id, (signer,)
        )
        scope = session.scope("sign")._replace(message=body.message, path=body.path)
        own = vault and replace(vault, halves={signer: vault.halves[signer]}, proofs={})

        def opening(party: PartyId, messages: tuple[bytes, ...]) -> Awaitable[bytes]:
            self.suspensions.check(body.key_id)  # it may have waited for its key
            request = replace(body, messages=messages, vault=own)

            def ask() -> Awaitable[bytes]:
                return self.activation.ask_about_key(caller, party, scope, request, curve, key_id)

            return (
                self.attestations.ask_with_attestation(party, ask) if own and own.whole else ask()
            )

        carrying = self._router.route(caller, session, body.messages, opening)
        tag = self.suspensions.session_tag(wire.Occasion(user_id, body.key_id, body.session_id))
        if vault is None:
            mail, begun = await carrying
            return wire.Signing(tag, mail, begun[signer].answers)
        opening_halves = [self._half(caller, j, request, curve) for j, request in others]
        try:
            (mail, begun), halves = await both(carrying, all_of(opening_halves))
            first = begun[signer]
            opened = {j: half.half for (j, _), half in zip(others, halves, strict=True)}
            opened[signer] = first.half or b""
            allowance = halves[0].allowance if halves else None
            found = await self._opened(caller, key_id, curve, opened, allowance)
        except BaseException:
            if self.sessions.is_open(session):  # the client will not go on
                await self.sessions.cancel([session])
            raise
        return wire.Signing(tag, mail, first.answers, found)

    async def _presigned(self, caller: CallerContext, data: bytes) -> wire.Body:
        """No session, and no turn: whoever comes second has another presignature, or none."""
        body = wire.Presigned.from_bytes(data)
        note(key_id=body.key_id)
        key_id, user_id, vault = body.key_id.hex(), caller.claims.user_id, body.vault
        curve = self._curve_of_key(caller.claims, key_id)
        signer, session_id = _signer_of(body.using.signer), body.using.rho
        self.suspensions.check(body.key_id)
        (other,) = _other_openers(replace(vault, whole=0), signer)
        own = replace(vault, halves={signer: vault.halves[signer]}, proofs={})
        scope = Scope(
            "presigned",
            user_id,
            body.key_id,
            session_id,
            body.using.message_hash,
            body.using.path,
        )
        request = replace(body, vault=own)
        opening = _half_request(body.key_id, vault, other, body.using.hidden())
        reply, half = await both(
            self.activation.ask_about_key(caller, signer, scope, request, curve, key_id),
            self._half(caller, other, opening, curve),
        )
        answer = answered(wire.Answer, signer, reply)
        opened = {other: half.half, signer: answer.half or b""}
        found = await self._opened(caller, key_id, curve, opened)
        tag = self.suspensions.session_tag(wire.Occasion(user_id, body.key_id, session_id))
        return wire.Signing(tag, answer.messages, answer.answers, found)

    # ------------------------------------------------------------------ both

    async def _exchange(self, caller: CallerContext, data: bytes) -> wire.Body:
        body = wire.Exchange.from_bytes(data)
        caller.check_session(body.session_id, "exchange", data)
        session = await self.sessions.find(caller.claims, body.session_id)
        mail, _ = await self._router.route(caller, session, body.messages)
        return wire.Mail(mail)

    def _curve_of_key(self, claims: Claims, key_id: str) -> str:
        """The curve of one of the caller's keys."""
        if claims.key_id in (None, key_id):
            for key in self.registry.keys(claims.user_id):
                if key.key_id == key_id:
                    return key.curve
        raise no_such_key()


def _signer_of(party: int) -> PartyId:
    """The MPC node that is to sign."""
    if party not in MPC_NODES:
        raise Refused(BAD_REQUEST, "the signer is neither the operator nor the institution")
    return PartyId(party)


def _other_openers(vault: wire.Vault, signer: PartyId) -> tuple[PartyId, ...]:
    """The MPC nodes that are to open a vault, beside the one that signs."""
    openers = _vault_openers(vault.halves, vault.whole)
    if signer not in openers:
        raise Refused(BAD_REQUEST, "Invalid secret_store")
    return tuple(party for party in openers if party != signer)


def _half_request(
    key_id: bytes,
    vault: wire.Vault,
    party: PartyId,
    using: wire.HiddenUse | None = None,
    *,
    count: int = 0,
) -> wire.OpenHalf:
    """What an MPC node that does not sign is asked."""
    half, proof = vault.halves[party], _proof_for(party, vault.proofs)
    return wire.OpenHalf(key_id, vault.reply_key, half, proof, count=count, using=using)


def _proof_for(party: PartyId, proofs: Mapping[PartyId, wire.UseProof]) -> wire.UseProof:
    """Return what shows an MPC node who asks.

    Raises:
        Refused: there is nothing for it.
    """
    if party not in proofs:
        raise not_authentic(party)
    return proofs[party]


def _vault_openers(halves: Mapping[PartyId, bytes], whole: int) -> tuple[PartyId, ...]:
    """The MPC nodes that are to open a vault: both, or one the whole."""
    parties = tuple(party for party in MPC_NODES if party in halves)
    if len(halves) != len(parties) or len(parties) != (1 if whole else len(MPC_NODES)):
        raise Refused(BAD_REQUEST, "Invalid secret_store")
    return parties


def _check_access_token(claims: Claims) -> None:
    """A token for one key opens its vault and signs, and does nothing else."""
    if claims.key_id is not None:
        raise no_such_key()
