"""Mutants of the product, drawn at random, and all consistency checks; run against the fast tests.

Every check must have a test that fails without it (`checks.json` remembers which), and of the other
mutants each room must kill the share that is its bar. A survivor with a reason is in
`survivors.json`: "equivalent: ..." leaves the score, "accepted: ..." counts as surviving, and
"test: ..." names the one to be tried first, where the record does not know that it runs the line.

A run goes on where the last one stopped, as long as product and tests are what they were. State
and report are in `build/mutation`. Exit code: 0, or 1 if a room is below its bar or a check has no
test that fails without it, or 2 for a wrong request.

Two libraries were tried on `mpcsim/service/vault` with one file of tests. cosmic-ray 8.7 starts an
interpreter for each mutant (6 s each) and writes it into the source itself: interrupted, it left
one there. mutmut 3.8 works on a copy and forks (0.7 s each), but mutates only the bodies of
functions, from a fixed list of operators that knows neither checks nor what a hash is bound to,
draws none at random, and first runs all tests once through its trampolines (those of four folders
took more than 4 minutes). With either, the checks would have stayed a mechanism of their own, and
drawing, picking tests by line, resuming and reporting ours: most of what is here.
"""

import argparse
import difflib
import json
import random
import sys
import time
from ast import unparse
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import islice, zip_longest
from pathlib import Path

from tests.mutation import lines, mutants, running
from tests.mutation.mutants import CHECK, ROOMS, Mutant

HERE = Path(__file__).parent
CHECKS, SURVIVORS = HERE / "checks.json", HERE / "survivors.json"
STATE, REPORT = lines.FOLDER / "state.jsonl", lines.FOLDER / "report.md"
COUNT = 300
BUDGET_S = 40.0
"""Tests that take longer together are not run against one mutant."""
CHECK_FACTOR = 5
"""For a check it is this many times as long: each must have its test."""
ANEW = 20
"""Tests that a mutant must survive once more, imported anew."""
NOT_RUN = "not run"
KILLED = ("killed", "timed out")


def load(path: Path) -> dict[str, str]:
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def drawn(room: str, seed: str) -> Iterator[Mutant]:
    """Yield a room's mutants in a drawn order: one of each operator, and so on."""
    chance = random.Random(f"{seed}/{room}")
    by_operator: dict[str, list[Mutant]] = defaultdict(list)
    for path in mutants.files():
        if mutants.room_of(path) == room:
            for each in mutants.found(path, mutants.parsed(path)):
                if each.operator != CHECK:
                    by_operator[each.operator].append(each)
    operators = [by_operator[name] for name in sorted(by_operator)]
    for each in operators:
        chance.shuffle(each)
    while operators:
        operators = [each for each in operators if each]
        chance.shuffle(operators)
        for each in operators:
            yield each.pop()


class Tester:
    """Runs mutants against tests; remembers what it has found out."""

    def __init__(self) -> None:
        self.lines = lines.Lines()
        self.warm = running.Warm(["tests"])
        self.sound: dict[str, bool] = {}

    def _limited(self, tests: list[str]) -> list[running.Test]:
        seconds = self.lines.seconds
        return [running.Test(t, running.LIMIT_S + 20 * seconds.get(t, 1.0)) for t in tests]

    def judge(self, mutant: Mutant, hint: str = "") -> dict[str, object]:
        """Return the verdict, the test that failed, how many were run, and the time it took."""
        start = time.monotonic()
        verdict, killer, count = self._judge(mutant, hint)
        seconds = round(time.monotonic() - start, 2)
        return {"verdict": verdict, "by": killer, "tests": count, "seconds": seconds}

    def _judge(self, mutant: Mutant, hint: str) -> tuple[str, str, int]:
        if "::" in hint:
            verdict, killer = self._run([hint], mutant.name)
            if verdict != "survived":
                return verdict, killer, 1
        tests = self.lines.tests(mutant.path, mutant.lines, mutant.branch)
        if not (tests or mutant.late):
            tests = self.lines.tests(mutant.path)
        if not mutant.late:
            tests = list(dict.fromkeys([*self.lines.beside(mutant), *tests]))
        if not tests:
            return NOT_RUN, "", 0
        function = hint.partition("[")[0] or None  # the names of its cases may have changed
        tests.sort(key=lambda test: test.partition("[")[0] != function)
        chosen, spent = [], 0.0
        for test in tests:
            spent += self.lines.seconds[test]
            if chosen and spent > BUDGET_S * (CHECK_FACTOR if mutant.operator == CHECK else 1):
                break
            chosen.append(test)
        return *self._run(chosen, mutant.name), len(chosen)

    def _run(self, tests: list[str], name: str) -> tuple[str, str]:
        most = len(tests)
        for run in (self.warm.run, running.anew):
            while left := [test for test in tests if self.sound.get(test, True)][:most]:
                outcome = run(self._limited(left), name)
                killer = outcome.killer
                if not killer:
                    most = most if outcome.code == running.CANNOT else ANEW
                    break
                # What fails without a mutant, too, says nothing.
                if killer.startswith("exit code"):
                    if run(self._limited(left)).killer.startswith("exit code"):
                        break
                elif killer not in self.sound:
                    self.sound[killer] = not run(self._limited([killer])).killer
                if self.sound.get(killer, True):
                    return KILLED[outcome.timed_out], killer
                if killer not in left:
                    break
        return "survived", ""


def difference(name: str) -> str:
    """The mutant as a diff of the normalised source."""
    path = name.partition(" ")[0]
    before = unparse(mutants.parsed(path)).splitlines()
    after = unparse(mutants.mutated(name)).splitlines()
    return "\n".join(list(difflib.unified_diff(before, after, path, path, "", "", 2, ""))[2:])


