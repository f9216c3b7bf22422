"""Scenarios: protocol sessions that can be repeated, with a check of their results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from coincurve import PublicKey as Secp256k1Key
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from mpcsim.crypto.bip32 import Path
from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.crypto.rng import Rng, SeededRng
from mpcsim.errors import UsageError, unknown
from mpcsim.frozen_dict import FrozenDict, freeze_fields
from mpcsim.ids import party_ids
from mpcsim.protocols import dkg, ecdsa, frost, presign, presigned, reshare
from mpcsim.protocols.engine import Definition, Party
from mpcsim.protocols.key_share import KeyShare
from mpcsim.protocols.local_run import Participant
from mpcsim.protocols.presign import Presignature
from mpcsim.protocols.sample_keys import (
    as_unused,
    keys,
    presignatures,
    session_id,
    with_fresh_guard,
)

Make = Callable[[int, bytes, Rng], Party[Any, Any]]
"""Makes the party of that identifier for a session id."""
Wrap = Callable[[Party[Any, Any]], Participant[Any]]
"""Puts something else in the place of a party: another implementation, a faulty one."""

HASH = bytes(range(32))


@dataclass(frozen=True, repr=False)
class ProtocolScenario:
    """ProtocolScenario: a protocol, its parties, and their set-ups."""

    recipe: str
    """The call that makes this scenario, e.g. ``frost_signing(2, 3, (1, 2))``."""
    definition: Definition[Any, Any]
    members: tuple[int, ...]
    """The identifiers of those who take part."""
    make: Make
    problem: Callable[[Mapping[int, Any]], str | None]
    """Function that returns what is wrong with the results of the given (honest) parties, or
    None."""
    wrap: Wrap = lambda party: party
    heard: Mapping[str, Collection[str]] = FrozenDict()
    """Kinds of messages that a party hears while it withholds its own of a kind as long as it can,
    by that kind (``rushing``), beside those that the rounds up to it need. What a party may still
    choose must not depend on more."""
    repeated: Mapping[str, str] = FrozenDict()
    """Fields that may be the same in two sessions (``fresh``), such as ``Commit.context``, each
    with the reason why that does no harm."""
    unnamed: Mapping[str, str] = FrozenDict()
    """Names of reasons for which an honest party may abort without naming the deviator
    (``somebody_is_named``), each with the reason why it cannot tell."""
    unchecked: Mapping[str, str] = FrozenDict()
    """Fields, as in ``repeated``, that nobody checks and no result depends on
    (``every_field_counts``), each with the reason what they are for."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", party_ids(self.members, "members"))
        freeze_fields(self, "heard", "repeated", "unnamed", "unchecked")

    def party(self, i: int, session: int | str = 1, coins: str = "") -> Party[Any, Any]:
        """Party i of one session, as this package has it; another name is another session.

        Args:
            coins: another text is other randomness in the same session.
        """
        label = f"{self.recipe}, session {session}"
        drawn = f", coins {coins}" if coins else ""
        return self.make(i, session_id(label), SeededRng(f"{label}, party {i}{drawn}"))

    def participant(self, i: int, session: int | str = 1, coins: str = "") -> Participant[Any]:
        """Return the participant, as the implementation under test makes it."""
        return self.wrap(self.party(i, session, coins))

    def wrapped(self, wrap: Wrap, recipe: str) -> ProtocolScenario:
        """Return the scenario with another implementation in the place of each honest party.

        Args:
            recipe: an expression that makes the new scenario.
        """
        return replace(self, wrap=wrap, recipe=recipe)

    def check_declared(self) -> None:
        """Check that what it declares names messages, fields and reasons of its protocol.

        Raises:
            UsageError: it does not, or a reason why is missing.
        """
        sent = [sends.message for _, sends in self.definition.kinds()]
        kinds = [message.__name__ for message in sent]
        fields = [f"{message.__name__}.{name}" for message in sent for name, _ in message.CODECS]
        for kind in (*self.heard, *(each for heard in self.heard.values() for each in heard)):
            if kind not in kinds:
                raise UsageError(f"heard: {unknown('message', kind, kinds)}")
        for what in ("repeated", "unchecked"):
            for name in getattr(self, what):
                if ".".join(name.partition("[")[0].split(".")[:2]) not in fields:
                    raise UsageError(f"{what}: {unknown('field', name, fields)}")
        for name in self.unnamed:
            if not self.definition.knows_reason(name):
                raise UsageError(f"unnamed: no party aborts for {name!r}")
        for name, why in {**self.repeated, **self.unchecked, **self.unnamed}.items():
            if not why.strip():
                raise UsageError(f"scenario: it says {name}, and not why")

    def __repr__(self) -> str:
        return self.recipe

    def __str__(self) -> str:
        *others, last = map(str, self.members)
        return f"parties {', '.join(others)} and {last} ran {self.definition.name}"


