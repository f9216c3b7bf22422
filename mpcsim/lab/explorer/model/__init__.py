"""The explored session as data, without a widget."""

from mpcsim.lab.explorer.model.checks import CHECKS
from mpcsim.lab.explorer.model.learning import Learning

__all__ = [
    "CHECKS",
    "Learning",
]
