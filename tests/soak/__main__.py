"""The command behind `make soak`: deep tests, by area and within a budget, with a report.

    make soak                            every area, to its end
    make soak AREA=gateway               one area (several with commas)
    make soak SOAK_MINUTES=20            the time is shared among the areas
    make soak AREA=node SOAK_SEED=7      Hypothesis draws from this seed

A run that was interrupted, or whose budget was used up, goes on where it stopped; when an area has
been through, its next run begins anew, with fresh seeds. Records and report are in `build/soak`.
Exit code: 0 if nothing failed, 1 if a test failed, 2 for a wrong request.
"""

import argparse
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.helpers.repo import ROOT
from tests.soak.areas import AREAS, CHROMIUM, ENGINE, NAMESPACES, Area
from tests.soak.record import Ran, Record

FOLDER = ROOT / "build" / "soak"
GRACE_S = 30.0
"""A test that is running when the budget ends is given this long before it is interrupted."""
ALL_RAN, NO_TESTS = 0, 5
"""Exit codes of pytest that are no failure."""


@dataclass
class Outcome:
    """What an area's run came to."""

    area: str
    seed: int
    seconds: float = 0.0
    ran: list[Ran] = field(default_factory=list)
    finished: bool = False
    failed: bool = False
    note: str = ""

    def count(self, outcome: str) -> int:
        """Return how many tests ended so."""
        return Counter(row.outcome for row in self.ran)[outcome]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run areas within their shares of the budget, and report."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--area", default="", help="names with commas; none: all")
    parser.add_argument("--minutes", default="", help="budget of the whole run")
    parser.add_argument("--seed", default="", help="a whole number; none: a fresh one")
    parser.add_argument("--jobs", default="auto", help="worker processes")
    parser.add_argument("--list", action="store_true", help="list the areas")
    options = parser.parse_args(arguments)
    try:
        names = chosen_areas(options.area)
        until = time.time() + 60 * budget_minutes(options.minutes)
        seed = chosen_seed(options.seed)
    except ValueError as error:
        print(f"make soak: {error}", file=sys.stderr)
        return 2
    if options.list:
        for name in names:
            print(f"{name:14} {AREAS[name].after}")
        return 0
    outcomes: list[Outcome] = []
    for i, name in enumerate(names):
        now = time.time()
        if now >= until:
            break
        end = now + (until - now) / (len(names) - i)
        print(f"\n=== {name}: seed {seed}{_minutes_text(end - now)}", flush=True)
        outcomes.append(run_area(name, AREAS[name], end, seed, options.jobs))
        write_report(outcomes, names)
    print("\n" + write_report(outcomes, names))
    return int(any(outcome.failed for outcome in outcomes))


