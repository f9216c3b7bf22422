"""Protocols with one planted bug each: a coin toss with one round changed."""

import os
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Annotated, Any

from mpcsim.crypto import BYTES32, Message, SeededRng, opens, wire
from mpcsim.errors import CheckFailed, Reason, check
from mpcsim.protocols.engine import ECHO, Definition, Party, Round, RoundOutput, check_echo, echo
from mpcsim.protocols.engine.envelope import ABORT_KIND
from mpcsim.sim.run.adversary import with_round
from mpcsim.testing.protocols import ProtocolScenario
from tests.examples.toy_protocol import TOSS, Commit, Drawn, Reveal, Toss, openly
from tests.testing import implementations

Output = RoundOutput
Original = Callable[..., Output]


@wire
class Confirm(Message):
    """Echo of its own, in the variants in which the opening comes too early for one."""

    echo: Annotated[Mapping[int, bytes], ECHO]


def toss(
    recipe: str, definition: Definition = TOSS, members: tuple[int, ...] = (1, 2, 3)
) -> ProtocolScenario:
    agreed, kinds = Toss(members), [sends.kind for _, sends in definition.kinds()]
    return ProtocolScenario(
        recipe,
        definition,
        members,
        lambda i, sid, rng: Party(definition, agreed, i, session_id=sid, rng=rng),
        lambda found: "the coins differ" if len(set(found.values())) > 1 else None,
        heard={kind: (kind,) for kind in kinds},
    )


# ---------------------------------------------------------------------- changed rounds


def drawing(rng: Callable[[Any], Any]) -> Original:
    """Round 1 of the toss, with other randomness."""
    return lambda original, view, keep, inbox: original(replace(view, rng=rng(view)), keep, inbox)


class Drawn32:
    """Randomness that is drawn in pieces: ``pieces(n)`` are the next bytes."""

    def __init__(self, pieces: Callable[[int], bytes]) -> None:
        self.bytes = pieces


def repeating(drawn: bytes) -> Drawn32:
    return Drawn32(lambda n: drawn)


NUMBERS = count()
LAST: dict[int, int] = {}


def numbered(view: Any) -> SeededRng:
    """Randomness of a number that the process counts, and remembers for a party that resumes."""
    if view.recall is None:
        LAST[view.me] = next(NUMBERS)
    return SeededRng(f"{view.me} {LAST[view.me]}")


def blinding_of_session(view: Any) -> Drawn32:
    pieces = iter((view.rng.bytes(32), view.session_id))
    return Drawn32(lambda n: next(pieces))


def result(
    name: Callable[[int, Any], tuple[int, ...]] = lambda j, me: (j,),
    compare: Any = check_echo,
    refused: bool = True,
    end: Callable[[Any, bytes, Any], Any] = lambda inbox, coin, keep: coin,
) -> Original:
    """Round 3 of the toss, with other checks."""

    def run(original: Original, view: Any, keep: Any, inbox: Any) -> Output:
        commits, seen = inbox.received(Commit), echo(view, inbox, Commit)
        coins = [inbox.own[Reveal][1].coin]
        for j, opened in inbox.values[Reveal].items():
            compare(seen, inbox.received(Confirm).get(j, opened).echo, j, view.me)
            fits = opens(commits[j].commitment, view.session_id, j, opened.blinding, opened.coin)
            if refused and not fits:
                raise CheckFailed(Reason.COMMITMENT_OPENING, name(j, view.me))
            coins.append(opened.coin)
        return Output(result=end(inbox, bytes(map(_sum, *coins)), keep))

    return run


def _sum(*column: int) -> int:
    return sum(column) % 256


def no_comparison(*ignored: object) -> None:
    """No echo is compared."""


def echo_convicts(mine: Any, theirs: Any, peer: int, me: int) -> None:
    check(mine == theirs, Reason.ECHO_MISMATCH, peer)


def telling(write: Callable[[bytes], str]) -> Original:
    """Round 2 of the toss with a check whose failure tells the coin."""

    def run(original: Original, view: Any, keep: Drawn, inbox: Any) -> Output:
        for j, message in inbox.received(Commit).items():
            detail = f"mine opens to {write(keep.coin)}"
            check(any(message.commitment), Reason.COMMITMENT_OPENING, j, detail=detail)
        return original(view, keep, inbox)

    return run


def divides(original: Original, view: Any, keep: Any, inbox: Any) -> Output:
    """Round 3 of the toss that expects a coin that is not zero."""
    for opened in inbox.received(Reveal).values():
        1 // int.from_bytes(opened.coin, "big")
    return original(view, keep, inbox)


