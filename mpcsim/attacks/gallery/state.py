"""Attacks on a party's memory: roll-back to an old snapshot, restarts, stalled sessions.

A party is a deterministic function of its set-up, its seed and what it received. The protocol layer
sees to this: a snapshot holds all that was received, so a party restored from the *latest* one
refuses a second version of anything it acted on; and randomness after the first message depends on
what was received. Two duties are left to the driver of the party: restore nothing but the latest
snapshot, and never start a session again with old randomness.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mpcsim.attacks.gallery import frost as frost_attacks
from mpcsim.attacks.gallery.entries import entry
from mpcsim.attacks.harness import (
    CHEATER,
    DIGEST,
    HONEST,
    PAIR,
    can_recover_key,
    finding_of,
    honest_party,
    message_scalar,
    record_rounds,
    solve_linear,
)
from mpcsim.attacks.model import Effect, Finding
from mpcsim.attacks.research import (
    FRESH_RANDOMNESS,
    RESTORE_LATEST,
    Build,
    Shape,
)
from mpcsim.crypto import schnorr
from mpcsim.crypto.groups.ed25519 import ED25519
from mpcsim.crypto.groups.group import Scalar
from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.crypto.hashing import Tag, tagged_hash, u32
from mpcsim.crypto.rng import SEED_BYTES, Drbg, SeededRng
from mpcsim.protocols import dkg, ecdsa, frost
from mpcsim.protocols.dkg import DKG
from mpcsim.protocols.dkg.messages import Reveal
from mpcsim.protocols.ecdsa import ECDSA
from mpcsim.protocols.engine import Done, Inbox, Party, Round, RoundOutput, View
from mpcsim.protocols.frost import FROST, steps
from mpcsim.protocols.frost.messages import Commitments, SignatureShare
from mpcsim.protocols.key_share import KeyShare
from mpcsim.protocols.local_run import LocalRun, run
from mpcsim.protocols.sample_keys import keys, session_id
from mpcsim.sim.run.adversary import Adversary


class StoringDriver:
    """Driver of a party that stores it after every call, before it delivers anything.

    A careful driver has one snapshot, the latest; a careless one (or a virtual machine that is
    rolled back) can come back with the one from before the peer's first message.
    """

    def __init__(self, build: Build, honest: Party[Any, Any]) -> None:
        self._careful = build.fulfils(RESTORE_LATEST)
        self.party = honest
        self._snapshots: list[bytes] = []

    def _stored(self, outputs: list[Any]) -> list[Any]:
        self._snapshots.append(self.party.snapshot())
        return outputs

    @property
    def me(self) -> Any:
        """Identifier of the party."""
        return self.party.me

    @property
    def outcome(self) -> Any:
        """Outcome of the party."""
        return self.party.outcome

    def waiting_state(self) -> Any:
        """Return whom the party waits for."""
        return self.party.waiting_state()

    def start(self) -> list[Any]:
        """Start the party, store it, return its messages."""
        return self._stored(self.party.start())

    def receive(self, sender: int, data: bytes) -> list[Any]:
        """Pass the message on, store the party, return its messages."""
        return self._stored(self.party.receive(sender, data))

    def crash_and_restore(self) -> list[Any]:
        """Resume the party from its snapshot; return all that it had put out by then."""
        kept = self._snapshots[-1] if self._careful else self._snapshots[0]
        party = self.party
        self.party, outputs = Party.resume(party.definition, kept, share=party.share)
        return outputs


def restore_and_rerun(store: StoringDriver, cheater: Any) -> None:
    """Run the restored party against a cheater that starts again."""
    local: LocalRun[Any] = LocalRun([store, cheater])
    local.replace_party(store, store.crash_and_restore())
    local.replace_party(cheater, cheater.start())
    local.finish()


# ---------------------------------------------------------------------- S1: ECDSA, rolled back


@entry("S1a", neglecting=[RESTORE_LATEST])
def ecdsa_rollback(build: Build) -> Finding:
    """Get two signatures with the same r_1 and different r_2, and solve for r_1 and x.

    s (r_1 + r_2) = m + r x, up to the sign of s.
    """
    shares = keys("secp256k1")
    store = StoringDriver(
        build, honest_party(build, ECDSA, ecdsa.setup(shares[HONEST], PAIR, DIGEST), HONEST)
    )
    signatures = []
    for attempt in range(2):
        diary: dict[int, RoundOutput] = {}
        setup = ecdsa.setup(shares[CHEATER], PAIR, DIGEST)
        name = SeededRng(f"cheater, attempt {attempt}")
        cheater: Any = Party(
            record_rounds(ECDSA, diary), setup, CHEATER, session_id=session_id(""), rng=name
        )
        if attempt == 0:
            run([store, cheater])
        else:
            restore_and_rerun(store, cheater)
        if not isinstance(cheater.outcome, Done):
            return replace(finding_of(store), shown="the restored signer says nothing new")
        found = cheater.outcome.result
        s, r = SECP256K1.scalar(found.s), SECP256K1.scalar(found.r)
        signatures.append((s, r, diary[1].keep.r_i, message_scalar(DIGEST)))
    found = can_recover_key(shares[HONEST].public_key, signatures)
    return Finding.broken_if(found, Effect.KEY, "the key from two signatures with one r_1: x*G = Y")


def say_nothing_after_commit(kind: str, to: int, message: Any) -> Any:
    """Drop all messages but the commitment."""
    return message if kind == "Commitments" else None


# ---------------------------------------------------------------------- S2: FROST, rolled back


@entry("S2b", neglecting=[RESTORE_LATEST])
def frost_rollback(build: Build) -> Finding:
    """Make party 1, restored from before it saw the cheater's commitments, sign over others."""
    shares = keys("ed25519")
    setup = frost.setup(shares[HONEST], PAIR, b"m")
    store = StoringDriver(build, honest_party(build, FROST, setup, HONEST))
    cheaters: list[Any] = []
    for attempt in range(3):
        mine = frost.setup(shares[CHEATER], PAIR, b"m")
        rng = SeededRng(f"cheater, attempt {attempt}")
        inner = Party(FROST, mine, CHEATER, session_id=session_id(""), rng=rng)
        cheaters.append(Adversary(inner, say_nothing_after_commit))
        if attempt == 0:
            run([store, cheaters[0]])
        else:
            restore_and_rerun(store, cheaters[attempt])
    return _key_from_equations(cheaters, shares, store, "three restores, three equations: x*G = Y")


