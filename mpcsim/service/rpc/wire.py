"""Requests and replies between REST node, gateway and MPC nodes: compact binary bodies.

Every request of a node is one POST to ``/mpc/v1/<verb>`` with the caller's bearer token (none for
``suspend``); an MPC node is shown a grant instead (``grants``). ``messages`` are envelopes of the
protocols (``mpcsim.protocols.engine.envelope``) as they are: each names its session, its sender and
its receiver, and is sealed end to end where the protocol says so; what an MPC node does not seal it
signs (``signed_messages``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Self

from mpcsim.crypto.bip32 import PATH, Path, path_bytes
from mpcsim.crypto.encoding import (
    BYTES32,
    NO_CONTEXT,
    U8,
    U16,
    U32,
    Bytes,
    Fixed,
    Message,
    Nested,
    Optional,
    PerParty,
    Seq,
    Text,
    wire,
)
from mpcsim.crypto.hashing import Tag, tagged_hash
from mpcsim.ids import ALLOWANCE_BYTES, BOOT_BYTES, PartyId
from mpcsim.protocols.engine.envelope import MAX_ENVELOPE_BYTES

MEDIA_TYPE: Final = "application/octet-stream"
PREFIX: Final = "/mpc/v1/"
"""Path prefix of the gateway's verbs."""
NO_GUESS: Final = b"guess=no"
"""Query of an ``open`` that is not made to try a password."""
HELLO_PATH: Final = "/hello"
"""Path at which an MPC node identifies itself."""

# How long sessions may take: an MPC node ends its own, and the gateway its books of them.
SIGNING_S: Final = 15.0
"""Signing: a few round trips, with a slow network to spare."""
MAKING_S: Final = 60.0
"""Key generation and recovery, which wait for a password to be stretched, too."""

MAX_MESSAGES: Final = 64
"""Highest number of messages in one request: a key generation has 24 altogether."""
MAX_BODY_BYTES: Final = 1 << 20
MAX_MESSAGE_BYTES: Final = 1 << 16
"""Longest message to sign with Ed25519."""
MAX_HALF_BYTES: Final = 1 << 10

MAX_RECORD_BYTES: Final = 1 << 12

MAX_NOTICE_BYTES: Final = 1 << 8

MAX_BATCH: Final = 8
"""Presignatures of one session: some 50 kB of messages each, and a few milliseconds."""

SEAL_KEY_BYTES: Final = 32
"""Size of an X25519 public key."""
SIGNATURE_BYTES: Final = 64
"""Size of an Ed25519 signature (RFC 8032)."""

ENVELOPES = Seq(Bytes(MAX_ENVELOPE_BYTES), MAX_MESSAGES)
HALVES = PerParty(Bytes(MAX_HALF_BYTES))


class Body(Message):
    """A request or reply that stands for itself: it needs no session to be decoded."""

    def to_bytes(self) -> bytes:
        return self.encode(NO_CONTEXT)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Strict inverse of ``to_bytes``.

        Raises:
            InvalidEncoding: anything else.
        """
        return cls.decode(data, NO_CONTEXT)


@wire
class UseProof(Message):
    """Shows an MPC node that the client's secret store, or its share, is behind a request."""

    boot: Annotated[bytes, Fixed(BOOT_BYTES)]
    """The MPC node's, as the client knows it."""
    mac: Annotated[bytes, BYTES32]
    """MAC of the request (``mpcsim.service.vault.VaultUse``)."""


@wire
class PresignedRequest(Message):
    """A signature that is to be made with a presignature."""

    signer: Annotated[int, U16]
    """The MPC node that has the other part."""
    presignature: Annotated[bytes, BYTES32]
    """Id of the presignature."""
    allowance: Annotated[bytes, Fixed(ALLOWANCE_BYTES)]
    """Under which the other MPC node keeps it: that one lets each be used once."""
    index: Annotated[int, U8]
    """Index among the presignatures under this allowance."""
    message_hash: Annotated[bytes, BYTES32]
    path: Annotated[Path, PATH]
    """Path of the child key to sign with (BIP 32); empty: the key itself."""
    rho: Annotated[bytes, BYTES32]
    """The client's part in re-randomising the nonce; fresh, and the session's id, too."""

    def hide(self) -> HiddenPresignedRequest:
        """The same for the MPC node that does not sign."""
        hidden = tagged_hash(Tag.HIDDEN_USE, self.message_hash, path_bytes(self.path), self.rho)
        return HiddenPresignedRequest(
            self.signer, self.presignature, self.allowance, self.index, hidden
        )


@wire
class HiddenPresignedRequest(Message):
    """A ``PresignedRequest`` for the MPC node that only opens its half.

    What is signed, and with which child key, stays between the client and the signer.
    """

    signer: Annotated[int, U16]
    presignature: Annotated[bytes, BYTES32]
    allowance: Annotated[bytes, Fixed(ALLOWANCE_BYTES)]
    index: Annotated[int, U8]
    hidden: Annotated[bytes, BYTES32]
    """Hash of message, path and rho. The last is random and not told here, so that guessing at the
    others shows nothing."""


