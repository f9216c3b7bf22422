"""What a service does otherwise on purpose is waived by name, with a reason, and is reported."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from mpcsim.errors import UsageError
from mpcsim.testing import ApiRun, check_wallet_service, plugin
from mpcsim.testing.backend import known_deviations
from mpcsim.testing.backend import service_checks as checks
from mpcsim.testing.machine.api_steps.base import step
from tests.helpers.processes import pytest_with_the_kit
from tests.helpers.reviewed import check_calls
from tests.testing import faulty
from tests.testing.own_node import OwnNode

OURS = "as ours does"


def test_a_step_that_is_waived_is_not_taken() -> None:
    with OwnNode(faulty.PlainHealth) as target:
        with pytest.raises(checks.body_is_as_specified.Broken):
            ApiRun(target).health()
        api = ApiRun(target, known_deviations={"health": OURS})
        api.health()
        assert api.sequence.steps == []
        assert api.calls == 0
        assert api.known_deviations.use_counts["health"] == 1


@pytest.mark.parametrize("name", ["body_is_as_specified", "health/body_is_as_specified"])
def test_an_invariant_that_is_waived_may_be_broken(name: str) -> None:
    with OwnNode(faulty.PlainHealth) as target:
        api = ApiRun(target, known_deviations={name: OURS})
        api.health()
        assert api.calls == 1
        assert api.known_deviations.use_counts[name] == 1


def test_it_is_waived_where_it_says_and_nowhere_else() -> None:
    reasons = {"error_is_as_specified": OURS, "sign_nonsense/answer_is_as_specified": OURS}
    with OwnNode(faulty.ErrorsOfTheFramework) as target:
        api = ApiRun(target, known_deviations=reasons)
        api.generate("alice", "ed25519")
        api.sign_nonsense("alice", "ed25519", "no message")
        with pytest.raises(checks.answer_is_as_specified.Broken) as caught:
            api.sign_with_damage("alice", "ed25519", "share", "middle")
        assert f"api = ApiRun(target, known_deviations={reasons})" in str(caught.value)
        # Outside of a step nothing is waived.
        with pytest.raises(checks.error_is_as_specified.Broken):
            checks.error_is_as_specified(api.exchanged[-1][1])


def test_an_exception_with_nothing_waived_is_no_waiver() -> None:
    class Broken(OwnNode):
        def ask(self, requests):  # type: ignore[no-untyped-def]
            raise KeyError("of the target's own")

    with Broken() as target, pytest.raises(KeyError):
        ApiRun(target, known_deviations={"body_is_as_specified": OURS}).health()


class Tripping(ApiRun):
    """Whose health lacks what the step needs, once the answer is waived."""

    @step
    def health(self) -> None:
        checks.body_is_as_specified("wrong")
        raise self.error  # type: ignore[attr-defined]


def test_what_a_waived_answer_makes_a_step_trip_over() -> None:
    api = Tripping(SimpleNamespace(), known_deviations={"body_is_as_specified": OURS})
    for kind in (AttributeError, KeyError, TypeError, ValueError):
        api.error = kind()
        api.health()
    api.error = RuntimeError()
    with pytest.raises(RuntimeError):
        api.health()


def test_how_often_each_was_needed() -> None:
    reasons = {"health": "a", "keys": "b", "sign": "c"}
    assert known_deviations.report_lines(reasons, {"health": 1, "keys": 1200}) == [
        "waived: health, needed once: a",
        "waived: keys, needed 1,200 times: b",
        "waived: sign, not needed: c",
    ]


def test_a_waiver_of_nothing_is_an_error() -> None:
    def waive(reasons: dict[str, str]) -> None:
        with pytest.raises(UsageError) as refused:
            ApiRun(object(), known_deviations=reasons)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=f"^{re.escape(str(refused.value))}$"):
            check_wallet_service(object(), known_deviations=reasons)  # type: ignore[arg-type]
        raise UsageError(str(refused.value).partition(" (known: ")[0])

    check_calls(Path(__file__).with_name("wrong_waivers.txt"), waive=waive)


# ---------------------------------------------------------------------- with the plugin

TESTS = """
import pytest
from mpcsim.testing.suite import *
from tests.testing.own_node import OwnNode
from tests.testing.faulty import PlainHealth


@pytest.fixture
def wallet_target():
    with OwnNode(PlainHealth) as target:
        yield target
"""


@pytest.mark.soak
def test_waivers_are_reported(tmp_path: Path) -> None:
    (tmp_path / "waivers.toml").write_text('health = "ours is for people"\nkeys = "later"\n')
    (tmp_path / "test_ours.py").write_text(TESTS)
    chosen = ("-k", "health or ed25519 or registered")
    done = pytest_with_the_kit(tmp_path, *chosen, "--wallet-waivers=waivers.toml", "-n1")
    assert "3 passed" in done.stdout, done.stdout + done.stderr
    said = done.stdout.partition(" wallet service =")[2].splitlines()
    assert "waived: health, needed once: ours is for people" in said
    assert "waived: keys, needed 2 times: later" in said


@pytest.mark.parametrize(
    ("text", "message"),
    [('helth = "x"', "did you mean health"), ("health = ", "is not TOML"), (None, "No such file")],
)
def test_a_file_of_waivers_that_is_none(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "w.toml"
    if text is not None:
        path.write_text(text)
    config = SimpleNamespace(getoption=lambda name: str(path))
    with pytest.raises(pytest.UsageError, match=message) as refused:
        plugin.known_deviations_of(config)  # type: ignore[arg-type]
    assert str(refused.value).startswith(f"--wallet-waivers {path}: ")
