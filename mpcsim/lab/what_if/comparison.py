"""Comparison of two configurations: the panel without its widget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final, Literal

from mpcsim.errors import UsageError, check_type, unknown
from mpcsim.lab.what_if.configuration import Configuration
from mpcsim.sim.replay import Replay

Side = Literal["a", "b"]

SAMPLES: Final = 5_000
"""Simulated calls of each side."""
PERCENTS: Final = (50, 95, 99)
HEAD: Final = "from mpcsim import Network\nfrom node.calls import signing_call\n"


class Comparison:
    """Sides A and B; a refused change leaves both unchanged."""

    def __init__(
        self,
        a: Mapping[str, Any] | None = None,
        b: Mapping[str, Any] | None = None,
        *,
        samples: int = SAMPLES,
        seed: int = 0,
    ) -> None:
        """
        Args:
            a: settings that differ from ``Configuration()``.
            b: settings that differ from ``a``.
            samples: simulated calls of each side.

        Raises:
            UsageError: an unknown setting, a bad value, a bad number of samples.
        """
        self.samples = samples
        self.seed = seed
        first = with_changes(Configuration(), a or {})
        self._sides: dict[Side, Configuration] = {"a": first, "b": with_changes(first, b or {})}
        _ = self.replays

    # ------------------------------------------------------------------ results

    @property
    def a(self) -> Configuration:
        return self._sides["a"]

    @property
    def b(self) -> Configuration:
        return self._sides["b"]

    @property
    def replays(self) -> dict[Side, Replay]:
        """Simulated times of both sides."""
        return {side: each.replay(self.samples, self.seed) for side, each in self._sides.items()}

    @property
    def python(self) -> str:
        """Python code that makes the same replays, as ``a`` and ``b``, and shows their
        percentiles."""
        sides = "".join(c.python(side, self.samples, self.seed) for side, c in self._sides.items())
        return f"{HEAD}\n{sides}a.percentiles({PERCENTS}), b.percentiles({PERCENTS})\n"

    # ------------------------------------------------------------------ changes

    def set(self, side: Side, **changes: Any) -> None:
        """Change settings of a side: fields of ``Configuration``.

        Raises:
            UsageError: an unknown side or setting, a bad value, or values that do not go together.
        """
        if side not in self._sides:
            raise UsageError(unknown("side", str(side), self._sides))
        self._take({**self._sides, side: with_changes(self._sides[side], changes)})

    def copy(self) -> None:
        """Make B equal to A."""
        self._take({"a": self.a, "b": self.a})

    def swap(self) -> None:
        """Exchange A and B."""
        self._take({"a": self.b, "b": self.a})

    def _take(self, sides: dict[Side, Configuration]) -> None:
        for each in sides.values():
            each.replay(self.samples, self.seed)  # before the assignment: it may be refused
        self._sides = sides


def with_changes(configuration: Configuration, changes: Mapping[str, Any]) -> Configuration:
    """Return the configuration with some settings changed.

    Raises:
        UsageError: an unknown setting, a bad value, or values that do not go together.
    """
    check_type("settings", changes, Mapping)
    known = [f.name for f in fields(Configuration)]
    for name in changes:
        if name not in known:
            raise UsageError(unknown("setting", str(name), known))
    return replace(configuration, **changes)
