"""MPC wallet workbench: threshold-wallet protocols one can read, step, time and attack.

The protocols are the real ones, with every check. Python cannot promise constant time, so the
package is for study, simulation and testing, not for keys that guard value.
"""

from typing import TYPE_CHECKING

from mpcsim.version import __version__

if TYPE_CHECKING:
    from mpcsim.sim import Network as Network
    from mpcsim.sim import Scenario as Scenario
    from mpcsim.sim import Simulation as Simulation

__all__ = ["Network", "Scenario", "Simulation", "__version__"]

_HOMES = dict.fromkeys(("Network", "Scenario", "Simulation"), "mpcsim.sim")


def __getattr__(name: str) -> object:
    # Imported on first use: the protocols do without the simulator.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'mpcsim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