def chosen_areas(text: str) -> list[str]:
    """Return the areas named, or all.

    Raises:
        ValueError: a name is no area's.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in AREAS:
            raise ValueError(f"no area is called {name!r}; there are {', '.join(AREAS)}")
    return names or list(AREAS)


def budget_minutes(text: str) -> float:
    """Return the budget in minutes; infinity if none is given.

    Raises:
        ValueError: it is no number above 0.
    """
    try:
        minutes = float(text) if text else float("inf")
    except ValueError:
        minutes = 0.0
    if not minutes > 0:
        raise ValueError(f"SOAK_MINUTES is {text!r}; a number of minutes above 0")
    return minutes


def chosen_seed(text: str) -> int:
    """Return the seed given, or a fresh one.

    Raises:
        ValueError: it is no whole number.
    """
    if not text:
        return secrets.randbelow(2**32)
    if not text.isdecimal():
        raise ValueError(f"SOAK_SEED is {text!r}; a whole number")
    return int(text)


def missing(need: str) -> str:
    """Return in a sentence what this machine lacks for an area, or nothing."""
    if need == CHROMIUM and not (shutil.which("chromium") and shutil.which("chromedriver")):
        return "no Chromium is installed, so browser tests are skipped (apt: chromium-driver)"
    if need == NAMESPACES:
        tried = (
            subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
            if shutil.which("unshare")
            else None
        )
        if tried is None or tried.returncode:
            return "network namespaces are not permitted here, so tests on real TCP are skipped"
    if need == ENGINE and container_engine() is None:
        return "no container engine works here (docker, podman), so no image was built"
    return ""


def container_engine() -> str | None:
    """Return the container engine that works here, of those that ``make images`` tries."""
    for name in (os.environ.get("ENGINE") or "docker podman").split():
        if shutil.which(name):
            tried = subprocess.run([name, "info"], capture_output=True, check=False)
            if tried.returncode == 0:
                return name
    return None


def run_area(name: str, area: Area, until: float, seed: int, jobs: str) -> Outcome:
    """Run an area until its end or that of its budget (UNIX time)."""
    outcome = Outcome(name, seed, note=missing(area.needs))
    record = Record(FOLDER / f"{name}.jsonl")
    start, size = time.time(), record.size()
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "soak", "SOAK_SEED": str(seed)}
    code = _run(_command(area, record.path, until, seed, jobs), environment, until)
    outcome.seconds = time.time() - start
    outcome.ran = record.since(size)
    outcome.finished = code in (ALL_RAN, NO_TESTS) and time.time() < until
    outcome.failed = outcome.count("failed") > 0 or (code not in (ALL_RAN, NO_TESTS, None, 2))
    if area.paths and outcome.finished and not outcome.failed:
        record.end_round()
    return outcome


def _command(area: Area, record: Path, until: float, seed: int, jobs: str) -> list[str]:
    python = [sys.executable, "-m"]
    if area.command:
        minutes = (
            [] if until == float("inf") else ["--minutes", f"{(until - time.time()) / 60:.2f}"]
        )
        return [*python, *area.command, "--seed", str(seed), *minutes]
    return [
        *python, "pytest", *(path for path in area.paths if (ROOT / path).exists()),
        "-q", "-n", "0" if area.alone else jobs, "-m", "soak or hypothesis",
        "-p", "tests.soak.plugin",
        f"--hypothesis-seed={seed}", f"--soak-record={record}", f"--soak-until={until}",
        f"--soak-outside={json.dumps(area.outside)}",
    ]  # fmt: skip


def _run(command: list[str], environment: dict[str, str], until: float) -> int | None:
    """Run a command; return its exit code, or None if its time was up and it was interrupted."""
    process = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)
    wait_s = None if until == float("inf") else until + GRACE_S - time.time()
    try:
        return process.wait(wait_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return None
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGINT)
        process.wait()
        raise


def write_report(outcomes: Sequence[Outcome], names: Sequence[str]) -> str:
    """Write `build/soak/report.md`; return its text."""
    lines = ["# Soak", "", "| area | passed | failed | skipped | minutes | seed | state |"]
    lines.append("|---|---|---|---|---|---|---|")
    for each in outcomes:
        state = "failed" if each.failed else "through" if each.finished else "to be continued"
        lines.append(
            f"| {each.area} | {each.count('passed')} | {each.count('failed')} "
            f"| {each.count('skipped')} | {each.seconds / 60:.1f} | {each.seed} | {state} |"
        )
    begun = {each.area for each in outcomes}
    lines += [f"| {name} | | | | | | no time left |" for name in names if name not in begun]
    for each in outcomes:
        failures = [row for row in each.ran if row.outcome == "failed"]
        if each.failed and not failures:
            lines += ["", f"{each.area} failed; its own output above says why."]
        for row in failures:
            lines += ["", f"FAILED {row.test}", f"    {_repeat(row.test, each.seed)}"]
        if each.note:
            lines += ["", f"{each.area}: {each.note}."]
    skipped = Counter(row.why for each in outcomes for row in each.ran if row.outcome == "skipped")
    lines += ["", f"{sum(skipped.values())} tests skipped."]
    lines += [f"- {count}: {why.removeprefix('Skipped: ')}" for why, count in skipped.most_common()]
    text = "\n".join(lines) + "\n"
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "report.md").write_text(text, encoding="utf-8")
    return text


def _repeat(test: str, seed: int) -> str:
    return (
        f"HYPOTHESIS_PROFILE=soak SOAK_SEED={seed} .venv/bin/python -m pytest '{test}' "
        f'-m "" -n 0 --hypothesis-seed={seed}'
    )


def _minutes_text(seconds: float) -> str:
    return "" if seconds == float("inf") else f", {seconds / 60:.1f} minutes"


if __name__ == "__main__":
    sys.exit(main())
