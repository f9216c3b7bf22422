"""The version of this package, as installed."""

from importlib.metadata import version

__version__ = version("mpcsim")
