"""Client of the gateway, one method a request; its errors as those of the node's caller."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel, BeforeValidator, ValidationError

from mpcsim import strict_json
from mpcsim.crypto.bip32 import Path, path_text
from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.errors import InvalidEncoding
from mpcsim.ids import BOOT_BYTES, MPC_NODES, ROLES, PartyId
from mpcsim.service.error_codes import Code, parse_code
from mpcsim.service.errors import (
    BAD_REQUEST,
    STALE_BOOT,
    UNAUTHORIZED,
    UNPROCESSABLE,
    no_such_key,
)
from mpcsim.service.rpc import session_keys, wire
from mpcsim.service.rpc.addresses import addresses
from mpcsim.service.rpc.session_keys import SessionKey
from mpcsim.service.rpc.statements import IDENTITY_BYTES, KeyRecord
from mpcsim.service.rpc.wire import SEAL_KEY_BYTES, SIGNATURE_BYTES
from mpcsim.service.web.idempotency import CallName
from mpcsim.service.web.request_records import Call
from mpcsim.service.web.transport import (
    ConnectionLost,
    Reply,
    ReplyTimeout,
    ReplyTooLarge,
    Transport,
    TransportFailed,
)
from node.checks import OpenedShare, child_key, public_key_text
from node.errors import (
    ApiError,
    BadRequest,
    Conflict,
    KeyAlreadyActive,
    Limited,
    NotFound,
    StaleBoot,
    Unauthorized,
    Unreachable,
    Upstream,
    UpstreamTimeout,
)
from node.gateway_client.identity_pinning import PinnedIdentities
from node.gateway_client.records import RecordVerifier, UnsignedRecord
from node.models import (
    Body,
    KeyToken,
    RegisteredKey,
    UserId,
    UserInformation,
    WalletEntry,
    WalletInformation,
    WalletKey,
)


def _from_base64(text: object) -> bytes:
    if not isinstance(text, str):
        raise ValueError("not text")
    return base64.b64decode(text, b"-_", validate=True)


_HELLO: Final = {
    "identity": IDENTITY_BYTES,
    "seal_key": SEAL_KEY_BYTES,
    "signature": SIGNATURE_BYTES,
    "boot": BOOT_BYTES,
}
"""Members of what the gateway says of an MPC node, in hex; with their sizes."""
REPLACED: Final = ": it is unknown, or a recovery has replaced it"
"""End of the sentence about a key that the gateway has no record of for this user."""
_MAKING: Final = frozenset(wire.PREFIX + verb for verb in ("generate", "recover", "activate"))
"""Paths that make a key: their errors may say what another call is doing with it."""

_Record = Annotated[bytes, BeforeValidator(_from_base64)]


class _SignedKey(RegisteredKey):
    record: _Record


class _SignedKeys(Body):
    user_id: UserId
    keys: list[_SignedKey]


class _SignedWalletKey(WalletKey):
    record: _Record


class _SignedWalletEntry(Body):
    key: _SignedWalletKey
    address: dict[str, str]


class _SignedWallet(Body):
    user_id: UserId
    wallets: list[_SignedWalletEntry]


B = TypeVar("B", bound=wire.Body)
M = TypeVar("M", bound=BaseModel)


class GatewayClient:
    """Typed requests to one gateway.

    Every method may raise ``Unauthorized`` (the gateway refuses the token), ``NotFound``,
    ``Conflict`` (the user has a key of that curve, or one is being made), ``Upstream`` (any other
    error of the gateway, or an answer that is none), ``Unreachable`` and ``UpstreamTimeout``.
    """

    def __init__(
        self, transport: Transport, identities: Mapping[PartyId, bytes] | None = None
    ) -> None:
        """
        Args:
            identities: of the MPC nodes; by default those that the gateway first shows.
        """
        self._transport = transport
        self._trust = PinnedIdentities(identities)
        self._records = RecordVerifier()
        self._nodes: Mapping[PartyId, wire.Hello] | None = None
        self.requests: Counter[str] = Counter()
        """Requests sent so far, by method and path."""

    async def close(self) -> None:
        await self._transport.close()

    # ------------------------------------------------------------------ public data

    async def jwks(self) -> dict[str, Any]:
        """The public keys of access tokens (RFC 7517)."""
        return _object(await self._get("/.well-known/jwks.json", None))

    async def nodes(self, *, fresh: bool = False) -> Mapping[PartyId, wire.Hello]:
        """Return the identities, seal keys and boots of the MPC nodes.

        Args:
            fresh: ask, even if it is known.

        Raises:
            UntrustedNode: they are not those that are trusted.
        """
        if self._nodes is None or fresh:
            self._nodes, _ = await self._fetch_nodes()
        return self._nodes

    async def unreachable_nodes(self) -> list[PartyId]:
        """Return the MPC nodes that the gateway cannot reach now, as far as it says so.

        Raises:
            UntrustedNode: they are not those that are trusted.
        """
        self._nodes, said = await self._fetch_nodes()
        return [party for party in MPC_NODES if said[ROLES[party]].get("answers") is False]

    async def _fetch_nodes(self) -> tuple[Mapping[PartyId, wire.Hello], Mapping[str, Any]]:
        """Return the MPC nodes' hellos, and all that the gateway says of them."""
        said = _object(await self._get("/mpc/v1/nodes", None))
        found = _hellos(said)
        self._trust.check(found)
        return found, said

    # ------------------------------------------------------------------ about the user

    async def user(self, token: str) -> UserInformation:
        return _model(UserInformation, await self._get("/wallet/v1/user", token))

    async def keys(self, token: str, user_id: str) -> list[RegisteredKey]:
        """A user's keys, as both MPC nodes have signed them.

        Raises:
            UnsignedRecord: they have not, or it is another user's.
        """
        keys = []
        for said in await self._signed_keys(token):
            record = await self.record(said.record, user_id, curve=said.curve)
            keys.append(
                RegisteredKey(
                    key_id=record.key_id,
                    curve=said.curve,
                    public_key="0x" + record.public_key.hex(),
                    created_at=said.created_at,
                )
            )
        return keys

    async def current_record(
        self, token: str, user_id: str, curve: str, key_id: str
    ) -> bytes | None:
        """Return the ``SignedRecord`` of a user's key, if these are its present shares.

        Raises:
            UnsignedRecord: as for ``keys``.
        """
        for said in await self._signed_keys(token):
            record = await self.record(said.record, user_id, curve=said.curve)
            if (said.curve, record.key_id) == (curve, key_id):
                return said.record
        return None

    async def _signed_keys(self, token: str) -> Sequence[_SignedKey]:
        return _model(_SignedKeys, await self._get("/wallet/v1/keys", token)).keys

    async def wallet(self, token: str, user_id: str, path: Path | None = None) -> WalletInformation:
        """A user's keys with their addresses, which are computed here.

        Args:
            path: of child keys, in their place; of keys on curves that have any.

        Raises:
            UnsignedRecord: as for ``keys``.
            BadRequest: there is no key at the end of the path.
        """
        found = _model(_SignedWallet, await self._get("/wallet/v1/wallet", token))
        wallets = []
        for said in found.wallets:
            curve = said.key.curve
            record = await self.record(said.key.record, user_id, curve=curve)
            if path is None:
                key = WalletKey(curve=curve, public_key="0x" + record.public_key.hex())
            elif curve == SECP256K1.name:
                key = _child(record, path)
            else:
                continue
            address = addresses(curve, bytes.fromhex(key.public_key[2:]))
            wallets.append(WalletEntry(key=key, address=address))
        return WalletInformation(user_id=user_id, wallets=wallets)

    async def record(
        self,
        signed: bytes,
        user_id: str,
        *,
        curve: str | None = None,
        key_id: str | None = None,
    ) -> KeyRecord:
        """The record of a user's key; arguments and errors as of ``RecordVerifier.check``."""
        identities = {party: hello.identity for party, hello in (await self.nodes()).items()}
        return self._records.check(signed, identities, user_id, curve=curve, key_id=key_id)

    async def key_token(self, token: str, key_id: str) -> KeyToken:
        """A token for calls to the MPC nodes about one key."""
        path = "/wallet/v1/token?" + urlencode({"id": key_id})
        return _model(KeyToken, await self._get(path, token))

    # ------------------------------------------------------------------ the vault

    async def open(
        self, token: str, body: wire.OpenVault, *, guess: bool = True
    ) -> wire.VaultOpened:
        """Ask MPC nodes to unseal their halves of a secret store, or the whole, for a reply key.

        Args:
            guess: to see whether a password is right: the gateway may limit that.

        Raises:
            BadRequest: a half is not what the node once sealed for this key and user, or the store
                is not this key's.
            AnotherBoot: a proof is for an MPC node before its last start.
        """
        try:
            verb = "open" if guess else f"open?{wire.NO_GUESS.decode()}"
            data = await self._post(verb, token, body, again=True)
        except Upstream as error:
            if error.upstream_status == BAD_REQUEST:
                raise BadRequest("Invalid secret_store") from None
            raise
        return _decode(wire.VaultOpened, data)

    async def suspend(self, body: wire.Suspend, opened: OpenedShare) -> None:
        """Suspend a key: nothing is done with it any more but recovering it. No token is needed.

        It is so when this returns, or both MPC nodes have signed that the key has been recovered,
        once or more often.

        Args:
            opened: the share that must not be used any more.

        Raises:
            UnsignedRecord: they have not.
        """
        if after := await self._post("suspend", None, body, again=True, may_be_empty=True):
            public = opened.share.record
            record = await self.record(after, body.occasion.user_id, curve=public.curve_name)
            if (
                record.public_key != public.public_key.encode()
                or record.number <= opened.recoveries
            ):
                raise UnsignedRecord("it does not replace the shares that are to be suspended")

    # ------------------------------------------------------------------ sessions

    async def generate(
        self,
        token: str,
        key: SessionKey,
        curve: str,
        messages: tuple[bytes, ...],
        k: int,
        name: CallName | None = None,
    ) -> tuple[bytes, ...]:
        """Begin a key generation with the client's first messages; those for the client.

        Raises:
            InForce: the key of an earlier call of that name has come into force.
        """
        body = wire.Generate(key.session_id, curve, key.sign_messages(messages), k)
        data = await self._post("generate", token, body, name=name)
        return _decode(wire.MessageBatch, data).messages

    async def recover(
        self, token: str, session_id: bytes, curve: str, k: int, name: CallName | None = None
    ) -> wire.RecoverReply:
        """Begin a recovery: the key's record at each MPC node, and their first messages."""
        data = await self._post("recover", token, wire.Recover(session_id, curve, k), name=name)
        return _decode(wire.RecoverReply, data)

    async def sign(self, token: str, body: wire.Sign) -> wire.SignReply:
        """Begin a signing session with one MPC node: its suspension tag, and the messages for the
        client.

        Raises:
            AnotherBoot: a proof is for an MPC node before its last start.
            BadRequest: the path leads to no key; with a vault, also as from ``open``.
        """
        try:
            data = await self._post("sign", token, body)
        except Upstream as error:
            if error.upstream_status == BAD_REQUEST and body.vault:
                raise BadRequest("Invalid secret_store") from None
            raise
        return _decode(wire.SignReply, data)

    async def presigned(self, token: str, body: wire.Presigned) -> wire.SignReply:
        """Sign with a presignature; otherwise as ``sign``."""
        try:
            data = await self._post("presigned", token, body)
        except Upstream as error:
            if error.upstream_status == BAD_REQUEST:
                raise BadRequest("Invalid secret_store") from None
            raise
        return _decode(wire.SignReply, data)

    async def exchange(
        self, token: str, key: SessionKey, messages: tuple[bytes, ...]
    ) -> tuple[bytes, ...]:
        """Send further messages of an open session; those for the client."""
        body = wire.Exchange(key.session_id, key.sign_messages(messages))
        return _decode(
            wire.MessageBatch, await self._post("exchange", token, body, key=key)
        ).messages

    async def activate(self, token: str, key: SessionKey, key_id: bytes) -> bytes:
        """Make the key of a finished session the user's key; its ``SignedRecord``."""
        body = wire.Activate(key.session_id, key_id)
        return await self._post("activate", token, body, key=key)

    # ------------------------------------------------------------------ one request

    async def _get(self, path: str, token: str | None) -> bytes:
        return await self._request("GET", path, token)

    async def _post(
        self,
        verb: str,
        token: str | None,
        body: wire.Body,
        *,
        again: bool = False,
        may_be_empty: bool = False,
        name: CallName | None = None,
        key: SessionKey | None = None,
    ) -> bytes:
        """POST a body to a verb.

        Args:
            again: doing it twice changes nothing, so it is sent anew if the connection breaks: a
                kept-alive one may have ended just then.
            may_be_empty: whether the answer may be 204, without a body.
            name: of the call that it is for.
            key: of the open session that it is about.
        """
        data, headers = body.to_bytes(), {} if name is None else name.headers()
        if key is not None:
            headers = {session_keys.HEADER: key.proof(verb, data)}
        options: dict[str, Any] = {"headers": headers} if headers else {}
        options |= {"again": again, "may_be_empty": may_be_empty}
        return await self._request("POST", wire.PREFIX + verb, token, data, **options)

    async def _request(
        self,
        method: str,
        path: str,
        token: str | None,
        body: bytes | None = None,
        *,
        again: bool = False,
        may_be_empty: bool = False,
        **options: Any,
    ) -> bytes:
        place, _, _ = path.partition("?")
        self.requests[f"{method} {place}"] += 1
        call = Call("gateway", method, place, len(body or b""))
        try:
            reply = await self._transport.request(method, path, token=token, body=body, **options)
        except ConnectionLost as lost:
            call.finish()
            if not again:
                raise _no_answer(lost) from None
            return await self._request(method, path, token, body, may_be_empty=may_be_empty)
        except TransportFailed as failed:
            call.finish()
            raise _no_answer(failed) from None
        call.finish(reply.status, len(reply.body))
        if not 200 <= reply.status < 300:
            raise _refusal(reply, making=path in _MAKING)
        if reply.status != 200 and not (may_be_empty and reply.status == 204):
            raise Upstream(reply.status, reply.reason, "it is due to answer 200", final=False)
        return reply.body


