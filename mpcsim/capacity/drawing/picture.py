"""Picture of a deployment: sites, their machines with cores and disk, processes, and links.

Processes in one box of a machine share its cores. Needs matplotlib.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from matplotlib.axes import Axes
from matplotlib.patches import Arc, Ellipse, FancyBboxPatch, Polygon, Rectangle

from mpcsim.capacity.drawing.description import title
from mpcsim.capacity.model.parts import Machine, Model
from mpcsim.errors import UsageError
from mpcsim.ids import ROLES
from mpcsim.sim.colours import BLACK, DARK, GREY, LIGHT, PALE, WHITE, party_colour, tint
from mpcsim.sim.figures import TALLEST, Chart, new_chart
from mpcsim.sim.figures.parts.canvas import add_heading
from mpcsim.sim.figures.parts.style import FONT
from mpcsim.sim.network.losses import describe_loss
from mpcsim.sim.network.topology import Link

# Sizes are in inches.
MACHINE: Final = 2.5
"""Width of a machine."""
GAP: Final = 1.25
"""Space between columns of sites, for the labels of links."""
PAD: Final = 0.12
PROCESS: Final = 0.42
HEAD: Final = 0.3
"""Height of a machine's first line: its name and its cores."""
FOOT: Final = 0.22
"""Height of a machine's last line: memory, speed, disk."""
SITE: Final = 0.24
"""Height of a site's name."""
APART: Final = 0.4
"""Space between sites of a column."""
KEY: Final = 6.8
"""Width of the legend."""
ALIKE: Final = 3
"""Replicas or workers beyond this number are drawn as one with their count."""
CORES: Final = 16
"""Cores beyond this number are only counted."""
COLUMN: Final = {"caller": 0, "node": 0, "gateway": 1, "operator": 2, "institution": 2}
WRITES: Final = ("gateway", "operator", "institution")
"""Parts with a database on their machine's disk."""


def picture(model: Model) -> Chart:
    """Plot a deployment.

    Raises:
        UsageError: it is taller than a screen.
    """
    groups = _groups(model)
    columns = [[g for g in groups if g.column == column] for column in range(3)]
    columns = [column for column in columns if column]
    heights = [sum(g.height for g in column) + APART * (len(column) - 1) for column in columns]
    width = len(columns) * (MACHINE + 2 * PAD) + (len(columns) - 1) * GAP + 0.4
    top, bottom = 0.42, 0.62
    height = max(heights) + top + bottom
    if height > TALLEST:
        raise UsageError(f"{len(model.machines)} machines are taller than a screen: show less")
    figure = new_chart(max(width, KEY), height)
    width = float(figure.get_size_inches()[0])
    add_heading(figure, title(model))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.set_axis_off()
    middle = bottom + max(heights) / 2
    used = len(columns) * (MACHINE + 2 * PAD) + (len(columns) - 1) * GAP
    left = (width - used) / 2
    for column, high in zip(columns, heights, strict=True):
        y = middle + high / 2
        for group in column:
            group.left, group.top = left, y
            y -= group.height + APART
        left += MACHINE + 2 * PAD + GAP
    for group in groups:
        _draw_group(axes, model, group)
    _draw_links(axes, model, groups)
    _draw_key(axes, model)
    return figure


# ---------------------------------------------------------------------- layout


@dataclass(frozen=True)
class _Card:
    """Machine, or several identical ones."""

    machine: Machine
    alike: int
    rows: tuple[tuple[str, str], ...]
    """Processes, or several identical ones: the part, and their name."""
    foot: str

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part for part, _ in self.machine.replicas))

    @property
    def disk(self) -> bool:
        return any(part in WRITES for part in self.parts)

    @property
    def height(self) -> float:
        last = FOOT if self.foot or self.disk else 0.06
        return HEAD + PROCESS * len(self.rows) + last


