"""Result of key generation: the public key record, and each party's key share.

Stored encodings start with a version and the curve's name, so they decode on their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar
from weakref import WeakValueDictionary

from mpcsim.crypto.bip32 import ExtendedKey, Path, check_path, derive, extended_key
from mpcsim.crypto.encoding import (
    BYTES32,
    POINT,
    SCALAR,
    STORED_VERSION,
    U16,
    Added,
    Bytes,
    Codec,
    Message,
    Nested,
    Optional,
    PerParty,
    Reader,
    Text,
    WireContext,
    wire,
)
from mpcsim.crypto.groups.curves import curve
from mpcsim.crypto.groups.group import Group, Point, Scalar
from mpcsim.crypto.groups.polynomial import lagrange_coefficient
from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.crypto.hashing import Tag, tagged_hash
from mpcsim.crypto.mta.base import Mta
from mpcsim.crypto.mta.schemes import mta_scheme
from mpcsim.errors import (
    Aborted,
    CheckFailed,
    Consequence,
    InvalidEncoding,
    Reason,
    UsageError,
    check,
)
from mpcsim.frozen_dict import freeze_fields
from mpcsim.ids import CLIENT, PartyId, party_ids

CHECKSUM_BYTES = 8
"""Length of the checksum against accidental damage. Against tampering, stored shares need
authenticated encryption."""

KNOWN_RECORDS = 4096
"""Limit of public records remembered as consistent; some 300 bytes each for three holders."""

_KNOWN_CONSISTENT: set[bytes] = set()

MAX_DISCARDED = 1 << 16
"""Limit of shares (epoch and holder) of which a process remembers that multiplication state was
discarded; the oldest goes first; some 600 bytes each."""

MAX_SHARE_BYTES = 1 << 22
"""Largest stored share accepted: 256 parties with OT state, with room to spare."""


@wire
class PublicKeyRecord(Message):
    """Public part of a key. Needed to take part in a resharing without an old share."""

    chain_code: Annotated[bytes | None, Added(BYTES32)] = field(default=None, kw_only=True)
    """BIP 32 chain code, with which anybody derives the key's children; None on ed25519."""
    curve_name: Annotated[str, Text(16)]
    threshold: Annotated[int, U16]
    """Threshold t: holders needed to sign."""
    epoch: Annotated[bytes, BYTES32]
    """Name of this generation of shares; shares of different epochs do not combine."""
    public_key: Annotated[Point, POINT]
    public_shares: Annotated[Mapping[PartyId, Point], PerParty(POINT)]
    """X_i = x_i * G of every holder."""

    @property
    def group(self) -> Group:
        return curve(self.curve_name)

    @property
    def holders(self) -> tuple[PartyId, ...]:
        return tuple(sorted(self.public_shares))

    def extended_key(self) -> ExtendedKey:
        """Return the key as the root of its children.

        Raises:
            UsageError: it has no chain code.
        """
        return extended_key(self.curve_name, self.public_key, self.chain_code)

    def derive(self, path: Path) -> tuple[Point, Scalar]:
        """Return the key at the end of a path, and its difference from this one
        (``Derived.tweak``).

        Raises:
            UsageError: as from ``extended``, and from ``derive``; never for the empty path.
        """
        check_path(path)  # first: 1.0 would find what is remembered of 1
        if not path:
            return self.public_key, self.public_key.group.scalar(0)
        found = derive(self.extended_key(), path)
        return found.key.public_key, found.tweak

    def to_bytes(self) -> bytes:
        """Encode it, self-contained."""
        return _stored(self.curve_name, self.encode(WireContext(self.group)))

    @classmethod
    def from_bytes(cls, data: bytes) -> PublicKeyRecord:
        """Decode it, strictly.

        Raises:
            InvalidEncoding: damaged, another version, or inconsistent in itself.
        """
        group, body = _open_stored(data)
        return _consistent(cls.decode(body, WireContext(group)), group)


@wire
class PeerState(Message):
    """Secrets that a holder shares with one other holder."""

    pair_secret: Annotated[bytes, BYTES32]
    """Secret that seals every message between the two."""
    zero_seed: Annotated[bytes, BYTES32]
    """Seed of the pair's zero shares."""
    multiplication: Annotated[
        Message | None, Optional(Nested(lambda context: context.mta.PairSetup))
    ]
    """State of the multiplication scheme; None on ed25519, or once discarded."""

    def __repr__(self) -> str:
        return "PeerState(<redacted>)"


