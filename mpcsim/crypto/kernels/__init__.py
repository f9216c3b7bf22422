"""Bulk arithmetic for OT extension and random VOLE, behind one small interface.

The protocol steps are written once against a ``Kernel``: whole-buffer symmetric cryptography,
bit matrices and vectors of scalars modulo the group order. Two kernels export exactly the same
names and give exactly the same results:

* ``PLAIN`` (``mpcsim.crypto.kernels.plain``) is the readable reference, a loop at a time;
* ``VECTORISED`` (``mpcsim.crypto.kernels.vectorised``) is the one to measure, and the ``DEFAULT``.

``mpcsim.crypto.kernels.interface`` documents every operation: shapes, units and sources.
"""

from typing import TYPE_CHECKING

from mpcsim.crypto.kernels import plain
from mpcsim.crypto.kernels.interface import Kernel, ScalarVector

if TYPE_CHECKING:
    DEFAULT: Kernel
    VECTORISED: Kernel

PLAIN: Kernel = plain


def __getattr__(name: str) -> Kernel:
    # Imported on first use: numpy is 17 MB, and only multiplications on secp256k1 need it.
    if name in ("DEFAULT", "VECTORISED"):
        from mpcsim.crypto.kernels import vectorised

        return vectorised
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["DEFAULT", "PLAIN", "VECTORISED", "Kernel", "ScalarVector"]
