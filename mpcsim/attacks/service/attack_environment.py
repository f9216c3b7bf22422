"""Environment of attacks: the whole service, its honest users, and the attackers' powers."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import httpx
import pybase64
from coincurve import PublicKey as Secp256k1Key
from nacl.bindings import crypto_box_seal_open
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from mpcsim.attacks.harness import interpolate_key
from mpcsim.attacks.service.builds import PRODUCT, Build
from mpcsim.attacks.service.findings import Finding, Refusal, succeed_if
from mpcsim.attacks.service.hostile import HostileNode, InterceptingProxy
from mpcsim.crypto.rng import SystemRng
from mpcsim.errors import MpcError
from mpcsim.ids import MPC_NODES, OPERATOR, ROLES, PartyId
from mpcsim.protocols.key_share import Guard, KeyShare
from mpcsim.service.gateway.links.mpc_nodes import InProcess
from mpcsim.service.rpc import session_keys, wire
from mpcsim.service.rpc.grants import Scope
from mpcsim.service.rpc.session_keys import SessionKey
from mpcsim.service.rpc.tokens import Claims
from mpcsim.service.vault import (
    HALF_BYTES,
    Argon2Cost,
    ReplyKey,
    SealKey,
    SecretStore,
    VaultUse,
    password_key,
)
from mpcsim.service.web.transport import AsgiTransport, Limits
from node.checks import OpenedShare, SealedShare
from node.errors import ApiError
from node.gateway_client.client import GatewayClient
from node.gateway_client.identity_pinning import PinnedIdentities
from node.local import VIRTUAL_START, LocalService
from node.models import Curve, StoredShare
from node.process.settings import Settings
from node.process.timing import Timing
from node.signing.combined_opening import SessionOpening, SessionRequest
from node.signing.sessions import Caller
from node.wallet.wallet import Wallet

T = TypeVar("T")

CHEAP: Final = Argon2Cost(operations=1, memory_kib=8)
"""Cost of Argon2id, as low as can be: no attack depends on it."""
CURVE: Final[Curve] = "ed25519"
"""Default curve: the cheaper one."""
PASSWORD: Final = "horse 7 battery"
"""The victim's password; guessable, as many are."""
GUESSES: Final = ("password", "correct horse", "horse 6 battery", PASSWORD, "letmein")
"""Passwords that a thief tries."""
HONEST: Final = "11" * 32
"""Message that the victim wants signed, in hex."""
WANTED: Final = b"pay everything to the attacker!!"
"""Message that the attacker wants signed, 32 bytes."""

WAY_S: Final = 0.001
"""Time to the gateway or an MPC node: between two attempts time passes."""
SETTLING_MS: Final = 120_000
"""Time after which every session that an attacker has left open is over."""

Ask = Callable[[str, wire.Body], bytes]
"""Function that asks one MPC node: verb and body to the reply."""

Signs = Callable[[str, wire.Sign], Coroutine[Any, Any, wire.SignReply]]
"""Function that asks the gateway to begin a signing session, with a token."""

Strings = dict[str, str]
"""Strings that the caller's backend keeps of a key: the answer of ``generate`` and ``recover``."""