@wire
class OpenVault(Body):
    """``open``: both nodes unseal their halves of a secret store."""

    key_id: Annotated[bytes, BYTES32]
    reply_key: Annotated[bytes, BYTES32]
    """X25519 public key, made for this request: the halves are encrypted to it."""
    halves: Annotated[Mapping[PartyId, bytes], HALVES]
    proofs: Annotated[Mapping[PartyId, UseProof], PerParty(Nested(UseProof))]
    """Proof for each MPC node that opens its half."""
    whole: Annotated[int, U8] = 0
    """1: one MPC node opens the whole; then there is one "half", which is that."""


@wire
class VaultOpened(Body):
    """Reply to ``open``."""

    halves: Annotated[Mapping[PartyId, bytes], HALVES]
    record: Annotated[bytes, Bytes(MAX_RECORD_BYTES)]
    """The key's ``SignedRecord``."""
    allowance: Annotated[bytes | None, Optional(Fixed(ALLOWANCE_BYTES))] = None
    """Allowance as in ``Half``."""


@wire
class Generate(Body):
    """``generate``: begin a key generation."""

    session_id: Annotated[bytes, BYTES32]
    curve_name: Annotated[str, Text(16)]
    messages: Annotated[tuple[bytes, ...], ENVELOPES]
    k: Annotated[int, U8] = 1
    """Parameter k of OT extension (``params.OtParameters``), on secp256k1; all else is standard."""


@wire
class Recover(Body):
    """``recover``: begin a resharing of the user's key on a curve."""

    session_id: Annotated[bytes, BYTES32]
    curve_name: Annotated[str, Text(16)]
    k: Annotated[int, U8] = 1
    """Parameter k as in ``Generate``: the multiplication set-up is made anew."""


@wire
class RecoverReply(Body):
    """Reply to ``recover``: the key's public record as each MPC node has it, and first messages."""

    record: Annotated[bytes, Bytes(MAX_RECORD_BYTES)]
    """The key's ``SignedRecord``, which names the public record."""
    records: Annotated[Mapping[PartyId, bytes], PerParty(Bytes(MAX_RECORD_BYTES))]
    messages: Annotated[tuple[bytes, ...], ENVELOPES]


@wire
class Vault(Message):
    """A vault to be opened for a signature, in the same request.

    The proof of the MPC node that signs is that of the request, which covers the reply key, too.
    """

    reply_key: Annotated[bytes, BYTES32]
    """Public key as in ``OpenVault``."""
    halves: Annotated[Mapping[PartyId, bytes], HALVES]
    proofs: Annotated[Mapping[PartyId, UseProof], PerParty(Nested(UseProof))]
    """Proof for the MPC node that only opens its half."""
    whole: Annotated[int, U8] = 0
    """Flag as in ``OpenVault``: the MPC node that signs opens the whole."""


@wire
class Sign(Body):
    """``sign``: begin a signing session between the client and one MPC node."""

    session_id: Annotated[bytes, BYTES32]
    key_id: Annotated[bytes, BYTES32]
    signer: Annotated[int, U16]
    """The MPC node."""
    message: Annotated[bytes, Bytes(MAX_MESSAGE_BYTES)]
    """The 32-byte hash for ECDSA, the message itself for Ed25519."""
    messages: Annotated[tuple[bytes, ...], ENVELOPES]
    first: Annotated[tuple[bytes, ...], Seq(BYTES32, MAX_MESSAGES)]
    """SHA-256 of each message that the client has sent; others are none of its."""
    proof: Annotated[UseProof, Nested(UseProof)]
    vault: Annotated[Vault | None, Optional(Nested(Vault))] = None
    """Vault to open for a client that does not have its share yet; to an MPC node, its half
    alone."""
    path: Annotated[Path, PATH] = ()
    """Path of the child key to sign with (BIP 32); empty: the key itself."""
    count: Annotated[int, U8] = 0
    """Number of presignatures to make instead of a signature. Then the message is empty, and there
    is a vault: the other MPC node hears of the presignatures with its half."""


@wire
class Presigned(Body):
    """``presigned``: sign with a presignature. The reply is as to ``sign``."""

    key_id: Annotated[bytes, BYTES32]
    using: Annotated[PresignedRequest, Nested(PresignedRequest)]
    proof: Annotated[UseProof, Nested(UseProof)]
    """Proof for the MPC node that signs."""
    vault: Annotated[Vault, Nested(Vault)]
    """To an MPC node, with its half alone."""


@wire
class SignReply(Body):
    """Reply to ``sign``."""

    tag: Annotated[bytes, BYTES32]
    """Shows the gateway that who wants the key suspended had this session; it does not expire."""
    messages: Annotated[tuple[bytes, ...], ENVELOPES]
    answers: Annotated[bytes | None, Optional(BYTES32)]
    """Tag from the MPC node's ``Answer``."""
    vault: Annotated[VaultOpened | None, Optional(Nested(VaultOpened))] = None


