"""The table of switches is what there is: in the command, over HTTP, in Python and in the guide."""

import inspect
import json
import re
from pathlib import Path

import click
import pytest

from mpcsim.cli.service import fault_injection
from mpcsim.errors import UsageError
from mpcsim.service.fault_injection import commands
from mpcsim.service.fault_injection.client import Control
from mpcsim.service.fault_injection.controller import FaultController
from node.api import routes
from node.controlled import error_response_for
from tests.helpers.repo import ROOT
from tests.helpers.reviewed import check_answers, check_reviewed


def parsed(name, told):
    return commands.find_command(name).parse_arguments(told)


def options_of(words):
    """Return name and options of a command that ``control`` is given."""
    command = fault_injection.command()
    name, switch, rest = command.resolve_command(click.Context(command), words)
    return name, switch.make_context(name, rest).params


METHODS = {"fail": "fail_next"}
"""Of the client, where the name is another."""
TOLD = {"part": "gateway", "ms": "5", "seconds": "-2.5", "endpoint": "sign", "answer": "504"}
"""For each argument that has to be there."""


def test_the_guide_has_the_table():
    guide = ROOT / "notebooks" / "guides" / "control.md"
    assert commands.markdown_table() in guide.read_text(encoding="utf-8")


def test_every_switch_is_thrown_somewhere_and_has_a_method():
    thrown = {name.removeprefix("do_") for name in vars(FaultController) if name.startswith("do_")}
    assert thrown == {name.replace("-", "_") for name in commands.COMMANDS}
    for name, switch in commands.COMMANDS.items():
        throw = getattr(FaultController, "do_" + name.replace("-", "_"))
        taken = list(inspect.signature(throw).parameters)
        assert taken == ["self", *(each.name for each in switch.arguments)]
        assert hasattr(Control, METHODS.get(name, name.replace("-", "_")))


def test_every_switch_is_a_command():
    for name, switch in commands.COMMANDS.items():
        words = [TOLD[each.name] for each in switch.arguments if not each.optional]
        assert options_of([name, *words])[0] == name


def test_endpoints_are_the_nodes():
    there = {
        (method, route.path): route
        for route in routes.WALLET
        for method in route.methods - {"HEAD"}
    }
    assert {(method, path) for method, path, _ in commands.ENDPOINTS.values()} == there.keys()
    for name, (method, path, answers) in commands.ENDPOINTS.items():
        for answer in answers:
            if answer != "hang":
                # It is an error that the API page has for this endpoint.
                assert error_response_for(name, answer).status in there[method, path].failures


def test_arguments_are_read():
    assert parsed("slow", {"part": "node", "ms": "2.5"}) == {"part": "node", "ms": 2.5}
    assert parsed("expire", {}) == parsed("expire", {"times": None}) == {}
    assert parsed("fail", {"endpoint": "sign", "answer": 504}).keys() == {"endpoint", "answer"}
    fail = {"endpoint": "sign", "answer": 504, "times": 2, "done": True}
    assert parsed("fail", fail) == {**fail, "answer": "504"}


def test_what_makes_no_sense_is_said_as_written_down():
    def said(question):
        name, _, told = question.partition(" ")
        with pytest.raises(UsageError) as refused:
            parsed(name, json.loads(told))
        return refused.value

    check_answers(said, Path(__file__).with_name("nonsense.txt"))
    with pytest.raises(UsageError, match="clock: seconds must be"):
        parsed("clock", {"seconds": 10**400})


def test_arguments_are_as_written_down_and_nothing_beyond_their_bounds_is_taken():
    """What is changed on purpose is entered in the copy."""
    switches = commands.COMMANDS.items()
    every = [(name, each) for name, switch in switches for each in switch.arguments]
    told = [
        f"{name} {each.name}: {each.wanted}{', optional' * each.optional}{', flag' * each.flag}"
        for name, each in every
    ]
    check_reviewed(told, Path(__file__).with_name("arguments.txt"))
    for _, each in every:
        for low, high in re.findall(r"from (\S+) to (\S+)", each.wanted):
            low, high = int(float(low)), int(float(high))
            assert [each.read(low), each.read(str(high))] == [low, high]
            for beyond in (low - 1, high + 1):
                with pytest.raises(ValueError):
                    each.read(beyond)


def test_no_endpoint_answers_what_it_never_does():
    commands.check_answer("generate", "429")
    with pytest.raises(UsageError, match="wallet never answers 429; it can be made to: 401, 500"):
        commands.check_answer("wallet", "429")