class AttackEnvironment:
    """The whole service in virtual time, with everything that an attack needs. A context
    manager."""

    service: LocalService

    def __init__(
        self,
        build: Build = PRODUCT,
        *,
        corrupt: PartyId = OPERATOR,
        on_disk: bool = False,
        pinned: bool = True,
        settings: Settings | None = None,
    ) -> None:
        """
        Args:
            corrupt: the MPC node that is corrupt, where one is.
            on_disk: keep the stores in files.
            pinned: let the REST node know the MPC nodes' identities beforehand.
            settings: settings of the REST node.
        """
        self.build = build
        self.me = corrupt
        self.other = next(party for party in MPC_NODES if party != corrupt)
        self.pinned = pinned
        self.settings = settings
        self.folder = Path(tempfile.mkdtemp(prefix="mpcsim-attack-")) if on_disk else None
        self.start()

    def start(self) -> None:
        """Start the service."""
        self.service = LocalService(cost=CHEAP, folder=self.folder, settings=self.settings)
        if self.pinned:
            self.pin_identities()
        self.build.weaken(self.service)

    def pin_identities(self) -> None:
        """Give the REST node the MPC nodes' identities, as its settings would: they are unknown
        before the service's first start."""
        known = {party: self.node(party).hello().identity for party in MPC_NODES}
        self.service.app.state.wallet._gateway._trust = PinnedIdentities(known)

    def restart_node(self) -> None:
        """Restart the REST node: it forgets everything that it got from the gateway."""
        client = self.service.app.state.wallet._gateway
        client._nodes = None
        if not self.pinned:
            client._trust = PinnedIdentities(None)

    def restart_gateway(self) -> None:
        """Restart the gateway, as far as the MPC nodes notice: introduce them again."""
        gateway = self.service.gateway.gateway
        gateway.introduction = type(gateway.introduction)(
            gateway.links, gateway.activation, gateway.attestations, gateway.introduction._clock
        )
        self.run(gateway.introduction.introduce())

    def restart(self) -> None:
        """Stop the service, and start it again on the same files."""
        self.service.close()
        Guard._known.clear()  # this is not the same process any more
        Guard._kept.clear()
        self.start()

    def close(self) -> None:
        self.service.wait(SETTLING_MS)
        self.service.close()
        if self.folder is not None:
            shutil.rmtree(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the service's time.

        Raises:
            Refusal: an error of the REST node's code.
        """
        try:
            return self.service.run(work)
        except ApiError as error:
            raise Refusal(f"the node: {error.status} {error.message}") from None

    # ------------------------------------------------------------------ honest parts

    def user(self, name: str = "alice") -> User:
        """Return a user of the service, with a token."""
        return User(self, name, self.service.gateway.token(name))

    def user_with_key(self, curve: str = CURVE) -> tuple[User, Strings]:
        """Return a user of the service who has generated a key, and its strings."""
        user = self.user()
        return user, user.generate(curve)

    def now(self) -> float:
        """Return seconds since 1970, by the service's clock."""
        return VIRTUAL_START + self.service.now_ms / 1000

    def impersonate(self, token: str) -> User:
        """Return a caller of the node with a stolen token; with none if it is empty."""
        return User(self, "thief", token)

    def node(self, party: PartyId) -> Any:
        """Return an MPC node; of a corrupt one its honest code, all of which the attacker can
        read."""
        node = self.service.gateway.links[party].node
        return node.honest if isinstance(node, HostileNode) else node

    def shares(self, party: PartyId) -> dict[str, KeyShare]:
        """Return every share in an MPC node's store, by key_id."""
        rows = self.node(party).store._database.rows("SELECT key_id, share FROM shares")
        return {key_id: KeyShare.from_bytes(share) for key_id, share in rows}

    def events(self, party: PartyId) -> list[str]:
        """Return the events in an MPC node's log, in order."""
        return [event.event for event in self.node(party).store.events()]

    # ------------------------------------------------------------------ files

    @property
    def root(self) -> Path:
        """Folder of the stores."""
        assert self.folder is not None, "this environment keeps nothing on disk"
        return self.folder

    def files(self) -> list[Path]:
        """Return every file of every store, as they are now."""
        return [path for path in self.root.rglob("*") if path.is_file()]

    def back_up_store(self, name: str) -> bytes:
        """Return a backup of one store, taken while the service is stopped."""
        path = self._file(name)
        self.service.close()
        data = path.read_bytes()
        self.start()
        return data

    def restore_store(self, name: str, data: bytes) -> None:
        """Restore one store from a backup."""
        self.service.close()
        self._file(name).write_bytes(data)
        self.start()

    def _file(self, name: str) -> Path:
        (found,) = self.root.rglob(f"{name}.sqlite")
        return found

    # ------------------------------------------------------------------ corrupt parts

    def corrupt_node(self, party: PartyId | None = None) -> HostileNode:
        """Corrupt an MPC node, from now on; ``me`` unless said otherwise."""
        link = self.service.gateway.links[party or self.me]
        hostile = HostileNode(link.node)
        link.port = InProcess(hostile)
        return hostile

    def intercept_gateway(self) -> InterceptingProxy:
        """Insert a proxy in front of the gateway, which reads and changes every request and
        answer."""
        app = self.service.gateway.app
        proxy = InterceptingProxy(app.middleware_stack or app.build_middleware_stack())
        app.middleware_stack = proxy
        return proxy

    def make_gateway_accept(self, share: KeyShare) -> None:
        """Make the gateway accept a share as one of the user's present key."""
        curve = share.record.curve_name
        self.service.gateway.gateway._curve_of_key = lambda *_: curve  # type: ignore[method-assign]

    def gateway_access(self, party: PartyId, user_id: str) -> Ask:
        """Return a function that asks an MPC node as the gateway can: with genuine grants for
        anything."""
        link = self.service.gateway.links[party]

        def ask(verb: str, body: wire.Body) -> bytes:
            refused = ""
            for scope in self._scopes(verb, user_id, body):
                try:
                    return self.send_to_node(party, verb, link.grant(scope), body)
                except Refusal as refusal:
                    refused = str(refusal)
                    if "the grant is" not in refused:
                        raise
            raise Refusal(refused)

        return ask

    def send_to_node(self, party: PartyId, verb: str, credential: Any, body: wire.Body) -> bytes:
        """Send a request to an MPC node, as anybody who reaches it can; return its answer.

        Raises:
            Refusal: with its words.
        """

        async def handle() -> bytes:
            await asyncio.sleep(WAY_S)
            reply: bytes = self.node(party).handle(verb, credential, body.to_bytes())
            return reply

        try:
            return self.service.run(handle())
        except MpcError as error:
            raise Refusal(f"the {ROLES[party]}: {error}") from None

    def _scopes(self, verb: str, user_id: str, body: wire.Body) -> Iterable[Scope]:
        """Yield the scopes that a grant for a request may need."""
        parts = (body, getattr(body, "record", None), getattr(body, "abort", None))
        named = {getattr(part, name, None) for part in parts for name in ("key_id", "epoch")}
        keys: set[bytes | None] = {None, *(key for key in named if isinstance(key, bytes))}
        for party in MPC_NODES:
            keys |= {bytes.fromhex(key_id) for key_id in self.shares(party)}
        for session_id in {None, getattr(body, "session_id", None)}:
            for message in {None, getattr(body, "message", None)}:
                for key_id in keys:
                    yield Scope(verb, user_id, key_id, session_id, message)

    # ------------------------------------------------------------------ what anybody can do

    def ask_gateway(
        self,
        verb: str,
        body: wire.Body | bytes,
        token: str | bytes | None,
        key: SessionKey | None = None,
    ) -> bytes:
        """Ask the gateway for an MPC verb, as anybody can.

        Args:
            key: of the session that it is about, for whoever has opened it.

        Raises:
            Refusal: with the gateway's words.
        """
        content = body if isinstance(body, bytes) else body.to_bytes()
        more = {} if key is None else {session_keys.HEADER: key.proof(verb, content)}
        return self._http("POST", wire.PREFIX + verb, token, content, wire.MEDIA_TYPE, more)

    def gateway_verbs(self) -> list[str]:
        """Return the verbs that the gateway can be asked for."""
        return sorted(self.service.gateway.gateway.verbs)

    def node_verbs(self) -> list[str]:
        """Return the verbs that an MPC node can be asked for."""
        return sorted(self.node(self.me)._verbs)

    def own_half(self, store: SecretStore) -> bytes:
        """Return the corrupt MPC node's half of a secret store."""
        return self.open_half(store, self.me, self.node(self.me)._boot.seal_key)

    def seal_keys(self) -> dict[PartyId, bytes]:
        """Return the MPC nodes' public seal keys."""
        return {party: self.node(party).hello().seal_key for party in MPC_NODES}

    def open_half(self, store: SecretStore, party: PartyId, key: SealKey) -> bytes:
        """Open a half of a secret store with the key it is sealed to."""
        return crypto_box_seal_open(store.halves[party], key.public, key.secret)[-HALF_BYTES:]

    def request_half(self, party: PartyId, store: SecretStore, ask: Ask) -> bytes:
        """Ask an MPC node for its half, with a reply key of the attacker's own.

        Raises:
            Refusal: it is refused.
        """
        reply_key, user_id = ReplyKey(SystemRng()), self.user().user_id
        proof = self.use_proof(store, party, user_id, reply_key.public)
        key_id, half = bytes.fromhex(store.key_id), store.halves[party]
        body = wire.OpenHalf(key_id, reply_key.public, half, proof)
        half = wire.Half.from_bytes(ask("open", body)).half
        return reply_key._unwrap(half, self.node(party).hello().seal_key, party)

    def use_proof(
        self, store: SecretStore, party: PartyId, user_id: str, reply_key: bytes
    ) -> wire.UseProof:
        """Return the proof that the sender of a request to open a secret store has the store, which
        has the key for it."""
        boot = self.node(party).hello().boot
        use = VaultUse.for_opening(bytes.fromhex(store.key_id), user_id, boot, reply_key)
        return wire.UseProof(boot, use.mac(store.auth_keys[party]))

    def get_registered(self, path: str, token: str | bytes | None) -> Any:
        """Ask the gateway for registered data; JSON.

        Raises:
            Refusal: with the gateway's words.
        """
        return json.loads(self._http("GET", path, token, b"", "application/json"))

    def _http(
        self,
        method: str,
        path: str,
        token: str | bytes | None,
        content: bytes,
        kind: str,
        more: Mapping[str, str] = {},
    ) -> bytes:
        headers = {"content-type": kind, **more}
        if token is not None:
            shown = token if isinstance(token, str) else pybase64.urlsafe_b64encode(token).decode()
            headers["authorization"] = f"Bearer {shown}"
        transport = httpx.ASGITransport(self.service.gateway.app, raise_app_exceptions=False)

        async def ask() -> httpx.Response:
            await asyncio.sleep(WAY_S)
            async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
                return await client.request(method, path, headers=headers, content=content)

        return _content("the gateway", self.service.run(ask()))

    def stolen_credentials(self, token: str) -> StolenCredentials:
        """Return a REST node of the attacker's own that uses a stolen token."""
        app = self.service.gateway.app
        return StolenCredentials(self, token, GatewayClient(AsgiTransport(app, Limits())))


@dataclass
class User:
    """User of the service, or a thief with a token: its calls to the REST node."""

    env: AttackEnvironment = field(repr=False)
    name: str
    token: str = field(repr=False)
    """Access token; empty: none is sent."""

    @property
    def user_id(self) -> str:
        return claims_of(self.token).user_id

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Ask the node.

        Args:
            path: below ``/v3/wallet``, or a query.

        Raises:
            Refusal: with the node's words.
        """
        client = self.env.service.http
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        method = "GET" if body is None else "POST"
        found = client.request(
            method, f"/v3/wallet{'/' * path[:1].isalpha()}{path}", json=body, headers=headers
        )
        return json.loads(_content("the node", found))

    def generate(self, curve: str = CURVE, password: str = PASSWORD) -> Strings:
        made: Strings = self.ask("generate", {"curve": curve, "password": password})
        return made

    def recover(self, curve: str = CURVE, password: str = PASSWORD) -> Strings:
        made: Strings = self.ask("recover", {"curve": curve, "password": password})
        return made

    def sign(
        self,
        strings: Strings,
        message: str = HONEST,
        signer: PartyId = OPERATOR,
        path: str | None = None,
    ) -> bytes:
        body = {**strings, "message": message, "signer": ROLES[signer], "path": path}
        return bytes.fromhex(self.ask("sign", body)["signature"])

    def shown_public_key(self) -> str:
        """Return the public key of the user's only key, as the user's wallet shows it."""
        (wallet,) = self.ask("")["wallets"]
        found: str = wallet["key"]["public_key"]
        return found

    def public_key(self, strings: Strings, password: str = PASSWORD) -> str:
        found: str = self.ask("publickey", {**strings, "password": password})["public_key"]
        return found

    def child(self, strings: Strings, path: str) -> str:
        """Return the public key at the end of a path."""
        body = {**strings, "password": PASSWORD, "path": path}
        found: str = self.ask("publickey", body)["public_key"]
        return found


class StolenCredentials(Wallet):
    """REST node of an attacker's own, with a stolen token: it plays the client's side of every
    exchange, and can keep the shares it makes."""

    def __init__(self, env: AttackEnvironment, token: str, gateway: GatewayClient) -> None:
        super().__init__(gateway, cost=CHEAP, now=env.now)
        self.env = env
        self.caller = Caller(token, claims_of(token))
        self.kept: list[KeyShare] | None = None
        """Shares kept in place of being activated; None: shares are activated."""
        self.sessions: list[SessionKey] = []
        self.tags: dict[wire.AbortedSession, bytes] = {}
        """Tag of every signing session."""
        gateway.sign = self._record_tags(gateway.sign)  # type: ignore[method-assign, assignment]
        sessions, vaults = self._sessions, self._vaults
        sessions.fresh_key = self._record_session_keys(sessions.fresh_key)  # type: ignore[method-assign]
        vaults.share_in = self._with_own_guards(vaults.share_in)  # type: ignore[method-assign]
        self._guards: dict[bytes, Guard] = {}

    def recover_unactivated(self) -> KeyShare:
        """Recover the key without activation; return the client's share.

        Raises:
            Refusal: it is refused.
        """
        return self._without_activation(self.recover(self.caller, CURVE, PASSWORD, Timing()))

    def generate_unactivated(self) -> KeyShare:
        """Generate a key without activation; return the client's share."""
        return self._without_activation(self.generate(self.caller, CURVE, PASSWORD, Timing()))

    def activate(self, epoch: bytes, token: str) -> None:
        """Activate the shares of the last session.

        Raises:
            Refusal: it is refused.
        """
        key = self.sessions[-1]
        self.env.ask_gateway("activate", wire.Activate(key.session_id, epoch), token, key)

    def _without_activation(self, making: Coroutine[Any, Any, Any]) -> KeyShare:
        kept = self.kept = []
        self.env.run(making)
        self.kept = None
        return kept[-1]

    def make(self, curve: Curve = CURVE) -> Strings:
        """Generate a key; return its strings."""
        made = self.env.run(super().generate(self.caller, curve, PASSWORD, Timing()))
        return dict(made.model_dump())

    def open_vault(self, strings: Strings) -> bytes:
        """Open the vault; return its secret, pw_key || pepper.

        Raises:
            Refusal: it is refused.
        """
        store = SecretStore.from_text(strings["secret_store"])
        reply_key, env, user_id = ReplyKey(SystemRng()), self.env, self.caller.claims.user_id
        proofs = {j: env.use_proof(store, j, user_id, reply_key.public) for j in MPC_NODES}
        key_id = bytes.fromhex(store.key_id)
        body = wire.OpenVault(key_id, reply_key.public, store.halves, proofs)
        halves = wire.VaultOpened.from_bytes(
            env.ask_gateway("open", body, self.caller.token)
        ).halves
        return bytes(reply_key.combine(halves, env.seal_keys()).secret)

    def start_signing(self, strings: Strings, message: bytes) -> wire.SignReply:
        """Send the operator a first request to sign; return its answer, whether or not the share
        opens.

        Raises:
            Refusal: it is refused.
        """
        sealed = SealedShare.parse(StoredShare.model_validate(strings))
        beginning = SessionOpening(
            SessionRequest(sealed, OPERATOR, message),
            user_id=self.caller.claims.user_id,
            boots={party: self.env.node(party).hello().boot for party in MPC_NODES},
            key=SessionKey(),
            rng=SystemRng(),
        )
        return self.env.run(self._gateway.sign(self.caller.token, beginning.request))

    def sign_stored(self, strings: Strings) -> bytes:
        """Sign at this node, as ``User.sign`` does at the service's.

        Raises:
            Refusal: it is refused.
        """
        return bytes.fromhex(self.env.run(self.signing(strings)))

    async def signing(self, strings: Strings) -> str:
        """Sign as ``sign_stored``, concurrently with other work."""
        signature, _ = await self.sign(
            self.caller,
            StoredShare.model_validate(strings),
            message=bytes.fromhex(HONEST),
            signer=ROLES[OPERATOR],
            timing=Timing(),
        )
        return signature

    def sign_with(self, share: KeyShare, message: bytes, signer: PartyId) -> bytes:
        """Sign with a client's share.

        Raises:
            Refusal: it is refused.
        """
        signing = self._signer.sign_with_share(
            self.caller, signer, OpenedShare(share, 0), message, Timing()
        )
        return bytes.fromhex(self.env.run(signing))

    def _record_tags(self, sign: Signs) -> Signs:
        async def keep(token: str, body: wire.Sign) -> wire.SignReply:
            reply = await sign(token, body)
            user_id = self.caller.claims.user_id
            self.tags[wire.AbortedSession(user_id, body.key_id, body.session_id)] = reply.tag
            return reply

        return keep

    def _with_own_guards(self, share: Callable[..., KeyShare]) -> Callable[..., KeyShare]:
        """Return ``share`` with guards of this node's own, as if it ran in another process."""

        def guarded(*arguments: Any) -> KeyShare:
            found = share(*arguments)
            guard = self._guards.setdefault(found.record.epoch, Guard())
            return replace(found, guard=guard)

        return guarded

    def _record_session_keys(self, fresh_key: Callable[[], SessionKey]) -> Callable[[], SessionKey]:
        def keep() -> SessionKey:
            self.sessions.append(fresh_key())
            return self.sessions[-1]

        return keep

    async def _finish(self, *arguments: Any, **keywords: Any) -> Any:
        if self.kept is None:
            return await super()._finish(*arguments, **keywords)
        held = (*arguments, *keywords.values())
        self.kept.append(next(value for value in held if isinstance(value, KeyShare)))
        return None


# ---------------------------------------------------------------------- proofs


def check_key_recovery(shares: Iterable[KeyShare], public_key: str, how: str) -> Finding:
    """Return success if the shares interpolate to the private key of a public one (0x, hex)."""
    shares = list(shares)
    point = shares[0].group.base(interpolate_key(shares)).encode().hex()
    return succeed_if(
        f"0x{point}" == public_key,
        f"{how}: x*G is the user's public key",
        "the shares do not combine to the key",
    )


def check_forgery(curve: str, public_key: str, signature: bytes, how: str) -> Finding:
    """Return success if a signature of ``WANTED`` verifies, by libsecp256k1 or libsodium."""
    library = "libsecp256k1" if curve == "secp256k1" else "libsodium"
    return succeed_if(
        verifies(curve, public_key, WANTED, signature),
        f"{how}: {library} verifies a signature of the attacker's own message",
        "the signature does not verify",
    )


def verifies(curve: str, public_key: str, message: bytes, signature: bytes) -> bool:
    """Return whether a signature is valid for the message, by libsecp256k1 or libsodium."""
    key = bytes.fromhex(public_key.removeprefix("0x"))
    try:
        if curve == "secp256k1":
            recoverable = signature[:64] + bytes([signature[64] - 27])
            found = Secp256k1Key.from_signature_and_message(recoverable, message, hasher=None)
            return found.format() == key
        VerifyKey(key).verify(message, signature)
    except (ValueError, BadSignatureError):
        return False
    return True


def matching_guess(pw_key: bytes, secret_store: str) -> str | None:
    """Return the guess whose stretched form is ``pw_key``, if one is; no service is asked."""
    store = SecretStore.from_text(secret_store)
    tries = (g for g in GUESSES if bytes(password_key(g, store.salt, store.cost)) == pw_key)
    return next(tries, None)


# ---------------------------------------------------------------------- pieces


def claims_of(token: str) -> Claims:
    """Return the claims of a token, which its holder can read."""
    _, payload, _ = token.split(".")
    said = json.loads(pybase64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return Claims(said["sub"], said["username"], "access", None, int(said["exp"]))


def random_id() -> bytes:
    """Return 32 random bytes, for a session of an attacker's own."""
    return SystemRng().bytes(32)


def _content(who: str, response: httpx.Response) -> bytes:
    """
    Raises:
        Refusal: an error.
    """
    if response.is_success:
        return response.content
    try:
        said = response.json()
    except ValueError:
        said = {}
    text = said.get("error") or said.get("message") or response.reason_phrase
    raise Refusal(f"{who}: {response.status_code} {text}")
