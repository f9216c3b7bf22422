"""Costs from measurement: the real service under several loads on this machine."""

from typing import Final

MINUTES: Final = 6.0
"""About how long loads take turns, by default."""
