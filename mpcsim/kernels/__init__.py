"""Bulk arithmetic for OT extension and random VOLE, behind one small interface.

The protocol steps are written once against a ``Kernel``: whole-buffer symmetric cryptography,
bit matrices and vectors of scalars modulo the group order. Two kernels export exactly the same
names and give exactly the same results:

* ``PLAIN`` (``mpcsim.kernels.plain``) is the readable reference, a loop at a time;
* ``VECTORISED`` (``mpcsim.kernels.vectorised``) is the one to measure, and the ``DEFAULT``.

``mpcsim.kernels.interface`` documents every operation: shapes, units and sources.
"""

from mpcsim.kernels import plain, vectorised
from mpcsim.kernels.interface import Kernel, ScalarVector

PLAIN: Kernel = plain
VECTORISED: Kernel = vectorised
DEFAULT: Kernel = VECTORISED

__all__ = ["DEFAULT", "PLAIN", "VECTORISED", "Kernel", "ScalarVector"]
