"""Output beside copies that were reviewed."""

import difflib
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mpcsim.errors import UsageError
from tests.helpers.repo import ROOT


def check_reviewed(output: str | Iterable[str], copy: Path) -> None:
    """Fail with the difference if a text, or lines, are others than those of the reviewed copy.

    The new ones are then in ``build/reviewed``, to be looked at and copied.
    """
    text = output if isinstance(output, str) else "".join(f"{line}\n" for line in output)
    known = copy.read_text("utf-8")
    if text != known:
        new = ROOT / "build" / "reviewed" / copy.name
        new.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(text, "utf-8")
        pair = known.splitlines(), text.splitlines()
        changes = difflib.unified_diff(*pair, str(copy), str(new), lineterm="", n=1)
        pytest.fail("\n".join(changes) or "the ends of the last lines differ")


def check_answers(answer: Callable[[str], object], copy: Path) -> None:
    """Ask the questions of a reviewed copy, ``question -> answer`` in each line, and compare."""
    questions = [line.partition(" -> ")[0] for line in copy.read_text("utf-8").splitlines()]
    assert len(questions) > 3
    check_reviewed((f"{question} -> {answer(question)}" for question in questions), copy)


def check_calls(
    copy: Path, *modules: ModuleType, refusal: type[Exception] = UsageError, **names: Any
) -> None:
    """Make the calls of a reviewed copy, ``call -> refusal`` in each line, and compare.

    Calls know what the modules declare, and the names. One that is not refused is ``taken``.
    """
    known = {
        name: getattr(module, name)
        for module in modules
        for name in dir(module)
        if not name.startswith("__")
    }

    def answer(call: str) -> str:
        try:
            eval(call, known | names)
        except refusal as refused:
            return str(refused).replace("\n", "\\n")
        return "taken"

    check_answers(answer, copy)


def rounded(text: str) -> str:
    """Return a text whose long decimals have five digits."""
    return re.sub(r"\d+\.\d{5,}(e[-+]\d+)?", lambda found: f"{round(float(found[0]), 6):.5g}", text)
