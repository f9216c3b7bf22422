"""The adversary of ``mpcsim.sim``, and what only tests give one: another's luck, a schedule."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from mpcsim.crypto.groups.group import Scalar
from mpcsim.crypto.rng import Rng
from mpcsim.protocols.engine import RoundOutput, View
from mpcsim.protocols.local_run import InFlight, Schedule
from mpcsim.sim.run.adversary import (
    Adversary,
    Item,
    Tamper,
    Tampered,
    alter_kind,
    pass_unchanged,
    with_round,
)

__all__ = [
    "Adversary",
    "Item",
    "Tamper",
    "Tampered",
    "drawing",
    "favouring",
    "pass_unchanged",
    "alter_kind",
    "with_round",
]


def drawing(first: Scalar) -> Callable[..., RoundOutput]:
    """For ``with_round``: the round's first random scalar is ``first`` (not zero)."""

    def run(
        original: Callable[..., RoundOutput], view: View, keep: object, inbox: object
    ) -> RoundOutput:
        return original(replace(view, rng=_Loaded(view.rng, first)), keep, inbox)

    return run


class _Loaded:
    """A generator whose first bytes make ``Group.random_scalar`` return a given scalar."""

    reproducible = True

    def __init__(self, rng: Rng, first: Scalar) -> None:
        self._rng = rng
        self._first = [(first.n - 1).to_bytes(48, "big")]

    def bytes(self, n: int) -> bytes:
        if self._first:
            assert n == 48, "the round does not begin with a random scalar"
            return self._first.pop()
        return self._rng.bytes(n)


def favouring(party: int) -> Schedule:
    """A schedule in which ``party`` hears everything first and is heard last."""

    def choose(messages: Sequence[InFlight]) -> int:
        def delay(index: int) -> tuple[bool, bool]:
            message = messages[index]
            return message.send.to != party, message.sender == party

        return min(range(len(messages)), key=delay)

    return choose