def _key_from_equations(
    cheaters: list[Any], shares: dict[int, KeyShare], honest: Any, text: str
) -> Finding:
    """Solve three signature shares for the key, which works if their nonces are the same."""
    rows = []
    for cheater in cheaters:
        inbox: Inbox = cheater.party.inbox
        setup, lists = cheater.party.setup, inbox.everyone(Commitments)
        listed = [steps.Commitment(i, c.hiding, c.binding) for i, c in lists.items()]
        bound = steps.bind(setup.share.public_key, listed, setup.message)
        z = inbox.received(SignatureShare)[HONEST].share
        rows.append(frost_attacks.share_equation(bound, z))
    key = frost_attacks.combine_key(solve_linear(rows)[2], shares[CHEATER])
    if ED25519.base(key) == shares[HONEST].public_key:
        return Finding.broken(Effect.KEY, text)
    return finding_of(honest)


# ---------------------------------------------------------------------- S13: stalls


@entry("S13", neglecting=[FRESH_RANDOMNESS])
def stalled_sessions(build: Build) -> Finding:
    """Take party 1's signature share, send none, and wait for it to try again.

    With the session's old randomness, every new try is one more equation for the same nonces.
    """
    shares = keys("ed25519")
    cheaters: list[Any] = []
    for attempt in range(3):
        sid = session_id(f"attempt {attempt}")
        randomness: dict[str, Any] = {"rng": SeededRng(f"party 1, attempt {attempt}")}
        if not build.fulfils(FRESH_RANDOMNESS):
            randomness = {"_seed": b"the first attempt's".ljust(SEED_BYTES)}
        mine, theirs = (frost.setup(shares[i], PAIR, b"m") for i in (CHEATER, HONEST))
        honest = build.party(build.definition(FROST), theirs, HONEST, session_id=sid, **randomness)
        rng = SeededRng(f"cheater, attempt {attempt}")
        inner = Party(FROST, mine, CHEATER, session_id=sid, rng=rng)
        cheaters.append(Adversary(inner, say_nothing_after_commit))
        run([honest, cheaters[-1]])
    text = "three stalled sessions, restarted with the same randomness: x*G = Y"
    return _key_from_equations(cheaters, shares, honest, text)


# ---------------------------------------------------------------------- rolled back in the middle


def without_hedge(round_: Round) -> Round:
    """randomness that depends on what was received"""

    def run(view: View[Any], keep: Any, inbox: Any) -> RoundOutput:
        place = tagged_hash(Tag.RNG, view.session_id, u32(view.me), u32(round_.number))
        output: RoundOutput = round_.run(replace(view, rng=Drbg(place)), keep, inbox)
        return output

    return replace(round_, run=run)


@entry("S1b", shape=Shape(rounds=without_hedge))
def proof_rollback(build: Build) -> Finding:
    """Make a dealer, rolled back, prove its constant term in two sessions.

    The same proof nonce under two challenges gives it away: a_0 = (z - z') / (e - e'). Here the
    driver is careless in both modes: it is the protocol's hedge that is tried.
    """
    agreed = dkg.setup("ed25519", 2, PAIR)
    honest = honest_party(build, DKG, agreed, HONEST)
    honest.start()
    snapshot = honest.snapshot()
    found: list[tuple[Scalar, Scalar]] = []
    C_0 = honest.keep.coefficients[0]
    for attempt in range(2):
        copy, outputs = Party.resume(honest.definition, snapshot)
        diary: dict[int, RoundOutput] = {}
        rng = SeededRng(f"cheater, attempt {attempt}")
        cheater = Party(
            record_rounds(DKG, diary), agreed, CHEATER, session_id=session_id(""), rng=rng
        )
        local: LocalRun[Any] = LocalRun([copy, cheater])
        local.replace_party(copy, outputs)
        local.replace_party(cheater, cheater.start())
        local.finish()
        proof = cheater.inbox.received(Reveal)[HONEST].proof
        if proof is None:
            return finding_of(copy)
        e = schnorr._challenge(diary[2].keep.transcript, HONEST, C_0, proof.R)
        found.append((proof.z, e))
    (z, e), (z_2, e_2) = found
    a_0 = (z - z_2) * (e - e_2).inverse()
    text = "the dealer's part of the key, from two proofs with one nonce: a_0*G = C_0"
    return Finding.broken_if(ED25519.base(a_0) == C_0, Effect.LEAK, text)
