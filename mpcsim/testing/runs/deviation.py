"""Deviation of a party as data: party, message, field, receiver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from mpcsim.crypto.encoding import Message, WireContext
from mpcsim.errors import UsageError, unknown
from mpcsim.protocols.engine import Party
from mpcsim.protocols.local_run import run
from mpcsim.sim.run.adversary import Adversary, Tampered
from mpcsim.testing.runs.fields import alterations, malformations
from mpcsim.testing.runs.scenarios import Scenario

WITHHELD: Final = "withheld"
TWICE: Final = "twice"
WHOLE: Final = (WITHHELD, TWICE)
"""Changes of whole messages."""


@dataclass(frozen=True)
class Deviation:
    """Deviation of one party in one kind of message; otherwise the party is honest."""

    party: int
    kind: str
    """Name of the message, e.g. ``Commit``."""
    change: str
    """``withheld``, ``twice``, or one of ``changes``, e.g. ``.nonce all 0``."""
    to: int | None = None
    """Receiver to deviate toward; None: all."""

    def adversary(self, party: Party[Any, Any], on_deviation: Callable[[str], None]) -> Adversary:
        """Return the party that deviates, made of an honest one that has not started.

        Args:
            on_deviation: called with each deviation, in a sentence.
        """

        def tamper(kind: str, to: int, message: Message) -> Tampered:
            if kind != self.kind or self.to not in (None, to):
                return message
            if self.change == WITHHELD:
                on_deviation(f"party {self.party} withheld its {kind} from party {to}")
                return None
            if self.change == TWICE:
                on_deviation(f"party {self.party} sent its {kind} to party {to} twice")
                return [message, message]
            spoilt = _changed(message, party.wire, self.change)
            if spoilt is not None:
                on_deviation(
                    f"party {self.party} sent party {to} a {kind} with {self.change.lstrip('.')}"
                )
            return message if spoilt is None else spoilt

        return Adversary(party, tamper)

    def check_names(self, scenario: Scenario) -> None:
        """Check that it names a party, a message, a change and a receiver of a scenario.

        Raises:
            UsageError: it does not: a test with it would test nothing.
        """
        possible = changes(scenario, self.party)
        if self.kind not in possible:
            raise UsageError(f"deviation: {unknown('message', self.kind, possible)}")
        if self.change not in possible[self.kind]:
            raise UsageError(f"deviation: {unknown('change', self.change, possible[self.kind])}")
        if self.to is not None and (self.to not in scenario.members or self.to == self.party):
            raise UsageError(f"deviation: party {self.party} sends nothing to party {self.to}")

    @property
    def silences(self) -> bool:
        """Whether others may wait for ever because of it."""
        return self.change == WITHHELD


def changes(scenario: Scenario, party: int) -> Mapping[str, tuple[str, ...]]:
    """Return all changes to each kind of message that a party sends."""
    if party not in scenario.members:
        raise UsageError(f"deviation: party {party} takes no part in this session")
    return _changes(scenario, party)


@cache
def _changes(scenario: Scenario, party: int) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    parties = {i: scenario.party(i) for i in scenario.members}
    wire = parties[party].wire

    def note(kind: str, to: int, message: Message) -> Message:
        if kind not in found:
            altered = [change.name for change in alterations(message, wire)]
            malformed = [change.name for change in malformations(message, wire)]
            found[kind] = (*WHOLE, *altered, *malformed)
        return message

    run(Adversary(p, note) if i == party else p for i, p in parties.items())
    return found


def _changed(message: Message, wire: WireContext, name: str) -> Message | bytes | None:
    """Return the message with one change; None if it does not apply."""
    for alteration in alterations(message, wire):
        if alteration.name == name:
            return alteration.apply(message)
    for malformation in malformations(message, wire):
        if malformation.name == name:
            return malformation.apply(message)
    return None
