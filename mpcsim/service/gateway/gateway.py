"""Verbs of the gateway: each reads a REST node's body, checks it, and asks the MPC nodes.

``generate``, ``recover``, ``sign`` open a session (``sessions``), ``exchange`` carries its messages
(``routing``), ``activate`` puts its key in force (``activation``). ``open`` opens a vault,
``presigned`` signs with a presignature: neither has a session.
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
    gateway_starting,
    key_already_active,
    key_exists,
    key_recovered_meanwhile,
    no_such_key,
    no_such_user,
    not_authentic,
    stores_inconsistent,
)
from mpcsim.service.gateway.activation.activation import Activation
from mpcsim.service.gateway.activation.attestations import Attestations
from mpcsim.service.gateway.activation.suspensions import Suspensions
from mpcsim.service.gateway.introduction import NodeIntroduction
from mpcsim.service.gateway.limits import Limit
from mpcsim.service.gateway.links.links import Link, decode_answer
from mpcsim.service.gateway.registry import Registry
from mpcsim.service.gateway.sessions.routing import MessageRouter
from mpcsim.service.gateway.sessions.sessions import CallerContext, Sessions
from mpcsim.service.gateway.sessions.streaming import Reply, Streaming
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.grants import Scope
from mpcsim.service.rpc.session_keys import is_body_proven
from mpcsim.service.rpc.tokens import Claims
from mpcsim.service.web.http import RequestBody
from mpcsim.service.web.request_records import annotate_request
from mpcsim.service.web.threads import gather_all, gather_both

REQUESTS_OF_USER: Final = 128
"""Concurrent requests of one user, besides those that may wait for its keys. While an MPC node
hangs, each holds a connection of the gateway until the link's timeout."""


@dataclass(frozen=True)
class GatewayParts:
    """Parts of a gateway that its verbs use, all of them over the same links."""

    sessions: Sessions
    router: MessageRouter
    streaming: Streaming
    activation: Activation
    suspensions: Suspensions
    introduction: NodeIntroduction
    attestations: Attestations


