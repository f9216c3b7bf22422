"""Life of a call: its order begins it, its completion ends it, and statistics keep the outcome."""

from mpcsim.capacity.kernel.calls import completion, orders, statistics

__all__ = ["completion", "orders", "statistics"]
