"""Report of a broken invariant in pytest: its steps, and nothing of the kit that found it.

Tracebacks through the kit say nothing that the steps do not, and the arguments in them are
requests and answers with shares and tokens. ``--full-trace`` shows everything all the same.
"""

from __future__ import annotations

import re
import shlex
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from _pytest._code.code import (
    ReprEntryNative,
    ReprExceptionInfo,
    ReprFileLocation,
    ReprTraceback,
)

from mpcsim.testing.api_sequence import BrokenInvariant, Failure
from mpcsim.testing.backend.target import without_credentials

KIT: Final = Path(__file__).parent
CAPTURED_LINES: Final = 40
"""Limit of captured output that is shown; services log a line or more a request."""
REPLACED: Final = ("-k", "--wallet-examples", "--wallet-seconds", "--wallet-seed")
_SELECTS: Final = re.compile(r"[\w:+.\[\]\\/-]+")
"""Text that pytest's -k takes for one word."""


def replace_traceback(
    item: pytest.Item, report: pytest.TestReport, broken: BrokenInvariant
) -> None:
    """Replace the traceback in a report by the failure's steps, if it has any."""
    failure = broken.failure
    if failure is None:
        return
    path, line = _place(item, broken)
    lines = [str(broken), ""]
    if broken.__cause__ is not None:
        # An exception from the code under test: its traceback matters.
        raised = "".join(traceback.format_exception(broken.__cause__))
        lines += ["Raised by:", "", failure.masked(raised)]
    lines += _captured(report, failure)
    lines.append(f"{path}:{line}: {type(broken).__name__}\n")
    # Made of pytest's own parts, for only those get through from the workers of pytest-xdist.
    text = ReprTraceback([ReprEntryNative(["\n".join(lines)])], None, "native")
    report.longrepr = ReprExceptionInfo(
        reprtraceback=text, reprcrash=ReprFileLocation(path, line, failure.headline)
    )


def _place(item: pytest.Item, broken: BrokenInvariant) -> tuple[str, int]:
    """Return file and line of the last test code on the way to the failure."""
    path, line = item.path, (item.reportinfo()[1] or 0) + 1
    root = item.config.rootpath
    for frame, at in traceback.walk_tb(broken.__traceback__):
        file = Path(frame.f_code.co_filename)
        ours = root in file.parents and "site-packages" not in file.parts
        if file == item.path or (ours and KIT not in file.parents):
            path, line = file, at
    for start in (root, KIT.parents[1]):  # the kit's own suite may be run from anywhere
        if start in path.parents:
            return str(path.relative_to(start)), line
    return str(path), line


def _captured(report: pytest.TestReport, failure: Failure) -> list[str]:
    """Cut captured output, and return lines that say so.

    After a search it is that of hundreds of other runs; otherwise its end is what matters.
    """
    captured = [(name, text) for name, text in report.sections if name.startswith("Captured")]
    others = [section for section in report.sections if section not in captured]
    if failure.seed is None:
        report.sections = others + [(name, _end(failure.masked(text))) for name, text in captured]
        return []
    report.sections = others
    lines = sum(text.count("\n") + 1 for _, text in captured)
    if not lines:
        return []
    return [f"{lines:,} lines of captured output are left out; --full-trace shows them.", ""]


def _end(text: str) -> str:
    lines = text.splitlines(keepends=True)
    if len(lines) <= CAPTURED_LINES:
        return text
    left_out = len(lines) - CAPTURED_LINES
    note = f"({left_out:,} lines before that are left out; --full-trace shows them.)\n"
    return note + "".join(lines[left_out:])


def again(request: pytest.FixtureRequest, seed: int, options: Sequence[str]) -> str:
    """Return a command that takes the same steps again.

    Args:
        options: those that matter, in place of any that were given.
    """
    name = request.node.name
    if not _SELECTS.fullmatch(name):
        name = getattr(request.node, "originalname", name)
    given = _others(request.config.invocation_params.args)
    command = shlex.join(["pytest", *given, "-k", name, *options, f"--wallet-seed={seed}"])
    return f"    {command}"


def _others(arguments: Sequence[object]) -> list[str]:
    """Return the arguments of a command line that ``again`` does not replace."""
    found: list[str] = []
    value_follows = False
    for argument in map(str, arguments):
        replaced = argument.split("=")[0] in REPLACED
        if not replaced and not value_follows:
            found.append(without_credentials(argument))
        value_follows = replaced and "=" not in argument
    return found
