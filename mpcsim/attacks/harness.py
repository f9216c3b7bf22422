"""Harness of attacks: honest and cheating parties, runners, and proofs of what was gained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from mpcsim.attacks.model import Effect, Finding
from mpcsim.attacks.research import Build
from mpcsim.crypto.encoding import Message
from mpcsim.crypto.groups.curves import curve
from mpcsim.crypto.groups.ed25519 import ED25519
from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.crypto.groups.polynomial import lagrange_coefficient
from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.crypto.hashing import Tag, tagged_hash
from mpcsim.crypto.rng import SeededRng
from mpcsim.errors import Aborted
from mpcsim.ids import PartyId
from mpcsim.protocols.engine import Definition, Done, Party, RoundOutput
from mpcsim.protocols.key_share import KeyShare
from mpcsim.protocols.local_run import Participant, run
from mpcsim.protocols.sample_keys import session_id
from mpcsim.sim.run.adversary import alter_kind, with_round

HONEST, CHEATER, THIRD = PartyId(1), PartyId(2), PartyId(3)
PAIR, ALL = (HONEST, CHEATER), (HONEST, CHEATER, THIRD)

DIGEST = bytes(range(32))
"""Hash that the signers agree to sign."""

WANTED = tagged_hash(Tag.CONTEXT, b"pay everything to the attacker")
"""Hash that the attacker wants signed."""

BANS = "party {i} bans the honest party {j}: {outcome.reason.text}"
NAMES = "party {i} names the honest party {j}: {outcome}"
"""Sentences of ``find_false_blame``, about a ban and about any other accusation."""

WRONG_SHARE = alter_kind("Deal", lambda m: replace(m, share=m.share + ED25519.scalar(1)), {HONEST})
"""Tampering of a dealer that deals party 1 the right share plus one."""


# ---------------------------------------------------------------------- parties


def honest_party(
    build: Build, definition: Definition[Any, Any], setup: Message, me: int, label: str = ""
) -> Party[Any, Any]:
    """Return an honest participant of the build's protocol."""
    made = build.definition(definition)
    return build.party(
        made, setup, me, session_id=session_id(label), rng=SeededRng(f"{label}, {me}")
    )


def cheating_party(
    definition: Definition[Any, Any], setup: Message, me: int = CHEATER, label: str = ""
) -> Party[Any, Any]:
    """Return a cheating participant, with whatever definition it likes."""
    return Party(
        definition, setup, me, session_id=session_id(label), rng=SeededRng(f"{label}, {me}")
    )


def record_rounds(
    definition: Definition[Any, Any], diary: dict[int, RoundOutput]
) -> Definition[Any, Any]:
    """Return the protocol with each round's output recorded in ``diary`` by its number."""

    def note(number: int, original: Callable[..., RoundOutput], *arguments: Any) -> RoundOutput:
        diary[number] = original(*arguments)
        return diary[number]

    for round_ in definition.rounds:
        definition = with_round(definition, round_.number, partial(note, round_.number))
    return definition


# ---------------------------------------------------------------------- runners


def finding_of(participant: Participant[Any]) -> Finding:
    """Return the finding of one party's present state."""
    return Finding.of_outcome(participant.outcome or participant.waiting_state())


def cheat_one_party(
    honest: Participant[Any],
    cheater: Participant[Any],
    proof: Callable[[Any], bool],
    effect: Effect,
    shown: str,
    *,
    result_of: Participant[Any] | None = None,
) -> Finding:
    """Run an honest party with a cheater, and return the finding.

    Args:
        proof: returns whether the result proves the attack.
        result_of: party whose result that is; by default the honest one's.
    """
    run([honest, cheater])
    outcome = (result_of or honest).outcome
    if not isinstance(outcome, Done):
        return finding_of(honest)
    return Finding.broken_if(proof(outcome.result), effect, shown)


