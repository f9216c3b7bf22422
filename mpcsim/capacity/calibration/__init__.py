"""Calibration: service demands from measurements of the real service on this machine."""

from mpcsim.capacity.calibration.calibrating import calibrate

__all__ = ["calibrate"]
