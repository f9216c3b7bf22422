"""Invariants of every run of a protocol, whatever the network and the cheaters do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from mpcsim.errors import Aborted, Reason
from mpcsim.protocols.engine import Done, Party, Waiting
from mpcsim.testing.invariants import invariant
from mpcsim.testing.runs.secrets import shown_secret

Outcomes = Mapping[int, Done[Any] | Aborted | Waiting]


@invariant
def no_exception(party: int | None, error: Exception | None) -> str | None:
    """No party raises, whatever it receives: runs end in outcomes."""
    who = "a party" if party is None else f"party {party}"
    return None if error is None else f"{who} raised {type(error).__name__}: {error}"


@invariant
def agreement(outcomes: Outcomes, problem: Callable[[Mapping[int, Any]], str | None]) -> str | None:
    """All honest parties that finish have the same result, and it is right."""
    results = {i: o.result for i, o in outcomes.items() if isinstance(o, Done)}
    try:
        return problem(results)
    except Exception as error:
        return f"a result is none of this protocol ({type(error).__name__}: {error})"


@invariant
def blame_is_right(outcomes: Outcomes, cheaters: Collection[int]) -> str | None:
    """No honest party is blamed, and no party aborts where all are honest."""
    for i, outcome in outcomes.items():
        if not isinstance(outcome, Aborted):
            continue
        if innocent := outcome.culprits - set(cheaters):
            return f"party {i} blamed party {min(innocent)}, who is innocent: {outcome}"
        if i in outcome.suspects:
            return f"party {i} suspects itself: {outcome}"
        if outcome.suspects and not outcome.suspects & set(cheaters):
            return f"party {i} suspects none but innocents: {outcome}"
        if not cheaters:
            return f"party {i} aborted, and nobody had cheated: {outcome}"
    return None


LONGEST_SHOWN: Final = 200
"""Length up to which an outcome is shown in a report."""
NAMES_NOBODY: Final = (
    Reason.PEER_ABORTED,
    Reason.SESSION_MISMATCH,
    Reason.CONFLICTING_MESSAGE,
    Reason.ECHO_MISMATCH,
)
"""Reasons that name nobody in any protocol: a peer reports it; the parties were to do something
else; a peer may have lost its state; one says that another told it otherwise."""


@invariant
def somebody_is_named(
    outcomes: Outcomes, cheaters: Collection[int], unnamed: Mapping[str, str]
) -> str | None:
    """Whoever aborts because a party deviates names it, as culprit or only suspect, or says by
    the reason that it cannot tell."""
    for i, outcome in outcomes.items():
        if not isinstance(outcome, Aborted) or not cheaters or outcome.reason in NAMES_NOBODY:
            continue
        named = outcome.culprits or (outcome.suspects if len(outcome.suspects) == 1 else set())
        if not named & set(cheaters) and outcome.reason.name not in unnamed:
            return (
                f"party {i} does not name party {min(cheaters)}, and {outcome.reason.name} is not "
                f"among what the scenario has as unnamed: {outcome}"
            )
    return None


@invariant
def no_secrets_in_outcomes(
    outcomes: Outcomes,
    parties: Mapping[int, Party[Any, Any]],
    kept: Mapping[int, Iterable[Any]] = MappingProxyType({}),
) -> str | None:
    """No outcome shows what a party keeps to itself: not in an abort's detail, not in the repr of a
    result.

    Args:
        parties: all that took part, those that deviated included.
        kept: what parties kept after earlier rounds.
    """
    for i, outcome in outcomes.items():
        for text in (str(outcome), repr(outcome)):
            if secret := shown_secret(text, i, parties, kept):
                shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
                return f"party {i} shows {secret} in its outcome: {shown}"
    return None


@invariant
def no_hang(outcomes: Outcomes, cheaters: Collection[int], silence: bool) -> str | None:
    """Every honest party comes to an end, unless messages it waits for never reached it."""
    if silence:
        return None
    gone = {i for i, outcome in outcomes.items() if isinstance(outcome, Aborted)}
    for i, outcome in outcomes.items():
        if not isinstance(outcome, Waiting):
            continue
        # Prepared parties may not end because a peer reports that it gave up; they note it.
        noted = bool(outcome.gave_up) and outcome.parties <= gone | set(cheaters)
        if not noted:
            return f"party {i} waits for ever: {outcome}"
    return None