@dataclass
class _Group:
    """Sites whose machines cannot be separated by site: mostly a single one."""

    sites: tuple[str, ...]
    column: int
    cards: list[_Card]
    inside: list[Link]
    """Links within the group."""
    left: float = 0.0
    top: float = 0.0

    @property
    def height(self) -> float:
        cards = sum(card.height for card in self.cards) + PAD * (len(self.cards) + 1)
        return SITE + cards + 0.16 * len(self.inside)

    @property
    def right(self) -> float:
        return self.left + MACHINE + 2 * PAD

    @property
    def middle(self) -> float:
        return self.top - self.height / 2


def _groups(model: Model) -> list[_Group]:
    cards = list(_cards(model))
    found: list[_Group] = []
    for card in cards:
        parts = [part for part, _ in card.machine.replicas]
        sites = tuple(dict.fromkeys(model.sites[part] for part in parts))
        column = min(COLUMN[part] for part in parts)
        joined = [group for group in found if set(group.sites) & set(sites)]
        for group in joined:
            found.remove(group)
            sites = tuple(dict.fromkeys((*group.sites, *sites)))
            column = min(column, group.column)
        known = [each for group in joined for each in group.cards]
        found.append(_Group(sites, column, [*known, card], []))
    for link in model.network.links:
        for group in found:
            if link.a in group.sites and link.b in group.sites:
                group.inside.append(link)
    return found


def _cards(model: Model) -> Iterator[_Card]:
    for machine in model.machines:
        parts = tuple(dict.fromkeys(part for part, _ in machine.replicas))
        first = model.parts[parts[0]]
        alike = first.replicas if not first.machine and first.replicas > ALIKE else 1
        if alike == 1 or machine.replicas[0][1] == 1:
            yield _Card(machine, alike, tuple(_rows(model, machine)), _remarks(model, parts))


def _rows(model: Model, machine: Machine) -> Iterator[tuple[str, str]]:
    """Yield processes with the names that results use."""
    for name, replica in machine.replicas:
        workers = model.parts[name].workers
        if workers > ALIKE:
            yield name, f"{name} {replica}.1 to {replica}.{workers}"
        else:
            for worker in range(1, workers + 1):
                yield name, f"{name} {replica}.{worker}"


def _remarks(model: Model, parts: Sequence[str]) -> str:
    """Return the remarks about a machine."""
    said = []
    for name in parts:
        part = model.parts[name]
        who = f"{name} " if len(parts) > 1 else ""
        if part.speed != 1:
            said.append(f"{who}speed {part.speed:g}")
        if part.memory_mb < math.inf:
            said.append(f"{who}{part.memory_mb:,g} MB")
    return ", ".join(said)


# ---------------------------------------------------------------------- drawing


def _draw_group(axes: Axes, model: Model, group: _Group) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (group.left, group.top - group.height),
            MACHINE + 2 * PAD,
            group.height,
            boxstyle="round,pad=0,rounding_size=0.1",
            facecolor=PALE,
            edgecolor=LIGHT,
            lw=0.8,
        )
    )
    what = "site" if len(group.sites) == 1 else "sites"
    names = f"{what}: {', '.join(group.sites)}"
    _add_text(axes, group.left + PAD, group.top - 0.16, names, color=GREY)
    y = group.top - SITE - PAD / 2
    for card in group.cards:
        _draw_card(axes, model, card, group.left + PAD, y)
        y -= card.height + PAD
    for link in group.inside:
        _add_text(
            axes, group.left + PAD, y - 0.06, f"{link.a} - {link.b}: {link.mean_text}", color=GREY
        )
        y -= 0.16