@wire
class Exchange(Body):
    """``exchange``: further messages of an open session."""

    session_id: Annotated[bytes, BYTES32]
    messages: Annotated[tuple[bytes, ...], ENVELOPES]


@wire
class MessageBatch(Body):
    """Reply to whatever else carries messages: those for the client."""

    messages: Annotated[tuple[bytes, ...], ENVELOPES]


@wire
class Activate(Body):
    """``activate``: the client holds its share; make the new key the user's key."""

    session_id: Annotated[bytes, BYTES32]
    key_id: Annotated[bytes, BYTES32]


@wire
class AbortedSession(Body):
    """The signing session in which a client caught an MPC node cheating."""

    user_id: Annotated[str, Text(64)]
    key_id: Annotated[bytes, BYTES32]
    session_id: Annotated[bytes, BYTES32]


@wire
class Suspend(Body):
    """``suspend``: the client caught an MPC node cheating in a way that must not be tried again.

    Nothing is then done with these shares of the key but recovering it: a stateless node cannot
    remember it, and repeated tries would leak its long-lived OT choices. The one request that bears
    no token: what has been caught after a token's expiry counts, too.
    """

    occasion: Annotated[AbortedSession, Nested(AbortedSession)]
    tag: Annotated[bytes, BYTES32]
    """Tag of this session, from the reply to ``sign``."""
    notices: Annotated[Mapping[PartyId, bytes], PerParty(Bytes(MAX_NOTICE_BYTES))]
    """Sealed notice for each MPC node (``suspension_notices.seal_notice``)."""
    curve_name: Annotated[str, Text(16)]
    """Curve of the key. If these shares have been replaced, the reply is the ``SignedRecord`` of
    the present ones, which counts more epochs."""


# What the gateway and an MPC node say to each other besides the above.


@wire
class Hello(Body):
    """Identity and seal key of an MPC node. ``statements.is_hello_authentic`` checks its
    consistency."""

    party: Annotated[int, U16]
    identity: Annotated[bytes, BYTES32]
    """The Ed25519 public key that its statements are signed with; never another one."""
    seal_key: Annotated[bytes, BYTES32]
    """The X25519 public key that halves of secret stores are sealed to."""
    signature: Annotated[bytes, Fixed(SIGNATURE_BYTES)]
    """The identity's, of the seal key (``statements.SealKeyStatement``)."""
    boot: Annotated[bytes, Fixed(BOOT_BYTES)]
    """Random; another one after every start, and after many signatures (``START_BYTES``)."""
    seal_number: Annotated[int, U32]
    """Number of seal keys that the node has had before this one."""


@wire
class Reset(Body):
    """``reset``: a gateway has just been started, and goes on with no session."""


@wire
class OpenHalf(Body):
    """``open`` at one MPC node."""

    key_id: Annotated[bytes, BYTES32]
    reply_key: Annotated[bytes, BYTES32]
    half: Annotated[bytes, Bytes(MAX_HALF_BYTES)]
    proof: Annotated[UseProof, Nested(UseProof)]
    whole: Annotated[int, U8] = 0
    count: Annotated[int, U8] = 0
    """Number of presignatures being made with the other MPC node: allow each to be used once."""
    using: Annotated[HiddenPresignedRequest | None, Optional(Nested(HiddenPresignedRequest))] = None
    """Presignature about to be used: open the half only if it has not been used."""


@wire
class SuspendKey(Body):
    """``suspend`` at one MPC node."""

    occasion: Annotated[AbortedSession, Nested(AbortedSession)]
    notice: Annotated[bytes, Bytes(MAX_NOTICE_BYTES)]


@wire
class SuspendReply(Body):
    """Reply to ``suspend`` at one MPC node: what became of the notice."""

    opened: Annotated[int, U8]
    """Flag as in ``statements.SuspensionReceipt``, which is signed."""
    signature: Annotated[bytes, Fixed(SIGNATURE_BYTES)]


@wire
class Half(Body):
    """Reply to ``open`` at one MPC node."""

    half: Annotated[bytes, Bytes(MAX_HALF_BYTES)]
    allowance: Annotated[bytes | None, Optional(Fixed(ALLOWANCE_BYTES))] = None
    """Under which the presignatures are kept that are being made; another one every time."""


@wire
class Answer(Body):
    """An MPC node's reply to whatever opens or continues a session."""

    open: Annotated[int, U8]
    """1 while the session needs further messages or a vote."""
    record: Annotated[bytes | None, Optional(Bytes(MAX_RECORD_BYTES))]
    """Public record of the key to be recovered, at the beginning of a recovery."""
    messages: Annotated[tuple[bytes, ...], ENVELOPES]
    """To whomever their envelopes name."""
    answers: Annotated[bytes | None, Optional(BYTES32)] = None
    """At the beginning of a signature: names the request that this answers
    (``mpcsim.service.vault.answer_tag``)."""
    half: Annotated[bytes | None, Optional(Bytes(MAX_HALF_BYTES))] = None
    """Opened half as in ``Half``, where the request had one to be opened."""


@wire
class Close(Body):
    """``close``: the session is off."""

    session_id: Annotated[bytes, BYTES32]
