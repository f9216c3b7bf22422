"""View of the panel as plain data; ``view`` makes it. Times are milliseconds."""

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
"""Points of a tail."""


@dataclass(frozen=True)
class Cause:
    """Cause of time on a link, and how a bar of it is filled with its party's colour."""

    name: str
    text: str
    shade: float
    """Shade: 1 is the colour itself, 0 none of it."""
    hatch: str = ""
    """Hatch: ``/``, ``\\``, ``x`` or ``.``."""


_PARTS: Final = ("propagation", "transmission", "window", "handshake", "queueing", "recovery")
CAUSES: Final = tuple(
    Cause(part, FILLS[part].name, FILLS[part].shade, FILLS[part].hatch[:1]) for part in _PARTS
)
"""Causes that figures distinguish, too, and in the same way."""


@dataclass(frozen=True)
class Choice:
    """Value of a setting, as the page sends it."""

    value: str
    text: str


@dataclass(frozen=True)
class FieldView:
    """Setting."""

    name: str
    label: str
    kind: str
    """Kind: ``choice``, ``number`` or ``switch``."""
    hint: str
    unit: str
    low: float
    high: float
    """Upper bound of a number."""
    choices: tuple[Choice, ...]


@dataclass(frozen=True)
class GroupView:
    """Settings under a heading."""

    name: str
    fields: tuple[FieldView, ...]


@dataclass(frozen=True)
class LinkView:
    """Link to the gateway."""

    name: str
    """Name, e.g. ``client – gateway``."""
    colour: PartyColour
    """Colour of the party at its end."""


@dataclass(frozen=True)
class PathPart:
    """Mean time on the critical paths, by link and cause."""

    link: str
    cause: str
    ms: float


@dataclass(frozen=True)
class SideView:
    """Settings and results of one side."""

    values: Mapping[str, str | bool]
    usual: Mapping[str, str]
    """Defaults for numbers that are left out."""
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
    """View of the panel."""

    groups: tuple[GroupView, ...]
    causes: tuple[Cause, ...]
    links: tuple[LinkView, ...]
    sides: Mapping[str, SideView]
    samples: int
    python: str


def view(comparison: Comparison) -> View:
    """Return the view of a comparison."""
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
    """Return a view as dictionaries, lists and plain values."""
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
    """Return the mean time of the critical paths by link to the gateway and by cause, both
    directions together, the caller's link first.

    It adds up to the mean time.
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