def in_order(inbox: Any, coin: bytes, keep: Any) -> bytes:
    """The coin, if all committed in the order of the parties."""
    return coin if sorted(inbox.values[Commit]) == list(inbox.values[Commit]) else bytes(32)


def early(*more: Round, compare: Any) -> Definition:
    """The toss whose opening waits for nobody, with more rounds before the last."""
    commit, reveal, end = TOSS.rounds
    run = partial(result(compare=compare), end.run)
    needs = (Commit, Reveal, *(sends.message for round_ in more for sends in round_.sends))
    rounds = (
        commit,
        replace(reveal, needs=()),
        *more,
        replace(end, number=9, run=run, needs=needs),
    )
    return replace(TOSS, rounds=rounds)


def confirm(view: Any, keep: Any, inbox: Any) -> Output:
    return Output(broadcast=Confirm(echo(view, inbox, Commit)))


LATE_ECHO = Round(3, "confirm", confirm, needs=(Commit, Reveal), sends=(openly(Confirm),))


class Unhearing(implementations.Around):
    """Drops notices of an abort."""

    def receive(self, sender: int, data: bytes) -> Any:
        return [] if data[2] == ABORT_KIND else super().receive(sender, data)


@wire
class Noted(Reveal):
    """Opening with a field that is never looked at."""

    note: Annotated[bytes, BYTES32]


def noted() -> Definition:
    """The toss with a field that no party checks."""
    commit, reveal, end = TOSS.rounds

    def run_reveal(view: Any, keep: Any, inbox: Any) -> Output:
        opened = vars(reveal.run(view, keep, inbox).broadcast)
        return Output(broadcast=Noted(**opened, note=view.rng.bytes(32)))

    def run_end(view: Any, keep: Any, inbox: Any) -> Output:
        inbox.values[Reveal], inbox.own[Reveal] = inbox.values[Noted], inbox.own[Noted]
        return end.run(view, keep, inbox)

    changed = replace(reveal, run=run_reveal, sends=(openly(Noted),))
    return replace(TOSS, rounds=(commit, changed, replace(end, run=run_end, needs=(Noted,))))


def round_of_toss(*changed: tuple[int, Original]) -> Definition:
    definition = TOSS
    for number, run in changed:
        definition = with_round(definition, number, run)
    return definition


def key_alone(view: Any) -> SeededRng:
    return SeededRng(f"the key of party {view.me}")


TOSSES: dict[str, Definition] = {
    "echo missing": round_of_toss((3, result(compare=no_comparison))),
    "nonces from the key alone": round_of_toss((1, drawing(key_alone))),
    "opened early, without echo": early(compare=no_comparison),
    "commitments not waited for": early(LATE_ECHO, compare=check_echo),
    "coin in an abort": round_of_toss((2, telling(bytes.hex))),
    "coins of the system": round_of_toss((1, drawing(lambda view: Drawn32(os.urandom)))),
    "opening unchecked": round_of_toss((3, result(refused=False))),
    "wrong one blamed": round_of_toss((3, result(name=lambda j, me: (6 - j - me,)))),
    "raises at zero": round_of_toss((3, divides)),
    "order of arrival": round_of_toss((3, result(end=in_order))),
    "blinding of the session alone": round_of_toss((1, drawing(blinding_of_session))),
    "opening fails, nobody named": round_of_toss((3, result(name=lambda j, me: ()))),
    "echo convicts": round_of_toss((3, result(compare=echo_convicts))),
    "coin in base64": round_of_toss((2, telling(lambda coin: b64encode(coin).decode()))),
    "a field that nobody checks": noted(),
    "one draw for two": round_of_toss((1, drawing(lambda view: repeating(view.rng.bytes(32))))),
    "number of the process": round_of_toss((1, drawing(numbered))),
}
"""Definition with each bug."""

WRAPPED = {
    "duplicates are attacks": implementations.Impatient,
    "early messages forgotten": implementations.Deaf,
    "sessions not told apart": implementations.Fragile,
    "a failed check ends well": implementations.Gullible,
    "notices of an abort dropped": Unhearing,
}


def planted(bug: str) -> ProtocolScenario:
    """The scenario with a bug."""
    recipe = f"planted({bug!r})"
    if bug in WRAPPED:
        return toss(recipe).wrapped(WRAPPED[bug], recipe)
    return toss(recipe, TOSSES[bug])
