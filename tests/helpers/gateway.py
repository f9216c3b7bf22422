"""A client of the gateway without a node: the client's party, driven by hand over HTTP."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import httpx
import jwt
import pytest
from coincurve import PublicKey
from nacl.signing import VerifyKey

from mpcsim.crypto import bip32
from mpcsim.crypto.encoding import NO_CONTEXT
from mpcsim.crypto.rng import SystemRng
from mpcsim.errors import Aborted, InvalidEncoding
from mpcsim.ids import BOOT_BYTES, CLIENT, MPC_NODES, OPERATOR, PartyId
from mpcsim.protocols import dkg, ecdsa, frost, presign, reshare
from mpcsim.protocols.engine import Done, Party, Send
from mpcsim.protocols.engine.envelope import Envelope
from mpcsim.protocols.key_share import Guard, KeyShare, PublicKeyRecord
from mpcsim.protocols.presign import Presignature
from mpcsim.protocols.sample_keys import keys
from mpcsim.service.error_codes import HEADER, Code
from mpcsim.service.errors import Refused, key_replaced, no_such_key
from mpcsim.service.gateway.links.links import Link
from mpcsim.service.gateway.links.mpc_nodes import InProcess
from mpcsim.service.mpc_node.store import StoredShare
from mpcsim.service.operations import GatewayOptions, RunningGateway, open_gateway, open_mpc_node
from mpcsim.service.operations.data_folder import read_link
from mpcsim.service.rpc import session_keys, suspension_notices, wire
from mpcsim.service.rpc.activation_messages import PREPARED
from mpcsim.service.rpc.grants import GrantIssuer, Keyring, Scope
from mpcsim.service.rpc.session_keys import SessionKey
from mpcsim.service.rpc.statements import SignedRecord
from mpcsim.service.storage.roles import REGISTRY
from mpcsim.service.vault import (
    INTERACTIVE,
    DerivedKey,
    NodeKeys,
    SecretStore,
    SigningRequest,
    VaultUse,
    new_salt,
    seal_share,
    sha256_each,
)
from mpcsim.sim.simulated_network import SimulatedNetwork
from tests.helpers.adversary import Adversary, Tamper
from tests.helpers.processes import PATIENCE_S
from tests.helpers.sessions import child_key

T = TypeVar("T")

CURVES = ("secp256k1", "ed25519")
MESSAGE = bytes(range(32))
SEALED = b"no share: 7 times 6 is 42"
"""What vaults of tests hold in a share's place: no error text says anything like it."""
REPLY_KEY = bytes(31) + b"\x09"
"""Nobody's."""
NO_PROOF = wire.UseProof(bytes(BOOT_BYTES), bytes(32))

SESSIONS: dict[bytes, SessionKey] = {}
"""Keys of all sessions that clients of these tests have opened."""


def fresh_session() -> bytes:
    """Return the id of a new session, whose key is remembered."""
    key = SessionKey()
    SESSIONS[key.session_id] = key
    return key.session_id


