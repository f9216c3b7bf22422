"""Parts of research builds: each removes one check from the service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from mpcsim.attacks.service.builds import node_part, part
from mpcsim.attacks.service.hostile import Call, HostileNode, InterceptingProxy, RecordedRequest
from mpcsim.crypto.rng import SystemRng
from mpcsim.ids import MPC_NODES, PartyId
from mpcsim.protocols.engine.envelope import Envelope
from mpcsim.protocols.key_share import Guard, KeyShare
from mpcsim.service.errors import Refused, no_such_key
from mpcsim.service.gateway.activation.decision import Decision
from mpcsim.service.gateway.introduction import NodeIntroduction
from mpcsim.service.gateway.links.links import Times
from mpcsim.service.gateway.sessions.sessions import Session
from mpcsim.service.mpc_node.store import StoredShare
from mpcsim.service.rpc import suspension_notices, wire
from mpcsim.service.rpc.activation_messages import ListShares, ShareInfoPage
from mpcsim.service.rpc.grants import _CONTENT, _MAC_BYTES, Grant, Scope
from mpcsim.service.rpc.statements import SignedRecord, SuspensionReceipt
from mpcsim.service.rpc.tokens import Claims, TokenVerifier
from mpcsim.service.vault import (
    PresignatureHeader,
    SealedPresignature,
    SecretStore,
    VaultKey,
    WrongKey,
)
from mpcsim.service.vault.sealing import share_key
from node.api.auth import Authenticator
from node.checks import OpenedShare
from node.errors import ApiError, UntrustedNode
from node.gateway_client.identity_pinning import PinnedIdentities
from node.local import VIRTUAL_START, LocalService
from node.signing.sessions import Caller


def confirms(store: SecretStore, secret: bytes) -> bool:
    """Return whether pw_key || pepper are those of a store: the test of passwords offline."""
    try:
        share_key(store, VaultKey(bytearray(secret)))
    except WrongKey:
        return False
    return True


def _with_verifier(service: LocalService, change: Callable[[Any], Any]) -> None:
    """Make the gateway's endpoints verify tokens by what ``change`` makes of their verifier."""
    app = service.gateway.app
    routes: Sequence[Any] = app.routes
    verbs = next(route.endpoint.__self__ for route in routes if route.path == "/mpc/v1/{verb}")
    verifier = verbs._verifier = change(verbs._verifier)
    services = app.state.services
    app.state.services = replace(services, token_keys=_Keys(services.token_keys, verifier))


class _Keys:
    """Signing keys of tokens, with another verifier."""

    def __init__(self, honest: Any, verifier: Any) -> None:
        self._honest = honest
        self.verify = verifier.verify

    def __getattr__(self, name: str) -> Any:
        return getattr(self._honest, name)


def _wallet(service: LocalService) -> Any:
    """Return the REST node's wallet."""
    return service.app.state.wallet


# ------------------------------------------------------------------ tokens


class _AnyToken:
    """Token verifier of gateway and node that takes any request for the only user's."""

    def __init__(self, service: LocalService) -> None:
        self._registry = service.gateway.gateway.registry

    def verify(self, token: str | None) -> Claims:
        (user_id,) = self._registry.user_ids()
        user = self._registry.user(user_id)
        assert user is not None
        return Claims(user_id, user.username, "access", None, 1 << 40)

    async def caller(self, authorization: str | None) -> Caller:
        return Caller("none", self.verify(None))


@part("a node and a gateway that ask for no token")
def accept_no_token(service: LocalService) -> None:
    anybody = _AnyToken(service)
    _with_verifier(service, lambda honest: anybody)
    service.app.state.authenticator = anybody


@part("tokens that never expire")
def never_expire_tokens(service: LocalService) -> None:
    jwks = service.gateway.issuer.jwks()
    patient = TokenVerifier(jwks, "gateway", lambda: VIRTUAL_START)
    _with_verifier(service, lambda honest: patient)
    service.app.state.authenticator = Authenticator(
        service.app.state.authenticator._gateway, now=lambda: VIRTUAL_START
    )
    accept_late_messages.replace(service)


class _KeyTokensAreAccess:
    """Token verifier that takes a key token for an access token."""

    def __init__(self, honest: Any) -> None:
        self._honest = honest

    def verify(self, token: str | None) -> Claims:
        claims: Claims = self._honest.verify(token)
        return replace(claims, use="access", key_id=None)


