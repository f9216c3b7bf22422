"""Attacks on threshold Ed25519: ROS over concurrent sessions, false lists, bad shares, nonces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mpcsim.attacks.gallery.entries import entry
from mpcsim.attacks.harness import (
    ALL,
    BANS,
    CHEATER,
    HONEST,
    PAIR,
    THIRD,
    cheating_party,
    find_false_blame,
    finding_of,
    honest_party,
    solve_linear,
)
from mpcsim.attacks.model import Effect, Finding
from mpcsim.attacks.research import Build
from mpcsim.crypto.encoding import WireContext
from mpcsim.crypto.groups.ed25519 import ED25519 as G
from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.crypto.groups.polynomial import lagrange_coefficient
from mpcsim.crypto.rng import SeededRng
from mpcsim.errors import Aborted, Reason, UsageError
from mpcsim.protocols import frost
from mpcsim.protocols.engine import Done, RoundOutput, Send
from mpcsim.protocols.engine.channel import unseal
from mpcsim.protocols.engine.envelope import Envelope
from mpcsim.protocols.frost import FROST, steps
from mpcsim.protocols.frost.messages import Commitments, SignatureShare
from mpcsim.protocols.frost.rounds import AfterCommit
from mpcsim.protocols.key_share import KeyShare
from mpcsim.protocols.local_run import run
from mpcsim.protocols.sample_keys import keys
from mpcsim.sim.run.adversary import Adversary, alter_kind, with_round

MESSAGE, WANTED = b"pay 5 to Alice", b"pay everything to the attacker"
ONE = G.scalar(1)


def signer(build: Build, i: int, signers: Sequence[int] = PAIR, message: bytes = MESSAGE) -> Any:
    """Return an honest signer of the build."""
    return honest_party(build, FROST, frost.setup(keys("ed25519")[i], signers, message), i)


def cheating_signer(signers: Sequence[int] = PAIR) -> Any:
    """Return the cheater's party, still honest: the caller makes it cheat."""
    return cheating_party(FROST, frost.setup(keys("ed25519")[CHEATER], signers, MESSAGE))


def combine_key(x_1: Scalar, share: KeyShare) -> Scalar:
    """Return the private key, from party 1's share and party 2's own."""
    mine = lagrange_coefficient(G, CHEATER, PAIR) * share.secret_share
    return lagrange_coefficient(G, HONEST, PAIR) * x_1 + mine


# ---------------------------------------------------------------------- S4: ROS

SESSIONS = 256
"""Number of concurrent sessions; the attack needs as many as the order has bits, 253."""


@dataclass(frozen=True)
class Choice:
    """Two nonce pairs that the attacker may still choose between, in one open session."""

    nonces: tuple[tuple[Scalar, Scalar], tuple[Scalar, Scalar]]
    challenges: tuple[Scalar, Scalar]
    V: Point
    """Commitment behind party 1's share: z_1 * G = V + c * lambda_1 * X_1."""


def _make_choice(build: Build, share: KeyShare, theirs: Commitments, rng: SeededRng) -> Choice:
    bind = build.function(steps.bind)
    e = G.random_scalar(rng)
    nonces = ((G.random_scalar(rng), e), (G.random_scalar(rng), e))
    one = steps.Commitment(HONEST, theirs.hiding, theirs.binding)
    bounds = [
        bind(share.public_key, [one, steps.Commitment(CHEATER, G.base(d), G.base(e))], MESSAGE)
        for d, e in nonces
    ]
    V = theirs.hiding + bounds[0].binding_factor_list[HONEST] * theirs.binding
    return Choice(nonces, (bounds[0].challenge, bounds[1].challenge), V)


