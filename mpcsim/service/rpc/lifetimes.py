"""How long sessions may take: an MPC node ends its own, and the gateway its books of them."""

from __future__ import annotations

from typing import Final

SIGNING_S: Final = 15.0
"""Signing: a few round trips, with a slow network to spare."""
MAKING_S: Final = 60.0
"""Key generation and recovery, which wait for a password to be stretched, too."""