@part("a gateway that takes key tokens for access tokens")
def accept_key_tokens(service: LocalService) -> None:
    _with_verifier(service, _KeyTokensAreAccess)


# ------------------------------------------------------------------ the vault


KNOWN: Final = bytes(range(32))
"""Pepper of a vault without one, known to everybody."""


class _NoPepper:
    """Randomness whose outputs of 32 bytes are known."""

    def __init__(self, honest: Any) -> None:
        self._honest = honest

    def bytes(self, n: int) -> bytes:
        found: bytes = KNOWN if n == len(KNOWN) else self._honest.bytes(n)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._honest, name)


@part("a vault without a pepper")
def use_known_pepper(service: LocalService) -> None:
    wallet = _wallet(service)
    wallet._rng = _NoPepper(wallet._rng)


@node_part("MPC nodes that work for whoever asks")
def skip_use_check(node: Any) -> None:
    node._vault.check_authentic = lambda *_: None


@node_part("MPC nodes that open a vault alone without asking what is suspended")
def skip_attestation_check(node: Any) -> None:
    node._attestations.check = lambda key_id: None


# ------------------------------------------------------------------ shares


@part("MPC nodes that sign with shares not in force")
def sign_with_any_share(service: LocalService) -> None:
    def serve_any_share(node: Any) -> None:
        def mine(user_id: str, key_id: str) -> Any:
            found = node.store.find(key_id)
            if found is None:
                raise no_such_key()
            return found

        node._shares.active_share = mine

    for link in service.gateway.links.values():
        serve_any_share(link.node)
    curve = "ed25519"
    service.gateway.gateway._curve_of_key = lambda *_: curve  # type: ignore[method-assign]


@node_part("MPC nodes that open halves of retired epochs")
def open_any_epoch(node: Any) -> None:
    usable = node._shares.usable_share

    def retired_too(user_id: str, key_id: str) -> StoredShare:
        with suppress(Refused):
            found: StoredShare = usable(user_id, key_id)
            return found
        return StoredShare(key_id, user_id, "", b"", b"", "active")

    node._shares.usable_share = retired_too
    node._vault.check_authentic = lambda *_: None


# ------------------------------------------------------------------ grants


@part("a gateway that forwards callers' tokens")
def forward_tokens(service: LocalService) -> None:
    """Show every token that comes to the gateway to both MPC nodes, too."""

    def forward(call: Call) -> None:
        for link in service.gateway.links.values():
            if isinstance(link.node, HostileNode) and call.token:
                link.node.requests.append(RecordedRequest("(forwarded)", call.token, b""))

    app = service.gateway.app
    app.middleware_stack = InterceptingProxy(app.build_middleware_stack(), before=forward)


class _AnyGrant(Grant):
    """Grant that is good for everything, in the name of any user in it."""

    def check(self, scope: Scope) -> None:
        pass


class _AnyGrants:
    """Reader of grants that accepts any, by anybody for anybody at any time."""

    def read(self, data: bytes) -> _AnyGrant:
        return _AnyGrant(_CONTENT.unpack(data[_MAC_BYTES:])[4:])


@node_part("MPC nodes that accept any grant")
def accept_any_grant(node: Any) -> None:
    node._boot._grants = _AnyGrants()


@part("a gateway that takes apart whatever MPC nodes say they hold")
def trust_holdings_at_start(service: LocalService) -> None:
    activation = service.gateway.gateway.activation

    async def resolve_at_start() -> None:
        for link in activation._links.values():
            ShareInfoPage.from_bytes(await link.ask(Scope("holdings"), ListShares("")))

    activation.resolve_at_start = resolve_at_start  # type: ignore[method-assign]


# ------------------------------------------------------------------ stores


@node_part("stores that do not empty their log of writes")
def keep_write_log(node: Any) -> None:
    node.store._database.forget = lambda: None


class _TrustAnybody(PinnedIdentities):
    """Identity pinning that accepts any MPC nodes."""

    def check(self, hellos: Any) -> None:
        pass


class _TrustAnySealKey(PinnedIdentities):
    """Identity pinning that does not check seal keys."""

    def check(self, hellos: Any) -> None:
        try:
            super().check(hellos)
        except UntrustedNode as error:
            if "seal key" not in error.message:
                raise


