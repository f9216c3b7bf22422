"""Statements that MPC nodes sign with their identity keys: facts that nobody else is believed
about.

An identity is an Ed25519 key that an MPC node makes at its first start and keeps. What it signs is
the hash of a statement under the statement's own tag: none can pass for a statement of another
kind. Statements and signatures are public.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, ClassVar, Final

from nacl.bindings import crypto_sign, crypto_sign_open, crypto_sign_PUBLICKEYBYTES
from nacl.exceptions import CryptoError

from mpcsim.crypto.bip32 import ExtendedKey, extended_key
from mpcsim.crypto.encoding import (
    BYTES32,
    U8,
    U16,
    U32,
    U64,
    Added,
    Bytes,
    Fixed,
    Nested,
    Optional,
    PerParty,
    Seq,
    Text,
    wire,
)
from mpcsim.crypto.groups.curves import curve
from mpcsim.crypto.hashing import Tag, tagged_hash
from mpcsim.errors import MpcError
from mpcsim.ids import BOOT_BYTES, MPC_NODES, ROLES, PartyId
from mpcsim.service.rpc.wire import SIGNATURE_BYTES, Body, Hello

IDENTITY_BYTES: Final = crypto_sign_PUBLICKEYBYTES


class Statement(Body):
    """Message that an MPC node signs."""

    TAG: ClassVar[Tag]

    def digest(self) -> bytes:
        """Return the digest that is signed."""
        return tagged_hash(self.TAG, self.to_bytes())


def is_signed_by(identity: bytes, statement: Statement, signature: bytes) -> bool:
    """Return whether a signature is this identity's, of this statement."""
    return is_authentic(identity, statement.digest(), signature)


def is_authentic(identity: bytes, digest: bytes, signature: bytes) -> bool:
    """Return whether an Ed25519 signature verifies."""
    # The library would read 32 bytes wherever the key begins.
    if len(identity) != IDENTITY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    try:
        crypto_sign_open(signature + digest, identity)
    except CryptoError:
        return False
    return True


def sign_digest(signing_key: bytes, digest: bytes) -> bytes:
    """Sign with Ed25519 (RFC 8032).

    Args:
        signing_key: as libsodium has it: seed and public key. Secret.
    """
    return crypto_sign(digest, signing_key)[:SIGNATURE_BYTES]


# ---------------------------------------------------------------------- keys


@wire
class KeyRecord(Body):
    """Record of a user's key that all parties agree on; one for each epoch of its shares."""

    chain_code: Annotated[bytes | None, Added(BYTES32)] = field(default=None, kw_only=True)
    """Chain code as in the ``PublicKeyRecord``."""
    user_id: Annotated[str, Text(64)]
    curve_name: Annotated[str, Text(16)]
    public_key: Annotated[bytes, Bytes(64)]
    epoch: Annotated[bytes, BYTES32]
    """The ``key_id``: names this generation of shares."""
    predecessor: Annotated[bytes | None, Optional(BYTES32)]
    """The epoch that these shares replace; None where the key was generated."""
    number: Annotated[int, U32]
    """Epochs of the key before this one."""
    shares: Annotated[bytes, BYTES32]
    """Hash of the ``PublicKeyRecord`` with the public shares."""
    identities: Annotated[Mapping[PartyId, bytes], PerParty(Fixed(IDENTITY_BYTES))]
    """Identities of the MPC nodes when the shares were made."""

    @property
    def key_id(self) -> str:
        """The epoch, in hex."""
        return self.epoch.hex()

    def extended_key(self) -> ExtendedKey:
        """The key as the root of its children (BIP 32).

        Raises:
            UsageError: it has no chain code.
        """
        public_key = curve(self.curve_name).decode_point(self.public_key)
        return extended_key(self.curve_name, public_key, self.chain_code)

    def matches_shares(self, record: bytes) -> bool:
        """Return whether a ``PublicKeyRecord`` is the one with the public shares."""
        return self.shares == shares_hash(record)


