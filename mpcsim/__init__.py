"""MPC wallet workbench: threshold-wallet protocols one can read, step, time and attack.

The protocols are the real ones, with every check. Python cannot promise constant time, so the
package is for study, simulation and testing, not for keys that guard value.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpcsim.sim import Network as Network
    from mpcsim.sim import Scenario as Scenario
    from mpcsim.sim import Simulation as Simulation

__version__ = version("mpcsim")

__all__ = ["Network", "Scenario", "Simulation", "__version__"]


def __getattr__(name: str) -> object:
    # The front door, opened only when somebody comes in: the protocols do without it.
    if name in ("Network", "Scenario", "Simulation"):
        return getattr(import_module("mpcsim.sim"), name)
    raise AttributeError(f"module 'mpcsim' has no attribute {name!r}")
