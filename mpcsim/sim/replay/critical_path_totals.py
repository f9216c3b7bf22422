"""Sums over the critical paths of a replay.

Model: the critical path of a sample leads from its end back to its start, from every step to the
message or the earlier step of the same party that it waited for last.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mpcsim.ids import PartyId
from mpcsim.sim.replay.chunk import SIMULATED, Chunk
from mpcsim.sim.replay.kernels.arrays import PARTS, Bools, Floats
from mpcsim.sim.replay.plan import Plan, PlannedHop
from mpcsim.sim.replay.results import Explanation, PathShare


class CriticalPathTotals:
    """Sums over the critical paths of one plan's samples."""

    def __init__(self, plan: Plan) -> None:
        self._split = dict.fromkeys(PARTS, 0.0)
        names = dict.fromkeys(str(hop.direction) for hop in plan.hops)
        self._on_path = dict.fromkeys(names, 0.0)
        self._made_of = {name: dict.fromkeys(SIMULATED, 0.0) for name in names}
        self._parties = {step.party: [0.0, 0.0] for step in plan.steps}
        self._last: dict[PartyId, float] = dict.fromkeys(plan.parties, 0.0)
        self.answered = 0
        """Number of runs that did not fail: the others have no critical path."""

    def add(self, run: Chunk) -> None:
        """Add the critical paths of a chunk, traced back from its ends."""
        plan = run.plan
        on_links: dict[str, Bools] = {}
        on_parties: dict[PartyId, Bools] = {}
        on_steps: dict[int, Bools] = {}
        unclaimed = np.isfinite(run.finished)
        self.answered += int(np.count_nonzero(unclaimed))
        link_split_ms = run.parts
        if not unclaimed.all():
            link_split_ms = np.where(np.isfinite(link_split_ms), link_split_ms, 0.0)
        for place, (i, end) in enumerate(run.ends.items()):
            last = unclaimed & (end == run.finished)
            unclaimed &= ~last
            self._last[i] += np.count_nonzero(last)
            _mark(on_steps, int(plan.last_steps[place]), last)
        for number in reversed(range(len(plan.steps))):
            on = on_steps.pop(number, None)
            if on is None or not (times := np.count_nonzero(on)):
                continue
            step = plan.steps[number]
            _mark(on_parties, step.party, on)
            spent = times * plan.costs_ms[number]
            self._split["compute"] += spent
            self._parties[step.party][1] += spent
            previous, joined = int(plan.step_records[number]["previous"]), run.joined[number]
            if previous >= 0:
                _mark(on_steps, previous, on & joined)
                on = on & ~joined
            for need in sorted(step.needs, reverse=True):  # ties: the last one
                via = on & (run.arrivals[need] == run.starts[number])
                if via.any():
                    on = on & ~via
                    _mark(on_steps, plan.messages[need].step, via)
                    record = plan.message_records[need]
                    for h in range(record["first_hop"], record["last_hop"]):
                        _mark(on_links, str(plan.hops[h].direction), via)
                        self._spend(plan.hops[h], link_split_ms[h], via)
        for name, on in on_links.items():
            self._on_path[name] += np.count_nonzero(on)
        for i, on in on_parties.items():
            self._parties[i][0] += np.count_nonzero(on)

    def merge(self, other: CriticalPathTotals) -> None:
        """Add the sums of other samples of the same plan."""
        self.answered += other.answered
        for sums, more in zip(self._sums(), other._sums(), strict=True):
            for key, value in more.items():
                sums[key] += value
        for i, found in other._parties.items():
            for k, value in enumerate(found):
                self._parties[i][k] += value

    def _sums(self) -> list[dict[Any, float]]:
        return [self._split, self._on_path, self._last, *self._made_of.values()]

    def _spend(self, hop: PlannedHop, parts: Floats, via: Bools) -> None:
        weights = via.astype(np.float64)
        for part, ms in zip(SIMULATED, parts, strict=True):
            spent = float(weights @ ms)
            self._split[part] += spent
            self._made_of[str(hop.direction)][part] += spent
        self._split["service"] += float(weights.sum()) * hop.service_ms

    def explanation(self) -> Explanation:
        """Return averages over the runs that did not fail."""
        samples = max(1, self.answered)

        def share(times: float, spent: float) -> PathShare:
            return PathShare(times / samples, spent / samples)

        return Explanation(
            {part: ms / samples for part, ms in self._split.items()},
            {
                name: share(times, sum(self._made_of[name].values()))
                for name, times in self._on_path.items()
            },
            {i: share(*found) for i, found in self._parties.items()},
            {i: times / samples for i, times in self._last.items()},
            {
                name: {part: ms / samples for part, ms in parts.items() if ms}
                for name, parts in self._made_of.items()
            },
        )


def _mark(marks: dict[Any, Bools], key: object, on: Bools) -> None:
    before = marks.get(key)
    marks[key] = on if before is None else before | on
