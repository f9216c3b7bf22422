"""Every kind of session the tests run, as a table, and what must hold after any run of one.

A test takes a ``Session`` from ``SESSIONS``, makes its parties, replaces some by adversaries or
troubles the messages, and passes the run to ``judge``.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import permutations
from typing import Any

from coincurve import PublicKey
from nacl.signing import VerifyKey
from slip10 import SLIP10

from mpcsim.crypto.bip32 import Path
from mpcsim.crypto.commitment import commit
from mpcsim.crypto.encoding import Message
from mpcsim.crypto.groups.polynomial import lagrange_coefficient
from mpcsim.crypto.rng import SeededRng
from mpcsim.errors import Aborted
from mpcsim.protocols import dkg, ecdsa, frost, presign, presigned, reshare
from mpcsim.protocols.engine import Definition, Done, Party, Sends, Waiting
from mpcsim.protocols.engine.events import Ignored, MessageIgnored
from mpcsim.protocols.key_share import KeyShare, PublicKeyRecord
from mpcsim.protocols.local_run import InFlight, LocalRun
from mpcsim.protocols.sample_keys import keys, session_id
from mpcsim.protocols.signing import signer
from mpcsim.testing.runs import scenarios
from mpcsim.testing.runs.scenarios import HASH, ProtocolScenario
from tests.helpers.adversary import Adversary, Tamper


@dataclass(frozen=True)
class Session:
    """A scenario of the test kit, with a judge of its results that is not the kit's."""

    scenario: ProtocolScenario
    check: Callable[[Mapping[int, Any]], None] = field(repr=False)
    """Asserts that the results of the given (honest) parties are right and agree."""

    @property
    def definition(self) -> Definition:
        return self.scenario.definition

    @property
    def members(self) -> tuple[int, ...]:
        return self.scenario.members

    def party(self, i: int, seed: str = "") -> Party:
        """Party i; another seed gives another session of the same kind."""
        return self.scenario.party(i, seed)

    def parties(self, seed: str = "") -> list[Party]:
        return [self.party(i, seed) for i in self.members]

    def __str__(self) -> str:
        return self.scenario.recipe


def run_against(session: Session, cheater: int, tamper: Tamper) -> LocalRun:
    """A finished run in which one party tampers with what it sends."""
    return run_with(session, Adversary(session.party(cheater), tamper))


def run_with(session: Session, *adversaries: Adversary) -> LocalRun:
    """A finished run in which adversaries take the places of some parties."""
    cheating = {adversary.me: adversary for adversary in adversaries}
    run: LocalRun = LocalRun(cheating.get(party.me, party) for party in session.parties())
    run.start()
    run.finish()
    return run


def signing_parties(
    shares: Mapping[int, KeyShare],
    signers: tuple[int, ...],
    message: bytes,
    label: str = "sign",
    path: Path = (),
) -> list[Party]:
    """Signers on either curve; the label names their session and seeds."""
    seeds = {i: SeededRng(f"{label} {i}") for i in signers}
    sid = session_id(label)
    return [
        signer(shares[i], signers, message, path=path, session_id=sid, rng=rng)
        for i, rng in seeds.items()
    ]


def presigning_parties(
    shares: Mapping[int, KeyShare], signers: tuple[int, ...], count: int, label: str = "presign"
) -> list[Party]:
    """The same for presignatures."""
    sid = session_id(label)
    return [
        presign.party(
            presign.setup(shares[i], signers, count), session_id=sid, rng=SeededRng(f"{label} {i}")
        )
        for i in signers
    ]


class Ears:
    """A listener that keeps why messages were ignored."""

    def __init__(self) -> None:
        self.why: list[Ignored] = []

    def __call__(self, event: object) -> None:
        if isinstance(event, MessageIgnored):
            self.why.append(event.why)


class RecordedRun(LocalRun):
    """A run that remembers every message ever sent."""

    def __init__(self, parties) -> None:
        super().__init__(parties)
        self.recorded: list[InFlight] = []

    def _take(self, sender, outputs) -> None:
        before = len(self.in_flight)
        super()._take(sender, outputs)
        self.recorded += self.in_flight[before:]


def kinds(definition: Definition) -> list[Sends]:
    """Every kind of message of a protocol."""
    return [sends for _, sends in definition.kinds()]


@cache
def samples(session: Session, sender: int) -> Mapping[str, Message]:
    """One message of each kind that ``sender`` sends in an honest run."""
    found: dict[str, Message] = {}

    def note(kind: str, to: int, message: Message) -> Message:
        found.setdefault(kind, message)
        return message

    run = RecordedRun(
        Adversary(party, note) if party.me == sender else party for party in session.parties()
    )
    run.start()
    run.finish()
    return found