def _child(record: KeyRecord, path: Path) -> WalletKey:
    """The key at the end of a path from a secp256k1 key.

    Raises:
        BadRequest: there is none.
    """
    child = child_key(record, path)
    return WalletKey(
        curve="secp256k1",
        public_key=public_key_text(child),
        path=path_text(path),
        xpub=child.xpub(),
    )


def _no_answer(failed: TransportFailed) -> ApiError:
    """Return the caller's error for a request without a reply."""
    match failed:
        case ReplyTimeout():
            return UpstreamTimeout()
        case ReplyTooLarge():
            return Unreachable("The gateway's answer is too long; check WAAS_API_URL")
        case _:
            return Unreachable()


def _refusal(reply: Reply, making: bool) -> ApiError:
    """Return the caller's error for an error of the gateway.

    Args:
        making: of a request that makes a key.
    """
    # Of an answer that is not the gateway's, nothing is passed on: who knows what is in it.
    said = _members(reply.body) or {}
    if reply.status == UNAUTHORIZED and {"code", "message"} <= said.keys():
        return Unauthorized(said)
    text = said.get("error")
    if not isinstance(text, str):
        return Upstream(reply.status, reply.reason, "no explanation", final=False)
    code, after = parse_code(reply.code, reply.status), reply.retry_after
    match code:
        case Code.NOT_FOUND:
            return NotFound(text + REPLACED if text == str(no_such_key()) else text)
        case Code.IDEMPOTENCY_KEY_USED:
            return BadRequest(text, code)
        case Code.IN_FORCE if making:
            return KeyAlreadyActive(text, code)
        case Code.KEY_EXISTS | Code.KEY_CHANGED | Code.BUSY if making:
            return Conflict(text, code, after)
        case Code.LIMITED:
            return Limited(text, after)
    if reply.status == UNPROCESSABLE:  # at the end of the path is no key
        return BadRequest(text)
    party = said.get("party")
    kind = StaleBoot if reply.status == STALE_BOOT else Upstream
    return kind(
        reply.status,
        reply.reason,
        text,
        party if party in MPC_NODES else None,
        code=code,
        retry_after=after,
        final=said.get("undecided") is not True,
    )


