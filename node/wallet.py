"""What the endpoints do: make, recover and use a key of which the caller carries one share.

Nothing is kept from one call to the next but public data. Key shares, passwords and vault keys
live as long as their call; what is held in bytearrays is overwritten, and what Python keeps in
immutable objects goes when the memory is used again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from mpcsim.errors import InternalError, UsageError
from mpcsim.ids import (
    CLIENT,
    HOLDERS,
    INSTITUTION,
    MPC_NODES,
    OPERATOR,
    ROLES,
    SESSION_ID_BYTES,
    THRESHOLD,
    PartyId,
)
from mpcsim.keyshare import KeyShare, PublicKeyRecord
from mpcsim.primitives.bip32 import Path
from mpcsim.protocol import Party
from mpcsim.protocols import dkg, reshare, signing
from mpcsim.rng import Rng, SystemRng
from mpcsim.rpc.statements import KeyRecord
from mpcsim.rpc.tokens import Claims, TokenError, TokenFault
from mpcsim.rpc.wire import (
    Hello,
    OpenVault,
    Recovering,
    Sign,
    Signing,
    UseProof,
    VaultOpened,
)
from mpcsim.vault import (
    INTERACTIVE,
    Argon2Cost,
    ReplyKey,
    SecretStore,
    VaultKey,
    VaultUse,
    WrongKey,
    hashes,
    new_salt,
    password_matches,
    seal_share,
)
from node.checks import (
    SealedShare,
    agreed_record,
    cannot_begin,
    check_answer,
    check_cost,
    check_identities,
    check_named,
    child_key,
    opened_share,
    parse_share,
    parse_store,
    public_key_text,
)
from node.client_party import ClientParty, Mail, OnCheat, Post, give_up, leaves_open
from node.early import Beginning
from node.errors import (
    AnotherBoot,
    ApiError,
    BadRequest,
    NotFound,
    OutcomeUnknown,
    Unauthorized,
    Unreachable,
    Upstream,
    UpstreamTimeout,
)
from node.gateway_client import GatewayClient
from node.models import (
    Curve,
    KeyShareRecord,
    KeyToken,
    PublicKey,
    RegisteredKeys,
    StoredShare,
    UserInformation,
    WalletInformation,
)
from node.password_key import PasswordKey
from node.settings import Settings
from node.suspensions import Report, Suspensions
from node.timing import Timing
from node.workers import Workers

R = TypeVar("R")
Nodes = Mapping[PartyId, Hello]
"""Who the MPC nodes are."""

MESSAGE_HASH_BYTES: Final = 32


@dataclass(frozen=True)
class Caller:
    """Who calls: a verified access token."""

    token: str = field(repr=False)
    claims: Claims


@dataclass
class ToSign:
    """What is to be signed, and with which share."""

    sealed: SealedShare
    message: bytes = field(repr=False)
    path: Path = ()
    """Of the child key to sign with."""
    share: KeyShare | None = None
    """Once its vault has been opened."""


class Wallet:
    """The operations of the REST interface, over one gateway."""

    def __init__(
        self,
        gateway: GatewayClient,
        *,
        rng: Rng | None = None,
        cost: Argon2Cost = INTERACTIVE,
        workers: Workers | None = None,
        settings: Settings | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """
        Args:
            cost: of Argon2id, for new vaults.
            settings: how vaults are opened: ``early_requests``, ``vault_policy``.
            now: seconds since 1970 UTC, for the expiry of tokens.
        """
        self._gateway = gateway
        self._rng = rng or SystemRng()
        self._cost = cost
        self._highest_cost = Argon2Cost(
            max(cost.operations, INTERACTIVE.operations),
            max(cost.memory_kib, INTERACTIVE.memory_kib),
        )
        self._workers = workers or Workers()
        settings = settings or Settings()
        self._early = settings.early_requests
        self._whole = settings.vault_policy == "signer"
        self._now = now
        self._suspensions = Suspensions(gateway, self._workers)

    async def close(self) -> None:
        """Let what was begun come to an end. The gateway's client stays open."""
        self._suspensions.close()
        await self._workers.close()

    # ------------------------------------------------------------------ making keys

    async def generate(
        self, caller: Caller, curve: Curve, password: str, timing: Timing
    ) -> KeyShareRecord:
        """Generate a key with both MPC nodes.

        Raises:
            Conflict: the user has a key on that curve, or is about to get one.
            OutcomeUnknown: the user may have a key on that curve now, of which nobody has the
                caller's share; it can be recovered.
            ApiError: it came to nothing; the user has no key on that curve.
        """
        async with _outcome_known(), self._password_key(password, timing) as password_key:
            nodes = await self._gateway.nodes(fresh=True)
            agreed = dkg.setup(curve, THRESHOLD, HOLDERS)
            party = dkg.party(agreed, CLIENT, session_id=self._session_id(), rng=self._rng)

            async def begin(messages: Mail) -> Sequence[bytes]:
                mail = await self._gateway.generate(caller.token, party.session_id, curve, messages)
                password_key.start()  # not for a user who has a key already
                return mail

            async with self._client(caller, party, timing, nodes=nodes, threaded=True) as client:
                share = await client.run(begin)
                return await self._finish(
                    caller, party.session_id, share, curve, nodes, password_key
                )

    async def recover(
        self, caller: Caller, curve: Curve, password: str, timing: Timing
    ) -> KeyShareRecord:
        """Have both MPC nodes deal new shares of the user's key; the old ones become useless.

        Raises:
            NotFound: the user has no key on that curve.
            Conflict: the key is being recovered, or has been meanwhile.
            OutcomeUnknown: either the old share works as before, or a new key is in force, of
                which nobody has the caller's share; it can be recovered again.
            ApiError: it came to nothing; the old share works as before.
        """
        session_id = self._session_id()
        async with _outcome_known(), self._password_key(password, timing) as password_key:
            nodes = await self._gateway.nodes(fresh=True)
            party, mail = await self._begin_recovery(caller, session_id, curve, timing)
            password_key.start()
            async with self._client(caller, party, timing, nodes=nodes, threaded=True) as client:
                share = await client.join(mail)
                if share is None:
                    raise InternalError("a receiver of new shares ends with one")
                return await self._finish(caller, session_id, share, curve, nodes, password_key)

    async def _begin_recovery(
        self, caller: Caller, session_id: bytes, curve: Curve, timing: Timing
    ) -> tuple[Party[Any, KeyShare | None], Sequence[bytes]]:
        """The client's party, and its first mail. Nothing stays open if this fails."""
        token, user_id = caller.token, caller.claims.user_id
        beginning: Recovering | None = None
        try:
            with timing.span("round1"):
                beginning = await self._gateway.recover(token, session_id, curve)
            key = await self._gateway.record(beginning.record, user_id, curve=curve)
            record = agreed_record(beginning.records, key)
            agreed = reshare.setup(record, MPC_NODES, receivers=HOLDERS, threshold=THRESHOLD)
            party = reshare.party(agreed, CLIENT, session_id=session_id, rng=self._rng)
        except BaseException as error:
            if beginning is not None or leaves_open(error):
                exchange, others = self._exchange(token, session_id), dict.fromkeys(MPC_NODES)
                number = reshare.RESHARE.number
                self._workers.later(give_up(exchange, number, session_id, others, self._rng))
            raise
        return party, beginning.messages

    async def _finish(
        self,
        caller: Caller,
        session_id: bytes,
        share: KeyShare,
        curve: Curve,
        nodes: Nodes,
        password_key: PasswordKey,
    ) -> KeyShareRecord:
        """Seal a new share, then make its key the user's key."""
        record, timing = share.record, password_key.timing
        key_id = record.epoch.hex()
        pw_key = await password_key.key()
        with timing.span("vault"):
            encrypted_share, secret_store = seal_share(
                share.to_bytes(),
                pw_key=pw_key,
                salt=password_key.salt,
                cost=password_key.cost,
                key_id=key_id,
                curve=curve,
                user_id=caller.claims.user_id,
                node_keys=_seal_keys(nodes),
                auth_keys={j: share.auth_key(j) for j in MPC_NODES},
                identities=_identities(nodes),
                rng=self._rng,
                whole=self._whole,
            )
        made = KeyShareRecord(
            key_id=key_id,
            encrypted_share=encrypted_share,
            secret_store=secret_store,
            public_key=public_key_text(record),
            curve=curve,
        )
        with timing.span("activate"):
            await self._activate(caller, session_id, record)
        return made

    async def _activate(self, caller: Caller, session_id: bytes, made: PublicKeyRecord) -> None:
        """Have the MPC nodes put a key in force, and see that both have signed its record.

        If there is no answer the key may be in force all the same, or still come into force.

        Raises:
            OutcomeUnknown: the gateway does not know, or something before it has answered, or the
                record cannot be believed.
            Unreachable: of unknown outcome, too; as ``UpstreamTimeout``.
            ApiError: the gateway has refused.
        """
        token, user_id, key_id = caller.token, caller.claims.user_id, made.epoch.hex()
        curve = made.curve_name
        try:
            signed = await self._gateway.activate(token, session_id, made.epoch)
        except (Unreachable, UpstreamTimeout, Upstream) as failure:
            with suppress(ApiError):
                registered = await self._gateway.key(token, user_id, curve)
                if registered is not None and registered.key_id == key_id:
                    return
            if isinstance(failure, Upstream) and not failure.final:
                raise OutcomeUnknown(failure) from None
            raise
        try:
            record = await self._gateway.record(signed, user_id, curve=curve, key_id=key_id)
            check_named(made, record)
        except ApiError as error:
            raise OutcomeUnknown(error) from None

    def _password_key(self, password: str, timing: Timing) -> PasswordKey:
        return PasswordKey(password, new_salt(self._rng), self._cost, self._workers, timing)

    # ------------------------------------------------------------------ signing

    async def sign(
        self,
        caller: Caller,
        stored: StoredShare,
        *,
        message: bytes,
        signer: str | None,
        path: Path = (),
        timing: Timing,
    ) -> str:
        """Sign with one MPC node.

        Args:
            message: the 32-byte hash on secp256k1, the message itself on ed25519.
            signer: ``operator`` or ``institution``; None: the operator, or the institution if the
                operator's node fails while signing. (Opening the vault takes both: while either
                cannot be reached, nothing signs.)
            path: of the child key to sign with; empty: the key itself.

        Returns:
            In hex: r, s, v with low s and v = 27 or 28 on secp256k1; R, S on ed25519. It has been
            verified under that key.
        """
        if stored.curve == "secp256k1" and len(message) != MESSAGE_HASH_BYTES:
            raise BadRequest(f"Invalid message: {MESSAGE_HASH_BYTES} bytes expected")
        what = ToSign(SealedShare.parse(stored), message, path)
        if signer is None:
            try:
                return await self._signed(caller, OPERATOR, what, timing)
            except ApiError as error:
                # Who does not open its half is not done without.
                opened = what.share is not None or what.sealed.secret_store.whole
                if not opened or not _is_down(error, OPERATOR):
                    raise
            return await self._signed(caller, INSTITUTION, what, timing)
        party = next(i for i in MPC_NODES if ROLES[i] == signer)
        return await self._signed(caller, party, what, timing)

    async def _signed(self, caller: Caller, signer: PartyId, what: ToSign, timing: Timing) -> str:
        """One attempt, with one MPC node."""
        if what.share is None and self._early and what.sealed.fits:
            return await self._sign_early(caller, signer, what, timing)
        if what.share is None:
            what.share = await self._share(caller, what.sealed, signer, timing)
        return await self._sign_with(
            caller, signer, what.share, what.message, timing, path=what.path
        )

    async def _sign_early(
        self, caller: Caller, signer: PartyId, what: ToSign, timing: Timing
    ) -> str:
        """The first message travels with the request that opens the vault."""
        sealed, message = what.sealed, what.message
        user_id, session_id, answered = caller.claims.user_id, b"", False
        self._suspensions.check(bytes.fromhex(sealed.key_id))

        async def ask(nodes: Nodes) -> tuple[Beginning, Signing]:
            nonlocal session_id
            check_identities(sealed.secret_store, _identities(nodes))
            session_id = self._session_id()
            beginning = Beginning(
                sealed,
                signer,
                message,
                user_id=user_id,
                boots={party: hello.boot for party, hello in nodes.items()},
                session_id=session_id,
                path=what.path,
                rng=self._rng,
            )
            begun, _ = await asyncio.gather(
                self._gateway.sign(caller.token, beginning.request),
                _once_sent(lambda: beginning.reply_key.prepare(_seal_keys(nodes))),
            )
            return beginning, begun

        try:
            with timing.span("round1"):
                beginning, begun = await self._of_present_boots(ask)
            answered = True
            self._check_token(caller)
            self._suspensions.check(bytes.fromhex(sealed.key_id))  # since it was asked
            with timing.span("vault"):
                key, record = await self._opened_key(
                    caller, sealed.key_id, beginning.reply_key, begun.vault, beginning.openers
                )
                with key:
                    share = what.share = self._opened(caller, sealed, key, record)
            with timing.span("compute"):
                party = beginning.party(share, begun)
        except BaseException as error:
            if session_id and (answered or leaves_open(error)):
                exchange = self._exchange(caller.token, session_id)
                number, others = signing.of_curve(sealed.curve).number, {signer: None}
                giving_up = give_up(exchange, number, session_id, others, self._rng)
                telling = self._workers.later(giving_up)
                if isinstance(error, ApiError) and answered:
                    await asyncio.shield(telling)  # so that the next call finds the key free
            raise
        report = Report(self._suspensions, user_id, share, session_id, self._rng, begun.tag)
        client: ClientParty[Any] = self._client(caller, party, timing, suspend=report)
        async with client:
            signature = (await client.join(begun.messages, last_word=False)).encode()
        return _verified(share, message, signature, timing, what.path)

    async def _sign_with(
        self,
        caller: Caller,
        signer: PartyId,
        share: KeyShare,
        message: bytes,
        timing: Timing,
        *,
        path: Path = (),
    ) -> str:
        """With a share at hand."""
        if path:
            child_key(share.record, path)
        session_id, signers, epoch = self._session_id(), (CLIENT, signer), share.record.epoch
        key, user_id = share.auth_key(signer), caller.claims.user_id
        self._suspensions.check(epoch)
        try:
            party = signing.signer(
                share, signers, message, path=path, session_id=session_id, rng=self._rng
            )
        except UsageError as error:
            raise cannot_begin(error) from None
        report = Report(self._suspensions, user_id, share, session_id, self._rng)

        async def begin(messages: Mail) -> Sequence[bytes]:
            first = hashes(messages)

            async def ask(nodes: Nodes) -> Signing:
                use = VaultUse.signing(
                    epoch,
                    user_id,
                    nodes[signer].boot,
                    signer=signer,
                    session_id=session_id,
                    message=message,
                    first=first,
                    path=path,
                )
                proof = UseProof(use.boot, use.mac(key))
                body = Sign(session_id, epoch, signer, message, messages, first, proof, path=path)
                begun = await self._gateway.sign(caller.token, body)
                check_answer(share, body, begun)
                return begun

            begun = await self._of_present_boots(ask)
            report.tag = begun.tag
            return begun.messages

        client: ClientParty[Any] = self._client(caller, party, timing, suspend=report)
        async with client:
            signature = (await client.run(begin, last_word=False)).encode()
        return _verified(share, message, signature, timing, path)

    # ------------------------------------------------------------------ looking into the vault

    async def public_key(
        self,
        caller: Caller,
        stored: StoredShare,
        *,
        password: str,
        path: Path | None = None,
        timing: Timing,
    ) -> PublicKey:
        """The public key of a share, for whoever knows its password.

        Args:
            path: of a child key, in its place; also of the key itself, with its ``xpub``.

        Raises:
            BadRequest: strings that do not open, another curve, or a wrong password; there is no
                key at the end of the path.
            NotFound: not a present key of this user.
        """
        sealed = SealedShare.parse(stored)
        key, record = await self._open(caller, sealed.key_id, sealed.secret_store, timing)
        with key:
            with timing.span("vault"):
                share = self._opened(caller, sealed, key, record)
            matches = await self._matches(sealed.secret_store, key, password, timing)
        if not matches:
            raise BadRequest("Invalid password")
        if path is None:
            return PublicKey(public_key=public_key_text(share.record))
        child = child_key(share.record, path)
        return PublicKey(public_key=public_key_text(child), xpub=child.xpub())

    async def validate_password(
        self, caller: Caller, *, password: str, secret_store: str, timing: Timing
    ) -> bool:
        """Whether the password is the one a secret store was made with.

        False for every other reason, too, for which it opens nothing: a store that is damaged,
        another user's, or of a key that has been recovered since.
        """
        store = parse_store(secret_store)
        try:
            key, _ = await self._open(caller, store.key_id, store, timing)
            with key:
                return await self._matches(store, key, password, timing)
        except (BadRequest, NotFound):
            return False

    async def validate_share(
        self, caller: Caller, *, encrypted_share: str, secret_store: str, timing: Timing
    ) -> bool:
        """Whether a share is whole and opens with its secret store; otherwise as
        ``validate_password``."""
        store = parse_store(secret_store)
        sealed = SealedShare(store.key_id, parse_share(encrypted_share), store, store.curve)
        try:
            key, record = await self._open(caller, store.key_id, store, timing)
            with key, timing.span("vault"):
                self._opened(caller, sealed, key, record)
        except (BadRequest, NotFound):
            return False
        return True

    async def _share(
        self, caller: Caller, sealed: SealedShare, signer: PartyId, timing: Timing
    ) -> KeyShare:
        store = sealed.secret_store
        by = (signer,) if store.whole else MPC_NODES
        key, record = await self._open_by(by, caller, sealed.key_id, store, timing)
        with key, timing.span("vault"):
            return self._opened(caller, sealed, key, record)

    @staticmethod
    def _opened(caller: Caller, sealed: SealedShare, key: VaultKey, record: KeyRecord) -> KeyShare:
        """The share in a vault, which is of the key that the record is of.

        Raises:
            BadRequest: it does not open, or is of another key or curve.
            ApiError: the MPC nodes' record is of other shares.
        """
        share = opened_share(sealed, key, caller.claims.user_id)
        check_named(share.record, record)
        return share

    async def _open(
        self, caller: Caller, key_id: str, store: SecretStore, timing: Timing
    ) -> tuple[VaultKey, KeyRecord]:
        """Have a secret store opened: by both MPC nodes, or by one that is there.

        Returns:
            The vault's key, and the record of the one whose share is in it.

        Raises:
            NotFound: not a present key of this user.
            BadRequest: the store is damaged, or of another key.
        """
        if not store.whole:
            return await self._open_by(MPC_NODES, caller, key_id, store, timing)
        try:
            return await self._open_by((OPERATOR,), caller, key_id, store, timing)
        except ApiError as error:
            if not _is_down(error, OPERATOR):
                raise
        return await self._open_by((INSTITUTION,), caller, key_id, store, timing)

    async def _open_by(
        self,
        parties: Sequence[PartyId],
        caller: Caller,
        key_id: str,
        store: SecretStore,
        timing: Timing,
    ) -> tuple[VaultKey, KeyRecord]:
        """The same, by these MPC nodes."""
        reply_key = ReplyKey(self._rng)
        epoch, user_id = bytes.fromhex(key_id), caller.claims.user_id
        self._suspensions.check(epoch)

        async def ask(nodes: Nodes) -> VaultOpened:
            check_identities(store, _identities(nodes))
            proofs = {}
            for party in store.auth_keys.keys() & set(parties):
                use = VaultUse.opening(epoch, user_id, nodes[party].boot, reply_key.public)
                proofs[party] = UseProof(use.boot, use.mac(store.auth_keys[party]))
            halves = {party: store.halves[party] for party in parties}
            body = OpenVault(epoch, reply_key.public, halves, proofs, int(store.whole))
            opened, _ = await asyncio.gather(
                self._gateway.open(caller.token, body),
                _once_sent(lambda: reply_key.prepare(_seal_keys(nodes))),
            )
            return opened

        with timing.span("vault"):
            opened = await self._of_present_boots(ask)
            return await self._opened_key(caller, key_id, reply_key, opened, parties)

    async def _opened_key(
        self,
        caller: Caller,
        key_id: str,
        reply_key: ReplyKey,
        opened: VaultOpened | None,
        parties: Sequence[PartyId],
    ) -> tuple[VaultKey, KeyRecord]:
        """What these MPC nodes have opened, as ``_open`` returns it."""
        damaged = ApiError(500, "The MPC nodes' parts of the vault key are damaged")
        if opened is None:
            raise damaged
        record = await self._gateway.record(opened.record, caller.claims.user_id, key_id=key_id)
        joined = partial(reply_key.combine, opened.halves, opened_by=parties)
        try:
            return joined(_seal_keys(await self._gateway.nodes())), record
        except WrongKey:
            nodes = await self._gateway.nodes(fresh=True)  # they may have changed
        try:
            return joined(_seal_keys(nodes)), record
        except WrongKey:
            raise damaged from None

    async def _of_present_boots(self, ask: Callable[[Nodes], Awaitable[R]]) -> R:
        """Make a request that is good for the MPC nodes' present boots only; once more if one of
        them has been started anew since we last asked who they are."""
        try:
            return await ask(await self._gateway.nodes())
        except AnotherBoot:
            return await ask(await self._gateway.nodes(fresh=True))

    async def _matches(
        self, store: SecretStore, key: VaultKey, password: str, timing: Timing
    ) -> bool:
        """Compute Argon2id in a thread and compare.

        Raises:
            BadRequest: the store was altered.
        """
        check_cost(store, self._highest_cost)
        with timing.span("argon2"):
            checking = self._workers.argon2(lambda: password_matches(store, key, password))
            try:
                return await asyncio.shield(checking)
            except WrongKey:
                raise BadRequest("Invalid secret_store") from None

    # ------------------------------------------------------------------ what the gateway knows

    async def user(self, caller: Caller) -> UserInformation:
        return await self._gateway.user(caller.token)

    async def keys(self, caller: Caller) -> RegisteredKeys:
        user_id = caller.claims.user_id
        keys = await self._gateway.keys(caller.token, user_id)
        return RegisteredKeys(user_id=user_id, keys=keys)

    async def wallet_info(self, caller: Caller, path: Path | None = None) -> WalletInformation:
        """The user's keys with their addresses; or the child keys at a path.

        Raises:
            NotFound: the user has no key, or none that has children.
            BadRequest: there is no key at the end of the path.
        """
        found = await self._gateway.wallet(caller.token, caller.claims.user_id, path)
        if not found.wallets:
            raise NotFound(f"This user has no {'' if path is None else 'secp256k1 '}key")
        return found

    async def key_token(self, caller: Caller, key_id: str) -> KeyToken:
        """A token for calls to the MPC nodes about one key."""
        return await self._gateway.key_token(caller.token, key_id)

    # ------------------------------------------------------------------ sessions

    def _session_id(self) -> bytes:
        return self._rng.bytes(SESSION_ID_BYTES)

    def _exchange(self, token: str, session_id: bytes) -> Post:
        async def exchange(messages: Mail) -> Sequence[bytes]:
            return await self._gateway.exchange(token, session_id, messages)

        return exchange

    def _client(
        self,
        caller: Caller,
        party: Party[Any, R],
        timing: Timing,
        *,
        nodes: Nodes | None = None,
        threaded: bool = False,
        suspend: OnCheat | None = None,
    ) -> ClientParty[R]:
        return ClientParty(
            party,
            self._exchange(caller.token, party.session_id),
            workers=self._workers,
            timing=timing,
            identities=_identities(nodes or {}),
            threaded=threaded,
            suspend=suspend,
            check_token=lambda: self._check_token(caller),
            rng=self._rng,
        )

    def _check_token(self, caller: Caller) -> None:
        """
        Raises:
            Unauthorized: the caller's token has expired meanwhile.
        """
        if self._now() >= caller.claims.expires_at:
            raise Unauthorized(TokenError(TokenFault.JWT_EXPIRED).detail())