def judge(
    session: Session, run: LocalRun, cheaters: Collection[int] = (), *, may_wait: bool = False
) -> dict[int, Done | Aborted | Waiting]:
    """Assert what must hold of the honest parties whatever the cheaters did; return how they stand.

    Args:
        may_wait: messages were lost, or could not be told from noise. Otherwise every honest
            party comes to an end, if only because it hears that another gave up; unless it is
            prepared, and may not end for that.
    """
    outcomes = {i: o for i, o in run.outcomes().items() if i not in cheaters}
    gone = {i for i, outcome in outcomes.items() if isinstance(outcome, Aborted)}
    for i, outcome in outcomes.items():
        if isinstance(outcome, Aborted):
            assert outcome.culprits <= set(cheaters), f"party {i} blames the innocent: {outcome}"
            assert i not in outcome.suspects
            assert not outcome.suspects or outcome.suspects & set(cheaters), f"party {i}: {outcome}"
            named = outcome.culprits | outcome.suspects
            assert {e.sender for e in outcome.evidence} <= named
            assert cheaters or may_wait, f"party {i} aborts an honest run: {outcome}"
        elif isinstance(outcome, Waiting):
            told = bool(outcome.gave_up) and outcome.parties <= gone | set(cheaters)
            assert may_wait or told, f"party {i} {outcome}"
    session.check({i: o.result for i, o in outcomes.items() if isinstance(o, Done)})
    return outcomes


# ---------------------------------------------------------------------- checks of results


def check_key_shares(shares: Mapping[int, KeyShare | None]) -> None:
    """One record, matching secret shares, matching pairwise state between any two of them."""
    held = {i: share for i, share in shares.items() if share is not None}
    assert len({share.record.to_bytes() for share in held.values()}) <= 1
    for i, share in held.items():
        assert share.identifier == i
        assert share.group.base(share.secret_share) == share.record.public_shares[i]
        assert KeyShare.from_bytes(share.to_bytes()) == share
        for j, other in held.items():
            if i == j:
                continue
            mine, theirs = share.peers[j], other.peers[i]
            assert mine.pair_secret == theirs.pair_secret
            assert mine.zero_seed == theirs.zero_seed
            if share.mta is not None:
                check_base_ots(mine.multiplication, theirs.multiplication)


