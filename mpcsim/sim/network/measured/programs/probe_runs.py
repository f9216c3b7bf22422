"""Division of a probing program's answers into runs, and a ``Series`` for each host.

A file may hold several runs, and of several hosts: headers or sequence numbers begin anew. Every
reader of such a program (ping, fping, hping3, tcpping) hands over what it finds, in the order of
the file; ``ProbeRuns.series`` divides it into runs and makes one ``Series`` a host.

- A number that was answered before, without the program's mark of a duplicate, begins a new run; so
  does a number below the last one, if those that follow stay below it, too. (Where the program's
  own count fits without that, or it is the last number once more, it is a duplicate.)
- Sequence numbers of 16 bits go on from 65535 to 0.
- A program's own count of probes and answers holds where its lines say otherwise; the difference is
  said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Final, NamedTuple

from mpcsim.errors import UsageError
from mpcsim.sim.network.measured.series import (
    GATEWAY_SITE,
    ICMP_WARNING,
    LONGEST_MS,
    Draft,
    Probe,
    Series,
    Summary,
    format_lines,
)
from mpcsim.sim.rich_display import counted

__all__ = ["ProbeRuns", "Reply", "Run"]

NEAR: Final = 0x400
"""Sequence numbers so near to 65535 or 0 may be of one run that goes on."""
MEANS_DIFFER: Final = 0.01
"""A larger relative difference of the program's mean from that of its lines is pointed out."""


class Reply(NamedTuple):
    """Outcome of a probe."""

    seq: int | None
    """Number of the probe, if the program shows one."""
    ms: float | None
    """Round trip; None: the file says that there was no answer."""
    line: int
    at_s: float | None = None
    is_duplicate: bool = False
    """Whether the program marks it as one."""


@dataclass
class Run:
    """Run of a program to one host."""

    host: str
    line: int
    """Line where it begins."""
    replies: list[Reply] = field(default_factory=list)
    sent: int | None = None
    """Probes, as the program counted them."""
    received: int | None = None
    summary: Summary | None = None
    """Statistics that the program prints of the round trips."""
    summary_line: int = 0
    warnings: list[str] = field(default_factory=list)

    def split(self) -> list[Run]:
        """Return the runs that this one consists of; the program's count is the last one's."""
        if not self.replies or any(each.seq is None for each in self.replies):
            return [self]
        if self.received == len(_first_answers(self)):
            return [self]
        parts = [Run(self.host, self.line, part) for part in _split_replies(self.replies)]
        last = parts[-1]
        last.sent, last.received = self.sent, self.received
        last.summary, last.summary_line = self.summary, self.summary_line
        parts[0].warnings = self.warnings
        return parts


