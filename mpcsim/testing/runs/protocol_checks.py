"""Invariants of every run of a protocol, whatever the network and the cheaters do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from mpcsim.errors import Aborted
from mpcsim.protocols.engine import Done, Waiting
from mpcsim.testing.invariants import invariant

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
