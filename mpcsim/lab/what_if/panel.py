"""Panel for what-if questions, for notebooks.

    >>> from mpcsim.lab.what_if import what_if
    >>> what_if({"region": "tokyo", "loss": 0.01}, b={"institution": "singapore"})

In a notebook it is a widget; where widgets cannot run, a picture and tables. All functions of the
widget are methods, too: ``set``, ``copy``, ``swap``.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Final

from mpcsim.errors import needs_extra
from mpcsim.lab.what_if.comparison import PERCENTS, SAMPLES, Comparison, Side
from mpcsim.lab.what_if.configuration import Configuration
from mpcsim.lab.what_if.fields import FIELDS
from mpcsim.lab.what_if.views import CAUSES, View, view
from mpcsim.sim.rich_display import Table, document, milliseconds, mimebundle

if TYPE_CHECKING:
    from mpcsim.lab.what_if.widget import WhatIfWidget

LEAST_MS: Final = 0.1
"""Time below which, on both sides, a row is left out of the table."""


def what_if(
    a: Mapping[str, Any] | None = None,
    b: Mapping[str, Any] | None = None,
    *,
    samples: int = SAMPLES,
    seed: int = 0,
) -> WhatIf:
    """Compare two signing calls: how long they take, and why.

    Args:
        a: settings that differ from ``Configuration()``, e.g. ``{"region": "tokyo"}``.
        b: settings that differ from ``a``.
        samples: simulated calls of each side.

    Raises:
        UsageError: an unknown setting, a bad value, values that do not go together, or a bad
            number of samples.
    """
    return WhatIf(a, b, samples=samples, seed=seed)


class WhatIf(Comparison):
    """Comparison that notebooks show."""

    _widget: WhatIfWidget | None = None

    @property
    def widget(self) -> WhatIfWidget:
        """Widget of the comparison.

        Raises:
            UsageError: anywidget is not installed.
        """
        if self._widget is None:
            with needs_extra("workbench", "the widget"):
                from mpcsim.lab.what_if.widget import WhatIfWidget
            self._widget = WhatIfWidget(self)
        return self._widget

    def _take(self, sides: dict[Side, Configuration]) -> None:
        super()._take(sides)
        if self._widget is not None:
            self._widget.refresh()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Return the widget for front ends that can run it, and picture and tables for all
        others."""
        return mimebundle(self)

    def _repr_html_(self) -> str:
        """Return the static view of both sides."""
        shown = view(self)
        tables = [_settings(self), _figures(shown), _path(shown)]
        body = document("What if: POST /v3/wallet/sign", tables)
        code = f'<pre style="margin:6px 0">{escape(self.python)}</pre>'
        hint = escape("A widget where there is a kernel: change a setting, and the figures follow.")
        return f'{_picture(self)}{body}{code}<div style="opacity:.7">{hint}</div>'

    def __repr__(self) -> str:
        said = (f"{side.upper()} {_percentiles(each)}" for side, each in view(self).sides.items())
        return f"WhatIf<{'; '.join(said)}>"


def _percentiles(side: Any) -> str:
    return ", ".join(f"p{name} {ms:.0f} ms" for name, ms in side.percentiles.items())


def _picture(comparison: Comparison) -> str:
    """Return the tails of both sides; nothing where there is no matplotlib."""
    try:
        from mpcsim.sim import figures
    except ImportError:
        return ""
    times = {side.upper(): replay.answered_ms for side, replay in comparison.replays.items()}
    return figures.html(
        figures.tail_plot({"signing calls, whole REST call": times}), "calls that take longer"
    )


def _settings(comparison: Comparison) -> Table:
    """Return a table of the main settings, and of all that are not default or differ between the
    sides."""
    always = ("region", "institution", "access", "curve", "signer")
    plain = Configuration()
    rows = []
    for name, field in FIELDS.items():
        values = [getattr(each, name) for each in (comparison.a, comparison.b)]
        if name in always or set(values) != {getattr(plain, name)}:
            shown = [_shown(field.none, field.text(value), field.unit) for value in values]
            rows.append((field.label, *shown))
    return Table(("setting", "A", "B"), rows)


def _shown(none: str, text: str | bool, unit: str) -> str:
    if isinstance(text, bool):
        return "yes" if text else "no"
    if not text:
        return none or "the access network's"
    return f"{text} {unit}".rstrip()


def _figures(shown: View) -> Table:
    a, b = shown.sides["a"], shown.sides["b"]
    rows = [_row(f"p{p}", a.percentiles[str(p)], b.percentiles[str(p)]) for p in PERCENTS]
    rows.append(_row("mean", a.mean_ms, b.mean_ms))
    return _comparison_table("time", rows)


def _path(shown: View) -> Table:
    """Return a table of the mean critical path."""
    texts = {cause.name: cause.text for cause in CAUSES}
    spent: dict[tuple[str, str], dict[str, float]] = {}
    for name, side in shown.sides.items():
        for each in side.path:
            spent.setdefault((each.link, each.cause), {})[name] = each.ms
    rows = [
        _row(f"{link.name}: {texts[cause]}", found.get("a", 0.0), found.get("b", 0.0))
        for link in shown.links
        for cause in texts
        if (found := spent.get((link.name, cause))) and max(found.values()) >= LEAST_MS
    ]
    return _comparison_table("critical path, on average", rows)


def _row(what: str, a: float, b: float) -> tuple[str, str, str, str]:
    return what, milliseconds(a), milliseconds(b), f"{b - a:+,.2f}"


def _comparison_table(what: str, rows: list[tuple[str, str, str, str]]) -> Table:
    columns = (what, "A ms", "B ms", "B − A")
    return Table(columns, rows, frozenset(columns[1:]))
