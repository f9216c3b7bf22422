"""Inputs of the model: machines, workloads, arrivals, incidents, and service demands."""

from mpcsim.capacity.model.parts import EXACTNESSES

__all__ = [
    "EXACTNESSES",
]
