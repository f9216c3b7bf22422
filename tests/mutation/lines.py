"""Which test runs which lines of the product, and how long it takes: recorded with coverage.

The record is in `build/mutation`. It is used again while the product is what it was; of test files
that are new or changed, it is completed.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from coverage import CoverageData

from tests.mutation import mutants
from tests.mutation.mutants import ROOT

HERE = Path(__file__).parent
FOLDER = ROOT / "build" / "mutation"
OPTIONS = ("-q", "-n0", "-pno:cacheprovider", "-ptests.mutation.plugin")
AT_ONCE = 40
"""Files of tests that are recorded before the record is written."""
MOST_NEAR = 100
FAR = 64
SHOWN_BY: dict[str, str] = json.loads((HERE / "shown_by.json").read_text("utf-8"))
"""Tests that compare what a module declares with a reviewed copy, by a part of a mutant's name."""
COPIES = tuple(
    f"tests/repo/test_public_names.py::test_{what}_are_as_written_down"
    for what in ("defaults", "limits")
)
"""Tests that show every default and every number with a name."""


class Lines:
    """A record that is there."""

    def __init__(self) -> None:
        self._data = CoverageData(str(FOLDER / "lines.coverage"))
        self._data.read()
        self.seconds = _load()["seconds"]
        self._tests = {test: [test] for test in self.seconds}
        for test in self.seconds:
            self._tests.setdefault(test.partition("::")[0], []).append(test)
        self._contexts = cache(self._contexts_of)

    def tests(self, path: str, lines: Sequence[int] = (), branch: Sequence[int] = ()) -> list[str]:
        """The tests that run one of the lines, or any of the file.

        First those that are made for the module and those that take a branch, quick ones before
        slow ones; of files that are not, a few each.
        """
        by_line = self._contexts(path)
        found = {test for line in lines or by_line for test in by_line.get(line, ())}
        taken = {test for line in branch for test in by_line.get(line, ())}
        of_file: dict[str, int] = defaultdict(int)
        ranked = []
        for seconds, test in sorted((self.seconds[test], test) for test in found):
            file = test.partition("::")[0]
            of_file[file] += 1
            far = _distance(path, file)
            cost = far * (seconds + 0.02) * (of_file[file] if far == FAR else 1)
            ranked.append((cost / 16 if test in taken else cost, test))
        return [test for _, test in sorted(ranked)]

    def beside(self, mutant: mutants.Mutant) -> list[str]:
        """The tests that may notice what a module works out once, when it is imported: that counts
        as run by whatever test came first.

        Those in files that are made for the module (`_distance`) or in `SHOWN_BY`, or, if there
        are none, the quickest of the folder that is named after the module's; then `COPIES`.
        """
        files = {test.partition("::")[0] for test in self.seconds}
        own = tuple(f"{file}::" for file in files if _distance(mutant.path, file) == 1)
        shown = tuple(tests for part, tests in SHOWN_BY.items() if part in mutant.name)
        folder = Path("tests", *Path(mutant.path.removeprefix("mpcsim/")).parts[:-1])
        while not (ROOT / folder).is_dir():
            folder = folder.parent
        quickest = sorted(self.seconds, key=lambda test: self.seconds[test])
        found = [test for test in quickest if test.startswith((*shown, *own))]
        near = [test for test in quickest if test.startswith(f"{folder}/")]
        copies = [test for test in COPIES if test in self.seconds]
        return [*(found or near[:MOST_NEAR]), *copies]

    def _contexts_of(self, path: str) -> dict[int, set[str]]:
        return {
            line: {test for context in contexts for test in self._tests.get(context, ())}
            for line, contexts in self._data.contexts_by_lineno(path).items()
        }


@cache
def _distance(path: str, file: str) -> int:
    """How far a file of tests is from the module: 1 if it is named after it, or imports it; else
    the farther, the fewer of its folders they share."""
    module, tests = Path(path.removeprefix("mpcsim/")).with_suffix(""), Path(file).parts[1:]
    name = ".".join(Path(path).with_suffix("").parts)
    package, _, stem = name.rpartition(".")
    imports = rf"from {re.escape(name)} import|from {re.escape(package)} import [^\n]*\b{stem}\b"
    if stem in tests[-1] or re.search(imports, (ROOT / file).read_text("utf-8")):
        return 1
    near = module.parts[: max(1, len(module.parts) - 2)] == tests[: max(1, len(module.parts) - 2)]
    return 8 if near else FAR


def _load() -> dict[str, Any]:
    path = FOLDER / "recorded.json"
    empty = {"product": "", "tests": {}, "seconds": {}}
    return json.loads(path.read_text("utf-8")) if path.exists() else empty


def _digest(paths: Iterable[Path]) -> str:
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()[:16]


def product() -> str:
    """A digest of the product's source."""
    return _digest(ROOT / path for path in mutants.files())


def record() -> None:
    """Bring the record up to date, by running the fast tests of every file that is new to it.

    A failing test is left out: it could kill no mutant.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    now = {
        path.relative_to(ROOT).as_posix(): _digest([path])
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
    }
    before = _load()
    known = before["tests"] if before["product"] == product() else {}
    if not known:
        (FOLDER / "lines.coverage").unlink(missing_ok=True)
    new = [path for path, digest in now.items() if known.get(path) != digest]
    seconds = {
        test: taken
        for test, taken in before["seconds"].items()
        if (path := test.partition("::")[0]) in now and path not in new
    }
    if new:
        print(f"recording which tests run which lines: {len(new)} files of tests", flush=True)
    # Part by part, so that an interrupted run goes on where it stopped.
    for first in range(0, len(new) or 1, AT_ONCE):
        seconds |= _recorded(new[first : first + AT_ONCE])
        tests = {path: now[path] for path in now if path not in new[first + AT_ONCE :]}
        text = json.dumps({"product": product(), "tests": tests, "seconds": seconds})
        (FOLDER / "recorded.json").write_text(text, encoding="utf-8")


def _recorded(files: Sequence[str]) -> dict[str, float]:
    """Run files of tests, and add what they run to the record; return how long each test took."""
    seconds: dict[str, float] = {}
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "default"}
    with tempfile.TemporaryDirectory() as scratch:
        parts = [Path(scratch) / str(i) for i in range(os.cpu_count() or 1)]
        running = []
        for i, part in enumerate(parts):
            part.mkdir()
            command = [sys.executable, "-m", "pytest", *OPTIONS, f"--record-lines={part}"]
            if mine := files[i :: len(parts)]:
                running.append(subprocess.Popen([*command, *mine], cwd=ROOT, env=environment))
        try:
            for each in running:
                each.wait()
        except KeyboardInterrupt:  # theirs, too; they still write into the folder
            for each in running:
                each.wait()
            raise
        data = CoverageData(str(FOLDER / "lines.coverage"))
        data.read()  # or what is there would be erased
        for part in parts[: len(running)]:
            recorded = CoverageData(str(part / "lines.coverage"))
            recorded.read()
            data.update(recorded)
            seconds |= json.loads((part / "times.json").read_text("utf-8"))
    return seconds


def tree() -> str:
    """A digest of product and tests: verdicts hold as long as it stays."""
    tests = (path for path in sorted((ROOT / "tests").rglob("*.py")) if path.parent != HERE)
    return _digest([*(ROOT / path for path in mutants.files()), *tests])