@part("a REST node that takes anybody for the MPC nodes")
def trust_any_node(service: LocalService) -> None:
    _wallet(service)._gateway._trust = _TrustAnybody(None)


@part("a REST node that seals to any key")
def trust_any_seal_key(service: LocalService) -> None:
    _wallet(service)._gateway._trust = _TrustAnySealKey(None)


@part("a REST node that does not ask to which keys it has sealed")
def skip_seal_key_check(service: LocalService) -> None:
    wallet = _wallet(service)
    activate = wallet._activate
    wallet._activate = lambda caller, key, made, nodes: activate(caller, key, made, {})


@part("a REST node that believes unsigned first messages")
def accept_unsigned_messages(service: LocalService) -> None:
    sessions = _wallet(service)._sessions
    honest = sessions.client

    def client(*arguments: Any, **keywords: Any) -> Any:
        found = honest(*arguments, **keywords)

        def take(mail: Any) -> list[Any]:
            plain = [strip_signature(data) for data in mail]
            return [out for data in plain for out in found._party.receive(*data)]

        found._receive_all = take
        return found

    sessions.client = client


def strip_signature(data: bytes) -> tuple[PartyId, bytes]:
    """Return an envelope's sender, and the envelope without its signature, which is not checked."""
    envelope = Envelope.decode(data)
    return envelope.sender, data if envelope.sealed else data[: -wire.SIGNATURE_BYTES]


@part("a REST node that checks no record")
def accept_any_record(service: LocalService) -> None:
    records = _wallet(service)._gateway._records
    records.check = lambda data, *_, **__: SignedRecord.from_bytes(data).record


# ------------------------------------------------------------------ presignatures


@node_part("an MPC node that keeps no list of presignatures which may be used")
def skip_allowances(node: Any) -> None:
    node._presignatures.usage_tokens.use = lambda *_: None


@node_part("MPC nodes that store boot and presignatures, and come back with them")
def keep_boot_at_restart(node: Any) -> None:
    node._boot.start = node._presignatures.clear = lambda: None


@part("a REST node that opens a presignature under whatever header")
def accept_any_header(service: LocalService) -> None:
    presigner = _wallet(service)._presigner
    headers: dict[bytes, PresignatureHeader] = {}
    make, opened = presigner.make, presigner.open_part

    async def noting(*arguments: Any) -> list[str]:
        made: list[str] = await make(*arguments)
        headers.update((h.id, h) for h in (SealedPresignature.from_text(t).header for t in made))
        return made

    def part(sealed: SealedPresignature, *arguments: Any) -> Any:
        return opened(replace(sealed, header=headers[sealed.header.id]), *arguments)

    presigner.make, presigner.open_part = noting, part


# ------------------------------------------------------------------ suspensions


class _ForgetfulSuspensions:
    """Suspensions of a REST node that remembers none, and asks ``times`` times for each."""

    def __init__(self, honest: Any, times: int) -> None:
        self._gateway, self._times = honest._gateway, times

    def check(self, key_id: bytes) -> None:
        pass

    async def report(self, body: wire.Suspend, opened: OpenedShare) -> bool:
        for _ in range(self._times):
            with suppress(ApiError):
                await self._gateway.suspend(body, opened)
                return True
        return False

    def close(self) -> None:
        pass


@part("a REST node that goes on after a failed check")
def ignore_failed_checks(service: LocalService) -> None:
    _forget_failed_checks(service, 0)


@part("a REST node that asks once to have a key suspended")
def ask_once_to_suspend(service: LocalService) -> None:
    _forget_failed_checks(service, 1)


def _forget_failed_checks(service: LocalService, times: int) -> None:
    wallet = _wallet(service)
    forgetful, vaults = _ForgetfulSuspensions(wallet._suspensions, times), wallet._vaults
    signer = wallet._signer
    wallet._suspensions = vaults._suspensions = forgetful
    signer.suspensions = signer.early.suspensions = wallet._presigner.suspensions = forgetful
    opened = vaults.share_in

    def share(*arguments: Any) -> KeyShare:
        found: KeyShare = opened(*arguments)
        return replace(found, guard=Guard())

    vaults.share_in = share


