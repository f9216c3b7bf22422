"""Checks of stored strings, shares and records before they are used."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from mpcsim.crypto.bip32 import ExtendedKey, Path, derive
from mpcsim.crypto.mta.schemes import built_in_scheme
from mpcsim.errors import InvalidEncoding, UsageError
from mpcsim.ids import CLIENT, HOLDERS, MPC_NODES, ROLES, THRESHOLD, PartyId
from mpcsim.protocols.key_share import KeyShare, PublicKeyRecord
from mpcsim.service.error_codes import Code
from mpcsim.service.errors import Refused
from mpcsim.service.rpc.statements import KeyRecord, SignedRecord
from mpcsim.service.rpc.wire import Hello, SignReply
from mpcsim.service.vault import (
    Argon2Cost,
    EncryptedShare,
    MalformedVault,
    SecretStore,
    VaultError,
    VaultKey,
    WrongKey,
    answer_tag,
    open_share,
)
from mpcsim.service.web.request_records import annotate_request
from node.errors import ApiError, BadRequest, UntrustedNode
from node.models import StoredShare

MAX_SHARE_BYTES: Final[Mapping[str, int]] = {"secp256k1": 1 << 15, "ed25519": 1 << 10}
"""More than the client's share of a wallet's key takes: 32.2 kB with k = 4 in OT extension, 12.7 kB
with k = 1, and 0.4 kB on ed25519."""


def parse_store(secret_store: str) -> SecretStore:
    """
    Raises:
        BadRequest: not a well-formed secret store.
    """
    try:
        store = SecretStore.from_text(secret_store)
    except MalformedVault:
        raise BadRequest("Invalid secret_store") from None
    annotate_request(key_id=store.key_id)
    return store


def parse_share(encrypted_share: str) -> EncryptedShare:
    """
    Raises:
        BadRequest: not a well-formed encrypted share.
    """
    try:
        return EncryptedShare.from_text(encrypted_share)
    except MalformedVault:
        raise BadRequest("Invalid encrypted_share") from None


def check_cost(store: SecretStore, highest: Argon2Cost) -> None:
    """A store that asks for more of Argon2id than this node would is not one of its making.

    Raises:
        BadRequest: it does.
    """
    cost = store.cost
    if cost.operations > highest.operations or cost.memory_kib > highest.memory_kib:
        raise BadRequest("Invalid secret_store: it asks for too much computation")


def check_identities(store: SecretStore, known: Mapping[PartyId, bytes]) -> None:
    """A store is for the MPC nodes with which its key was made.

    Raises:
        BadRequest: one of them is another than is known here.
    """
    for party, identity in store.identities.items():
        if identity != known[party]:
            role = ROLES[party]
            raise BadRequest(f"Invalid secret_store: it names another {role} than this node knows")


@dataclass(frozen=True)
class SealedShare:
    """A key share as its caller keeps it: well-formed, and otherwise anything."""

    key_id: str
    """Key that it is said to be of; ``curve`` likewise."""
    encrypted_share: EncryptedShare
    secret_store: SecretStore
    curve: str

    @property
    def matches_store(self) -> bool:
        """Whether the secret store is of this key."""
        store = self.secret_store
        return (store.key_id, store.curve) == (self.key_id, self.curve)

    @classmethod
    def parse(cls, stored: StoredShare) -> Self:
        """
        Raises:
            BadRequest: as ``parse_store`` and ``parse_share``.
        """
        store, share = parse_store(stored.secret_store), parse_share(stored.encrypted_share)
        return cls(stored.key_id, share, store, stored.curve)


@dataclass(frozen=True)
class OpenedShare:
    """A share out of its vault, and what its key's record says of it."""

    share: KeyShare
    recoveries: int
    """Epochs of the key before this one."""


def open_sealed_share(sealed: SealedShare, key: VaultKey, user_id: str) -> KeyShare:
    """The share of the key that it is said to be of.

    Raises:
        BadRequest: it does not open, or is of another key or curve.
    """
    store = sealed.secret_store
    if store.key_id != sealed.key_id:
        raise BadRequest("Invalid secret_store: it is of another key")
    try:
        data = open_share(sealed.encrypted_share, store, key, user_id)
        # Whoever knows the MPC nodes' public keys can seal anything.
        if len(data) > MAX_SHARE_BYTES.get(store.curve, 0):
            raise InvalidEncoding("too long")
        share = KeyShare.from_bytes(data, shape=(THRESHOLD, HOLDERS), schemes=built_in_scheme)
        check_share(share, sealed.key_id)
    except WrongKey:
        raise BadRequest(
            "Invalid encrypted_share: it does not open with this secret_store"
        ) from None
    except (InvalidEncoding, VaultError, UsageError):
        raise BadRequest("Invalid encrypted_share") from None
    if share.record.curve_name != sealed.curve:
        raise BadRequest(f"Invalid curve: the share is of a {share.record.curve_name} key")
    return share


