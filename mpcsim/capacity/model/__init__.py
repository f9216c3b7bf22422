"""What is modelled: machines, workloads, arrivals, incidents, and what operations cost."""

from mpcsim.capacity.model.parts import EXACTNESSES

__all__ = [
    "EXACTNESSES",
]