def _draw_card(axes: Axes, model: Model, card: _Card, left: float, top: float) -> None:
    for behind in range(min(card.alike - 1, 2), 0, -1):
        off = 0.05 * behind
        box = (left + off, top - card.height - off), MACHINE, card.height
        axes.add_patch(Rectangle(*box, facecolor=WHITE, edgecolor=DARK, lw=0.8))
    box = (left, top - card.height), MACHINE, card.height
    axes.add_patch(Rectangle(*box, facecolor=WHITE, edgecolor=DARK, lw=1.0))
    name = card.machine.name
    if card.alike > 1:
        name += f" to {card.alike}, each"
    _add_text(axes, left + 0.08, top - 0.17, name, color=BLACK, weight="bold")
    _draw_cores(axes, card.machine.cores, left + MACHINE - 0.08, top - 0.17)
    y = top - HEAD
    extrapolated = {text.partition(":")[0] for text in model.extrapolated}
    for part, called in card.rows:
        _draw_process(axes, called, _colour_of(part), part in extrapolated, left + 0.06, y)
        y -= PROCESS
    _add_text(axes, left + 0.08, y - 0.1, card.foot, color=GREY)
    if card.disk:
        _draw_disk(axes, left + MACHINE - 0.2, y - 0.1)


def _draw_cores(axes: Axes, cores: int, right: float, y: float) -> None:
    """Draw a square for each core, and their number."""
    text = f"{cores} core" + ("s" if cores > 1 else "")
    _add_text(axes, right, y, text, color=DARK, ha="right")
    shown = min(cores, CORES) if cores <= CORES else 0
    side = 0.085
    right -= 0.062 * len(text) + 0.06
    for n in range(shown):
        row, column = divmod(n, 8)
        x = right - (min(shown, 8) - column) * (side + 0.025)
        up = y - side / 2 + (0.055 if shown > 8 else 0) - row * 0.11
        axes.add_patch(Rectangle((x, up), side, side, facecolor=DARK, edgecolor=DARK, lw=0.3))


def _draw_process(axes: Axes, called: str, ink: str, dashed: bool, left: float, top: float) -> None:
    """Draw a process: its queue, event loop and threads."""
    wide, high = MACHINE - 0.12, PROCESS - 0.06
    axes.add_patch(
        FancyBboxPatch(
            (left, top - high),
            wide,
            high,
            boxstyle="round,pad=0,rounding_size=0.05",
            facecolor=tint(ink, 0.12),
            edgecolor=ink,
            lw=0.9,
            linestyle="--" if dashed else "-",
        )
    )
    middle = top - high / 2
    _add_text(axes, left + 0.08, middle, called, color=BLACK)
    x = left + 1.22
    _draw_queue(axes, x, middle, ink)
    _draw_loop(axes, x + 0.42, middle, ink)
    _draw_threads(axes, x + 0.66, middle, ink)


def _draw_queue(axes: Axes, x: float, y: float, ink: str) -> None:
    for n in range(3):
        box = (x + 0.085 * n, y - 0.08), 0.05, 0.16
        axes.add_patch(Rectangle(*box, facecolor=tint(ink, 0.5), edgecolor=ink, lw=0.4))


def _draw_loop(axes: Axes, x: float, y: float, ink: str) -> None:
    """Draw a circular arrow."""
    size = 0.24
    axes.add_patch(Arc((x, y), size, size, theta1=60, theta2=370, edgecolor=ink, lw=1.6))
    tip = x + size / 2, y
    head = [(tip[0] - 0.06, y + 0.01), (tip[0] + 0.06, y + 0.01), (tip[0] + 0.005, y + 0.1)]
    axes.add_patch(Polygon(head, closed=True, facecolor=ink, edgecolor=ink, lw=0.3))


def _draw_threads(axes: Axes, x: float, y: float, ink: str) -> None:
    for n in range(32):
        row, column = divmod(n, 8)
        at = (x + 0.056 * column, y + 0.065 - 0.052 * row - 0.015)
        axes.add_patch(Rectangle(at, 0.034, 0.03, facecolor=WHITE, edgecolor=ink, lw=0.35))


