"""What is drawn is what the docstrings say, and shrinks to the ordinary case."""

import pytest
from hypothesis import HealthCheck, given

from mpcsim.crypto.bip32 import parse_path, path_text
from mpcsim.errors import UsageError
from mpcsim.protocols.sample_keys import keys
from mpcsim.service.precis import enforce_password
from mpcsim.service.smart_account.operation.operation import UserOperation
from mpcsim.testing import PROFILES, ApiRun, Profile
from mpcsim.testing import strategies as wallets
from mpcsim.testing.machine.api_steps import STEPS
from mpcsim.testing.machine.rules import _is_allowed, child_paths
from mpcsim.testing.profile import Progress
from mpcsim.testing.runs.scenarios import shares_problem
from tests.helpers.tiers import examples

few = examples(15, suppress_health_check=list(HealthCheck))


@few
@given(wallets.paths(), child_paths(3))
def test_paths(path, text):
    assert parse_path(path_text(path)) == path
    assert len(parse_path(text)) <= 3


def test_key_shares_are_made_once_and_loaded_anew():
    first, second = keys("ed25519")[1], keys("ed25519")[1]
    assert first.to_bytes() == second.to_bytes()
    assert first.guard is not second.guard
    assert shares_problem({1: first, 2: first}) is not None


@few
@given(wallets.user_operations(), wallets.user_operations(signed=False))
def test_user_operations_are_read_by_the_smart_account_flow(signed, unsigned):
    assert len(signed.pop("signature")) == 132
    for fields in (signed, unsigned):
        read = UserOperation.from_request(fields, signed=False)
        assert UserOperation.from_request(read.to_request(signed=False), signed=False) == read


@few
@given(wallets.api_call_sequences(), wallets.api_messages("ed25519"), wallets.passwords())
def test_calls_are_steps_that_can_be_written_down(calls, message, password):
    for call in calls:
        assert call.method in STEPS
        assert call.code("api", ApiRun).startswith(f"api.{call.method}(")
    assert len(bytes.fromhex(message)) >= 1
    assert 1 <= len(enforce_password(password)) <= 256
    assert not _is_allowed("\0")


# ---------------------------------------------------------------------- the rest of the kit


def test_profiles_and_budgets():
    quick = PROFILES["quick"]
    assert list(quick.rounds()) == [quick.examples]
    assert quick.with_budget(7).examples == 7
    timed = quick.with_budget(seconds=10.0)
    clock = iter([0.0, 1.0, 9.0, 11.0])
    assert len(list(timed.rounds(lambda: next(clock)))) == 2
    hurried = iter([0.0, 11.0, 12.0])
    assert len(list(timed.rounds(lambda: next(hurried)))) == 1
    assert timed.with_budget(3).seconds is None
    for bad in ({"examples": 0}, {"steps": 0}, {"seconds": 0.0}):
        with pytest.raises(UsageError):
            Profile(**{"name": "bad", "examples": 1, "steps": 1, **bad})


def test_progress_is_counted_and_shown_on_a_terminal(tmp_path):
    progress = Progress("runs")
    progress.step(1500, 2)
    assert str(progress) == "runs: 1, calls: 1,500, races: 2"
    with (tmp_path / "terminal").open("w") as stream:
        progress = Progress("runs", 1, stream)
        progress.step()
        progress.close()
    assert "runs: 100%" in (tmp_path / "terminal").read_text()
