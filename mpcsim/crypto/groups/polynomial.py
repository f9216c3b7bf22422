"""Polynomials over Z_q, in the clear and in the exponent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mpcsim.crypto.groups.group import Group, Point, Scalar
from mpcsim.crypto.rng import Rng
from mpcsim.errors import UsageError

Polynomial = tuple[Scalar, ...]
"""Coefficients, constant term first."""


def random_polynomial(constant: Scalar, degree: int, rng: Rng) -> Polynomial:
    """f with f(0) = ``constant`` and uniform higher coefficients."""
    return (constant, *(constant.group.random_scalar(rng) for _ in range(degree)))


def evaluate(f: Sequence[Scalar], x: int) -> Scalar:
    """f(x), by Horner's rule."""
    q = f[0].group.order
    y = 0
    for coefficient in reversed(f):
        y = (y * x + coefficient.n) % q
    return Scalar(y, f[0].group)


def commit(f: Sequence[Scalar]) -> tuple[Point, ...]:
    """Feldman commitment: C_k = a_k * G for each coefficient."""
    group = f[0].group
    return tuple(group.base(a) for a in f)


def evaluate_commitment(C: Sequence[Point], x: int) -> Point:
    """f(x) * G = sum_k x^k * C_k, by Horner's rule in the exponent."""
    group = C[0].group
    s = group.scalar(x)
    Y = C[-1]
    for C_k in reversed(C[:-1]):
        Y = s * Y + C_k
    return Y


def lagrange_coefficient(group: Group, i: int, ids: Iterable[int], x: int = 0) -> Scalar:
    """lambda_i(x): the weight of f(i) in f(x), for a polynomial known at ``ids``.

    RFC 9591, section 4.2 (derive_interpolating_value), for x = 0.

    Raises:
        UsageError: ``i`` is not among ``ids``, or two ids coincide modulo q.
    """
    q = group.order
    ids = list(ids)
    if i not in ids or len({j % q for j in ids}) != len(ids):
        raise UsageError(f"cannot interpolate at {i} from {ids}")
    numerator = denominator = 1
    for j in ids:
        if j != i:
            numerator = numerator * (x - j) % q
            denominator = denominator * (i - j) % q
    return Scalar(numerator * pow(denominator, -1, q) % q, group)