def shares_hash(record: bytes) -> bytes:
    """Return the hash of a ``PublicKeyRecord``, for the key record."""
    return tagged_hash(Tag.PUBLIC_SHARES, record)


@wire
class LogHead(Body):
    """Position in an MPC node's log of key events."""

    count: Annotated[int, U32]
    """Events in it."""
    hash: Annotated[bytes, BYTES32]
    """Hash of the last event, and through it of all."""


@wire
class Vote(Statement):
    """This node holds its new share durably, and so do the others as far as it can see. Once both
    nodes have voted for a record, it is in force; a node that voted never signs an ``Abort`` of the
    same epoch."""

    TAG: ClassVar[Tag] = Tag.VOTE

    record: Annotated[KeyRecord, Nested(KeyRecord)]
    head: Annotated[LogHead, Nested(LogHead)]
    seal_number: Annotated[int, U32]
    """Number of the seal key that this node has now (``SealKeyStatement``)."""


@wire
class SignedRecord(Body):
    """A record and the votes that put it in force: complete in itself, whoever carries it.

    With one node's signature alone it is that node's vote.
    """

    record: Annotated[KeyRecord, Nested(KeyRecord)]
    heads: Annotated[Mapping[PartyId, LogHead], PerParty(Nested(LogHead))]
    signatures: Annotated[Mapping[PartyId, bytes], PerParty(Fixed(SIGNATURE_BYTES))]
    seal_numbers: Annotated[Mapping[PartyId, int], PerParty(U32)]

    def check(self, identities: Mapping[PartyId, bytes]) -> KeyRecord:
        """The record, if both MPC nodes have voted for it.

        Args:
            identities: of the MPC nodes, as whoever asks knows them.

        Raises:
            RecordError: a vote is missing or not genuine, or the record names other identities.
        """
        for party in MPC_NODES:
            if self.record.identities.get(party) != identities[party]:
                raise RecordError(f"the record is of another {ROLES[party]} than the one known")
            if not self.has_vote_of(party, identities[party]):
                raise RecordError(f"the {ROLES[party]} has not signed this record")
        return self.record

    def with_vote(self, vote: SignedRecord) -> SignedRecord:
        """Return this record with the votes of another one for the same record added."""
        return SignedRecord(
            self.record,
            {**self.heads, **vote.heads},
            {**self.signatures, **vote.signatures},
            {**self.seal_numbers, **vote.seal_numbers},
        )

    def vote_of(self, party: PartyId) -> SignedRecord:
        """Return the record with the vote of one MPC node alone."""
        return SignedRecord(
            self.record,
            {party: self.heads[party]},
            {party: self.signatures[party]},
            {party: self.seal_numbers[party]},
        )

    def has_vote_of(self, party: PartyId, identity: bytes) -> bool:
        """Return whether an MPC node has voted for this."""
        head, signature = self.heads.get(party), self.signatures.get(party)
        number = self.seal_numbers.get(party)
        if head is None or signature is None or number is None:
            return False
        return is_signed_by(identity, Vote(self.record, head, number), signature)


class RecordError(MpcError):
    """A key record that proves nothing."""


@wire
class Abort(Statement):
    """This node has not voted for an epoch, and never will; after its store was put back, as far as
    it knows (``mpcsim.service.mpc_node.agreement.restore_reconciliation``)."""

    TAG: ClassVar[Tag] = Tag.ABORT

    user_id: Annotated[str, Text(64)]
    curve_name: Annotated[str, Text(16)]
    epoch: Annotated[bytes, BYTES32]


@wire
class HeldShare(Body):
    """A share in an MPC node's store, without the share."""

    epoch: Annotated[bytes, BYTES32]
    public_key: Annotated[bytes, Bytes(64)]
    number: Annotated[int, U32]
    """Epochs of the key before this one."""
    record: Annotated[SignedRecord, Nested(SignedRecord)]
    """Record with this node's vote once it has voted, and with both votes once the share is in
    force."""


