"""MPC wallet workbench: threshold-wallet protocols one can read, step, time and attack.

The protocols are the real ones, with every check. Python cannot promise constant time, so the
package is for study, simulation and testing, not for keys that guard value.
"""

from importlib.metadata import version

__version__ = version("mpcsim")