def signed(session_id: bytes, messages: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return the client's messages as whoever opened the session sends them."""
    key = SESSIONS.get(session_id)
    with suppress(InvalidEncoding):  # noise is sent as it is
        return messages if key is None else key.sign_messages(messages)
    return messages


def proof(verb: str, content: bytes) -> dict[str, str]:
    """Return the header with which whoever opened a session goes on with it."""
    key = SESSIONS.get(content[:32]) if verb in ("exchange", "activate") else None
    return {} if key is None else {session_keys.HEADER: key.proof(verb, content)}


Wrap = Callable[[Party[Any, Any]], Any]
"""Puts something in a party's place, an adversary for one."""


def honest(party: Party[Any, Any]) -> Any:
    return party


def cheating(tamper: Tamper) -> Wrap:
    """The client's party as an adversary plays it."""
    return lambda party: Adversary(party, tamper)


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Failed(Exception):
    """The gateway answered with an error."""

    def __init__(self, verb: str, response: httpx.Response) -> None:
        super().__init__(f"{verb}: {response.status_code} {response.text}")
        self.response = response
        self.status = response.status_code
        self.error: str = response.json().get("error", "")


class Stuck(Exception):
    """The client's party has aborted, or waits for messages that do not come."""


@dataclass
class Client:
    """One user's client, with a connection to the gateway."""

    http: httpx.AsyncClient
    token: str
    hellos: Callable[[], Mapping[PartyId, wire.Hello]]
    """Who the MPC nodes are."""
    gateway: RunningGateway
    """In this process, for tests that reach into it."""
    requests: list[str] = field(default_factory=list)
    """Verbs asked for, in order."""
    statuses: list[int] = field(default_factory=list)
    """Of each reply, in order."""
    given: list[KeyShare] = field(default_factory=list)
    """Every share a run has ended with, activated or not."""

    @classmethod
    def of(cls, gateway: RunningGateway, username: str = "alice") -> Client:
        """Without a socket."""
        transport = httpx.ASGITransport(gateway.app, raise_app_exceptions=False)
        http = httpx.AsyncClient(transport=transport, base_url="http://gateway")
        return cls(http, gateway.token(username), lambda: hellos(gateway), gateway)

    async def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Any request, with the token."""
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        return await self.http.request(method, path, headers=headers, **options)

    async def post(self, verb: str, body: wire.Body | bytes) -> httpx.Response:
        content = body if isinstance(body, bytes) else body.to_bytes()
        self.requests.append(verb)
        headers = {"Content-Type": wire.MEDIA_TYPE, **proof(verb, content)}
        response = await self.request("POST", wire.PREFIX + verb, content=content, headers=headers)
        self.statuses.append(response.status_code)
        if response.is_error:
            code = Code(response.headers[HEADER])
            assert response.status_code in code.gateway, (response.status_code, code)
            assert code.wait_s is None or response.headers["Retry-After"].isdecimal()
        return response

    async def ask(self, verb: str, body: wire.Body | bytes) -> bytes:
        """
        Raises:
            Failed: the gateway answers with an error.
        """
        response = await self.post(verb, body)
        if not response.is_success:
            raise Failed(verb, response)
        return response.content

    async def exchange(self, session_id: bytes, messages: Iterable[bytes]) -> tuple[bytes, ...]:
        body = wire.Exchange(session_id, signed(session_id, tuple(messages)))
        reply = await self.ask("exchange", body)
        return wire.MessageBatch.from_bytes(reply).messages

    async def finish(self, party: Any, session_id: bytes, outputs: list[Any]) -> Any:
        """Exchange messages until the party is done; its result."""
        while not isinstance(party.outcome, Done):
            await self._check_going_on(party, session_id, outputs)
            outputs = feed(party, await self.exchange(session_id, sends(outputs)))
        if messages := sends(outputs):
            await self.exchange(session_id, messages)
        return party.outcome.result

    async def _check_going_on(self, party: Any, session_id: bytes, outputs: list[Any]) -> None:
        """
        Raises:
            Stuck: the party waits in vain, or has aborted; then the others have been told.
        """
        if isinstance(party.outcome, Aborted):
            with suppress(Failed):
                await self.exchange(session_id, sends(outputs))
        if isinstance(party.outcome, Aborted) or not sends(outputs):
            raise Stuck(party.outcome or party.waiting_state())

    # ------------------------------------------------------------------ keys

    async def begin_generate(self, curve: str, wrap: Wrap = honest) -> tuple[bytes, KeyShare]:
        """Everything up to, and without, the activation: session and share."""
        session_id = fresh_session()
        agreed = dkg.setup(curve, 2, (CLIENT, *MPC_NODES))
        party = wrap(dkg.party(agreed, CLIENT, session_id=session_id))
        first = wire.Generate(session_id, curve, signed(session_id, sends(party.start())))
        reply = await self.ask("generate", first)
        outputs = feed(party, wire.MessageBatch.from_bytes(reply).messages)
        self.given.append(await self.finish(party, session_id, outputs))
        return session_id, self.given[-1]

    async def begin_recover(self, curve: str, wrap: Wrap = honest) -> tuple[bytes, KeyShare]:
        session_id = fresh_session()
        reply = await self.ask("recover", wire.Recover(session_id, curve))
        opened = wire.RecoverReply.from_bytes(reply)
        (record,) = {*opened.records.values()}
        agreed = reshare.setup(
            PublicKeyRecord.from_bytes(record), MPC_NODES, receivers=(CLIENT, *MPC_NODES)
        )
        party = wrap(reshare.party(agreed, CLIENT, session_id=session_id))
        outputs = party.start() + feed(party, opened.messages)
        self.given.append(await self.finish(party, session_id, outputs))
        return session_id, self.given[-1]

    async def activate(self, session_id: bytes, share: KeyShare) -> None:
        reply = await self.ask("activate", wire.Activate(session_id, share.record.epoch))
        assert SignedRecord.from_bytes(reply).record.epoch == share.record.epoch

    async def generate(self, curve: str) -> KeyShare:
        session_id, share = await self.begin_generate(curve)
        await self.activate(session_id, share)
        return share

    async def recover(self, curve: str) -> KeyShare:
        session_id, share = await self.begin_recover(curve)
        await self.activate(session_id, share)
        return share

    def give_key(self, curve: str) -> KeyShare:
        """A key in force in all three stores, out of shares that were made before; this one's.

        For tests in which a key is needed and not made: on secp256k1, making one takes 0.2 s. The
        key pair is the same each time, and known; epoch and user are not.
        """
        epoch, user_id = os.urandom(32), self.token_user
        shares = {
            j: replace(share, record=replace(share.record, epoch=epoch))
            for j, share in keys(curve).items()
        }
        nodes = {party: link.node for party, link in self.gateway.links.items()}
        records = []
        for party, node in nodes.items():
            public, data = shares[party].public_key.encode(), shares[party].to_bytes()
            node.store.prepare(StoredShare(epoch.hex(), user_id, curve, public, data, PREPARED))
            records.append(node._voting.vote(epoch.hex()))  # a session would ask for it
        signed = records[0].with_vote(records[1])
        for node in nodes.values():
            node._voting.activate(signed)
        self.gateway.gateway.registry.put(signed)
        self.given.append(shares[CLIENT])
        return shares[CLIENT]

    def store(self, share: KeyShare) -> SecretStore:
        """The secret store of a vault of a key."""
        return SecretStore.from_text(seal(self.gateway, self.token_user, share)[1])

    async def key_ids(self) -> dict[str, str]:
        """The registered keys by curve."""
        response = await self.request("GET", "/wallet/v1/keys")
        return {key["curve"]: key["key_id"] for key in response.json()["keys"]}

    async def user_id(self) -> str:
        user_id: str = (await self.request("GET", "/wallet/v1/user")).json()["user_id"]
        return user_id

    # ------------------------------------------------------------------ proofs

    def _boot(self, party: PartyId) -> bytes:
        return self.hellos()[party].boot

    @property
    def token_user(self) -> str:
        """The user that the token is of."""
        user_id: str = jwt.decode(self.token, options={"verify_signature": False})["sub"]
        return user_id

    def proven(self, share: KeyShare, request: wire.Sign) -> wire.Sign:
        """A request to sign with the proof that belongs to it."""
        signer = PartyId(request.signer)
        what = request.session_id, request.message, request.path, request.count
        use = VaultUse.for_signing(
            *(request.key_id, self.token_user, self._boot(signer)),
            SigningRequest(signer, *what),
            sha256_each(request.messages),
            request.vault.reply_key if request.vault else b"",
        )
        return replace(
            request, first=use.first, proof=wire.UseProof(use.boot, use.mac(share.auth_key(signer)))
        )

    def opening(
        self, share: KeyShare, halves: Mapping[PartyId, bytes], reply_key: bytes = REPLY_KEY
    ) -> wire.OpenVault:
        """A request to open a vault, whosever it is, with the proofs of a share."""
        proofs = {}
        for party in MPC_NODES:
            epoch, boot = share.record.epoch, self._boot(party)
            use = VaultUse.for_opening(epoch, self.token_user, boot, reply_key)
            proofs[party] = wire.UseProof(boot, use.mac(share.auth_key(party)))
        return wire.OpenVault(share.record.epoch, reply_key, halves, proofs)

    # ------------------------------------------------------------------ signing

    def begin_sign(
        self,
        share: KeyShare,
        message: bytes = MESSAGE,
        signer: int = 2,
        wrap: Wrap = honest,
        *,
        path: bip32.Path = (),
    ) -> tuple[Any, wire.Sign]:
        """The client's party and its first request, not yet sent."""
        protocol: Any = ecdsa if share.record.curve_name == "secp256k1" else frost
        session_id, child = fresh_session(), {"path": path} if path else {}
        agreed = protocol.setup(share, (CLIENT, signer), message, **child)
        party = wrap(protocol.party(agreed, session_id=session_id))
        messages = sends(party.start())
        epoch = share.record.epoch
        request = wire.Sign(session_id, epoch, signer, message, messages, (), NO_PROOF, path=path)
        return party, self.proven(share, request)

    async def sign(
        self,
        share: KeyShare,
        message: bytes = MESSAGE,
        signer: int = 2,
        wrap: Wrap = honest,
        *,
        path: bip32.Path = (),
    ) -> Any:
        """A signature; it verifies under the share's public key, or its child's."""
        party, request = self.begin_sign(share, message, signer, wrap, path=path)
        reply = await self.ask("sign", request)
        outputs = feed(party, wire.SignReply.from_bytes(reply).messages)
        while not isinstance(party.outcome, Done):
            await self._check_going_on(party, request.session_id, outputs)
            outputs = feed(party, await self.exchange(request.session_id, sends(outputs)))
        check_signature(share, message, party.outcome.result, path)
        return party.outcome.result

    async def begun(self, share: KeyShare, signer: int = OPERATOR) -> tuple[Any, tuple[bytes, ...]]:
        """A signing session that waits for the client's second request; what it is to say."""
        party, request = self.begin_sign(share, signer=signer)
        mail = wire.SignReply.from_bytes(await self.ask("sign", request)).messages
        return party, sends(feed(party, mail))

    async def finished(self, share: KeyShare, party: Any, messages: Iterable[bytes]) -> None:
        """The rest of a signing session."""
        feed(party, await self.exchange(party.session_id, messages))
        check_signature(share, MESSAGE, party.outcome.result)

    async def presign(
        self, share: KeyShare, store: SecretStore, count: int = 1, signer: PartyId = OPERATOR
    ) -> tuple[tuple[Presignature, ...], bytes]:
        """The client's parts of presignatures, and what the other MPC node allows them under."""
        session_id, epoch = fresh_session(), share.record.epoch
        agreed = presign.setup(share, (CLIENT, signer), count)
        party = presign.party(agreed, session_id=session_id)
        about = session_id, epoch, signer, b"", sends(party.start()), (), NO_PROOF
        vault = self._vault(share, store, signer, presignatures=count)
        request = self.proven(share, wire.Sign(*about, vault, count=count))
        begun = wire.SignReply.from_bytes(await self.ask("sign", request))
        assert begun.vault is not None
        assert begun.vault.allowance is not None
        parts = await self.finish(party, session_id, feed(party, begun.messages))
        return parts, begun.vault.allowance

    def begin_presigned(
        self,
        share: KeyShare,
        store: SecretStore,
        part: Presignature,
        allowance: bytes,
        message: bytes = MESSAGE,
        signer: PartyId = OPERATOR,
        path: tuple[int, ...] = (),
    ) -> wire.Presigned:
        """A request to sign with a presignature, the first of its batch; not yet sent."""
        epoch = share.record.epoch
        using = wire.PresignedRequest(signer, part.id, allowance, 0, message, path, os.urandom(32))
        said = using.encode(NO_CONTEXT)
        use = VaultUse.for_presigned(epoch, self.token_user, self._boot(signer), REPLY_KEY, said)
        proof = wire.UseProof(use.boot, use.mac(share.auth_key(signer)))
        said = using.hide().encode(NO_CONTEXT)
        return wire.Presigned(epoch, using, proof, self._vault(share, store, signer, using=said))

    def _vault(
        self, share: KeyShare, store: SecretStore, signer: PartyId, **about: Any
    ) -> wire.Vault:
        """To be opened together with a session."""
        proofs = {}
        for other in set(MPC_NODES) - {signer}:
            boot = self._boot(other)
            use = VaultUse.for_opening(
                share.record.epoch, self.token_user, boot, REPLY_KEY, **about
            )
            proofs[other] = wire.UseProof(boot, use.mac(share.auth_key(other)))
        return wire.Vault(REPLY_KEY, store.halves, proofs)

    async def suspension(self, share: KeyShare, culprit: int = OPERATOR) -> wire.Suspend:
        """What a client asks for that has caught a node cheating, in a session that stays open."""
        _, request = self.begin_sign(share, signer=culprit)
        tag = wire.SignReply.from_bytes(await self.ask("sign", request)).tag
        at = wire.AbortedSession(await self.user_id(), share.record.epoch, request.session_id)
        sealed = {
            j: suspension_notices.seal_notice(
                share.peers[j].pair_secret, at, j, culprit, SystemRng()
            )
            for j in MPC_NODES
        }
        return wire.Suspend(at, tag, sealed, share.record.curve_name)

    async def check_works(self, share: KeyShare) -> None:
        """The share signs, with either MPC node."""
        for signer in MPC_NODES:
            await self.sign(share, signer=signer)

    async def check_retired(self, share: KeyShare) -> None:
        for signer in MPC_NODES:
            response = await self.post("sign", self.begin_sign(share, signer=signer)[1])
            assert response.status_code == 404
            assert response.json()["error"] in (str(no_such_key()), str(key_replaced()))

    async def check_consistent(self, curve: str, public_key: bytes | None = None) -> KeyShare:
        """Whatever has happened: the user has no key and can make one, or one that signs, with the
        share that came with it or after recovery. All other shares are useless.

        Args:
            public_key: of the key the user must have; None: there may be none.

        Returns:
            A share that works.
        """
        key_id = (await self.key_ids()).get(curve)
        assert key_id or not public_key, "the key is lost"
        if key_id is None:
            with suppress(Failed):
                share = await self.generate(curve)
                await self.check_works(share)
                return share
            # It may have been voted for, though the registry has missed that.
            key_id = (await self.key_ids())[curve]
        for held in self.given:
            if held.record.curve_name == curve and held.record.epoch.hex() != key_id:
                await self.check_retired(held)
        for held in self.given:
            if held.record.epoch.hex() == key_id:
                await self.check_works(held)
        share = await self.recover(curve)
        await self.check_works(share)
        assert public_key in (None, share.public_key.encode())
        return share


def hellos(gateway: RunningGateway) -> dict[PartyId, wire.Hello]:
    """Who the MPC nodes are."""
    return {party: link.node.hello() for party, link in gateway.links.items()}


def seal_keys(gateway: RunningGateway) -> dict[PartyId, bytes]:
    """What the MPC nodes have secrets sealed to."""
    return {party: hello.seal_key for party, hello in hellos(gateway).items()}


def seal(
    gateway: RunningGateway,
    user_id: str,
    share: KeyShare,
    content: bytes = SEALED,
    password: DerivedKey | None = None,
    *,
    whole: bool = False,
) -> tuple[str, str]:
    """A vault of a key: encrypted share and secret store."""
    rng, record = SystemRng(), share.record
    about = {"key_id": record.epoch.hex(), "curve": record.curve_name, "user_id": user_id}
    return seal_share(
        content,
        password=password or DerivedKey(bytes(32), new_salt(rng), INTERACTIVE),
        nodes=NodeKeys(
            seal_keys(gateway),
            {party: share.auth_key(party) for party in MPC_NODES},
            {party: hello.identity for party, hello in hellos(gateway).items()},
        ),
        rng=rng,
        whole=whole,
        **about,
    )


def open_with(folder: Path | None = None, **options: Any) -> RunningGateway:
    """A gateway with these of the ``GatewayOptions``."""
    return open_gateway(folder, GatewayOptions(**options))


def reopen(folder: Path, **options: Any) -> RunningGateway:
    """As a new process would open it: nothing in memory is left of an earlier gateway."""
    Guard._known.clear()
    return open_with(folder, **options)


@contextmanager
def started(folder: Path, **options: Any) -> Iterator[tuple[RunningGateway, Client]]:
    """A gateway as a new process opens it on a folder, and Alice's connection to it."""
    with closing(reopen(folder, **options)) as gateway:
        yield gateway, Client.of(gateway)


@contextmanager
def nodes_alone(folder: Path) -> Iterator[dict[PartyId, Link]]:
    """Links to both MPC nodes, with no gateway that would see to anything first."""
    Guard._known.clear()
    with ExitStack() as stack:
        links = {}
        for party in MPC_NODES:
            node = stack.enter_context(closing(open_mpc_node(folder, party))).node
            keys = Keyring(read_link(folder, REGISTRY, party).keys)
            issuer = GrantIssuer(party, keys, SystemRng(), time.time)
            network, timer = SimulatedNetwork(), time.perf_counter
            links[party] = Link(InProcess(node), issuer, network, timer=timer)
        yield links


def set_down(gateway: RunningGateway, down: bool) -> None:
    """Cut the links to both MPC nodes, or join them again."""
    for link in gateway.links.values():
        link.down = down


async def refusal(work: Awaitable[Any]) -> tuple[int, str]:
    """Status and text that the gateway refuses a request with, over HTTP or not."""
    with pytest.raises((Failed, Refused)) as refused:
        await work
    error = refused.value
    return error.status, error.error if isinstance(error, Failed) else str(error)


async def until(is_met: Callable[[], Any]) -> None:
    """Let other tasks and threads go on until a condition is met."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_met():
            await asyncio.sleep(0.001)


async def delivered(gateway: RunningGateway) -> None:
    """Wait until every MPC node has said what it makes of each suspension."""
    await until(lambda: not gateway.gateway.suspensions._undelivered)


def check_signature(share: KeyShare, message: bytes, signature: Any, path: bip32.Path = ()) -> None:
    """By libsecp256k1 or libsodium; children by a library of other authors, too."""
    public_key = child_key(share.record, path)
    if share.record.curve_name == "ed25519":
        VerifyKey(public_key).verify(message, signature.encode())
        return
    compact = signature.compact() + bytes([signature.recovery_id])
    found = PublicKey.from_signature_and_message(compact, message, hasher=None)
    assert found.format() == public_key


def sends(outputs: Iterable[Any]) -> tuple[bytes, ...]:
    return tuple(output.data for output in outputs if isinstance(output, Send))


def feed(party: Any, messages: Iterable[bytes]) -> list[Any]:
    outputs: list[Any] = []
    for message in messages:
        outputs += party.receive(Envelope.decode(message).sender, unsigned(message))
    return outputs


def unsigned(message: bytes) -> bytes:
    """An envelope without the signature of an MPC node, if it is one that has it."""
    envelope = Envelope.decode(message)
    making = envelope.protocol in (dkg.DKG.number, reshare.RESHARE.number)
    signed = making and envelope.sender in MPC_NODES and not envelope.sealed
    return message[: -wire.SIGNATURE_BYTES] if signed else message


def envelopes(messages: Iterable[bytes]) -> list[Envelope]:
    return [Envelope.decode(message) for message in messages]


def granted(verb: str, user_id: str, body: Any, key_id: bytes | None = None) -> Scope:
    """What the gateway asks an MPC node for with such a body.

    Args:
        key_id: of the session's key, where the body does not name it.
    """
    body = getattr(body, "abort", getattr(body, "occasion", body))
    if isinstance(body, SignedRecord):
        body = body.record
    names = ("session_id", "message", "path")
    about = {name: getattr(body, name) for name in names if hasattr(body, name)}
    if isinstance(body, wire.Presigned):
        about = {"session_id": body.using.rho, "message": body.using.message_hash}
    named = getattr(body, "epoch", getattr(body, "key_id", key_id))
    return Scope(verb, user_id, named, **about)


def ask_node(
    link: Link, verb: str, user_id: str, body: wire.Body, key_id: bytes | None = None
) -> bytes:
    """Ask an MPC node as a gateway does that has looked at nothing; arguments as ``granted``."""
    grant = link.grant(granted(verb, user_id, body, key_id))
    return link.node.handle(verb, grant, body.to_bytes())


def shares_of(gateway: RunningGateway) -> Mapping[int, list[Any]]:
    """State and suspension of every share in the MPC nodes' stores."""
    return {
        party: link.node.store._database.rows(  # type: ignore[attr-defined]
            "SELECT user_id, curve, key_id, state, suspended FROM shares ORDER BY key_id"
        )
        for party, link in gateway.links.items()
    }