def _answer(build: Build, share: KeyShare, nonces: Any, label: str, send: Any) -> tuple[Any, Any]:
    """Start the attacker in one session with chosen nonces; return its party and its message."""

    def chosen(original: object, view: Any, keep: None, inbox: Any) -> RoundOutput:
        d, e = nonces
        context = view.setup.context()
        kept = AfterCommit(context, steps.SigningNonces(d, e))
        return RoundOutput(keep=kept, broadcast=Commitments(context, G.base(d), G.base(e)))

    setup = frost.setup(share, PAIR, MESSAGE)
    attacker = cheating_party(with_round(build.definition(FROST), 1, chosen), setup, CHEATER, label)
    (message,) = attacker.start()
    attacker.receive(HONEST, send.data)
    return attacker, message


def no_binding_factors(
    group_public_key: Point, commitment_list: Sequence[steps.Commitment], msg: bytes
) -> dict[Any, Scalar]:
    """Return rho_i = 1, as in threshold Schnorr before FROST."""
    return {identifier: ONE for identifier, _, _ in commitment_list}


@entry("S4", replacing={steps.compute_binding_factors: no_binding_factors})
def ros(build: Build) -> Finding:
    """Open 256 sessions, let party 1 commit in all of them, and only then choose the nonces.

    In session k the attacker can make the challenge c_k one of two values. With weights
    w_k = 2^k / (c_k^1 - c_k^0), the sum of the w_k c_k counts in binary, up to a constant; so it
    can be made to hit the challenge c* of any message under R* = sum w_k V_k + constant. That needs
    every V_k to be fixed before the choice, which the binding factor prevents: then V_k depends on
    all commitments.
    """
    share, rng = keys("ed25519")[CHEATER], SeededRng("ROS")
    Y, X_1 = share.public_key, share.record.public_shares[HONEST]
    # 1. Party 1 commits in every session.
    victims, sent, choices = [], [], []
    for k in range(SESSIONS):
        setup = frost.setup(keys("ed25519")[HONEST], PAIR, MESSAGE)
        victims.append(honest_party(build, FROST, setup, HONEST, f"ROS {k}"))
        send: Any
        (send,) = victims[-1].start()
        payload = unseal(share.peers[HONEST].pair_secret, Envelope.decode(send.data))
        theirs = Commitments.decode(payload or b"", WireContext(G))
        sent.append(send)
        choices.append(_make_choice(build, share, theirs, rng))
    # 2. The forgery's commitment and challenge.
    weights = [
        G.scalar(1 << k) * (c.challenges[1] - c.challenges[0]).inverse()
        for k, c in enumerate(choices)
    ]
    constant = sum(
        (w * c.challenges[0] for w, c in zip(weights, choices, strict=True)), G.scalar(0)
    )
    Y_1 = lagrange_coefficient(G, HONEST, PAIR) * X_1
    R = G.sum(w * c.V for w, c in zip(weights, choices, strict=True)) + constant * Y_1
    c_star = steps.compute_challenge(R, Y, WANTED)
    # 3. Finish every session with the nonces that the bits of c* call for.
    z = c_star * lagrange_coefficient(G, CHEATER, PAIR) * share.secret_share
    for k, choice in enumerate(choices):
        nonces = choice.nonces[c_star.n >> k & 1]
        attacker, message = _answer(build, share, nonces, f"ROS {k}", sent[k])
        for output in victims[k].receive(CHEATER, message.data):
            if isinstance(output, Send):
                attacker.receive(HONEST, output.data)
        z = z + weights[k] * attacker.inbox.values[SignatureShare][HONEST].share
    forged = steps.Ed25519Signature(R.encode(), z.encode())
    text = f"{SESSIONS} signatures of one message, and libsodium accepts one of another"
    return Finding.broken_if(steps.verify_signature(forged, Y, WANTED), Effect.FORGERY, text)


# ---------------------------------------------------------------------- S2: nonces used again


class ReusableNonces(steps.SigningNonces):
    """Nonces that can be taken any number of times."""

    def take(self) -> tuple[Scalar, Scalar]:
        if self._nonces is None:
            raise UsageError("these nonces are used up")
        return self._nonces


