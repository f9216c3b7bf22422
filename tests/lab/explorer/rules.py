"""What holds of every view of a run."""

import json

import pytest

from mpcsim.lab.explorer.model.model import as_json
from mpcsim.lab.explorer.model.views import View


def check_sound(made: View) -> None:
    """Steps, messages and endings fit together, and all of it goes into JSON."""
    json.loads(json.dumps(as_json(made), allow_nan=False))
    assert [m.number for m in made.messages] == list(range(len(made.messages)))
    # Every message that a party sent leaves in one step; every one that arrives has a step.
    sent = [n for step in made.steps for n in step.sent]
    assert len(sent) == len(set(sent))
    assert {m.number for m in made.messages if m.fate != "duplicate"} == set(sent)
    for at, step in enumerate(made.steps):
        assert all(made.messages[n].sender == step.party for n in step.sent)
        if step.message is not None:
            arriving = made.messages[step.message]
            assert arriving.receiver == step.party
            assert step.at_ms == arriving.received_ms
            assert arriving.fate == "duplicate" or any(
                step.message in before.sent for before in made.steps[:at]
            )
        assert step.until_ms >= step.at_ms
    for party in made.parties:
        own = [s for s in made.steps if s.party == party.id]
        assert own[0].message is None
        rounds = [r.number for s in own for r in s.rounds]
        assert rounds == sorted(rounds)
        endings = [s.ended for s in own if s.ended]
        assert endings == ([party.status] if party.status != "waiting" else [])
    starts = [s.at_ms for s in made.steps]
    assert starts[len(made.parties) :] == sorted(starts[len(made.parties) :])
    if made.critical:
        assert made.critical[-1].end_ms == pytest.approx(made.finished_ms)