@dataclass
class ProbeRuns:
    """All runs of a file, in its order."""

    path: str
    format: str
    probe: Probe
    runs: list[Run] = field(default_factory=list)
    understood: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unit: str = "milliseconds, as the lines say"
    assumed: list[str] = field(default_factory=list)
    needs_statistics: str = ""
    """Name of the program if its statistics should end each run; empty if not."""
    rounding_ms: float = 0.05
    """Rounding of the program's own mean."""

    def begin_run(self, host: str, line: int) -> Run:
        """Begin a run at its header."""
        self.runs.append(Run(host, line))
        return self.runs[-1]

    def error_at(self, line: int, what: str) -> UsageError:
        """Return an error in a line, with the number of round trips before it."""
        before = sum(each.ms is not None for run in self.runs for each in run.replies)
        so_far = counted(before, "round trip")
        return UsageError(
            f"{self.path}, line {line}: {what} (read as {self.format}, {so_far} before)"
        )

    def series(self) -> list[Series]:
        """Return the round trips to every host that answered, run by run.

        Raises:
            UsageError: no host answered, a time cannot be.
        """
        parts = [part for run in self.runs for part in run.split()]
        hosts = dict.fromkeys(part.host for part in parts)
        made, silent = [], []
        for host in hosts:
            own = [part for part in parts if part.host == host]
            answered = any(_first_answers(part) or part.summary is not None for part in own)
            if answered:
                made.append(self._series_of(own, GATEWAY_SITE if len(hosts) == 1 else host))
            else:
                silent.append(own)
        if not made:
            raise self._no_round_trip(parts)
        for own in silent:
            made[0] = replace(
                made[0],
                warnings=(*made[0].warnings, f"nothing came from {own[0].host}: left out"),
            )
        return made

    def _no_round_trip(self, parts: Sequence[Run]) -> UsageError:
        unanswered = sum(max(len(_lost_probes(part)), part.sent or 0) for part in parts)
        what = f"; {counted(unanswered, 'probe')} without an answer" * bool(unanswered)
        return UsageError(
            f"{self.path}: read as {self.format}, but there is no round trip in it{what}"
        )

    def _series_of(self, parts: Sequence[Run], site: str) -> Series:
        listed = [part for part in parts if _first_answers(part)]
        if not listed:
            return self._from_statistics(
                [part for part in parts if part.summary is not None or part.sent], site
            )
        draft = Draft(self.path, self.format, self.probe, b=site)
        draft.understood, draft.warnings = list(self.understood), list(self.warnings)
        draft.unit, draft.assumed = self.unit, list(self.assumed)
        runs, sent, lost, twice = [], 0, 0, 0
        for part in parts:
            if part.summary is not None and part not in listed:
                draft.warnings.append(
                    f"the run of line {part.line} has statistics alone, and others their answers: "
                    "its round trips are left out"
                )
                continue
            answers = _first_answers(part)
            before = len(draft.rtt_ms)
            for reply in answers:
                draft.add(reply.ms or 0.0, reply.line, reply.at_s)
            runs.append(len(draft.rtt_ms) - before)
            draft.warnings += part.warnings
            twice += sum(each.ms is not None for each in part.replies) - len(answers)
            of_run = self._counts(part, len(answers), draft)
            sent, lost = sent + of_run[0], lost + of_run[1]
        if twice:
            draft.warnings.append(f"{counted(twice, 'answer')} came twice: left out")
        many = tuple(runs) if len(runs) > 1 else ()
        return draft.series(sent=sent, lost=lost, runs=many)

    def _counts(self, part: Run, answered: int, draft: Draft) -> tuple[int, int]:
        """Return how many probes were sent and how many got lost."""
        lost = _lost_probes(part)
        if part.sent is None:
            if self.needs_statistics:
                draft.warnings.append(
                    f"{self.needs_statistics}'s statistics are missing at the end: the text is not "
                    "whole"
                )
            if lost:
                draft.understood.append(_describe_losses(lost))
            return answered + len(lost), len(lost)
        received = answered if part.received is None else part.received
        if part.received is not None and part.received != answered:
            draft.warnings.append(
                f"{self.needs_statistics or 'the program'} itself counts "
                f"{counted(part.received, 'answer')} of {part.sent}, and {answered} stand in the "
                "text: its count holds for what got lost"
            )
        elif lost:
            draft.understood.append(_describe_losses(lost))
        numbered = sum(each.ms is not None for each in part.replies)
        if part.summary is not None and part.received == answered == numbered:
            self._compare(part, draft)
        sent = max(part.sent, received)
        return sent, sent - received

    def _compare(self, part: Run, draft: Draft) -> None:
        """Warn if the program's own mean differs from that of the lines."""
        own = part.summary
        mean = fmean(each.ms or 0.0 for each in _first_answers(part))
        whole = all((each.ms or 0.0).is_integer() for each in _first_answers(part))
        rounding = max(self.rounding_ms, 1.0 if whole else 0.0)
        if own is not None and abs(own.mean_ms - mean) > MEANS_DIFFER * mean + rounding:
            draft.warnings.append(
                f"line {part.summary_line}: the program's mean is {own.mean_ms:g} ms, that of its "
                f"lines {mean:.4g} ms: lines are missing, or not of this run"
            )

    def _from_statistics(self, parts: Sequence[Run], site: str) -> Series:
        """Return the series of runs that list no single round trips."""
        found = []
        for part in parts:
            own = part.summary
            if own is None:
                continue
            fits = 0 <= own.least_ms <= own.mean_ms <= own.most_ms and own.most_ms > 0
            if not fits or own.std_ms < 0 or own.most_ms > LONGEST_MS:
                raise self.error_at(
                    part.summary_line,
                    f"minimum {own.least_ms:g}, mean {own.mean_ms:g} and maximum {own.most_ms:g} "
                    "ms do not fit each other",
                )
            received = part.received if part.received is not None else part.sent or 0
            found.append(replace(own, count=received))
        sent = sum(part.sent or 0 for part in parts)
        lost = sum((part.sent or 0) - (part.received or 0) for part in parts if part.sent)
        whole = Summary.pooled(found)
        how = "least, mean and deviation"
        if whole.std_is_estimated:
            how = (
                "least and mean; there is no deviation in the file: the scatter is such that "
                "the greatest is about the slowest of them"
            )
        return Series(
            Draft(self.path, self.format, self.probe).a,
            site,
            self.format,
            self.probe,
            (),
            tuple(part.summary_line for part in parts if part.summary is not None),
            sent=sent,
            lost=max(lost, 0),
            summary=whole,
            runs=tuple(each.count for each in found) if len(found) > 1 else (),
            unit=self.unit,
            assumed=tuple(self.assumed),
            understood=(
                *self.understood,
                f"statistics alone, no single round trip: minimum {whole.least_ms:g}, mean "
                f"{whole.mean_ms:g}, maximum {whole.most_ms:g} ms; the fit is to {how}",
            ),
            warnings=(
                *self.warnings,
                *(text for part in parts for text in part.warnings),
                *([ICMP_WARNING] if self.probe is Probe.ICMP else []),
            ),
        )


