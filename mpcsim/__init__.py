"""MPC wallet workbench: threshold-wallet protocols one can read, step, time and attack.

The protocols are the real ones, with every check. Python cannot promise constant time, so the
package is for study, simulation and testing, not for keys that guard value.
"""

from typing import TYPE_CHECKING

from mpcsim.lazy_names import lazy_names
from mpcsim.version import __version__

if TYPE_CHECKING:
    from mpcsim.sim import Network, Scenario, Simulation
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["Network", "Scenario", "Simulation", "__version__"]