@wire
class _ShareBody(Message):
    record: Annotated[PublicKeyRecord, Nested(PublicKeyRecord)]
    identifier: Annotated[int, U16]
    secret_share: Annotated[Scalar, SCALAR]
    peers: Annotated[Mapping[PartyId, PeerState], PerParty(Nested(PeerState))]


class Guard:
    """Peers whose multiplication state must not be used again.

    Shares that come from storage or from key generation have one guard per epoch and holder in
    this process (``of``), however often they are loaded, so that a failed check in one session
    reaches the sessions that are already open, and those that are opened later. It is meant for one
    thread. A driver that uses a share in several processes must allow only one open signing session
    per key and peer.
    """

    _known: ClassVar[WeakValueDictionary[tuple[bytes, int], Guard]] = WeakValueDictionary()
    _kept: ClassVar[dict[tuple[bytes, int], Guard]] = {}
    """Guards with a discarded peer, which outlive the shares they were made for."""

    def __init__(self, name: tuple[bytes, int] | None = None) -> None:
        """
        Args:
            name: epoch and holder; None: of a share that nobody will ask for by name.
        """
        self.discarded: frozenset[PartyId] = frozenset()
        self._name = name

    @classmethod
    def of(cls, epoch: bytes, holder: int) -> Guard:
        """Return the guard of that holder's share of that epoch."""
        name = epoch, holder
        guard = cls._known.get(name)
        if guard is None:
            guard = cls._known[name] = cls(name)
        return guard

    def discard(self, *peers: PartyId) -> None:
        """Refuse multiplications with these peers from now on, as long as the process lives and
        discards nothing of ``MAX_DISCARDED`` other shares."""
        self.discarded |= frozenset(peers)
        if self.discarded and self._name is not None:
            self._kept[self._name] = self
            if len(self._kept) > MAX_DISCARDED:
                del self._kept[next(iter(self._kept))]