def _first_answers(part: Run) -> list[Reply]:
    """Return the first answer to each number."""
    seen: set[int] = set()
    found = []
    for each in part.replies:
        if each.ms is None or each.is_duplicate or each.seq in seen:
            continue
        if each.seq is not None:
            seen.add(each.seq)
        found.append(each)
    return found


def _lost_probes(part: Run) -> list[int]:
    """Return the line of every probe without an answer; 0 if its number is only missing."""
    answered = {each.seq for each in part.replies if each.ms is not None}
    numbers = [seq for seq in answered if seq is not None]
    silent = {
        each.seq: each.line
        for each in part.replies
        if each.ms is None and each.seq is not None and each.seq not in answered
    }
    holes = set(range(min(numbers), max(numbers) + 1)) - set(numbers) if numbers else set()
    unnumbered = [each.line for each in part.replies if each.ms is None and each.seq is None]
    return [silent.get(seq, 0) for seq in holes | silent.keys()] + unnumbered


def _describe_losses(lost: Sequence[int]) -> str:
    said = [line for line in lost if line]
    where = f" ({format_lines(said)})" if said else ""
    return f"{counted(len(lost), 'probe')} without an answer{where}: lost"


class _SequenceNumbers:
    """Sequence numbers of the run that is being read, continued above 65535."""

    def __init__(self) -> None:
        self.answered: set[int] = set()
        self.silent: set[int] = set()
        self.top = -1
        self.turn = 0

    def number(self, seq: int) -> int:
        """Return the number, continued above 65535."""
        behind = self.top - (seq + self.turn) > 0x8000
        if behind and self.top % 0x10000 > 0x10000 - NEAR and seq < NEAR:
            self.turn += 0x10000
        return seq + self.turn

    def add(self, seq: int, is_answered: bool) -> None:
        """Record a number, and whether it was answered."""
        (self.answered if is_answered else self.silent).add(seq)
        self.top = max(self.top, seq)

    def starts_new_run(self, seq: int, is_answered: bool, later: Sequence[Reply]) -> bool:
        """Return whether this number starts another run."""
        if seq in self.answered:
            return seq < self.top or (is_answered and len(self.answered) == 1)
        if seq >= self.top:
            return False
        if seq in self.silent:
            return not is_answered and self.top - seq > 3
        # Late, or of a new run? At most so many others come before numbers rise above the last.
        others = [each for each in later[: self.top - seq + 1] if not each.is_duplicate]
        for each in others:
            number = each.seq or 0
            if number > self.top:
                return False
            if number in self.answered and each.ms is not None:
                return True
        return len(others) >= 2


def _split_replies(replies: Sequence[Reply]) -> Iterator[list[Reply]]:
    """Yield the replies of each run, with numbers continued above 65535."""
    part: list[Reply] = []
    numbers = _SequenceNumbers()
    for at, each in enumerate(replies):
        is_answered = each.ms is not None
        seq = numbers.number(each.seq or 0)
        later = replies[at + 1 : at + 2 + max(numbers.top - seq, 0)]
        if not each.is_duplicate and numbers.starts_new_run(seq, is_answered, later):
            yield part
            part, numbers = [], _SequenceNumbers()
            seq = each.seq or 0
        part.append(each._replace(seq=seq))
        numbers.add(seq, is_answered)
    yield part
