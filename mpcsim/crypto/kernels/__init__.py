"""Bulk arithmetic for OT extension and random VOLE, behind one small interface.

The protocol steps are written once against a ``Kernel``: whole-buffer symmetric cryptography,
bit matrices and vectors of scalars modulo the group order. Two kernels export exactly the same
names and give exactly the same results:

* ``PLAIN`` (``mpcsim.crypto.kernels.plain``) is the readable reference, a loop at a time;
* ``VECTORISED`` (``mpcsim.crypto.kernels.vectorised``) is the one to measure, and the ``DEFAULT``.

``mpcsim.crypto.kernels.interface`` documents every operation: shapes, units and sources.
"""

from mpcsim.crypto.kernels import plain, vectorised
from mpcsim.crypto.kernels.interface import Kernel, ScalarVector

PLAIN: Kernel = plain
VECTORISED: Kernel = vectorised
DEFAULT: Kernel = VECTORISED

__all__ = ["DEFAULT", "PLAIN", "VECTORISED", "Kernel", "ScalarVector"]
