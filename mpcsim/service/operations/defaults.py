"""Addresses and folders of the served system by default, apart from the code that starts it."""

from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
METRICS_VARIABLE: Final = "METRICS_PORT"
"""Environment variable of every process with its metrics port; unset or empty: none."""
DATA_FOLDER: Final = Path(".mpcsim")
"""Default data folder of the served system."""
GRACE_S: Final = 120.0
"""Seconds for which an MPC node accepts the old key of its link: twice what a grant lives."""