def check_base_ots(sender: Any, receiver: Any) -> None:
    """The extension's sender holds all leaves of each tree but the one that its Delta names."""
    n = len(receiver.zeroth) // 16
    k = 128 // n
    rest = (1 << k) - 1
    delta = int("".join(str(sender.delta[j // 8] >> j % 8 & 1) for j in range(128)), 2)
    for i in range(n):
        leaves = receiver.zeroth[16 * i :][:16] + receiver.rest[16 * rest * i :][: 16 * rest]
        digit = delta >> 128 - k * (i + 1) & rest
        expected = [leaves[16 * (digit ^ y) :][:16] for y in range(1, rest + 1)]
        assert sender.punctured[16 * rest * i :][: 16 * rest] == b"".join(expected)


def check_ecdsa(public_key: bytes, signatures: Mapping[int, Any], digest: bytes = HASH) -> None:
    """Equal at all, low s, verified and recovered by libsecp256k1."""
    assert len(set(signatures.values())) <= 1
    for signature in signatures.values():
        compact = signature.compact() + bytes([signature.recovery_id])
        found = PublicKey.from_signature_and_message(compact, digest, hasher=None)
        assert found.format() == public_key
        assert signature.s <= ecdsa.SECP256K1.order // 2


def check_frost(public_key: bytes, signatures: Mapping[int, Any], message: bytes = HASH) -> None:
    """Equal at all, verified by libsodium."""
    assert len(set(signatures.values())) <= 1
    for signature in signatures.values():
        VerifyKey(public_key).verify(message, signature.encode())


def reassemble(shares: Mapping[int, KeyShare]) -> Any:
    """The key from shares, which no product code ever computes."""
    group = next(iter(shares.values())).group
    parts = (
        lagrange_coefficient(group, i, [*shares]) * of.secret_share for i, of in shares.items()
    )
    return sum(parts, group.scalar(0))


# ---------------------------------------------------------------------- the table


def dkg_session(curve: str, t: int, n: int, scheme: str | None = None) -> Session:
    return Session(scenarios.key_generation(curve, t, n, scheme), check_key_shares)


def ecdsa_session(
    signers: tuple[int, ...],
    t: int,
    n: int,
    shares: Mapping[int, KeyShare] | None = None,
    *,
    path: Path = (),
) -> Session:
    """Signing with the given shares, by default those of ``keys``; or with a child key."""
    held = shares or keys("secp256k1", t, n)
    public_key = child_key(next(iter(held.values())).record, path)
    return Session(
        scenarios.ecdsa_signing(t, n, signers, held, path=path),
        lambda signatures: check_ecdsa(public_key, signatures),
    )


def presign_session(signers: tuple[int, ...], t: int, n: int, count: int = 2) -> Session:
    held = keys("secp256k1", t, n)

    def check(results: Mapping[int, Any]) -> None:
        assert len({len(parts) for parts in results.values()}) <= 1
        for parts in zip(*results.values(), strict=True):
            assert len({(p.id, p.name, p.R) for p in parts}) == 1
            assert {p.holder for p in parts} == set(results)
            assert {(p.epoch, p.signers) for p in parts} == {(held[1].record.epoch, signers)}
            for p in parts:
                assert presign.Presignature.from_bytes(p.to_bytes()) == p
            if len(parts) == len(signers):
                check_products(parts, held[1].public_key)

    return Session(scenarios.presigning(t, n, signers, count), check)


def check_products(parts: Sequence[Any], public_key: Any) -> None:
    """u = r * phi and v = sk * phi, where R = r * G; every rho_j opens its commitment."""
    group = public_key.group
    phi, u, v = (
        group.scalar(sum(getattr(p, name).n for p in parts)) for name in ("phi_i", "u_i", "v_i")
    )
    assert group.base(u) == phi * parts[0].R
    assert group.base(v) == phi * public_key
    for mine, theirs in permutations(parts, 2):
        assert mine.commitments[theirs.holder] == commit(
            theirs.name, theirs.holder, theirs.blinding, theirs.rho_i
        )


def presigned_session(signers: tuple[int, ...], t: int, n: int, finisher: int) -> Session:
    public_key = keys("secp256k1", t, n)[1].public_key.encode()

    def check(results: Mapping[int, Any]) -> None:
        assert all(signature is None for i, signature in results.items() if i != finisher)
        check_ecdsa(public_key, {i: s for i, s in results.items() if i == finisher})

    return Session(scenarios.presigned_signing(t, n, signers, finisher), check)


def child_key(record: PublicKeyRecord, path: Path) -> bytes:
    """The key at the end of a path, by a library of other authors."""
    public_key = record.public_key.encode()
    if not path:
        return public_key
    return SLIP10(record.chain_code, pubkey=public_key).get_pubkey_from_path(list(path))


def frost_session(signers: tuple[int, ...], t: int, n: int) -> Session:
    public_key = keys("ed25519", t, n)[1].public_key.encode()
    return Session(
        scenarios.frost_signing(t, n, signers),
        lambda signatures: check_frost(public_key, signatures),
    )


def reshare_session(
    curve: str,
    dealers: tuple[int, ...],
    receivers: tuple[int, ...],
    *,
    t: int = 2,
    n: int = 3,
    threshold: int | None = None,
) -> Session:
    """Dealers of a (t, n) key deal new shares to the receivers."""
    held = keys(curve, t, n)
    record = held[1].record

    def check(results: Mapping[int, KeyShare | None]) -> None:
        check_key_shares(results)
        for i, share in results.items():
            assert (share is not None) == (i in receivers)
            if share is not None:
                assert share.public_key == record.public_key
                assert share.record.epoch != record.epoch
                assert i not in held or share.secret_share != held[i].secret_share

    return Session(scenarios.resharing(curve, t, n, dealers, receivers, threshold), check)


SESSIONS: dict[str, Callable[[], Session]] = {
    "dkg-ed25519": lambda: dkg_session("ed25519", 2, 3),
    "dkg-secp256k1": lambda: dkg_session("secp256k1", 2, 3),
    "dkg-secp256k1-k4": lambda: dkg_session("secp256k1", 2, 2, "ot/80/4"),
    "ecdsa-2": lambda: ecdsa_session((1, 2), 2, 3),
    "ecdsa-2-child": lambda: ecdsa_session((1, 2), 2, 3, path=(0, 7)),
    "ecdsa-3": lambda: ecdsa_session((1, 2, 3), 2, 3),
    "presign-2": lambda: presign_session((1, 2), 2, 3),
    "presign-3": lambda: presign_session((1, 2, 3), 2, 3),
    "presigned-2": lambda: presigned_session((1, 2), 2, 3, finisher=1),
    "presigned-3": lambda: presigned_session((1, 2, 3), 2, 3, finisher=1),
    "frost-2": lambda: frost_session((1, 2), 2, 3),
    "frost-3": lambda: frost_session((1, 2, 3), 2, 3),
    "reshare-ed25519": lambda: reshare_session("ed25519", (1, 2), (1, 2, 3)),
    "reshare-ed25519-handover": lambda: reshare_session("ed25519", (1, 2), (2, 3, 4)),
    "reshare-secp256k1": lambda: reshare_session("secp256k1", (1, 2), (1, 2, 3)),
}
"""Made on demand (some need keys), by name."""

_PROTOCOLS = {"dkg": dkg.DKG, "ecdsa": ecdsa.ECDSA, "presign": presign.PRESIGN}
_PROTOCOLS |= {"presigned": presigned.PRESIGNED, "frost": frost.FROST, "reshare": reshare.RESHARE}
DEFINITIONS: dict[str, Definition] = {name: _PROTOCOLS[name.split("-")[0]] for name in SESSIONS}


@cache
def session(name: str) -> Session:
    """The session of that name."""
    return SESSIONS[name]()
