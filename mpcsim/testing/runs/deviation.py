"""Deviations of a party as data: one field of one message, two copies, or one of your own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from mpcsim.crypto.encoding import Message, WireContext
from mpcsim.crypto.rng import SeededRng
from mpcsim.errors import UsageError, unknown, with_article
from mpcsim.protocols.engine import Output, Party, Send
from mpcsim.protocols.engine.envelope import AbortNotice
from mpcsim.protocols.local_run import Participant, run
from mpcsim.sim.run.adversary import Adversary, Tampered, WrappedParty
from mpcsim.testing.runs.fields import alterations, malformations
from mpcsim.testing.runs.scenarios import ProtocolScenario

WITHHELD: Final = "withheld"
TWICE: Final = "twice"
WHOLE: Final = (WITHHELD, TWICE)
"""Changes of whole messages."""


class AbstractDeviation(ABC):
    """Deviation of one party as data, for ``deviation=`` of a run: the base class for your own.

    A frozen dataclass is right for it: the snippet of a failure shows its repr::

        @dataclass(frozen=True)
        class Mute(AbstractDeviation):
            "A party that says nothing at all."
            party: int
            silences = True

            def adversary(self, party, on_deviation):
                def drop(kind, to, message):
                    on_deviation(f"party {self.party} kept its {kind} from party {to}")

                return Adversary(party, drop)
    """

    party: int
    """Party that deviates."""
    silences: bool = False
    """Whether others may wait for ever because of it."""

    @abstractmethod
    def adversary(
        self, party: Party[Any, Any], on_deviation: Callable[[str], None]
    ) -> Participant[Any]:
        """Return the party that deviates, made of an honest one that has not started.

        Args:
            on_deviation: called with each deviation, in a sentence. A run in which it never is
                reports that it has tested nothing.
        """

    def check_names(self, scenario: ProtocolScenario) -> None:
        """Check that it names only what a scenario has; here: the party.

        Raises:
            UsageError: it does not: a test with it would test nothing.
        """
        if self.party not in scenario.members:
            raise UsageError(f"deviation: party {self.party} takes no part in this session")


@dataclass(frozen=True)
class Deviation(AbstractDeviation):
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
                    f"party {self.party} sent party {to} {with_article(kind)} with "
                    f"{self.change.lstrip('.')}"
                )
            return message if spoilt is None else spoilt

        return Adversary(party, tamper)

    def check_names(self, scenario: ProtocolScenario) -> None:
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
    def silences(self) -> bool:  # type: ignore[override]
        return self.change == WITHHELD


@dataclass(frozen=True)
class TwoFaced(AbstractDeviation):
    """Two honest copies of one party, with other coins each, of which some hear one and the rest
    the other.

    Each copy is consistent with itself, so that only those who compare what they have heard notice:
    an echo, a digest of the transcript, a confirmation.
    """

    party: int
    first: frozenset[int]
    """Parties that hear the first copy."""
    silences = True
    """A copy may give up, and says so to nobody."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", frozenset(self.first))

    def adversary(
        self, party: Party[Any, Any], on_deviation: Callable[[str], None]
    ) -> Participant[Any]:
        """Return both copies as one participant."""
        return _TwoCopies(self, party, on_deviation)

    def check_names(self, scenario: ProtocolScenario) -> None:
        """Check that both copies are heard.

        Raises:
            UsageError: the parties that hear a copy are none, or none of the scenario's others.
        """
        super().check_names(scenario)
        others = frozenset(scenario.members) - {self.party}
        if not self.first or not self.first < others:
            heard, all_ = sorted(self.first), sorted(others)
            raise UsageError(f"deviation: one copy is heard by {heard}: some of {all_}, not all")


class _TwoCopies(WrappedParty):
    """Participant that passes on some messages of one copy of a party, and the rest of another."""

    def __init__(
        self, which: TwoFaced, party: Party[Any, Any], on_deviation: Callable[[str], None]
    ) -> None:
        self.party = party
        """First copy."""
        rng = SeededRng(f"second copy of party {party.me} in session {party.session_id.hex()}")
        # A copy of the set-up: what a session uses up, each copy uses up for itself.
        self._second: Party[Any, Any] = Party(
            party.definition, deepcopy(party.setup), party.me, session_id=party.session_id, rng=rng
        )
        self._which = which
        self._on_deviation: Callable[[str], None] | None = on_deviation

    def start(self) -> list[Output[Any]]:
        """Start both copies."""
        return self._filter(self.party.start(), self._second.start())

    def receive(self, sender: int, data: bytes) -> list[Output[Any]]:
        """Pass a message to both copies."""
        return self._filter(self.party.receive(sender, data), self._second.receive(sender, data))

    def replace_party(
        self, party: Party[Any, Any], outputs: list[Output[Any]]
    ) -> list[Output[Any]]:
        """Replace the first copy by one resumed after a crash."""
        self.party = party
        return self._filter(outputs, [])

    def _filter(self, one: list[Output[Any]], other: list[Output[Any]]) -> list[Output[Any]]:
        """Return the messages that are heard; notices of an abort would show what it is."""
        first = self._which.first
        heard: list[Output[Any]] = [
            output
            for outputs, is_first in ((one, True), (other, False))
            for output in outputs
            if isinstance(output, Send)
            and output.kind != AbortNotice.__name__
            and (output.to in first) is is_first
        ]
        if other and heard and self._on_deviation:
            to = ", ".join(map(str, sorted(first)))
            self._on_deviation(
                f"party {self.me} was two honest copies with other coins: party {to} heard one, "
                "the rest the other"
            )
            self._on_deviation = None
        return heard


def changes(scenario: ProtocolScenario, party: int) -> Mapping[str, tuple[str, ...]]:
    """Return all changes to each kind of message that a party sends."""
    if party not in scenario.members:
        raise UsageError(f"deviation: party {party} takes no part in this session")
    return _changes(scenario, party)


@cache
def _changes(scenario: ProtocolScenario, party: int) -> Mapping[str, tuple[str, ...]]:
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