def _unintelligible(what: str) -> Upstream:
    """Return the error for a reply of status 200 with unexpected content."""
    return Upstream(200, "OK", f"the answer is not {what}")


def _decode(kind: type[B], data: bytes) -> B:
    try:
        return kind.from_bytes(data)
    except InvalidEncoding:
        raise _unintelligible(f"a {kind.__name__} message") from None


def _model(kind: type[M], data: bytes) -> M:
    try:
        return kind.model_validate_json(data)
    except ValidationError:
        raise _unintelligible(f"a {kind.__name__} object") from None


def _object(data: bytes) -> dict[str, Any]:
    found = _members(data)
    if found is None:
        raise _unintelligible("a JSON object")
    return found


def _members(data: bytes) -> dict[str, Any] | None:
    """Return the members of a JSON object; None for anything else."""
    with suppress(InvalidEncoding):
        value = strict_json.parse(data)
        return value if isinstance(value, dict) else None
    return None


def _hellos(said: Mapping[str, Any]) -> Mapping[PartyId, wire.Hello]:
    try:
        return {party: _hello(party, said[ROLES[party]]) for party in MPC_NODES}
    except (KeyError, TypeError, ValueError):
        raise _unintelligible("the MPC nodes' keys") from None


def _hello(party: PartyId, said: Mapping[str, Any]) -> wire.Hello:
    parts = {name: bytes.fromhex(said[name]) for name in _HELLO}
    if said["identifier"] != party or {n: len(part) for n, part in parts.items()} != _HELLO:
        raise ValueError
    number = said["seal_number"]
    if type(number) is not int or not 0 <= number < 1 << 32:
        raise ValueError
    return wire.Hello(party, **parts, seal_number=number)