def check_share(share: KeyShare, key_id: str) -> None:
    """The client's share of a key of this service, and of this key.

    Raises:
        UsageError: it is something else.
    """
    record = share.record
    if (share.identifier, record.threshold, record.holders) != (CLIENT, THRESHOLD, HOLDERS):
        raise UsageError("not the client's share of a wallet's key")
    if record.epoch.hex() != key_id:
        raise UsageError("a share of another key")


def check_answer(
    share: KeyShare, signer: PartyId, session_id: bytes, mac: bytes, reply: SignReply
) -> None:
    """Check that an MPC node's reply answers this request to sign.

    This comes before any message of the protocol is looked at: nobody is to be blamed for an answer
    to something else.

    Args:
        mac: of the request.

    Raises:
        ApiError: it answers another request.
    """
    expected = answer_tag(share.peers[signer].pair_secret, signer, session_id, mac)
    if not hmac.compare_digest(expected, reply.answers or b""):
        text = f"The {ROLES[signer]} has answered another request than this one; try again"
        raise UntrustedNode(text)


def cannot_begin(why: object) -> ApiError:
    """500: a session that is not even begun."""
    code = why.code if isinstance(why, Refused) else Code.ABORTED
    return ApiError(500, f"MPC session cannot begin: {why}", code)


def agreed_record(records: Mapping[PartyId, bytes], key: KeyRecord) -> PublicKeyRecord:
    """The public record of a key, on which both MPC nodes must agree.

    Args:
        key: its record, which both have signed.

    Raises:
        ApiError: they do not, or it is of another key.
    """
    if set(records) != set(MPC_NODES) or len(set(records.values())) != 1:
        raise UntrustedNode("The MPC nodes do not agree on the key to recover")
    try:
        record = PublicKeyRecord.from_bytes(next(iter(records.values())))
    except InvalidEncoding:
        raise UntrustedNode("The MPC nodes' record of the key is damaged") from None
    if (record.curve_name, record.threshold, record.holders) != (
        key.curve_name,
        THRESHOLD,
        HOLDERS,
    ):
        raise UntrustedNode("The MPC nodes hold a key of another kind")
    check_named(record, key)
    return record


def check_named(record: PublicKeyRecord, key: KeyRecord) -> None:
    """Check that shares are those that a key's record is of.

    Raises:
        ApiError: they are others.
    """
    found = record.epoch, record.public_key.encode(), record.chain_code
    if found != (key.epoch, key.public_key, key.chain_code) or not key.matches_shares(
        record.to_bytes()
    ):
        raise UntrustedNode("The MPC nodes have signed a record of other shares than these")


def check_sealed(signed: bytes, nodes: Mapping[PartyId, Hello]) -> None:
    """Check that a vault is sealed to the seal keys that the MPC nodes had when they voted for its
    shares.

    An older key that a gateway shows is genuine, too.

    Args:
        signed: the ``SignedRecord``, which has been checked.

    Raises:
        UntrustedNode: one of them had another.
    """
    numbers = SignedRecord.from_bytes(signed).seal_numbers
    for party, hello in nodes.items():
        if numbers[party] != hello.seal_number:
            raise UntrustedNode(
                f"The {ROLES[party]}'s seal key is one that it has replaced, and may have leaked; "
                "the strings are not handed out"
            )


def child_key(record: PublicKeyRecord | KeyRecord, path: Path) -> ExtendedKey:
    """The key at the end of a path from the one that a record is of.

    Raises:
        BadRequest: there is none, or it cannot be reached without a private key.
    """
    try:
        return derive(record.extended_key(), path).key
    except UsageError as error:
        raise BadRequest(f"Invalid path: {error}") from None


def public_key_text(record: PublicKeyRecord | ExtendedKey) -> str:
    """Return a public key in hex with ``0x``, compressed."""
    return "0x" + record.public_key.encode().hex()
