"""Invariants as somebody else would write them; none of them holds for ever."""

from mpcsim.protocols.engine import Done
from mpcsim.testing import Answer, ApiRun, invariant
from mpcsim.testing.protocols import ProtocolRun


@invariant
def no_share_signs_twice(api: ApiRun) -> str | None:
    """No share signs twice."""
    used = set()
    for request, answer in api.exchanged:
        if request.path == "/v3/wallet/sign" and answer.status == 200:
            if request.body["key_id"] in used:
                return "signed once more"
            used.add(request.body["key_id"])
    return None


@invariant
def nobody_reads_errors(answer: Answer) -> str | None:
    return f"answered {answer}" if answer.document["error"] else None


@invariant
def upside_down(subject: object) -> str | None:
    """Says whether it is right."""
    return bool(subject)  # type: ignore[return-value]


@invariant
def all_or_none(run: ProtocolRun) -> str | None:
    """Either every honest party has its result, or none has."""
    finished = {i for i, outcome in run.outcomes.items() if isinstance(outcome, Done)}
    late = run.outcomes.keys() - finished
    return f"party {min(late)} has no result" if finished and late else None