def cheat_two_parties(
    honest: Mapping[PartyId, Party[Any, Any]],
    cheater: Participant[Any],
    proof: Callable[[Any, Any], bool],
    effect: Effect,
    shown: str,
    *,
    otherwise: PartyId = HONEST,
) -> Finding:
    """Run a cheater with honest parties 1 and 3, and return the finding.

    Args:
        proof: returns whether the two honest results prove the attack.
        otherwise: party whose state is the finding if one of them is not done.
    """
    first, third = honest[HONEST], honest[THIRD]
    run([first, cheater, third])
    if not (isinstance(first.outcome, Done) and isinstance(third.outcome, Done)):
        return finding_of(honest[otherwise])
    return Finding.broken_if(proof(first.outcome.result, third.outcome.result), effect, shown)


def crash_party(honest: Participant[Any], cheater: Participant[Any]) -> Finding:
    """Run an honest party with a cheater; an exception that escapes is ``Effect.CRASH``."""
    try:
        run([honest, cheater])
    except Exception as error:
        return Finding.broken(Effect.CRASH, f"{type(error).__name__}: {error}")
    return finding_of(honest)


def spoil_shares_of_two(
    honest: Mapping[PartyId, Party[Any, Any]], cheater: Participant[Any], shown: str
) -> Finding:
    """Run a cheater with honest parties 1 and 3; broken if their shares do not make the key."""
    return cheat_two_parties(
        honest, cheater, lambda one, other: not can_combine(one, other), Effect.UNUSABLE, shown
    )


def find_false_blame(honest: Mapping[Any, Participant[Any]], shown: str) -> Finding | None:
    """Return the finding that an honest party names another honest one, or None.

    Args:
        shown: ``BANS`` or ``NAMES``.
    """
    for i, party in honest.items():
        outcome = party.outcome
        if isinstance(outcome, Aborted) and outcome.culprits & honest.keys():
            j = min(outcome.culprits & honest.keys())
            text = shown.format(i=i, j=j, outcome=outcome)
            return Finding.broken(Effect.HONEST_BLAMED, text)
    return None


# ---------------------------------------------------------------------- proofs of what was gained


def message_scalar(digest: bytes) -> Scalar:
    """Return a hash as the scalar that ECDSA signs."""
    return SECP256K1.scalar(int.from_bytes(digest, "big"))


def interpolate_key(shares: Iterable[KeyShare]) -> Scalar:
    """Return the private key that these shares interpolate to."""
    held = {share.identifier: share.secret_share for share in shares}
    group = next(iter(held.values())).group
    return sum((lagrange_coefficient(group, i, held) * x for i, x in held.items()), group.scalar(0))


def can_combine(*shares: KeyShare) -> bool:
    """Return whether the shares interpolate to the key that the first one's record names."""
    return shares[0].group.base(interpolate_key(shares)) == shares[0].public_key


def point_of_unknown_logarithm(curve_name: str) -> Any:
    """Return a point whose discrete logarithm the attacker does not know."""
    group = curve(curve_name)
    return group.base(group.random_scalar(SeededRng("thrown away")))


def can_recover_key(Y: Point, signatures: Iterable[tuple[Scalar, ...]]) -> bool:
    """Return whether two ECDSA signatures with one nonce k give the private key of Y.

    Args:
        signatures: (s, r, d, m) of each, with s (k + d) = m + r x; of s and -s the low one is
            released, so that both are tried.
    """
    given = list(signatures)
    for signs in product((1, -1), repeat=len(given)):
        signed = [(s if sign > 0 else -s, *of) for sign, (s, *of) in zip(signs, given, strict=True)]
        if SECP256K1.base(solve_linear([[s, -r, m - s * d] for s, r, d, m in signed])[1]) == Y:
            return True
    return False


def solve_linear(rows: list[list[Scalar]]) -> list[Scalar]:
    """Solve n linear equations in n unknowns modulo the order; the last column is the constant.

    Raises:
        InternalError: they do not determine a solution.
    """
    rows = [list(row) for row in rows]
    n = len(rows)
    for i in range(n):
        pivot = next((k for k in range(i, n) if rows[k][i]), i)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        scale = rows[i][i].inverse()
        rows[i] = [scale * a for a in rows[i]]
        for k in range(n):
            if k != i:
                factor = rows[k][i]
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    return [row[n] for row in rows]
