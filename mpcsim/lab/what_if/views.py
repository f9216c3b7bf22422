"""What the panel shows, as plain data; ``view`` makes it. Times are milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from mpcsim.ids import ROLES
from mpcsim.lab.what_if import fields
from mpcsim.lab.what_if.comparison import PERCENTS, Comparison
from mpcsim.lab.what_if.configuration import Configuration
from mpcsim.sim.colours import PartyColour, party_colour
from mpcsim.sim.figures.parts.style import FILLS
from mpcsim.sim.replay import Replay

LOWEST: Final = 1e-3
"""Share at which a tail ends."""
POINTS: Final = 160
"""Of a tail."""


@dataclass(frozen=True)
class Cause:
    """What time is spent on, and how a stretch of it is filled with its party's colour."""

    name: str
    text: str
    shade: float
    """1: the colour itself, 0: none of it."""
    hatch: str = ""
    """``/``, ``\\``, ``x`` or ``.``."""


_PARTS: Final = ("propagation", "transmission", "window", "handshake", "queueing", "recovery")
CAUSES: Final = tuple(
    Cause(part, FILLS[part].name, FILLS[part].shade, FILLS[part].hatch[:1]) for part in _PARTS
)
"""What figures tell apart, too, and in the same way."""


@dataclass(frozen=True)
class Choice:
    """One value of a setting, as the page sends it."""

    value: str
    text: str


@dataclass(frozen=True)
class FieldView:
    """One setting."""

    name: str
    label: str
    kind: str
    """``choice``, ``number`` or ``switch``."""
    hint: str
    unit: str
    low: float
    high: float
    """Of numbers."""
    choices: tuple[Choice, ...]


@dataclass(frozen=True)
class GroupView:
    """Settings under a heading."""

    name: str
    fields: tuple[FieldView, ...]


@dataclass(frozen=True)
class LinkView:
    """A link to the gateway."""

    name: str
    """``client – gateway``"""
    colour: PartyColour
    """Of who is at its end."""


@dataclass(frozen=True)
class PathPart:
    """Time on the critical paths, on average over all samples."""

    link: str
    cause: str
    ms: float


@dataclass(frozen=True)
class SideView:
    """One side: its settings, and what comes of them."""

    values: Mapping[str, str | bool]
    usual: Mapping[str, str]
    """What stands for a number that is left out."""
    idle: Mapping[str, str]
    """Settings without effect, and why."""
    call: str
    network: str
    percentiles: Mapping[str, float]
    mean_ms: float
    tail: tuple[tuple[float, float], ...]
    """Times, and the share of calls that take longer."""
    path: tuple[PathPart, ...]


@dataclass(frozen=True)
class View:
    """All of it."""

    groups: tuple[GroupView, ...]
    causes: tuple[Cause, ...]
    links: tuple[LinkView, ...]
    sides: Mapping[str, SideView]
    samples: int
    python: str


def view(comparison: Comparison) -> View:
    """What there is to see."""
    replays = comparison.replays
    sides = {"a": comparison.a, "b": comparison.b}
    return View(
        tuple(
            GroupView(group.name, tuple(_field(field) for field in group.fields))
            for group in fields.GROUPS
        ),
        CAUSES,
        tuple(LinkView(_link(role), party_colour(i)) for i, role in ROLES.items()),
        {side: _side(sides[side], replay) for side, replay in replays.items()},
        comparison.samples,
        comparison.python,
    )


def as_json(view: View) -> dict[str, Any]:
    """Dictionaries, lists and plain values."""
    return asdict(view)


def _field(field: fields.Field) -> FieldView:
    choices = (
        Choice(str(field.text(each)), field.none if each is None else str(each))
        for each in field.choices
    )
    return FieldView(
        field.name,
        field.label,
        field.kind,
        field.hint,
        field.unit,
        field.low,
        field.high,
        tuple(choices),
    )


def _side(configuration: Configuration, replay: Replay) -> SideView:
    shares = np.geomspace(1.0, LOWEST, POINTS)
    times = np.quantile(replay.answered_ms, 1 - shares, method="inverted_cdf")
    failed = ""
    if replay.failed:
        share = replay.failed / replay.samples
        failed = f"; {share:.2%} of the calls failed, times are of the others"
    return SideView(
        {name: f.text(getattr(configuration, name)) for name, f in fields.FIELDS.items()},
        fields.access_defaults(configuration),
        fields.ineffective_settings(configuration),
        replay.name,
        replay.network + failed,
        {str(percent): ms for percent, ms in replay.percentiles(PERCENTS).items()},
        replay.mean_ms,
        tuple(zip(times.tolist(), shares.tolist(), strict=True)),
        path(replay),
    )


def path(replay: Replay) -> tuple[PathPart, ...]:
    """What the time of the critical paths was made of: links to the gateway by cause, both ways
    together, the caller's first.

    Adds up to the mean time.
    """
    found: dict[tuple[str, str], float] = {}
    explanation = replay.explanation
    for direction, parts in explanation.link_split_ms.items() if explanation else ():
        (end,) = {*direction.split(" → ")} - {"gateway"}
        for cause, ms in parts.items():
            found[end, cause] = found.get((end, cause), 0.0) + ms
    return tuple(
        PathPart(_link(role), cause.name, found[role, cause.name])
        for role in ROLES.values()
        for cause in CAUSES
        if (role, cause.name) in found
    )


def _link(role: str) -> str:
    return f"{role} – gateway"
