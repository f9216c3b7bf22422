"""Operations of the endpoints: make, recover and use a key of which the caller carries one share.

Nothing is kept from one call to the next but public data. Key shares, passwords and vault keys
live as long as their call; what is held in bytearrays is overwritten, and what Python keeps in
immutable objects goes when the memory is used again.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from mpcsim.crypto.bip32 import Path
from mpcsim.crypto.mta.schemes import standard_scheme
from mpcsim.crypto.rng import Rng, SystemRng
from mpcsim.errors import AbortReason, InternalError
from mpcsim.ids import (
    CLIENT,
    HOLDERS,
    MPC_NODES,
    ROLES,
    THRESHOLD,
)
from mpcsim.protocols import dkg, reshare
from mpcsim.protocols.engine import Party
from mpcsim.protocols.key_share import KeyShare, PublicKeyRecord
from mpcsim.service.error_codes import Code
from mpcsim.service.rpc.session_keys import SessionKey
from mpcsim.service.rpc.wire import RecoverReply
from mpcsim.service.vault import (
    INTERACTIVE,
    Argon2Cost,
    DerivedKey,
    NodeKeys,
    SecretStore,
    VaultKey,
    WrongKey,
    new_salt,
    password_matches,
    seal_share,
)
from mpcsim.service.web.idempotency import GENERATE, RECOVER, CallName
from mpcsim.service.web.request_records import annotate_request
from node.checks import (
    SealedShare,
    agreed_record,
    check_cost,
    check_named,
    check_sealed,
    child_key,
    parse_share,
    parse_store,
    public_key_text,
)
from node.errors import (
    ApiError,
    BadRequest,
    KeyAlreadyActive,
    NotFound,
    OutcomeUnknown,
    Unreachable,
    Upstream,
    UpstreamTimeout,
)
from node.gateway_client.client import GatewayClient
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
from node.process.argon2_queue import Argon2Queue, default_concurrency
from node.process.settings import Settings
from node.process.timing import Timing
from node.process.workers import Workers
from node.signing.client_party import Messages, give_up, may_leave_open
from node.signing.combined_opening import SessionStarter
from node.signing.presigning import Presigner
from node.signing.sessions import Caller, Nodes, Sessions, identities, seal_keys
from node.signing.signing import Signer
from node.signing.suspensions import Suspensions
from node.signing.vaults import Vaults
from node.wallet.password_key import PasswordKey

R = TypeVar("R")


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
            settings: how keys are made and vaults opened: ``ot_extension_k``, ``vault_policy``,
                ``early_requests``.
            now: seconds since 1970 UTC, for the expiry of tokens.
        """
        self._gateway = gateway
        self._rng = rng or SystemRng()
        self._cost = cost
        self._highest_cost = Argon2Cost(
            max(cost.operations, INTERACTIVE.operations),
            max(cost.memory_kib, INTERACTIVE.memory_kib),
        )
        settings = settings or Settings()
        self._workers = workers or Workers(
            Argon2Queue(settings.password_threads or default_concurrency(settings.workers))
        )
        self._whole = settings.vault_policy == "signer"
        self._k = settings.ot_extension_k
        apart = settings.separate_messages
        self._sessions = Sessions(gateway, self._workers, self._rng, now, apart=apart)
        self._suspensions = Suspensions(gateway, self._workers)
        self._vaults = Vaults(gateway, self._suspensions, self._rng)
        using: Any = {"suspensions": self._suspensions, "rng": self._rng}
        rooms = gateway, self._vaults, self._sessions
        using["early"] = SessionStarter(*rooms, workers=self._workers, **using)
        self._presigner = Presigner(*rooms, **using)
        self._signer = Signer(
            *rooms,
            presigner=self._presigner,
            first_with_vault=settings.early_requests,
            **using,
        )

    @property
    def argon2(self) -> Argon2Queue:
        """Queue of Argon2id computations."""
        return self._workers.argon2

    @property
    def aborts(self) -> Mapping[AbortReason, int]:
        """Sessions that its parties have aborted, by reason; counted on."""
        return self._sessions.aborts

    async def close(self) -> None:
        """Finish what was begun. The gateway's client stays open."""
        self._suspensions.close()
        await self._workers.close()

    # ------------------------------------------------------------------ making keys

    async def generate(
        self,
        caller: Caller,
        curve: Curve,
        password: str,
        timing: Timing,
        idempotency_key: str | None = None,
    ) -> KeyShareRecord:
        """Generate a key with both MPC nodes.

        Args:
            idempotency_key: names the call. If the key of an earlier one of this name has come
                into force, that is recovered.

        Raises:
            Conflict: the user has a key on that curve, or is about to get one.
            OutcomeUnknown: the user may have a key on that curve now, of which nobody has the
                caller's share; it can be recovered.
            ApiError: it came to nothing; the user has no key on that curve.
        """
        name = _call_name(idempotency_key, GENERATE)
        try:
            return await self._generate(caller, curve, password, timing, name)
        except KeyAlreadyActive:
            if name is None:  # nobody has asked for that
                raise
            return await self._recover(caller, curve, password, timing, name)

    async def _generate(
        self, caller: Caller, curve: Curve, password: str, timing: Timing, name: CallName | None
    ) -> KeyShareRecord:
        async with (
            _outcome_unknown_without_answer(),
            self._password_key(caller, password, timing) as password_key,
        ):
            nodes = await self._gateway.nodes(fresh=True)
            agreed = dkg.setup(curve, THRESHOLD, HOLDERS, standard_scheme(curve, self._k))
            key = self._sessions.fresh_key()
            party = dkg.party(agreed, CLIENT, session_id=key.session_id, rng=self._rng)

            async def begin(messages: Messages) -> Sequence[bytes]:
                mail = await self._gateway.generate(
                    caller.token, key, curve, messages, self._k, name
                )
                password_key.start()  # not for a user who has a key already
                return mail

            async with self._sessions.client(
                caller, party, key, timing, nodes=nodes, threaded=True
            ) as client:
                share = await client.run(begin)
                return await self._finish(caller, key, share, curve, nodes, password_key)

    async def recover(
        self,
        caller: Caller,
        curve: Curve,
        password: str,
        timing: Timing,
        idempotency_key: str | None = None,
    ) -> KeyShareRecord:
        """Recover a key: both MPC nodes deal new shares of it, and the old ones become useless.

        Args:
            idempotency_key: names the call; a repeated one is a new recovery.

        Raises:
            NotFound: the user has no key on that curve.
            Conflict: the key is being recovered, or has been meanwhile.
            OutcomeUnknown: either the old share works as before, or a new key is in force, of
                which nobody has the caller's share; it can be recovered again.
            ApiError: it came to nothing; the old share works as before.
        """
        name = _call_name(idempotency_key, RECOVER)
        return await self._recover(caller, curve, password, timing, name)

    async def _recover(
        self, caller: Caller, curve: Curve, password: str, timing: Timing, name: CallName | None
    ) -> KeyShareRecord:
        key = self._sessions.fresh_key()
        async with (
            _outcome_unknown_without_answer(),
            self._password_key(caller, password, timing) as password_key,
        ):
            nodes = await self._gateway.nodes(fresh=True)
            party, mail = await self._begin_recovery(caller, key, curve, password_key, name)
            async with self._sessions.client(
                caller, party, key, timing, nodes=nodes, threaded=True
            ) as client:
                share = await client.join(mail)
                if share is None:
                    raise InternalError("a receiver of new shares ends with one")
                return await self._finish(caller, key, share, curve, nodes, password_key)

    async def _begin_recovery(
        self,
        caller: Caller,
        key: SessionKey,
        curve: Curve,
        password_key: PasswordKey,
        name: CallName | None,
    ) -> tuple[Party[Any, KeyShare | None], Sequence[bytes]]:
        """The client's party, and its first mail. Nothing stays open if this fails."""
        token, user_id = caller.token, caller.claims.user_id
        beginning: RecoverReply | None = None
        try:
            with password_key.timing.span("round1"):
                beginning = await self._gateway.recover(token, key.session_id, curve, self._k, name)
            signed = await self._gateway.record(beginning.record, user_id, curve=curve)
            record = agreed_record(beginning.records, signed)
            agreed = reshare.setup(
                record,
                MPC_NODES,
                receivers=HOLDERS,
                threshold=THRESHOLD,
                scheme=standard_scheme(curve, self._k),
            )
            party = reshare.party(agreed, CLIENT, session_id=key.session_id, rng=self._rng)
            password_key.start()
        except BaseException as error:
            if beginning is not None or may_leave_open(error):
                exchange = self._sessions.exchange(token, key)
                number, others = reshare.RESHARE.number, dict.fromkeys(MPC_NODES)
                self._workers.run_in_background(
                    give_up(exchange, number, key.session_id, others, self._rng)
                )
            raise
        return party, beginning.messages

    async def _finish(
        self,
        caller: Caller,
        key: SessionKey,
        share: KeyShare,
        curve: Curve,
        nodes: Nodes,
        password_key: PasswordKey,
    ) -> KeyShareRecord:
        """Seal a new share, then make its key the user's key."""
        record, timing = share.record, password_key.timing
        key_id = record.epoch.hex()
        annotate_request(key_id=key_id)
        pw_key = await password_key.key()
        with timing.span("vault"):
            encrypted_share, secret_store = seal_share(
                share.to_bytes(),
                password=DerivedKey(pw_key, password_key.salt, password_key.cost),
                key_id=key_id,
                curve=curve,
                user_id=caller.claims.user_id,
                nodes=NodeKeys(
                    seal_keys(nodes),
                    {j: share.auth_key(j) for j in MPC_NODES},
                    identities(nodes),
                ),
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
            await self._activate(caller, key, record, nodes)
        return made

    async def _activate(
        self, caller: Caller, key: SessionKey, made: PublicKeyRecord, nodes: Nodes
    ) -> None:
        """Activate a key at the MPC nodes, and check that both have signed its record.

        If there is no answer the key may be in force all the same, or still come into force.

        Args:
            nodes: to which its vault is sealed.

        Raises:
            OutcomeUnknown: the gateway does not know, or something before it has answered, or the
                record cannot be believed.
            Unreachable: of unknown outcome, too; as ``UpstreamTimeout``.
            ApiError: the gateway has refused.
        """
        token, user_id, key_id = caller.token, caller.claims.user_id, made.epoch.hex()
        curve = made.curve_name
        try:
            signed = await self._gateway.activate(token, key, made.epoch)
        except (Unreachable, UpstreamTimeout, Upstream) as failure:
            registered = None
            with suppress(ApiError):
                registered = await self._gateway.current_record(token, user_id, curve, key_id)
            if registered is None:
                if isinstance(failure, Upstream) and not failure.final:
                    raise OutcomeUnknown(failure) from None
                raise
            signed = registered
        try:
            record = await self._gateway.record(signed, user_id, curve=curve, key_id=key_id)
            check_named(made, record)
            check_sealed(signed, nodes)
        except ApiError as error:
            raise OutcomeUnknown(error) from None

    def _password_key(self, caller: Caller, password: str, timing: Timing) -> PasswordKey:
        salt, queue = new_salt(self._rng), self._workers.argon2
        return PasswordKey(password, salt, self._cost, queue=queue, caller=caller, timing=timing)

    # ------------------------------------------------------------------ using keys

    async def sign(
        self,
        caller: Caller,
        stored: StoredShare,
        *,
        message: bytes,
        signer: str | None,
        path: Path = (),
        presignatures: Iterable[str] = (),
        timing: Timing,
    ) -> tuple[str, list[str]]:
        """Sign with one MPC node (``Signer.sign``)."""
        return await self._signer.sign(
            caller,
            stored,
            message=message,
            signer=signer,
            path=path,
            presignatures=presignatures,
            timing=timing,
        )

    async def presign(
        self, caller: Caller, stored: StoredShare, *, count: int, signer: str, timing: Timing
    ) -> list[str]:
        """Make presignatures with one MPC node (``Presigner.make``)."""
        party = next(i for i in MPC_NODES if ROLES[i] == signer)
        sealed = SealedShare.parse(stored)
        return await self._presigner.make(caller, sealed, count, party, timing)

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
        key, record = await self._vaults.open(caller, sealed.key_id, sealed.secret_store, timing)
        with key:
            with timing.span("vault"):
                share = self._vaults.share_in(caller, sealed, key, record)
            matches = await self._matches(caller, sealed.secret_store, key, password, timing)
        if not matches:
            raise BadRequest("Invalid password", Code.WRONG_PASSWORD)
        if path is None:
            return PublicKey(public_key=public_key_text(share.record))
        child = child_key(share.record, path)
        return PublicKey(public_key=public_key_text(child), xpub=child.xpub())

    async def validate_password(
        self, caller: Caller, *, password: str, secret_store: str, timing: Timing
    ) -> bool:
        """Return whether the password is the one a secret store was made with.

        False for every other reason, too, for which it opens nothing: a store that is damaged,
        another user's, or of a key that has been recovered since.
        """
        store = parse_store(secret_store)
        try:
            key, _ = await self._vaults.open(caller, store.key_id, store, timing)
            with key:
                return await self._matches(caller, store, key, password, timing)
        except (BadRequest, NotFound):
            return False

    async def validate_share(
        self, caller: Caller, *, encrypted_share: str, secret_store: str, timing: Timing
    ) -> bool:
        """Return whether a share is whole and opens with its secret store; otherwise as
        ``validate_password``."""
        store = parse_store(secret_store)
        sealed = SealedShare(store.key_id, parse_share(encrypted_share), store, store.curve)
        try:
            key, record = await self._vaults.open(caller, store.key_id, store, timing, guess=False)
            with key, timing.span("vault"):
                self._vaults.share_in(caller, sealed, key, record)
        except (BadRequest, NotFound):
            return False
        return True

    async def _matches(
        self, caller: Caller, store: SecretStore, key: VaultKey, password: str, timing: Timing
    ) -> bool:
        """Compute Argon2id in a thread, when it is the caller's turn, and compare.

        Raises:
            BadRequest: the store was altered.
            PasswordsBusy: too many wait already.
        """
        check_cost(store, self._highest_cost)
        with timing.span("argon2"):
            checking = self._workers.argon2.submit(
                caller.claims.user_id, lambda: password_matches(store, key, password), caller.gone
            )
            try:
                return await checking.result()
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


def _call_name(idempotency_key: str | None, verb: str) -> CallName | None:
    return None if idempotency_key is None else CallName(idempotency_key, verb)


@asynccontextmanager
async def _outcome_unknown_without_answer() -> AsyncIterator[None]:
    """Around what makes a key: when there is no answer, say that nobody knows what has come of it.

    Raises:
        OutcomeUnknown: in place of ``Unreachable`` and ``UpstreamTimeout``.
    """
    try:
        yield
    except (Unreachable, UpstreamTimeout) as error:
        raise OutcomeUnknown(error) from None