def repeat(name: str) -> str:
    quoted = name.replace("'", "'\\''")
    return f".venv/bin/python -m tests.mutation --only '{quoted}'"


def score(rows: dict[str, dict[str, str]]) -> Counter[str]:
    """How many of the drawn mutants ended how; equivalent ones are none."""
    reasons = load(SURVIVORS)
    count: Counter[str] = Counter()
    for name, row in rows.items():
        if not reasons.get(name, "").startswith("equivalent"):
            count["killed" if row["verdict"] in KILLED else row["verdict"]] += 1
    return count


def report(rows: dict[str, dict[str, str]]) -> bool:
    """Write the report; return whether everything is as it must be."""
    reasons, good = load(SURVIVORS), True
    text = ["# Mutants", "", "| room | killed | survived | not run | score | bar |"]
    text.append("|---|---|---|---|---|---|")
    for room, of in ROOMS.items():
        here = {n: r for n, r in rows.items() if r["room"] == room and r["operator"] != CHECK}
        count = score(here)
        judged = count["killed"] + count["survived"]
        share = count["killed"] / judged if judged else 1.0
        good &= share >= of.bar
        text.append(
            f"| {room} | {count['killed']} | {count['survived']} | {count[NOT_RUN]} "
            f"| {share:.0%} | {of.bar:.0%} |"
        )
    checks = {name: row for name, row in rows.items() if row["operator"] == CHECK}
    alive = [name for name, row in checks.items() if row["verdict"] not in KILLED]
    good &= not alive
    text += ["", f"{len(checks)} consistency checks left out, each alone; {len(alive)} unnoticed."]
    for name, row in rows.items():
        if row["verdict"] == "survived" or name in alive:
            why = reasons.get(name, "no reason is given")
            place = mutants.named(name)
            text += ["", f"## {name}", f"{place.path}:{place.lines[0]}: {why}", ""]
            text += [f"    {repeat(name)}", ""]
            text += ["```diff", difference(name), "```"]
    for name, row in rows.items():
        if row["verdict"] == NOT_RUN and row["operator"] != CHECK:
            text += ["", f"no fast test runs it in its own process: {name}"]
    REPORT.write_text("\n".join(text) + "\n", encoding="utf-8")
    print("\n".join(text[: text.index("", 2)]))
    return good


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--room", default="", help=f"with commas: {', '.join(ROOMS)}; none: all")
    parser.add_argument("--count", type=int, default=COUNT, help="mutants to draw in all")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="then stop")
    parser.add_argument("--seed", default="0", help="of the draw")
    parser.add_argument("--no-checks", action="store_true", help="only what is drawn")
    parser.add_argument("--only", metavar="NAME", help="show one mutant, and run it")
    options = parser.parse_args()
    rooms = [name for name in options.room.split(",") if name] or list(ROOMS)
    if unknown := set(rooms) - set(ROOMS):
        parser.error(f"no room is called {', '.join(unknown)}")
    until = time.monotonic() + 60 * options.minutes
    lines.record()
    if options.only:
        chosen = [mutants.named(options.only)]
        print(difference(options.only))
    else:
        checks = () if options.no_checks else mutants.all_checks().values()
        chosen = [each for each in checks if each.room in rooms]
        chosen += choose(rooms, options.count, options.seed)
    running.warm()
    hints, tree = load(CHECKS), lines.tree()
    rows = {} if options.only else known()
    hints |= {name: row["by"] for name, row in rows.items() if row["by"]}
    hints |= load(SURVIVORS)  # "test: ...", where there is one that the record does not know of
    hints = {name: hint.removeprefix("test: ") for name, hint in hints.items()}
    rows = {m.name: row for m in chosen if (row := rows.get(m.name)) and row["tree"] == tree}
    tester = Tester()
    for i, mutant in enumerate(chosen):
        if mutant.name in rows:
            continue
        if time.monotonic() > until:
            print(f"time is up; {len(chosen) - i} to be continued")
            break
        hint = hints.get(mutant.name, "")
        row = {"name": mutant.name, "room": mutant.room, "operator": mutant.operator, "tree": tree}
        row |= tester.judge(mutant, hint)
        rows[mutant.name] = row
        print(f"{row['verdict']:9} {row['seconds']:6} s  {mutant.name}", flush=True)
        if options.only:
            print(row["by"])
            tester.warm.close()
            return int(row["verdict"] not in KILLED)
        with STATE.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    tester.warm.close()
    enter(rows)
    return int(not report(rows))


def known() -> dict[str, dict[str, str]]:
    """The verdicts of earlier runs."""
    found = {}
    for line in STATE.read_text("utf-8").splitlines() if STATE.exists() else ():
        row = json.loads(line)
        found[row["name"]] = row
    return found


def choose(rooms: list[str], count: int, seed: str) -> Iterator[Mutant]:
    """Return mutants, of each room in turn as long as it has any."""
    turns = zip_longest(*(drawn(room, seed) for room in rooms))
    return islice((each for turn in turns for each in turn if each is not None), count)


def enter(rows: dict[str, dict[str, str]]) -> None:
    """Keep which tests notice that checks are gone."""
    killers = load(CHECKS)
    killers |= {name: row["by"] for name, row in rows.items() if row["operator"] == CHECK}
    ordered = {name: killers[name] for name in mutants.all_checks() if killers.get(name)}
    text = json.dumps(ordered, indent=0, ensure_ascii=False) + "\n"
    CHECKS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