@wire
class SealKeyStatement(Statement):
    """Halves of secret stores for this node are to be sealed to this X25519 key, and to none that
    has a lower number: that one has been replaced, and may have leaked."""

    TAG: ClassVar[Tag] = Tag.SEAL_KEY

    party: Annotated[int, U16]
    seal_key: Annotated[bytes, BYTES32]
    number: Annotated[int, U32]


def is_hello_authentic(hello: Hello) -> bool:
    """Return whether the seal key of an MPC node is that of the identity beside it."""
    statement = SealKeyStatement(hello.party, hello.seal_key, hello.seal_number)
    return is_signed_by(hello.identity, statement, hello.signature)


MAX_ATTESTED: Final = 16_384
"""Suspended epochs that one statement can name: half a megabyte."""
ATTESTED_S: Final = 3600.0
"""Seconds for which a ``SuspensionAttestation`` counts."""
SKEW_S: Final = 60.0
"""Seconds by which the clock of the attesting node may be ahead."""


@wire
class SuspensionAttestation(Statement):
    """List of all epochs in force that are suspended at this node.

    Where the signing MPC node opens a vault alone, nobody asks the other one whether the key is
    suspended. So it demands the other's statement, an hour old at most.
    """

    TAG: ClassVar[Tag] = Tag.ATTESTED

    party: Annotated[int, U16]
    at_ms: Annotated[int, U64]
    """Milliseconds since 1970 UTC, by its own clock."""
    suspended: Annotated[tuple[bytes, ...], Seq(BYTES32, MAX_ATTESTED)]


@wire
class SignedAttestation(Body):
    """``SuspensionAttestation`` with its signature."""

    statement: Annotated[SuspensionAttestation, Nested(SuspensionAttestation)]
    signature: Annotated[bytes, Fixed(SIGNATURE_BYTES)]


@wire
class GetAttestation(Body):
    """``attest``: asks for it."""


@wire
class SuspensionReceipt(Statement):
    """Receipt for a notice that an epoch is to be suspended: whether it opened."""

    TAG: ClassVar[Tag] = Tag.SUSPENDED

    epoch: Annotated[bytes, BYTES32]
    notice: Annotated[bytes, BYTES32]
    """Hash of what this node was sent."""
    opened: Annotated[int, U16]
    """1: it opened, and the epoch is suspended for good; 0: nobody with a share sealed it."""


MAX_HELD: Final = 2
"""Shares of one key that a node holds besides those of open sessions: active and voted for."""


@wire
class ReconciliationStatement(Statement):
    """State of a user's key on a curve at one MPC node, signed for the other one or for an auditor.

    The other node must know it before it serves that key from a restored store
    (``mpcsim.service.mpc_node.agreement.restore_reconciliation``); whoever compares the stores may
    ask for it, too.
    """

    TAG: ClassVar[Tag] = Tag.TESTIMONY

    party: Annotated[int, U16]
    nonce: Annotated[bytes, Fixed(BOOT_BYTES)]
    """Nonce of the asker; the other MPC node acts on nothing but its own present boot."""
    user_id: Annotated[str, Text(64)]
    curve_name: Annotated[str, Text(16)]
    active: Annotated[HeldShare | None, Optional(Nested(HeldShare))]
    voted: Annotated[HeldShare | None, Optional(Nested(HeldShare))]
    suspended: Annotated[tuple[bytes, ...], Seq(BYTES32, MAX_HELD)]
    """Epochs that are held here and suspended here, or at the other node, as that one once said."""
    restored: Annotated[int, U8]
    """1: its store was put back, and has not heard of this key from the other node since; 2: the
    same, and it goes on from what is there, though the other's was put back, too."""


@wire
class SignedReconciliationStatement(Body):
    """``ReconciliationStatement`` with its signature."""

    statement: Annotated[ReconciliationStatement, Nested(ReconciliationStatement)]
    signature: Annotated[bytes, Fixed(SIGNATURE_BYTES)]


@wire
class GetReconciliationStatement(Body):
    """``testify``: asks for it."""

    user_id: Annotated[str, Text(64)]
    curve_name: Annotated[str, Text(16)]
    nonce: Annotated[bytes, Fixed(BOOT_BYTES)]
