"""Inputs of the model: machines, workloads, arrivals, incidents, and service demands."""

from typing import TYPE_CHECKING

from mpcsim.lazy_names import lazy_names

if TYPE_CHECKING:
    from mpcsim.capacity.model.parts import EXACTNESSES
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "EXACTNESSES",
]
