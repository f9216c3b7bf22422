"""Known deviations: waivers for what a service does otherwise on purpose, with name and reason.

Another implementation may differ where its authors decided so. A waiver keeps that from failing the
same test every night, and reports it, too::

    check_wallet_service(target, known_deviations={
        "health": "ours is a page for people",
        "error_is_as_specified": "our errors are RFC 9457 documents",
        "sign_nonsense/answer_is_as_specified": "we answer 422",
    })

A name is that of a step (``api_steps.STEPS``), which is then not taken; of an invariant
(``service_checks``), which may then be broken in every step; or of an invariant in one step. Where
an answer is so different that a step cannot go on, the step ends there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mpcsim.errors import UsageError, unknown
from mpcsim.sim.network.files import toml
from mpcsim.testing.backend import service_checks
from mpcsim.testing.invariants import EXCUSED, Invariant

CHECKS: Final = tuple(
    name for name, found in vars(service_checks).items() if isinstance(found, Invariant)
)
"""Invariants that may be waived."""


class KnownDeviations:
    """Known deviations of a service, and how often each was needed so far."""

    def __init__(self, reasons: Mapping[str, str], steps: Collection[str]) -> None:
        """
        Args:
            reasons: reasons by the name of the deviation.
            steps: names of all steps.

        Raises:
            UsageError: an unknown name, or no reason.
        """
        for name, reason in reasons.items():
            step, _, check = str(name).rpartition("/")
            if step and step not in steps:
                raise UsageError(f"waiver {name!r}: {unknown('step', step, steps)}")
            known = CHECKS if step else (*CHECKS, *steps)
            if check not in known:
                what = "invariant" if step else "invariant or step"
                raise UsageError(f"waiver {name!r}: {unknown(what, check, known)}")
            said: object = reason  # of a file, anything
            if not isinstance(said, str) or not said.strip():
                raise UsageError(f"waiver {name!r}: it needs a reason, as a text")
        self.reasons = dict(reasons)
        self.use_counts: Counter[str] = Counter()

    def skips(self, step: str) -> bool:
        """Return whether a step is not to be taken; count it if so."""
        return self._count_use(step)

    @contextmanager
    def excuse_during(self, step: str) -> Iterator[list[str]]:
        """Excuse deviations while a step is taken; yield a list that collects those that were
        needed."""
        needed: list[str] = []

        def excused(invariant: str) -> bool:
            found = [n for n in (f"{step}/{invariant}", invariant) if self._count_use(n)]
            needed.extend(found)
            return bool(found)

        before = EXCUSED.set(excused)
        try:
            yield needed
        finally:
            EXCUSED.reset(before)

    def _count_use(self, name: str) -> bool:
        if name not in self.reasons:
            return False
        self.use_counts[name] += 1
        return True


def read(path: str | Path) -> dict[str, str]:
    """Read reasons from a TOML file, a line each: ``health = "ours is a page for people"``.

    Raises:
        UsageError: it is no TOML. (What is in it, ``KnownDeviations`` looks at.)
        OSError: the file cannot be read.
    """
    return toml.read(path)


def report_lines(reasons: Mapping[str, str], met: Mapping[str, int]) -> list[str]:
    """Return a line for each deviation: how often it was needed, and its reason."""
    lines = []
    for name, reason in reasons.items():
        times = met.get(name, 0)
        needed = f"needed {times:,} times" if times > 1 else "needed once"
        lines.append(f"waived: {name}, {needed if times else 'not needed'}: {reason}")
    return lines
