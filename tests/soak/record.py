"""Record of an area's soak runs: a line of JSON a test, in rounds, kept in `build/soak`."""

import hashlib
import json
import subprocess
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from tests.helpers.repo import ROOT


@dataclass(frozen=True)
class Ran:
    """One test that has run."""

    test: str
    outcome: str
    """passed, failed or skipped."""
    seconds: float
    seed: str
    revision: str
    """Commit of the sources, with a digest of what is not committed."""
    why: str = ""
    """Reason of a skip."""


class Record:
    """What an area's tests came to, in all runs of it.

    A round is over when every test has passed at one revision: the next run begins anew, with
    another seed. A failed test is run again each time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _revision(self) -> str:
        return revision()

    def _rows(self) -> list[Ran]:
        if not self.path.exists():
            return []
        lines = self.path.read_text("utf-8").splitlines()
        # The last line of a run that was killed may be half a line.
        return [Ran(**json.loads(line)) for line in lines if line.endswith("}")]

    def done(self) -> set[str]:
        """Return the tests that this round has run, at this revision, without a failure."""
        found: set[str] = set()
        for row in self._rows():
            if row.test == END_OF_ROUND:
                found = set()
            elif row.revision == self._revision and row.outcome != "failed":
                found.add(row.test)
        return found

    def seconds(self) -> dict[str, float]:
        """Return how long each test took when it last ran."""
        return {row.test: row.seconds for row in self._rows()}

    def add(self, test: str, outcome: str, seconds: float, seed: str | None, why: str = "") -> None:
        """Append a test's outcome."""
        row = Ran(test, outcome, round(seconds, 2), str(seed or ""), self._revision, why)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(row)) + "\n")

    def end_round(self) -> None:
        """Have the next run begin anew."""
        self.add(END_OF_ROUND, "passed", 0.0, "")

    def since(self, start: int) -> list[Ran]:
        """Return the outcomes from a size of the file (bytes) on, as `size` gave it."""
        if not self.path.exists():
            return []
        text = self.path.read_bytes()[start:].decode("utf-8")
        rows = [Ran(**json.loads(line)) for line in text.splitlines() if line.endswith("}")]
        return [row for row in rows if row.test != END_OF_ROUND]

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return self.path.stat().st_size if self.path.exists() else 0


END_OF_ROUND = "end of round"


def revision() -> str:
    """Return the commit that is checked out, with a digest of what differs from it.

    Without git (a source archive) every run is of the revision `unknown`.
    """

    def git(*arguments: str) -> str:
        ran = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return ran.stdout if ran.returncode == 0 else ""

    head = git("rev-parse", "--short", "HEAD").strip() or "unknown"
    changed = git("diff", "HEAD", "--", "mpcsim", "node", "tests")
    if not changed:
        return head
    return f"{head}+{hashlib.sha256(changed.encode()).hexdigest()[:8]}"