@dataclass(frozen=True)
class KeyShare:
    """A holder's share of a key. The repr shows public data only."""

    record: PublicKeyRecord
    identifier: PartyId
    secret_share: Scalar
    """x_i, the sharing polynomial at ``identifier``."""
    peers: Mapping[PartyId, PeerState]
    mta: Mta | None
    """Multiplication scheme of ``peers``' state; None on ed25519."""
    guard: Guard = field(default_factory=Guard, compare=False)

    def __post_init__(self) -> None:
        freeze_fields(self, "peers")

    @property
    def group(self) -> Group:
        return self.record.group

    @property
    def public_key(self) -> Point:
        return self.record.public_key

    def to_bytes(self) -> bytes:
        """Encode it, self-contained. Secret: encrypt it before it leaves the process."""
        body = _ShareBody(self.record, self.identifier, self.secret_share, self.peers)
        scheme = _scheme_name(self.mta)
        return _stored(
            self.record.curve_name,
            bytes([len(scheme)]) + scheme + body.encode(WireContext(self.group, self.mta)),
        )

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        *,
        shape: tuple[int, tuple[PartyId, ...]] | None = None,
        schemes: Callable[[str], Mta] = mta_scheme,
    ) -> KeyShare:
        """Decode it, strictly.

        Args:
            shape: threshold and holders it must have. Checking that a record is consistent takes
                the longer the more holders it names: who knows the shape refuses others first.

        Raises:
            InvalidEncoding: damaged, another version or shape, or inconsistent in itself.
        """
        group, rest = _open_stored(data)
        reader = Reader(rest)
        scheme = reader.take(reader.number(1))
        mta = _scheme(scheme, schemes)
        body = _ShareBody.read(reader, WireContext(group, mta))
        reader.finish()
        if shape not in (None, (body.record.threshold, body.record.holders)):
            raise InvalidEncoding("another threshold, or other holders")
        record = _consistent(body.record, group)
        if (mta is not None) != (group is SECP256K1):
            raise InvalidEncoding("multiplication scheme and curve do not fit")
        guard = Guard.of(record.epoch, body.identifier)
        share = cls(record, PartyId(body.identifier), body.secret_share, body.peers, mta, guard)
        if share.identifier not in record.public_shares:
            raise InvalidEncoding("the share's holder is not in its record")
        if group.base(share.secret_share) != record.public_shares[share.identifier]:
            raise InvalidEncoding("the secret share does not match its public share")
        if set(share.peers) != set(record.holders) - {share.identifier}:
            raise InvalidEncoding("peer state does not cover the other holders")
        return share

    def auth_key(self, peer: PartyId) -> bytes:
        """Return the key that authenticates requests between this holder and ``peer``; 32 bytes.

        It belongs to one epoch, and is the same from both sides (``mpcsim.service.vault.use``).
        Secret.
        """
        return tagged_hash(Tag.VAULT_AUTH, self.record.epoch, self.peers[peer].pair_secret)

    def auth_keys(self, parties: Iterable[PartyId]) -> dict[PartyId, bytes]:
        """Return the authentication keys shared with those of the parties that are peers."""
        return {j: self.auth_key(j) for j in parties if j in self.peers}

    def early_keys(self, signers: Iterable[int]) -> dict[PartyId, bytes]:
        """Return the authentication keys shared with signers that may send their first message
        before they have their shares: the client, which keeps its share in a vault. No MPC node's
        messages open with these."""
        return self.auth_keys({CLIENT} & set(signers))

    def can_multiply(self, peer: PartyId) -> bool:
        """Return whether multiplications with the peer are still possible."""
        return peer not in self.guard.discarded and self.peers[peer].multiplication is not None

    @contextmanager
    def guard_multiplication(self, peer: PartyId, recall: bool | None = None) -> Iterator[None]:
        """Run a check on a peer's multiplication message.

        Args:
            recall: when a session is replayed, whether the state was usable then; by default it
                is looked up now.

        Raises:
            CheckFailed: SETUP_DISCARDED, before anything is checked, if the state was discarded
                since the session began; any failure inside, after discarding the state if the
                failure calls for it.
        """
        usable = self.can_multiply(peer) if recall is None else recall
        detail = f"party {peer}; reshare the key"
        check(usable, Reason.SETUP_DISCARDED, about={peer}, detail=detail)
        try:
            yield
        except CheckFailed as failed:
            if failed.reason.consequence is Consequence.BAN_AND_DISCARD_OT:
                self.guard.discard(peer)
            raise

    def without_multiplication(self, peer: int) -> KeyShare:
        """Return the share after the multiplication state with ``peer`` was discarded for good."""
        state = self.peers.get(PartyId(peer))
        if state is None:
            raise UsageError(f"party {peer} is not a peer of this share")
        self.guard.discard(PartyId(peer))
        kept = {**self.peers, PartyId(peer): replace(state, multiplication=None)}
        return replace(self, peers=kept)

    def after_abort(self, aborted: Aborted) -> KeyShare:
        """Return the share as it must be stored after an aborted session.

        Call it on the share as it is stored now, not on the one the session began with, and store
        the result before delivering anything the aborted party put out.
        """
        share = self
        if aborted.consequence is Consequence.BAN_AND_DISCARD_OT:
            for culprit in aborted.culprits:
                share = share.without_multiplication(culprit)
        return share

    def __repr__(self) -> str:
        r = self.record
        return (
            f"KeyShare<{r.curve_name}, party {self.identifier}, {r.threshold} of "
            f"{len(r.holders)}, key {r.public_key.encode().hex()}, secret redacted>"
        )


def check_record(record: PublicKeyRecord) -> None:
    """Check that a record that did not come through ``from_bytes`` is consistent, too.

    Raises:
        UsageError: its shares, key and threshold do not fit together.
    """
    try:
        _consistent(record, record.group)
    except InvalidEncoding as error:
        raise UsageError(f"key record: {error}") from error


def check_signers(share: KeyShare, signers: tuple[PartyId, ...], me: PartyId) -> None:
    """Check that the signers can act for the key, with this party among them.

    Raises:
        UsageError: too few, unknown, unsorted or duplicate signers, or not this party's share.
    """
    if party_ids(signers) != signers:
        raise UsageError(f"signers {list(signers)} are not in ascending order")
    if problem := quorum_problem(share.record, signers):
        raise UsageError(problem)
    if share.identifier != me or me not in signers:
        raise UsageError(f"party {share.identifier}, whose share this is, is not a signer")


