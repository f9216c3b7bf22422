"""A trace's sequence diagram for notebooks: HTML that stands alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpcsim.sim.traces.trace import Trace


MAX_DIAGRAM_MESSAGES = 80
"""Traces with more messages are shown without a diagram."""


def picture(trace: Trace) -> str:
    """The sequence diagram as an HTML image with the SVG inside; a sentence where there is none."""
    if len(trace.messages) > MAX_DIAGRAM_MESSAGES:
        return f"<div>{len(trace.messages)} messages: too many for a diagram here</div>"
    try:
        from mpcsim.sim import figures
    except ImportError:
        return "<div>no diagram: matplotlib is not installed</div>"
    return figures.html(figures.sequence_diagram(trace), f"sequence diagram of {trace.name}")