@asynccontextmanager
async def _outcome_known() -> AsyncIterator[None]:
    """Around what makes a key: when there is no answer, say that nobody knows what has come of it.

    Raises:
        OutcomeUnknown: in place of ``Unreachable`` and ``UpstreamTimeout``.
    """
    try:
        yield
    except (Unreachable, UpstreamTimeout) as error:
        raise OutcomeUnknown(error) from None


async def _once_sent(work: Callable[[], None]) -> None:
    """Compute something while a request that is just beginning is under way."""
    for _ in range(2):  # it connects in its first turn and writes in its second
        await asyncio.sleep(0)
    work()


def _seal_keys(nodes: Nodes) -> dict[PartyId, bytes]:
    return {party: hello.seal_key for party, hello in nodes.items()}


def _identities(nodes: Nodes) -> dict[PartyId, bytes]:
    return {party: hello.identity for party, hello in nodes.items()}


def _verified(share: KeyShare, message: bytes, signature: bytes, timing: Timing, path: Path) -> str:
    """A signature in hex, if it is one."""
    with timing.span("compute"):
        if not signing.verifies(share.record, message, signature, path=path):
            raise ApiError(500, "MPC session ended with a signature that does not verify")
    return signature.hex()


def _is_down(error: ApiError, party: PartyId) -> bool:
    """Whether signing failed because that MPC node does not answer."""
    if isinstance(error, Upstream):
        return error.upstream_status in (503, 504) and error.party == party
    return isinstance(error, UpstreamTimeout)
