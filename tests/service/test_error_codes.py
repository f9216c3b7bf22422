"""Codes of errors: the list that others rely on, and what stands for an unknown one."""

import inspect
from types import ModuleType

import pytest

import node.errors
from mpcsim.errors import UsageError
from mpcsim.ids import OPERATOR
from mpcsim.service import errors
from mpcsim.service.error_codes import (
    Code,
    code_of_framework_status,
    code_of_status,
    header_schemas,
    markdown_table,
    parse_code,
)
from mpcsim.service.smart_account import errors as smart_account
from tests.helpers.repo import ROOT

NONE = inspect.Parameter.empty
REVIEWED = ROOT / "tests/service/errors.txt"


@pytest.mark.parametrize("of", ["node", "gateway"])
def test_the_table_has_all_that_an_interface_answers(of):
    head, rule, *lines = markdown_table(of).splitlines()
    assert head.count("|") == rule.count("|") == 5
    said = [line.split("|")[1].strip(" `") for line in lines]
    assert said == header_schemas(of)["X-Error-Code"]["schema"]["enum"]
    assert {"busy", "internal", "suspended"} < set(said)
    assert ("in-force" in said, "reverted" in said) == ((of == "gateway"),) * 2
    assert all(len(line.split("|")[3]) > 10 for line in lines)


def test_whoever_may_retry_is_told_when():
    for code in Code:
        assert ("`Retry-After`" in code.retry) == (code.wait_s is not None), code
        assert code.headers().get("Retry-After") == (code.wait_s and str(code.wait_s))
        assert code.headers(7) == {"X-Error-Code": code.value, "Retry-After": "7"}


def test_by_the_status():
    assert code_of_status(404) is Code.NOT_FOUND
    assert code_of_framework_status(404) is Code.UNSUPPORTED
    for status in (405, 413, 414, 415, 431, 501, 505):
        assert code_of_status(status) is code_of_framework_status(status) is Code.UNSUPPORTED
    assert code_of_status(418) is Code.BAD_REQUEST
    assert code_of_status(302) is code_of_status(507) is Code.INTERNAL


@pytest.mark.parametrize("text", [None, 7, "", "BUSY", "later", ["busy"], {}])
def test_an_unknown_code_is_that_of_the_status(text):
    assert parse_code(text, 503) is Code.UPSTREAM_DOWN
    assert parse_code("busy", 503) is Code.BUSY


LATE = errors.node_timed_out(OPERATOR)
DRAWN = {
    "PartyId": OPERATOR, "str": "why", "int": 7, "Mapping[str, object]": {"code": 757},
    "UsageError": UsageError("why"), "Refused": errors.no_such_key(), "NodeFailed": LATE,
    "LinkFailed": LATE, "ApiError": node.errors.UpstreamTimeout(),
}  # fmt: skip
"""An argument of each type."""


def answers(module: ModuleType):
    """What each error of a module is answered with: its status, and the headers for programs."""
    for name, make in vars(module).items():
        if not callable(make) or make.__module__ != module.__name__ or name.startswith("_"):
            continue
        entry = make.__init__ if isinstance(make, type) else make
        given = inspect.signature(entry).parameters.values()
        needed = {each.name: DRAWN.get(each.annotation) for each in given if each.default is NONE}
        error = make(**{name: value for name, value in needed.items() if value})
        if hasattr(error, "status") and "status" not in needed:
            code = getattr(error, "error_code", None)
            headers = error.headers if code is None else code.headers
            said = headers() if callable(headers) else headers
            text = " ".join(f"{header}={value}" for header, value in sorted(said.items()))
            yield f"{module.__name__}.{name}: {error.status} {text}"


def test_every_error_is_answered_as_it_was_reviewed():
    """Whoever changes a status, a code or an advice changes the reviewed list with it. Somebody's
    program knows these codes: there may be more one day, and none goes."""
    found = sorted(code.value for code in Code)
    found += [line for each in (errors, smart_account, node.errors) for line in answers(each)]
    assert found == REVIEWED.read_text(encoding="utf-8").splitlines()
