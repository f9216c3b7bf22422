"""Harness of attacks: parties of a build, cheating parties, and checks of what was gained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from mpcsim.attacks.model import Effect, Finding
from mpcsim.attacks.research import Build
from mpcsim.crypto.encoding import Message
from mpcsim.crypto.groups.curves import curve
from mpcsim.crypto.groups.group import Scalar
from mpcsim.crypto.groups.polynomial import lagrange_coefficient
from mpcsim.crypto.hashing import Tag, tagged_hash
from mpcsim.crypto.rng import SeededRng
from mpcsim.errors import Aborted
from mpcsim.ids import PartyId
from mpcsim.protocols.engine import Definition, Done, Party, RoundOutput, Waiting
from mpcsim.protocols.key_share import KeyShare
from mpcsim.protocols.local_run import Participant, run
from mpcsim.protocols.sample_keys import session_id
from mpcsim.sim.run.adversary import with_round

HONEST, CHEATER, THIRD = PartyId(1), PartyId(2), PartyId(3)

DIGEST = bytes(range(32))
"""Hash that the signers agree to sign."""

WANTED = tagged_hash(Tag.CONTEXT, b"pay everything to the attacker")
"""Hash that the attacker wants signed."""


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


def run_to_end(*parties: Participant[Any]) -> dict[PartyId, Done[Any] | Aborted | Waiting]:
    """Deliver messages until nothing is under way; return how every party stands."""
    return run(parties)


def finding_of(participant: Participant[Any]) -> Finding:
    """Return the finding of one party's present state."""
    return Finding.of_outcome(participant.outcome or participant.waiting_state())


def broken_if_done(
    party: Participant[Any], proof: Callable[[Any], bool], effect: Effect, shown: str
) -> Finding:
    """Return the finding of a party; if it is done, whether its result proves the attack."""
    if not isinstance(party.outcome, Done):
        return finding_of(party)
    return Finding.broken_if(proof(party.outcome.result), effect, shown)


def broken_if_both_done(
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
    run_to_end(first, cheater, third)
    if not (isinstance(first.outcome, Done) and isinstance(third.outcome, Done)):
        return finding_of(honest[otherwise])
    return Finding.broken_if(proof(first.outcome.result, third.outcome.result), effect, shown)


def crash_if_raised(act: Callable[[], Finding]) -> Finding:
    """Run an attack; an exception that escapes from a party is a finding, ``Effect.CRASH``."""
    try:
        return act()
    except Exception as error:
        return Finding.broken(Effect.CRASH, f"{type(error).__name__}: {error}")


def interpolate_key(shares: Iterable[KeyShare]) -> Scalar:
    """Return the private key that these shares interpolate to."""
    held = {share.identifier: share.secret_share for share in shares}
    group = next(iter(held.values())).group
    return sum((lagrange_coefficient(group, i, held) * x for i, x in held.items()), group.scalar(0))


def cannot_combine(one: KeyShare, other: KeyShare) -> bool:
    """Return whether two shares do not interpolate to the key that the first one's record names."""
    return not can_combine(one, other)


def can_combine(*shares: KeyShare) -> bool:
    """Return whether the shares interpolate to the key that the first one's record names."""
    return shares[0].group.base(interpolate_key(shares)) == shares[0].public_key


def point_of_unknown_logarithm(curve_name: str) -> Any:
    """Return a point whose discrete logarithm the attacker does not know."""
    group = curve(curve_name)
    return group.base(group.random_scalar(SeededRng("thrown away")))


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
