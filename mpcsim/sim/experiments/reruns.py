"""Reruns of traces: the same session executed again from its seeds, and compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mpcsim.errors import UsageError
from mpcsim.sim.run.compute import Measured
from mpcsim.sim.scenario import Scenario
from mpcsim.sim.simulation import Simulation
from mpcsim.sim.trace import Trace
from mpcsim.sim.traces.records import MessageRecord


@dataclass(frozen=True)
class Rerun:
    """Result of a rerun: its trace, and how it differs from the original."""

    trace: Trace = field(repr=False)
    """Trace of the new run."""
    differences: tuple[str, ...]
    """Differences from the original, in words; empty if there are none."""
    open: tuple[str, ...]
    """Aspects that no seed determines, and that were not compared."""

    @property
    def same(self) -> bool:
        return not self.differences

    def __str__(self) -> str:
        lines = [f"{self.trace.name}, run again: {'the same' if self.same else 'NOT the same'}"]
        lines += [f"  {text}" for text in self.differences]
        lines += [f"  not compared: {text}" for text in self.open]
        return "\n".join(lines)


def rerun(trace: Trace) -> Rerun:
    """Execute a trace's session again, after all that its simulation did before it.

        >>> print(rerun(Trace.load("strange.jsonl")))

    Raises:
        UsageError: the trace does not say how it came about: somebody cheated, draws or shares
            came from elsewhere, or it is not of a ``Simulation``.
    """
    known = trace.scenario
    if not known:
        raise UsageError(
            f"{trace.name}: this trace does not say how it came about: it is not of a Simulation, "
            "or somebody cheated in it, or draws or shares came from elsewhere"
        )
    scenario = known if isinstance(known, Scenario) else Scenario.loads(str(known))
    simulation = Simulation.of(scenario)
    simulation.contents = bool(trace.contents)
    attempts: tuple[Trace, ...] = ()
    for task in scenario.run:
        if attempts and not simulation.shares:
            before = attempts[-1]
            return Rerun(before, (f"{before.name}, before it: {before.verdict.value}",), ())
        attempts = simulation.run_task(task).attempts
    again = [each for each in attempts if each.seed == trace.seed]
    if not again:
        return Rerun(attempts[-1], (f"there was no attempt with the seed {trace.seed}",), ())
    made = again[0]
    seeded, timed = scenario.secrets_seed is not None, _timed(scenario)
    differences = list(_differences(trace, made, timed))
    if trace.contents and seeded and trace.contents != made.contents:
        differences.append("messages say something else")
    return Rerun(made, tuple(differences), tuple(_open(trace, made, seeded, timed)))


def _timed(scenario: Scenario) -> bool:
    """Return whether a scenario's times follow from its seeds."""
    return scenario.clock == "virtual" and scenario.compute != Measured()


def _differences(old: Trace, new: Trace, timed: bool) -> Iterator[str]:
    if old.verdict is not new.verdict:
        yield f"verdict: {new.verdict.value}, it was {old.verdict.value}"
    for before, after in zip(old.endings, new.endings, strict=False):
        if (before.party, before.status, before.text) != (after.party, after.status, after.text):
            yield (
                f"party {before.party}: {after.status} {after.text}, "
                f"it was {before.status} {before.text}"
            )
    ends = [[end.at_ms if timed else None for end in trace.endings] for trace in (new, old)]
    if ends[0] != ends[1]:
        yield f"{len(ends[0])} endings, there were {len(ends[1])}; or at other times"
    count = len(new.messages), len(old.messages)
    if count[0] != count[1]:
        yield f"{count[0]} messages, there were {count[1]}"
    was, now = _messages(old, timed), _messages(new, timed)
    for (what, before_ms), (other, after_ms) in zip(was, now, strict=False):
        if what != other:
            yield f"message {_named(other)}, it was {_named(what)}"
            return
        if before_ms != after_ms:
            yield f"message {_named(what)}: times {after_ms} ms, they were {before_ms}"
            return
    if timed and old.finished_ms != new.finished_ms:
        yield f"finished after {new.finished_ms} ms, it was {old.finished_ms}"


def _messages(trace: Trace, timed: bool) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Return each message's identity and times; sorted by identity where times are not compared."""
    found = [(_identity(m), (m.sent_ms, m.received_ms) if timed else ()) for m in trace.messages]
    return found if timed else sorted(found)


def _identity(message: MessageRecord) -> tuple[Any, ...]:
    return (
        message.round,
        message.kind,
        message.sender,
        message.receiver,
        message.size,
        message.fate,
    )


def _named(what: tuple[Any, ...]) -> str:
    _, kind, sender, receiver, size, fate = what
    return f"{kind} from party {sender} to party {receiver} ({size} bytes, {fate})"


def _open(old: Trace, new: Trace, seeded: bool, timed: bool) -> Iterator[str]:
    if not timed:
        yield "times: computing was measured, or the clock was real"
    if old.contents and not seeded:
        yield "what messages say: secrets did not come from a seed"
    if old.versions != new.versions:
        changed = [
            f"{name} {new.versions.get(name)} (it was {old.versions.get(name)})"
            for name in sorted({*old.versions, *new.versions})
            if old.versions.get(name) != new.versions.get(name)
        ]
        yield f"versions: {', '.join(changed)}"
