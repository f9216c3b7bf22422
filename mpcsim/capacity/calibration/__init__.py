"""Costs from measurement: the real service under several loads on this machine."""

from mpcsim.capacity.calibration.calibrating import MINUTES, calibrate

__all__ = ["MINUTES", "calibrate"]