def _draw_disk(axes: Axes, x: float, y: float) -> None:
    wide, high, flat = 0.2, 0.1, 0.05
    body = (x - wide / 2, y - high / 2), wide, high
    axes.add_patch(Rectangle(*body, facecolor=LIGHT, edgecolor="none"))
    for at in (y - high / 2, y + high / 2):
        axes.add_patch(Ellipse((x, at), wide, flat, facecolor=LIGHT, edgecolor=DARK, lw=0.6))
    for side in (x - wide / 2, x + wide / 2):
        axes.plot([side, side], [y - high / 2, y + high / 2], color=DARK, lw=0.6)


def _draw_links(axes: Axes, model: Model, groups: Sequence[_Group]) -> None:
    at = {site: number for number, group in enumerate(groups) for site in group.sites}
    between: dict[tuple[int, int], list[Link]] = {}
    for link in model.network.links:
        ends = sorted(at[end] for end in (link.a, link.b) if end in at)
        if len(set(ends)) == 2:
            between.setdefault((ends[0], ends[1]), []).append(link)
    for pair, links in between.items():
        one, other = sorted((groups[n] for n in pair), key=lambda group: group.left)
        if one.left == other.left:  # one above the other
            low, high = sorted((one, other), key=lambda group: group.top)
            x = one.left + MACHINE / 2 + PAD
            ends_x, ends_y = (x, x), (high.top - high.height, low.top)
        else:  # level, as far as they can be
            start = min(max(other.middle, one.top - one.height + 0.3), one.top - 0.3)
            ends_x, ends_y = (one.right, other.left), (start, other.middle)
        axes.plot(ends_x, ends_y, color=DARK, lw=1.4, zorder=1)
        several = len(links) > 1
        text = "\n".join(line for link in links for line in _link_label(link, several))
        ground = {"boxstyle": "square,pad=0.25", "fc": WHITE, "ec": LIGHT, "lw": 0.6}
        x, y = sum(ends_x) / 2, sum(ends_y) / 2
        _add_text(axes, x, y, text, color=BLACK, ha="center", bbox=ground)


def _link_label(link: Link, named: bool) -> Iterator[str]:
    """Yield the lines of a link's label."""
    yield f"{link.a}: {link.mean_text}" if named else link.mean_text
    there, back = link.direction(link.a), link.direction(link.b)
    if min(there.mbit_per_s, back.mbit_per_s) < 1000:
        rates = dict.fromkeys(f"{each.mbit_per_s:g}" for each in (there, back))
        yield "/".join(rates) + " Mbit/s"
    if there.is_lossy:
        yield f"loss {describe_loss(there.loss)}"


def _draw_key(axes: Axes, model: Model) -> None:
    """Draw the legend."""
    y, x = 0.4, 0.25

    def write(wide: float, text: str) -> None:
        nonlocal x
        _add_text(axes, x + wide + 0.08, y, text, color=DARK)
        x += wide + 0.25 + 0.056 * len(text)

    _draw_queue(axes, x, y, DARK)
    write(0.22, "queue")
    _draw_loop(axes, x + 0.12, y, DARK)
    write(0.26, "event loop: one job at a time")
    _draw_threads(axes, x, y, DARK)
    write(0.44, "threads")
    axes.add_patch(Rectangle((x, y - 0.045), 0.085, 0.085, facecolor=DARK, edgecolor=DARK))
    write(0.085, "core, of all in the box")
    _draw_disk(axes, x + 0.1, y)
    write(0.2, "disk")
    note = "Times between sites: one way, on average."
    if model.extrapolated:
        note += " Dashed: more processes than the real service has there."
    _add_text(axes, 0.25, 0.15, note, color=GREY)


def _colour_of(part: str) -> str:
    """Return a party's colour; grey for other components."""
    roles = {role: party for party, role in ROLES.items()}
    name = "client" if part == "node" else part
    return party_colour(roles[name]).line if name in roles else DARK


def _add_text(axes: Axes, x: float, y: float, text: str, **options: object) -> None:
    axes.text(x, y, text, fontsize=FONT, va="center", **options)  # type: ignore[arg-type]