class Gateway:
    """Gateway: answers REST nodes' requests by verb."""

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
            limits: rate limits of users, by verb.
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
        """Verbs that a REST node may ask for."""
        return frozenset(self._verbs)

    @property
    def max_requests_of_user(self) -> int:
        """Largest number of concurrent requests of one user."""
        # Two keys, with each of which either MPC node signs.
        return REQUESTS_OF_USER + 4 * self.sessions.queues["signing"].capacity

    async def hellos(self) -> dict[PartyId, wire.Hello]:
        """Ask both MPC nodes for their hellos; the last known one stands in for a slow node.

        Raises:
            LinkFailed: a node has never answered, and does not now.
        """
        found = await gather_all([link.latest_hello() for link in self.links.values()])
        return dict(zip(self.links, found, strict=True))

    async def handle(self, verb: str, caller: CallerContext, data: bytes) -> bytes:
        """Answer one request of a REST node; the bodies are defined in ``rpc.wire``.

        Raises:
            Refused: with an HTTP status.
        """
        await self._before_request()
        return await self._answer(verb, caller, data)

    async def _before_request(self) -> None:
        """Run overdue background work before a request is answered."""
        await self.introduction.ensure_introduced()
        self.suspensions.deliver()

    async def _answer(self, verb: str, caller: CallerContext, data: bytes) -> bytes:
        try:
            reply: wire.Body | None = await self._verbs[verb](caller, data)
        except InvalidEncoding as error:
            raise Refused(BAD_REQUEST, f"{verb}: {error}") from None
        return b"" if reply is None else reply.to_bytes()

    def can_stream(self, verb: str) -> bool:
        """Return whether bodies of a verb may be forwarded while they arrive (``streaming``)."""
        return verb == "exchange" and self._streaming.is_enabled

    async def handle_stream(
        self, verb: str, caller: CallerContext, body: RequestBody
    ) -> Reply | bytes:
        """Answer one request while its body arrives, or as ``handle`` once it is complete.

        Raises:
            Refused: with an HTTP status.
        """
        await self._before_request()
        reply = await self._streaming.exchange(caller, body)
        return await self._answer(verb, caller, await body.read_all()) if reply is None else reply

    async def suspend(self, data: bytes) -> bytes:
        """Suspend a key, for a client that shows the tag of a session (``Suspensions.suspend``).

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
                raise gateway_starting() from None
            raise

    async def close(self) -> None:
        """Close the connections to the MPC nodes."""
        await gather_all([link.port.close() for link in self.links.values()])

    async def cancel_session(self, user_id: str, verb: str, data: bytes, proof: str | None) -> None:
        """Cancel the session that a body names, if it is the user's and the caller has opened it.

        Called when the caller's token has expired: nobody can continue the session.

        Args:
            proof: as in ``CallerContext``.
        """
        session_id = data[:SESSION_ID_BYTES]
        if is_body_proven(session_id, verb, data, proof):
            await self.sessions.cancel_if_owned(user_id, session_id)

    # ------------------------------------------------------------------ keys are made

    async def _generate(self, caller: CallerContext, data: bytes) -> wire.Body:
        body = wire.Generate.from_bytes(data)
        user_id, curve = caller.claims.user_id, body.curve_name
        _check_access_token(caller.claims)
        if curve not in CURVES:
            raise Refused(BAD_REQUEST, "Invalid curve")
        if self.registry.user(user_id) is None:  # the registry is older than the token
            raise no_such_user()
        named_call, idempotency_keys = caller.named_call(curve), self.activation.idempotency_keys
        idempotency_keys.check(named_call, GENERATION)
        self.introduction.check_introduced()
        async with self.activation.decision_lock(user_id, curve):
            if self.registry.key(user_id, curve) is None:
                await self._resolve(caller, curve)
            if self.registry.key(user_id, curve):
                if idempotency_keys.in_force(named_call):
                    raise key_already_active()
                raise key_exists(curve)
        session = await self.sessions.begin(caller, body.session_id, curve, GENERATION)

        def open_session(party: PartyId, messages: tuple[bytes, ...]) -> Awaitable[bytes]:
            request, scope = replace(body, messages=messages), session.scope("generate")
            return self.activation.ask_about_key(caller, party, scope, request, curve)

        mail, _ = await self._router.route(caller, session, body.messages, open_session)
        return wire.MessageBatch(mail)

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
                raise stores_inconsistent()
        session = await self.sessions.begin(caller, body.session_id, curve, RECOVERY, key.key_id)
        if not self.registry.is_present_key(user_id, key.key_id):
            self.sessions.end(session)
            raise key_recovered_meanwhile()

        def open_session(party: PartyId, messages: tuple[bytes, ...]) -> Awaitable[bytes]:
            scope = session.scope("recover")
            return self.activation.ask_about_key(caller, party, scope, body, curve)

        mail, begun = await self._router.route(caller, session, (), open_session)
        records = {p: answer.record for p, answer in begun.items() if answer.record is not None}
        return wire.RecoverReply(key.record, records, mail)

    async def _resolve(self, caller: CallerContext, curve: str) -> None:
        """Resume an interrupted activation, before another key is made."""
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

    # ------------------------------------------------------------------ keys are used

    async def _open(self, caller: CallerContext, data: bytes) -> wire.Body:
        body = wire.OpenVault.from_bytes(data)
        annotate_request(key_id=body.key_id)
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
        pairs = zip(parties, requests, strict=True)
        halves = await gather_all(
            [self._open_half(caller, j, request, curve) for j, request in pairs]
        )
        opened = {j: half.half for j, half in zip(parties, halves, strict=True)}
        return await self._vault_opened(caller, key_id, curve, opened)

    async def _open_half(
        self, caller: CallerContext, party: PartyId, request: wire.OpenHalf, curve: str
    ) -> wire.Half:
        """Ask one MPC node to open its half of a vault, or the whole vault."""
        key_id, scope = request.key_id, Scope("open", caller.claims.user_id, request.key_id)

        def ask() -> Awaitable[bytes]:
            return self.activation.ask_about_key(caller, party, scope, request, curve, key_id.hex())

        reply = await (
            self.attestations.ask_with_attestation(party, ask) if request.whole else ask()
        )
        return decode_answer(wire.Half, party, reply)

    async def _vault_opened(
        self,
        caller: CallerContext,
        key_id: str,
        curve: str,
        halves: Mapping[PartyId, bytes],
        allowance: bytes | None = None,
    ) -> wire.VaultOpened:
        """Add the key's present record, which shows the client a recovery that happened meanwhile.

        Raises:
            Refused: the key has been recovered.
        """
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
        if vault is not None:  # refused before a session is begun
            others = [
                (party, _half_request(body.key_id, vault, party, count=body.count))
                for party in _other_openers(vault, signer)
            ]
        session = await self.sessions.begin(
            caller, body.session_id, curve, SIGNING, key_id, (signer,)
        )
        scope = session.scope("sign")._replace(message=body.message, path=body.path)
        own = vault and replace(vault, halves={signer: vault.halves[signer]}, proofs={})

        def open_session(party: PartyId, messages: tuple[bytes, ...]) -> Awaitable[bytes]:
            self.suspensions.check(body.key_id)  # the session may have waited for its key
            request = replace(body, messages=messages, vault=own)

            def ask() -> Awaitable[bytes]:
                return self.activation.ask_about_key(caller, party, scope, request, curve, key_id)

            return (
                self.attestations.ask_with_attestation(party, ask) if own and own.whole else ask()
            )

        carrying = self._router.route(caller, session, body.messages, open_session)
        tag = self.suspensions.session_tag(
            wire.AbortedSession(user_id, body.key_id, body.session_id)
        )
        if vault is None:
            mail, begun = await carrying
            return wire.SignReply(tag, mail, begun[signer].answers)
        opening_halves = [self._open_half(caller, j, request, curve) for j, request in others]
        try:
            (mail, begun), halves = await gather_both(carrying, gather_all(opening_halves))
            first = begun[signer]
            opened = {j: half.half for (j, _), half in zip(others, halves, strict=True)}
            opened[signer] = first.half or b""
            allowance = halves[0].allowance if halves else None
            found = await self._vault_opened(caller, key_id, curve, opened, allowance)
        except BaseException:
            if self.sessions.is_open(session):  # the client will not continue
                await self.sessions.cancel([session])
            raise
        return wire.SignReply(tag, mail, first.answers, found)

    async def _presigned(self, caller: CallerContext, data: bytes) -> wire.Body:
        """Sign with a presignature. No session: a concurrent request uses another one, or none."""
        body = wire.Presigned.from_bytes(data)
        annotate_request(key_id=body.key_id)
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
        half_request = _half_request(body.key_id, vault, other, body.using.hide())
        reply, half = await gather_both(
            self.activation.ask_about_key(caller, signer, scope, request, curve, key_id),
            self._open_half(caller, other, half_request, curve),
        )
        answer = decode_answer(wire.Answer, signer, reply)
        opened = {other: half.half, signer: answer.half or b""}
        found = await self._vault_opened(caller, key_id, curve, opened)
        tag = self.suspensions.session_tag(wire.AbortedSession(user_id, body.key_id, session_id))
        return wire.SignReply(tag, answer.messages, answer.answers, found)

    # ------------------------------------------------------------------ sessions go on

    async def _exchange(self, caller: CallerContext, data: bytes) -> wire.Body:
        body = wire.Exchange.from_bytes(data)
        caller.check_session(body.session_id, "exchange", data)
        session = await self.sessions.find(caller.claims, body.session_id)
        mail, _ = await self._router.route(caller, session, body.messages)
        return wire.MessageBatch(mail)

    def _curve_of_key(self, claims: Claims, key_id: str) -> str:
        """Return the curve of one of the caller's keys.

        Raises:
            Refused: it is not a key of the caller, or not the one that the token is for.
        """
        if claims.key_id in (None, key_id):
            for key in self.registry.keys(claims.user_id):
                if key.key_id == key_id:
                    return key.curve
            raise self.registry.missing_key(claims.user_id, key_id)
        raise no_such_key()


def _signer_of(party: int) -> PartyId:
    """Return the MPC node that is to sign.

    Raises:
        Refused: it is no MPC node.
    """
    if party not in MPC_NODES:
        raise Refused(BAD_REQUEST, "the signer is neither the operator nor the institution")
    return PartyId(party)


def _other_openers(vault: wire.Vault, signer: PartyId) -> tuple[PartyId, ...]:
    """Return the MPC nodes that open a vault besides the signing one."""
    openers = _vault_openers(vault.halves, vault.whole)
    if signer not in openers:
        raise Refused(BAD_REQUEST, "Invalid secret_store")
    return tuple(party for party in openers if party != signer)


def _half_request(
    key_id: bytes,
    vault: wire.Vault,
    party: PartyId,
    using: wire.HiddenPresignedRequest | None = None,
    *,
    count: int = 0,
) -> wire.OpenHalf:
    """Return the request to an MPC node that opens its half and does not sign."""
    half, proof = vault.halves[party], _proof_for(party, vault.proofs)
    return wire.OpenHalf(key_id, vault.reply_key, half, proof, count=count, using=using)


def _proof_for(party: PartyId, proofs: Mapping[PartyId, wire.UseProof]) -> wire.UseProof:
    """Return the proof for an MPC node that the caller holds the client's share or secret store.

    Raises:
        Refused: there is none for it.
    """
    if party not in proofs:
        raise not_authentic(party)
    return proofs[party]


def _vault_openers(halves: Mapping[PartyId, bytes], whole: int) -> tuple[PartyId, ...]:
    """Return the MPC nodes that open a vault: both a half each, or one the whole.

    Raises:
        Refused: the vault is not divided like that.
    """
    parties = tuple(party for party in MPC_NODES if party in halves)
    if len(halves) != len(parties) or len(parties) != (1 if whole else len(MPC_NODES)):
        raise Refused(BAD_REQUEST, "Invalid secret_store")
    return parties


def _check_access_token(claims: Claims) -> None:
    """Refuse a token for a single key: with it a caller may open and sign, and nothing else."""
    if claims.key_id is not None:
        raise no_such_key()