@part("a REST node that looks at what comes after the token")
def accept_late_messages(service: LocalService) -> None:
    _wallet(service)._sessions.check_token = lambda caller: None


@part("a gateway that remembers no suspension")
def forget_suspensions(service: LocalService) -> None:
    suspensions = service.gateway.gateway.suspensions

    async def take(body: wire.Suspend) -> bytes:
        return b""

    suspensions.suspend = take  # type: ignore[method-assign]


@part("a gateway that tells each MPC node once")
def suspend_once(service: LocalService) -> None:
    suspensions = service.gateway.gateway.suspensions

    async def take(body: wire.Suspend) -> bytes:
        for party, notice in body.notices.items():
            told = wire.SuspendKey(body.occasion, notice)
            with suppress(Refused):
                at = body.occasion
                scope = Scope("suspend", at.user_id, at.key_id, at.session_id)
                await suspensions._links[party].call(scope, told, Times())
        return b""

    suspensions.suspend = take  # type: ignore[method-assign]


@part("a gateway that suspends for anybody")
def accept_any_tag(service: LocalService) -> None:
    suspensions = service.gateway.gateway.suspensions
    suspensions.is_authentic_tag = lambda at, tag: True  # type: ignore[method-assign]


@part("a gateway that remembers every suspension")
def remember_all_suspensions(service: LocalService) -> None:
    service.gateway.gateway.suspensions._has_room = lambda key_id: True  # type: ignore[method-assign]


@node_part("MPC nodes that suspend for anybody")
def accept_any_notice(node: Any) -> None:
    def suspend(grant: Any, data: bytes) -> wire.Body:
        at = wire.SuspendKey.from_bytes(data)
        node.store.suspend(at.occasion.key_id.hex(), "somebody said so")
        said = SuspensionReceipt(at.occasion.key_id, suspension_notices.notice_digest(at.notice), 1)
        return wire.SuspendReply(1, node._context.identity.sign(said))

    node._verbs = {**node._verbs, "suspend": suspend}


def strangers_suspension(user_id: str, key_id: str) -> wire.Suspend:
    """Return a suspension by a stranger, who had no session and has no share."""
    at = wire.AbortedSession(user_id, bytes.fromhex(key_id), SystemRng().bytes(32))
    return wire.Suspend(at, bytes(32), {j: SystemRng().bytes(60) for j in MPC_NODES}, "ed25519")


# ------------------------------------------------------------------ an MPC node's word


@part("a gateway that believes an MPC node about the other")
def believe_other_nodes_votes(service: LocalService) -> None:
    activation = service.gateway.gateway.activation
    honest = activation._new_decision

    async def begin(*arguments: Any, **keywords: Any) -> Decision:
        decision = await honest(*arguments, **keywords)
        learn = decision._learn
        decision._learn = lambda signed, by: learn(signed, None)  # type: ignore[method-assign]
        return decision

    activation._new_decision = begin  # type: ignore[method-assign]


class _AlwaysOpen:
    """Table of sessions in which every session is still open."""

    def __init__(self, honest: Any) -> None:
        self._honest = honest

    def is_open(self, session: Session) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._honest, name)


@part("a gateway that carries what comes of sessions that are off")
def route_closed_sessions(service: LocalService) -> None:
    router: Any = service.gateway.gateway._router
    router._sessions = _AlwaysOpen(router._sessions)


@part("a gateway that ends a turn when an MPC node says so")
def end_turns_on_request(service: LocalService) -> None:
    sessions = service.gateway.gateway.sessions
    honest = sessions.begin

    async def begin(*arguments: Any) -> Session:
        session = await honest(*arguments)
        session.requests_to_come = 0
        return session

    sessions.begin = begin  # type: ignore[method-assign, assignment]


class _IntroducesOnce(NodeIntroduction):
    """Introduction of the MPC nodes at the start and never again, even if it failed."""

    async def ensure_introduced(self) -> None:
        if not self.start_is_over:
            await super().ensure_introduced()


@part("a gateway that introduces MPC nodes at its start alone")
def introduce_once(service: LocalService) -> None:
    gateway = service.gateway.gateway
    gateway.introduction = _IntroducesOnce(
        gateway.links, gateway.activation, gateway.attestations, gateway.introduction._clock
    )
