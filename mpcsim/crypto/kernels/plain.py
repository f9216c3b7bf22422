"""The readable kernel: one row, one bit, one scalar at a time.

This is the reference the vectorised kernel is tested against; it is meant to be read next to
the papers. Shapes, units and sources are documented once, on ``interface.Kernel`` and
``interface.ScalarVector``.
"""

from collections.abc import Iterable, Sequence
from functools import reduce

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from mpcsim.crypto.kernels import interface
from mpcsim.crypto.kernels.interface import BLOCK_BYTES, SCALAR_BYTES, ScalarVector


def crhash(key: bytes, blocks: bytes, width: int, group: int = 1) -> bytes:
    """Tweakable correlation-robust hash, ``H(x, i) = pi(pi(x) xor i) xor pi(x)``."""
    interface.check_hash(key, blocks, width, group)
    pi = Cipher(algorithms.AES256(key), modes.ECB()).encryptor().update  # one block in, one out
    out = []
    for j, x in enumerate(_rows(blocks, BLOCK_BYTES)):
        pi_x = pi(x)
        for b in range(width):
            tweak = (j // group * width + b).to_bytes(BLOCK_BYTES, "little")
            out.append(xor(pi(xor(pi_x, tweak)), pi_x))
    return b"".join(out)


def expand(key: bytes, seeds: bytes, row_bytes: int, group: int = 1) -> bytes:
    """Expand each seed to ``row_bytes`` bytes."""
    width = interface.check_expand(seeds, row_bytes)
    wide = crhash(key, seeds, width, group)
    return b"".join(row[:row_bytes] for row in _rows(wide, width * BLOCK_BYTES))


def xor(a: bytes, b: bytes) -> bytes:
    """Exclusive or of two buffers."""
    interface.check_length("b", b, len(a))
    return bytes(x ^ y for x, y in zip(a, b, strict=True))


def select_rows(bits: bytes, rows: bytes, row_bytes: int, repeats: int) -> bytes:
    """Keep row ``i`` if bit ``i`` is set, else zero it."""
    interface.check_select(bits, rows, row_bytes, repeats)
    zero = bytes(row_bytes)
    repeated = [row for row in _rows(rows, row_bytes) for _ in range(repeats)]
    return b"".join(row if _bit(bits, i) else zero for i, row in enumerate(repeated))


def fold(rows: bytes, row_bytes: int, group: int) -> bytes:
    """Exclusive or of every ``group`` rows."""
    interface.check_groups("rows", rows, row_bytes, group)
    every = _rows(rows, row_bytes * group)
    return b"".join(reduce(xor, _rows(of_group, row_bytes)) for of_group in every)


def fold_by_bit(rows: bytes, row_bytes: int, k: int) -> bytes:
    """Return for each bit the exclusive or of the rows whose number has it."""
    interface.check_fold_by_bit(rows, row_bytes, k)
    out = []
    for of_group in _rows(rows, row_bytes * ((1 << k) - 1)):
        numbered = list(enumerate(_rows(of_group, row_bytes), start=1))
        for at in reversed(range(k)):
            out.append(reduce(xor, [row for w, row in numbered if w >> at & 1]))
    return b"".join(out)


def repeat_row(row: bytes, n: int) -> bytes:
    """Return ``n`` copies of ``row``."""
    interface.check_repeat(n)
    return row * n


def split_columns(rows: bytes, row_bytes: int, at: int) -> tuple[bytes, bytes]:
    """Cut every row after its first ``at`` bytes."""
    interface.check_columns(rows, row_bytes, at)
    cut = [(row[:at], row[at:]) for row in _rows(rows, row_bytes)]
    return b"".join(left for left, _ in cut), b"".join(right for _, right in cut)


def transpose(rows: bytes, n_rows: int, n_cols: int) -> bytes:
    """Transpose a bit matrix."""
    interface.check_transpose(rows, n_rows, n_cols)
    matrix = list(_rows(rows, n_cols // 8))
    return b"".join(_pack_bits(_bit(row, c) for row in matrix) for c in range(n_cols))


def binary_matvec(matrix: bytes, out_bits: int, rows: bytes, in_bits: int) -> bytes:
    """Multiply every row by a binary matrix: bit ``r`` of ``y_i`` is the parity of M_r & x_i."""
    interface.check_matvec(matrix, out_bits, rows, in_bits)
    in_bytes = in_bits // 8
    m = [int.from_bytes(row, "little") for row in _rows(matrix, in_bytes)]
    xs = [int.from_bytes(row, "little") for row in _rows(rows, in_bytes)]
    return b"".join(_pack_bits((m_r & x).bit_count() & 1 for m_r in m) for x in xs)


class _Residues(ScalarVector):
    """A tuple of integers in ``[0, q)``."""

    __slots__ = ("n", "q", "values")

    def __init__(self, values: Iterable[int], q: int) -> None:
        interface.check_modulus(q)
        self.values = tuple(value % q for value in values)
        self.n = len(self.values)
        self.q = q

    def encode(self) -> bytes:
        return b"".join(value.to_bytes(SCALAR_BYTES, "little") for value in self.values)


def uniform(data: bytes, q: int) -> ScalarVector:
    """Read uniform 32-byte strings as residues."""
    return split(data, 1, q)[0]


def decode(data: bytes, q: int) -> ScalarVector:
    """Read canonical scalars."""
    return split_checked(data, 1, q)[0]


def split(data: bytes, k: int, q: int) -> list[ScalarVector]:
    """De-interleave rows of ``k`` uniform strings into ``k`` vectors."""
    interface.check_split(data, k)
    values = [int.from_bytes(scalar, "little") for scalar in _rows(data, SCALAR_BYTES)]
    return [_Residues(values[c::k], q) for c in range(k)]


def split_checked(data: bytes, k: int, q: int) -> list[ScalarVector]:
    """De-interleave rows of ``k`` canonical scalars into ``k`` vectors."""
    vectors = split(data, k, q)
    if join(vectors) != data:
        raise interface.not_canonical()
    return vectors


def join(vectors: Sequence[ScalarVector]) -> bytes:
    """Interleave ``k`` vectors into rows of ``k`` canonical scalars."""
    interface.check_compatible(vectors)
    rows = zip(*(_rows(v.encode(), SCALAR_BYTES) for v in vectors), strict=True)
    return b"".join(scalar for row in rows for scalar in row)


def difference_plus(a: ScalarVector, b: ScalarVector, s: int) -> ScalarVector:
    """``a_j - b_j + s``."""
    interface.check_compatible([a, b])
    return _Residues((x - y + s for x, y in zip(_values(a), _values(b), strict=True)), a.q)


def masked_add(gamma: ScalarVector, bits: bytes, a: ScalarVector) -> ScalarVector:
    """``gamma_j + beta_j * a_j``."""
    interface.check_compatible([gamma, a])
    interface.check_bits(bits, len(gamma))
    pairs = enumerate(zip(_values(gamma), _values(a), strict=True))
    return _Residues((x + _bit(bits, j) * y for j, (x, y) in pairs), gamma.q)


def combine(
    coefficients: Sequence[int],
    vectors: Sequence[ScalarVector],
    minus_masked: tuple[bytes, int] | None = None,
) -> ScalarVector:
    """``sum_i coefficients[i] * vectors[i]``, less ``beta_j * eta``."""
    interface.check_combine(coefficients, vectors)
    n, q = len(vectors[0]), vectors[0].q
    totals = [0] * n
    for coefficient, vector in zip(coefficients, vectors, strict=True):
        for j, value in enumerate(_values(vector)):
            totals[j] += coefficient * value
    if minus_masked is not None:
        bits, eta = minus_masked
        interface.check_bits(bits, n)
        for j in range(n):
            totals[j] -= _bit(bits, j) * eta
    return _Residues(totals, q)


def dot(g: ScalarVector, v: ScalarVector) -> int:
    """``sum_j g_j * v_j``."""
    interface.check_compatible([g, v])
    return sum(x * y for x, y in zip(_values(g), _values(v), strict=True)) % g.q


def subset_sum(bits: bytes, g: ScalarVector) -> int:
    """``sum_j beta_j * g_j``."""
    interface.check_bits(bits, len(g))
    return sum(_bit(bits, j) * value for j, value in enumerate(_values(g))) % g.q


def _values(vector: ScalarVector) -> tuple[int, ...]:
    """Return the residues of a vector of any kernel."""
    if isinstance(vector, _Residues):
        return vector.values
    return tuple(
        int.from_bytes(scalar, "little") for scalar in _rows(vector.encode(), SCALAR_BYTES)
    )


def _rows(data: bytes, row_bytes: int) -> Iterable[bytes]:
    """Yield the rows of a buffer."""
    for start in range(0, len(data), row_bytes):
        yield data[start : start + row_bytes]


def _bit(bits: bytes, i: int) -> int:
    """Return bit ``i`` of a little-endian bit string."""
    return bits[i // 8] >> (i % 8) & 1


def _pack_bits(bits: Iterable[int]) -> bytes:
    """Pack bits, a multiple of 8 of them, into a little-endian bit string."""
    flat = list(bits)
    value = sum(bit << i for i, bit in enumerate(flat))
    return value.to_bytes(len(flat) // 8, "little")
