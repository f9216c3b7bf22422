"""What the plugin's options are, and what it says when they say too little."""

import argparse
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mpcsim.errors import UsageError
from mpcsim.service.error_codes import HEADER, Code
from mpcsim.testing import plugin
from mpcsim.testing.backend.service import Answer
from mpcsim.testing.profile import PROFILES
from tests.helpers.reviewed import check_reviewed


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="pytest", add_help=False)

    def group(*text: str) -> Any:
        return SimpleNamespace(addoption=made.add_argument_group(*text).add_argument)

    plugin.pytest_addoption(SimpleNamespace(getgroup=group))  # type: ignore[arg-type]
    return made


def test_the_options_are_as_written_down(
    parser: argparse.ArgumentParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    check_reviewed(parser.format_help(), Path(__file__).with_name("options.txt"))
    given = ["--wallet-examples=3", "--wallet-seconds=2.5", "--wallet-seed=4"]
    config = parser.parse_args(given)
    assert (config.wallet_examples, config.wallet_seconds, config.wallet_seed) == (3, 2.5, 4)


def options(**given: Any) -> Any:
    """The configuration of a pytest that was called with these."""
    return SimpleNamespace(
        getoption=lambda name: given.get(name.removeprefix("--wallet-")), stash={}
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "--wallet-target needs tokens"),
        ({"gateway": "http://127.0.0.1:1"}, "--wallet-target needs tokens"),
        ({"tokens": "theirs:token"}, "--wallet-tokens theirs:token: No module named 'theirs'"),
        ({"tokens": "json:nothing"}, "has no attribute 'nothing'"),
        ({"tokens": ":token"}, "--wallet-tokens :token: Empty module name"),
    ],
)
def test_options_that_say_too_little(
    given: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WAAS_API_KEY", raising=False)
    with pytest.raises(pytest.UsageError, match=message):
        plugin.tokens_of(options(**given))


def test_tokens_and_budget_are_those_of_the_options() -> None:
    assert plugin.tokens_of(options(tokens="json:dumps"))("alice") == '"alice"'
    found = plugin.profile_of(options(profile="soak", examples=7))
    assert found == PROFILES["soak"].with_budget(7, None)
    with pytest.raises(pytest.UsageError, match="profile soak: examples and steps"):
        plugin.profile_of(options(profile="soak", examples=0))


def no_token(user: str) -> str:
    raise UsageError("the gateway refuses")


NO_SETTING = {HEADER.lower(): Code.NOT_CONFIGURED.value}


@pytest.mark.parametrize(
    ("token", "answer", "why"),
    [
        (no_token, None, "the gateway refuses"),
        (str, Answer(0, "refused", {}), "the service does not answer: refused"),
        (
            str,
            Answer(503, '{"error": "no KEY"}', NO_SETTING),
            "the service lacks a setting: no KEY",
        ),
        (str, Answer(401, "", {}), None),
    ],
)
def test_the_first_call_shows_whether_the_service_is_set_up(
    token: Callable[[str], str], answer: Any, why: str | None
) -> None:
    asked: list[Any] = []

    def ask(requests: list[Any]) -> list[Any]:
        asked.extend(requests)
        return [answer]

    config, target = options(), SimpleNamespace(token=token, ask=ask)
    if why is None:
        plugin.check_is_set_up(target, config)  # type: ignore[arg-type]
        assert [(each.path, each.token) for each in asked] == [("/v3/wallet/user", "probe")]
    else:
        with pytest.raises(pytest.exit.Exception, match=why) as ended:
            plugin.check_is_set_up(target, config)  # type: ignore[arg-type]
        assert ended.value.returncode == pytest.ExitCode.USAGE_ERROR
    plugin.check_is_set_up(target, config)  # type: ignore[arg-type]
    assert len(asked) <= 1