@entry("S2a", replacing={steps.SigningNonces: ReusableNonces})
def reused_nonces(build: Build) -> Finding:
    """Collect three signature shares of party 1 from one pair of nonces and solve for d, e and x_1.

    z = d + rho e + (c lambda_1) x_1.
    """
    shares = keys("ed25519")
    x_1, rng = shares[HONEST].secret_share, SeededRng("again")
    commit, bind = build.function(steps.commit), build.function(steps.bind)
    sign = build.function(steps.sign)
    nonces, (D, E) = commit(x_1, rng)
    rows = []
    for message in (b"one", b"two", b"three"):
        _, mine = steps.commit(shares[CHEATER].secret_share, rng)
        listed = [steps.Commitment(HONEST, D, E), steps.Commitment(CHEATER, *mine)]
        bound = bind(shares[HONEST].public_key, listed, message)
        try:
            z = sign(HONEST, x_1, nonces, bound)
        except UsageError as error:
            return Finding.refused(str(error))
        rows.append(share_equation(bound, z))
    found = solve_linear(rows)[2]
    matches = G.base(combine_key(found, shares[CHEATER])) == shares[HONEST].public_key
    return Finding.broken_if(
        matches, Effect.KEY, "x_1 from three linear equations, then the key: x*G = Y"
    )


def share_equation(bound: steps.Bound, z: Scalar) -> list[Scalar]:
    """Return the coefficients of d_1, e_1 and x_1 in z_1, and z_1."""
    weight = bound.challenge * lagrange_coefficient(G, HONEST, PAIR)
    return [ONE, bound.binding_factor_list[HONEST], weight, z]


# ---------------------------------------------------------------------- S5, S6, S7, S8


@entry("S5", without=[Reason.ECHO_MISMATCH])
def false_lists(build: Build) -> Finding:
    """Send party 3 another hiding commitment: the signers sign over different lists."""
    other = alter_kind(
        "Commitments", lambda m: replace(m, hiding=m.hiding + G.base(ONE)), to={THIRD}
    )
    honest = {i: signer(build, i, ALL) for i in (HONEST, THIRD)}
    run([honest[HONEST], Adversary(cheating_signer(ALL), other), honest[THIRD]])
    return find_false_blame(honest, BANS) or finding_of(honest[HONEST])


@entry("S8", without=[Reason.SESSION_MISMATCH, Reason.ECHO_MISMATCH])
def different_messages(build: Build) -> Finding:
    """Ask party 1 to sign for Alice and party 3 for Bob; no signer cheats."""
    pair = (HONEST, THIRD)
    honest = {
        HONEST: signer(build, HONEST, pair, b"pay 5 to Alice"),
        THIRD: signer(build, THIRD, pair, b"pay 5 to Bob"),
    }
    run(honest.values())
    return find_false_blame(honest, BANS) or finding_of(honest[HONEST])


@entry("S6", replacing={steps.verify_signature_share: lambda *_: True})
@entry("S7b", replacing={steps.verify_signature: lambda *_: True})
def bad_signature_share(build: Build) -> Finding:
    """Send z_2 + 1."""
    honest = signer(build, HONEST)
    bad = alter_kind("SignatureShare", lambda m: replace(m, share=m.share + ONE))
    run([honest, Adversary(cheating_signer(), bad)])
    outcome = honest.outcome
    if isinstance(outcome, Aborted) and outcome.reason is Reason.SIGNATURE_INVALID:
        text = "aborted, with nobody to ban: the cheater can do it again"
        return Finding.broken_if(not outcome.culprits, Effect.NOBODY_NAMED, text)
    if not isinstance(outcome, Done):
        return finding_of(honest)
    public_key = honest.setup.share.public_key
    valid = steps.verify_signature(outcome.result, public_key, MESSAGE)
    return Finding.broken_if(not valid, Effect.BAD_OUTPUT, "released, and libsodium refuses it")