def quorum_problem(record: PublicKeyRecord, signers: tuple[PartyId, ...]) -> str | None:
    """Return why these parties cannot act for the key, or None."""
    strangers = set(signers) - set(record.holders)
    if strangers:
        return f"parties {sorted(strangers)} hold no share of this key"
    if len(signers) < record.threshold:
        return f"{len(signers)} of the {record.threshold} holders needed"
    return None


@dataclass(frozen=True)
class SelfContained:
    """Codec of a value with ``to_bytes`` and ``from_bytes``, which have its curve and version."""

    of: Any

    def write(self, value: Any, context: WireContext) -> bytes:
        return Bytes(MAX_SHARE_BYTES).write(value.to_bytes(), context)

    def read(self, reader: Reader, context: WireContext) -> Any:
        return self.of.from_bytes(Bytes(MAX_SHARE_BYTES).read(reader, context))


SHARE: Codec = SelfContained(KeyShare)
RECORD: Codec = SelfContained(PublicKeyRecord)


def _consistent(record: PublicKeyRecord, group: Group) -> PublicKeyRecord:
    """Return the record if its parts fit together.

    The check takes five multiplications for 2 of 3 holders; it is done once for a share that is
    loaded for every signature. Records are public, and only consistent ones are remembered.
    """
    encoded = group.name.encode() + record.encode(WireContext(group))
    if encoded not in _KNOWN_CONSISTENT:
        _check_consistency(record, group)
        if len(_KNOWN_CONSISTENT) >= KNOWN_RECORDS:
            _KNOWN_CONSISTENT.clear()
        _KNOWN_CONSISTENT.add(encoded)
    return record


def _check_consistency(record: PublicKeyRecord, group: Group) -> None:
    if record.curve_name != group.name:
        raise InvalidEncoding("curve name inside and outside the record differ")
    if (record.chain_code is None) == (group is SECP256K1):
        raise InvalidEncoding("chain code and curve do not fit")
    holders, X = record.holders, record.public_shares
    if not 2 <= record.threshold <= len(holders):
        raise InvalidEncoding("threshold out of range")
    quorum = holders[: record.threshold]

    def interpolated(x: int) -> Point:
        return group.sum(lagrange_coefficient(group, i, quorum, x) * X[i] for i in quorum)

    if interpolated(0) != record.public_key:
        raise InvalidEncoding("public shares do not interpolate to the public key")
    if any(interpolated(j) != X[j] for j in holders[record.threshold :]):
        raise InvalidEncoding("public shares do not lie on one polynomial")
    fewer = quorum[:-1]
    lower = group.sum(lagrange_coefficient(group, i, fewer) * X[i] for i in fewer)
    if lower == record.public_key:
        raise InvalidEncoding("fewer shares than the threshold determine the key")


def _stored(curve_name: str, body: bytes) -> bytes:
    name = curve_name.encode()
    content = bytes([STORED_VERSION, len(name)]) + name + body
    return content + tagged_hash(Tag.STORED, content)[:CHECKSUM_BYTES]


def _open_stored(data: bytes) -> tuple[Group, bytes]:
    content, checksum = data[:-CHECKSUM_BYTES], data[-CHECKSUM_BYTES:]
    reader = Reader(content)
    version = reader.number(1)
    if version != STORED_VERSION:
        raise InvalidEncoding(f"record version {version}, expected {STORED_VERSION}")
    if tagged_hash(Tag.STORED, content)[:CHECKSUM_BYTES] != checksum:
        raise InvalidEncoding("checksum differs: the record is damaged")
    try:
        group = curve(reader.take(reader.number(1)).decode())
    except (UsageError, UnicodeDecodeError) as error:
        raise InvalidEncoding("unknown curve") from error
    return group, content[reader.position :]


def _scheme_name(mta: Mta | None) -> bytes:
    return b"" if mta is None else mta.identifier.encode()


def _scheme(name: bytes, schemes: Callable[[str], Mta]) -> Mta | None:
    if not name:
        return None
    try:
        return schemes(name.decode("ascii"))
    except UnicodeDecodeError:
        raise InvalidEncoding("its multiplication scheme has no name") from None
    except UsageError as error:
        raise InvalidEncoding(f"its multiplication scheme is not known: {error}") from error
