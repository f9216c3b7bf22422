"""Functions for sweeps, where other processes can import them."""

import os
from collections.abc import Mapping


def product_point(*, a: int, b: float, seed: int) -> Mapping[str, float]:
    """Depends on its parameters and its seed, and on nothing else."""
    return {"product": a * b, "drawn": (seed % 1000) / 1000}


class OddError(Exception):
    """An exception that does not survive the way between processes."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)
        self.second = second


def failing_point(*, a: int, seed: int) -> Mapping[str, float]:
    """Raises where ``a`` is 3."""
    if a == 3:
        raise OddError("three is too many", "really")
    return {"a_squared": a * a}


def dying_point(*, a: int, seed: int) -> Mapping[str, float]:
    """Takes its process with it."""
    os._exit(1)