# ---------------------------------------------------------------------- the protocols


def _in_steps(*steps: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return what is heard in a protocol of steps, beside what its rounds need: whoever withholds
    a message hears the others' of its step, and nothing after it."""
    return {kind: step for step in steps for kind in step}


ABOUT: Final = {"Commit.context": "says what the session is about; it binds nothing"}
SIGNED: Final = ABOUT | {"Offer.public_key": "is the key to sign with"}
SIGNING: Final = (("Commit",), ("Offer",), ("Respond",), ("SignatureShare",))
_ALIKE = {"SIGNATURE_INVALID": "the sums do not tell whose part of several is wrong"}
"""Reason of signing by more than two."""


def _dealing(multiplies: bool, *more: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    revealed = ("Reveal", "MultiplicationOffer") if multiplies else ("Reveal",)
    return _in_steps(("Commit",), revealed, ("Deal",), *more)


def key_generation(
    curve: str, threshold: int, holders: int, scheme: str | None = None
) -> ProtocolScenario:
    """Key generation by the parties 1 to ``holders``, with a multiplication scheme."""
    members = tuple(range(1, holders + 1))
    agreed = dkg.setup(curve, threshold, members, scheme)

    def make(i: int, sid: bytes, rng: Rng) -> Party[Any, Any]:
        return dkg.party(agreed, i, session_id=sid, rng=rng)

    named = "" if scheme is None else f", {scheme!r}"
    recipe = f"key_generation({curve!r}, {threshold}, {holders}{named})"
    heard = _dealing(curve == "secp256k1")
    return ProtocolScenario(
        recipe, dkg.DKG, members, make, shares_problem, heard=heard, repeated=ABOUT
    )


def ecdsa_signing(
    threshold: int,
    holders: int,
    signers: tuple[int, ...],
    shares: Mapping[int, KeyShare] | None = None,
    *,
    path: Path = (),
) -> ProtocolScenario:
    """DKLs23 signing of a fixed hash with a real key, by default one of ``sample_keys``, or with
    the child key at a path from it."""
    held = shares or keys("secp256k1", threshold, holders)

    def make(i: int, sid: bytes, rng: Rng) -> Party[Any, Any]:
        agreed = ecdsa.setup(with_fresh_guard(_of(held, i)), signers, HASH, path=path)
        return ecdsa.party(agreed, session_id=sid, rng=rng)

    public_key = _of(held, signers[0]).record.derive(path)[0].encode()
    child = f", path={path}" if path else ""
    recipe = f"ecdsa_signing({threshold}, {holders}, {signers}{child})"
    return ProtocolScenario(
        recipe,
        ecdsa.ECDSA,
        signers,
        make,
        lambda found: _ecdsa_problem(public_key, found),
        heard=_in_steps(*SIGNING),
        repeated=SIGNED,
        unnamed=_ALIKE if len(signers) > 2 else {},
    )


def presigning(
    threshold: int, holders: int, signers: tuple[int, ...], count: int = 2
) -> ProtocolScenario:
    """DKLs23 without a message: presignatures with a real key."""
    held = keys("secp256k1", threshold, holders)

    def make(i: int, sid: bytes, rng: Rng) -> Party[Any, Any]:
        agreed = presign.setup(with_fresh_guard(_of(held, i)), signers, count)
        return presign.party(agreed, session_id=sid, rng=rng)

    recipe = f"presigning({threshold}, {holders}, {signers}, {count})"
    heard = _in_steps(*SIGNING[:3])
    return ProtocolScenario(
        recipe,
        presign.PRESIGN,
        signers,
        make,
        _presignatures_problem,
        heard=heard,
        repeated=SIGNED,
    )


def presigned_signing(
    threshold: int, holders: int, signers: tuple[int, ...], finisher: int
) -> ProtocolScenario:
    """Signing of a fixed hash with a real key and a presignature of ``sample_keys``."""
    held = keys("secp256k1", threshold, holders)
    parts = presignatures(threshold, holders, signers)

    def make(i: int, sid: bytes, rng: Rng) -> Party[Any, Any]:
        mine = as_unused(parts[i][0])
        agreed = presigned.setup(with_fresh_guard(_of(held, i)), mine, finisher, HASH, rho=sid)
        return presigned.party(agreed, session_id=sid, rng=rng)

    public_key = _of(held, signers[0]).public_key.encode()

    def problem(found: Mapping[int, Any]) -> str | None:
        released = {i: signature for i, signature in found.items() if signature is not None}
        if released.keys() != found.keys() & {finisher}:
            return f"parties {sorted(released)} have a signature, party {finisher} is to have it"
        return _ecdsa_problem(public_key, released)

    recipe = f"presigned_signing({threshold}, {holders}, {signers}, {finisher})"
    open_ = ("Open",) if len(signers) > 2 else ()
    kinds = ("Open", "Answer")
    same = "the sessions use one presignature, which only a test can"
    said = [f"{kind}.{name}" for kind in kinds for name in ("context", "rho_i", "blinding")]
    return ProtocolScenario(
        recipe,
        presigned.PRESIGNED,
        signers,
        make,
        problem,
        heard={"Open": open_},
        repeated=dict.fromkeys((*said, "Answer.w_i", "Answer.u_i"), same),
        unnamed=_ALIKE if open_ else {},
    )


def frost_signing(threshold: int, holders: int, signers: tuple[int, ...]) -> ProtocolScenario:
    """FROST signing of a fixed message with a real key."""
    held = keys("ed25519", threshold, holders)

    def make(i: int, sid: bytes, rng: Rng) -> Party[Any, Any]:
        agreed = frost.setup(with_fresh_guard(_of(held, i)), signers, HASH)
        return frost.party(agreed, session_id=sid, rng=rng)

    public_key = _of(held, signers[0]).public_key.encode()
    recipe = f"frost_signing({threshold}, {holders}, {signers})"
    return ProtocolScenario(
        recipe,
        frost.FROST,
        signers,
        make,
        lambda found: _frost_problem(public_key, found),
        heard=_in_steps(("Commitments",), ("SignatureShare",)),
        repeated={"Commitments.context": "says what is signed; it binds nothing"},
    )


def resharing(
    curve: str,
    threshold: int,
    holders: int,
    dealers: tuple[int, ...],
    receivers: tuple[int, ...],
    new_threshold: int | None = None,
) -> ProtocolScenario:
    """Resharing of a real key, to the same or to other parties."""
    held = keys(curve, threshold, holders)
    record = _of(held, dealers[0]).record

    def make(i: int, sid: bytes, rng: Rng) -> Party[Any, Any]:
        agreed = reshare.setup(
            record,
            dealers,
            share=with_fresh_guard(_of(held, i)) if i in dealers else None,
            receivers=receivers,
            threshold=new_threshold,
        )
        return reshare.party(agreed, i, session_id=sid, rng=rng)

    def problem(found: Mapping[int, KeyShare | None]) -> str | None:
        for i, share in found.items():
            if (share is not None) != (i in receivers):
                return f"party {i} has {'a' if share else 'no'} new share"
            if share is None:
                continue
            if share.public_key != record.public_key:
                return f"party {i}'s share is of another public key than before"
            if share.record.chain_code != record.chain_code:
                return f"party {i}'s share is of another chain code than before"
            if share.record.epoch == record.epoch:
                return f"party {i}'s share has the old epoch"
        return shares_problem(found)

    members = tuple(sorted({*dealers, *receivers}))
    recipe = (
        f"resharing({curve!r}, {threshold}, {holders}, {dealers}, {receivers}, {new_threshold})"
    )
    constant = "is the dealer's part of the old key, which a resharing keeps"
    return ProtocolScenario(
        recipe,
        reshare.RESHARE,
        members,
        make,
        problem,
        heard=_dealing(record.curve_name == "secp256k1", ("Confirm",)),
        repeated=ABOUT | {"Reveal.coefficients[0]": constant},
    )


def _of(held: Mapping[Any, KeyShare], i: int) -> KeyShare:
    return held[i]


# ---------------------------------------------------------------------- what is right


def shares_problem(found: Mapping[int, KeyShare | None]) -> str | None:
    """Return what is wrong with key shares of one key generation or resharing, or None: they must
    be of one record, lie on its polynomial, and agree in their pairwise secrets."""
    held = {i: share for i, share in found.items() if share is not None}
    if len({share.record.to_bytes() for share in held.values()}) > 1:
        return "the parties hold shares of different keys"
    for i, share in held.items():
        if share.identifier != i:
            return f"party {i} holds the share of party {share.identifier}"
        if share.group.base(share.secret_share) != share.record.public_shares[share.identifier]:
            return f"party {i}'s share does not match the public record"
        for j, other in held.items():
            mine, theirs = share.peers.get(other.identifier), other.peers.get(share.identifier)
            if i == j or mine is None or theirs is None:
                continue
            if (mine.pair_secret, mine.zero_seed) != (theirs.pair_secret, theirs.zero_seed):
                return f"parties {i} and {j} disagree about what they share"
    return None


def _ecdsa_problem(public_key: bytes, found: Mapping[int, Any]) -> str | None:
    if len(set(found.values())) > 1:
        return "the parties have different signatures"
    for signature in found.values():
        compact = signature.compact() + bytes([signature.recovery_id])
        try:
            key = Secp256k1Key.from_signature_and_message(compact, HASH, hasher=None)
        except ValueError:
            return "libsecp256k1 refuses the signature"
        if key.format() != public_key:
            return "the signature is not of this key"
        if signature.s > SECP256K1.order // 2:
            return "the signature has high s"
    return None


def _presignatures_problem(found: Mapping[int, tuple[Presignature, ...]]) -> str | None:
    """Return what is wrong with presignatures, or None: the parts of each must have one nonce and
    key."""
    for parts in zip(*found.values(), strict=True):
        first = parts[0]
        if len({(part.id, part.epoch, part.signers, part.name, part.R) for part in parts}) > 1:
            return "the parties hold parts of different presignatures"
        if {part.holder for part in parts} != found.keys():
            return "a party holds another's part"
        if found.keys() == set(first.signers):
            phi, u = (sum(getattr(p, n).n for p in parts) for n in ("phi_i", "u_i"))
            if SECP256K1.base(SECP256K1.scalar(u)) != SECP256K1.scalar(phi) * first.R:
                return "the parts do not multiply"
    return None


def _frost_problem(public_key: bytes, found: Mapping[int, Any]) -> str | None:
    if len(set(found.values())) > 1:
        return "the parties have different signatures"
    for signature in found.values():
        try:
            VerifyKey(public_key).verify(HASH, signature.encode())
        except BadSignatureError:
            return "libsodium refuses the signature"
    return None
