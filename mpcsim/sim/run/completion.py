"""Completion of a run: each party's ending, and the verdict over all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mpcsim.errors import Aborted, UsageError
from mpcsim.ids import PartyId
from mpcsim.protocols.engine import Done, Party
from mpcsim.protocols.local_run import Participant
from mpcsim.sim.traces.records import Ending, Verdict

Validate = Callable[[Mapping[PartyId, Any]], bool]
"""Predicate on the finished parties' results: whether they are correct."""


def inner_party(participant: Participant[Any]) -> Party[Any, Any]:
    """Return the party inside an adversary, or the party itself.

    Raises:
        UsageError: it is neither.
    """
    inner = getattr(participant, "party", participant)
    if not isinstance(inner, Party):
        raise UsageError(f"{participant!r} is neither a party nor wraps one")
    return inner


def conclude_run(
    parties: Mapping[PartyId, tuple[Participant[Any], float | None]],
    now_ms: float,
    validate: Validate,
) -> tuple[Verdict, tuple[Ending, ...], dict[PartyId, Any]]:
    """Return verdict, endings and outcomes of a run that is over, or inspected while it runs.

    Args:
        parties: each party with the time of its end, None if it has not ended.
        now_ms: time when the run was stopped.
    """
    outcomes: dict[PartyId, Any] = {}
    endings = []
    for i, (party, ended_ms) in parties.items():
        state = party.outcome or party.waiting_state()
        outcomes[i] = state
        status = {Done: "done", Aborted: "aborted"}.get(type(state), "waiting")
        at = now_ms if ended_ms is None else ended_ms
        text = "" if status == "done" else str(state or "not started")
        endings.append(Ending(i, status, at, text))
    results = {i: o.result for i, o in outcomes.items() if isinstance(o, Done)}
    if results and not validate(results):
        verdict = Verdict.INVALID
    elif len(results) == len(outcomes):
        verdict = Verdict.VALID
    elif any(isinstance(o, Aborted) for o in outcomes.values()):
        verdict = Verdict.ABORTED
    else:
        verdict = Verdict.STALLED
    return verdict, tuple(endings), outcomes
