"""Settings come from the environment, with defaults, and a bad one is named."""

import re
from pathlib import Path

import pytest

from mpcsim.ids import INSTITUTION, OPERATOR
from mpcsim.service.process.http_limits import ConnectionLimits
from mpcsim.service.process.settings import _declared_settings
from node.process.settings import Settings, SettingsError
from tests.helpers.reviewed import check_answers


def test_what_is_written_otherwise_than_it_is_kept():
    keys = f"operator={64 * '1'},institution={64 * 'a'}"
    address = " https://gateway.example:444/base/ "
    given = {"WAAS_API_URL": address, "LOG_LEVEL": "debug", "LOG_FORMAT": "Json"}
    assert Settings.from_environment(given | {"MPC_NODE_KEYS": keys, "UNRELATED": "x"}) == Settings(
        waas_api_url="https://gateway.example:444/base",
        log_level="DEBUG",
        log_format="json",
        mpc_node_keys={OPERATOR: b"\x11" * 32, INSTITUTION: b"\xaa" * 32},
    )


def test_metrics_are_of_one_process():
    assert Settings.from_environment({"METRICS_PORT": "9100"}).metrics_port == 9100
    with pytest.raises(SettingsError, match=r"^METRICS_PORT needs WORKERS=1: "):
        Settings.from_environment({"METRICS_PORT": "9100", "WORKERS": "2"})


def test_empty_is_unset():
    names = ("APP_PORT", "WAAS_API_URL", "WORKERS", "LOG_LEVEL", "APP_HOST", "GATEWAY_TIMEOUT_S")
    assert Settings.from_environment(dict.fromkeys(names, "")) == Settings()


def test_impossible_values_are_refused_as_written_down():
    def said(question):
        name, _, value = question.partition("=")
        with pytest.raises(SettingsError) as refused:
            Settings.from_environment({name: value})
        return refused.value

    check_answers(said, Path(__file__).with_name("impossible_settings.txt"))


def test_the_variables_are_as_written_down():
    """What is changed on purpose is entered in the copy."""
    copy = Path(__file__).with_name("settings.txt")
    assert f"{Settings.variables()}\n" == copy.read_text("utf-8")


VARIABLES = {
    about.variable: (default, about.kind.wanted)
    for cls in (Settings, ConnectionLimits)
    for _, default, about in _declared_settings(cls)
}


@pytest.mark.parametrize("name", VARIABLES)
def test_what_the_help_says_of_a_variable_can_be_fed_back(name):
    """Its default, both ends of a range, and nothing beyond them; every choice of a list."""
    default, wanted = VARIABLES[name]
    if default is not None:
        text = ("off", "on")[default] if isinstance(default, bool) else str(default)
        assert Settings.from_environment({name: text}) == Settings()
    choices = " or " in wanted or wanted.startswith("one of ")
    taken = re.split(", | or ", wanted.removeprefix("one of ")) if choices else []
    refused = []
    if numbers := re.search(r"(\d+) to (\d+)|above (\d+), up to (\d+)", wanted):
        low, high, above, most = numbers.groups()
        taken = [low, high] if low else [most]
        refused = [int(low) - 1, int(high) + 1] if low else [above, f"{most}.001"]
    for value in taken:
        Settings.from_environment({name: value})
    for value in refused:
        with pytest.raises(SettingsError, match=f"^{name} must be "):
            Settings.from_environment({name: str(value)})
    assert taken or name in ("WAAS_API_URL", "APP_HOST", "BUILD_TYPE", "MPC_NODE_KEYS")
