"""The fast kernel: whole buffers through AES-ECB and numpy, no Python loop over rows.

Shapes, units and sources are documented once, on ``interface.Kernel`` and
``interface.ScalarVector``; results equal those of the plain kernel bit for bit.

Scalars modulo ``q`` are held as sixteen limbs of 16 bits in float64, one row per limb
(shape ``(16, n)``), unreduced and possibly negative. Sums and small matrix products of such
limbs stay below 2**53, hence exact, and reduction waits until an encoding is asked for. Matrix
products are kept so small that BLAS never starts a second thread.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, TypeAlias, final

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from mpcsim.crypto.kernels import interface
from mpcsim.crypto.kernels.interface import BLOCK_BYTES, SCALAR_BYTES, ScalarVector

Bytes: TypeAlias = npt.NDArray[np.uint8]
Words: TypeAlias = npt.NDArray[np.uint64]
Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]

# Little-endian whatever the host: these dtypes are also wire formats.
_U16: Final = np.dtype("<u2")
_U32: Final = np.dtype("<u4")
_U64: Final = np.dtype("<u8")
_BLOCK: Final = np.dtype("V16")
_SCALAR: Final = np.dtype("V32")

# Freeing one large block teaches glibc to keep freed memory up to about that size. Otherwise it
# returns arrays of 128 kB and more to the system, and faulting fresh pages in for every call costs
# more than the work done on them. Elsewhere this line does nothing.
np.empty(1 << 21, np.uint8)

# Steps of the 8x8 bit transpose: shift, and mask of the bits that move down by it. Arrays, as
# numpy converts them faster than Python integers.
_TRANSPOSE_STEPS: Final = tuple(
    (np.array(shift, np.uint64), np.array(mask, np.uint64))
    for shift, mask in (
        (7, 0x00AA00AA00AA00AA),
        (14, 0x0000CCCC0000CCCC),
        (28, 0x00000000F0F0F0F0),
    )
)


def crhash(key: bytes, blocks: bytes, width: int, group: int = 1) -> bytes:
    """Tweakable correlation-robust hash: two AES passes over whole buffers."""
    n = interface.check_hash(key, blocks, width, group)
    idle = _idle(key)
    try:
        pi = idle.pop()
    except IndexError:
        pi = _permutation(key)
    # Two words a block: pi(x_j), each repeated for its outputs.
    pi_x = np.frombuffer(pi(blocks), _BLOCK).repeat(width).view(_U64)
    inner = pi_x.copy()
    inner[::2] ^= _tweaks(n, width, group)
    pi_x ^= np.frombuffer(pi(inner.tobytes()), _U64)
    idle.append(pi)
    return pi_x.tobytes()


@lru_cache(maxsize=16)
def _tweaks(n: int, width: int, group: int) -> Words:
    """Return the tweak of every output block of ``n`` blocks; never write to it."""
    by_group = np.arange(n // group * width, dtype=_U64).reshape(-1, 1, width)
    return by_group.repeat(group, axis=1).reshape(-1)


@lru_cache(maxsize=16)
def _idle(key: bytes) -> list[Callable[[bytes], bytes]]:
    """Return the cached AES objects of a (public) key that no thread uses just now.

    A session hashes repeatedly with one key. Whole blocks leave no state behind, but no two threads
    may use one object at a time.
    """
    return []


def _permutation(key: bytes) -> Callable[[bytes], bytes]:
    return Cipher(algorithms.AES256(key), modes.ECB()).encryptor().update


def expand(key: bytes, seeds: bytes, row_bytes: int, group: int = 1) -> bytes:
    """Expand each seed to ``row_bytes`` bytes."""
    width = interface.check_expand(seeds, row_bytes)
    wide = crhash(key, seeds, width, group)
    return _matrix(wide, len(seeds) // BLOCK_BYTES, width * BLOCK_BYTES)[:, :row_bytes].tobytes()


def xor(a: bytes, b: bytes) -> bytes:
    """Exclusive or of two buffers."""
    interface.check_length("b", b, len(a))
    return (np.frombuffer(a, np.uint8) ^ np.frombuffer(b, np.uint8)).tobytes()


def select_rows(bits: bytes, rows: bytes, row_bytes: int, repeats: int) -> bytes:
    """Keep row ``i`` if bit ``i`` is set, else zero it."""
    n = interface.check_select(bits, rows, row_bytes, repeats)
    matrix = np.frombuffer(rows, np.uint8).reshape(-1, 1, row_bytes)
    return (matrix * _unpack_bits(bits, n).reshape(-1, repeats, 1)).tobytes()


def fold(rows: bytes, row_bytes: int, group: int) -> bytes:
    """Exclusive or of every ``group`` rows."""
    n = interface.check_groups("rows", rows, row_bytes, group)
    if group == 1:
        return rows
    every = np.frombuffer(rows, np.uint8).reshape(n, group, row_bytes)
    folded: bytes = np.bitwise_xor.reduce(every, axis=1).tobytes()
    return folded


def fold_by_bit(rows: bytes, row_bytes: int, k: int) -> bytes:
    """Return for each bit the exclusive or of the rows whose number has it."""
    n = interface.check_fold_by_bit(rows, row_bytes, k)
    if k == 1:
        return rows
    every = np.frombuffer(rows, np.uint8).reshape(n, (1 << k) - 1, row_bytes)
    out = np.empty((n, k, row_bytes), np.uint8)
    for d, having in enumerate(_numbers_by_bit(k)):
        np.bitwise_xor.reduce(every[:, having], axis=1, out=out[:, d])
    return out.tobytes()


@lru_cache
def _numbers_by_bit(k: int) -> tuple[Integers, ...]:
    """Places of the numbers from 1 on that have a bit set; the highest bit first."""
    numbers = np.arange(1, 1 << k)
    return tuple(np.flatnonzero(numbers >> at & 1) for at in reversed(range(k)))


def repeat_row(row: bytes, n: int) -> bytes:
    """Return ``n`` copies of ``row``."""
    interface.check_repeat(n)
    return row * n


def split_columns(rows: bytes, row_bytes: int, at: int) -> tuple[bytes, bytes]:
    """Cut every row after its first ``at`` bytes."""
    matrix = _matrix(rows, interface.check_columns(rows, row_bytes, at), row_bytes)
    return matrix[:, :at].tobytes(), matrix[:, at:].tobytes()


def transpose(rows: bytes, n_rows: int, n_cols: int) -> bytes:
    """Transpose a bit matrix: gather 8x8 tiles into words, transpose each, scatter back."""
    interface.check_transpose(rows, n_rows, n_cols)
    height, width = n_rows // 8, n_cols // 8
    by_row = np.frombuffer(rows, np.uint8).reshape(height, 8, width)
    tiles = by_row.transpose(2, 0, 1).copy().view(_U64)  # (width, height, 1)
    for shift, mask in _TRANSPOSE_STEPS:  # swap 1x1, then 2x2, then 4x4 squares
        moved = tiles >> shift
        moved ^= tiles
        moved &= mask
        tiles ^= moved
        moved <<= shift
        tiles ^= moved
    return tiles.view(np.uint8).transpose(0, 2, 1).tobytes()


def binary_matvec(matrix: bytes, out_bits: int, rows: bytes, in_bits: int) -> bytes:
    """Multiply every row by a binary matrix, by the method of the four Russians.

    For each byte position ``p`` of the input, tabulate ``M`` times every value ``v`` of that
    byte; the product is then one table entry per input byte, xored together.
    """
    n = interface.check_matvec(matrix, out_bits, rows, in_bits)
    in_bytes, out_bytes = in_bits // 8, out_bits // 8
    word = _U64 if out_bytes % 8 == 0 else np.dtype(np.uint8)
    columns = np.frombuffer(transpose(matrix, out_bits, in_bits), word)
    # (8, in_bytes * words): row k has the columns of M for bit k of every byte position.
    by_bit = np.ascontiguousarray(columns.reshape(in_bytes, 8, -1).transpose(1, 0, 2))
    by_bit = by_bit.reshape(8, -1)
    table = np.empty((256, by_bit.shape[1]), word)  # entry (v, p): M times v at position p
    table[0] = 0
    for k in range(8):
        np.bitwise_xor(table[: 1 << k], by_bit[k], out=table[1 << k : 2 << k])
    where = _matrix(rows, n, in_bytes).T.astype(np.intp)  # (in_bytes, n)
    where *= in_bytes
    where += np.arange(in_bytes)[:, None]
    entries = table.view(np.dtype((np.void, out_bytes))).reshape(-1).take(where)
    products: bytes = np.bitwise_xor.reduce(entries.view(word), axis=0).tobytes()
    return products


_LIMBS: Final = 16  # of 16 bits: the lazy form
_WIDE_LIMBS: Final = 8  # of 32 bits: the form that is reduced
_WIDE_SHIFT: Final = np.array(32)
_MAX_BOUND: Final = 4  # lazy limbs stay below 4 * 2**16
_BLAS_COLUMNS: Final = 512  # per matrix product: exact sums, and BLAS stays on one thread
_UNSURE: Final = 2.0**-20  # quotient estimates closer than this to an integer are checked
_PLACES: Final = range(0, 256 * _LIMBS, 256)  # of sixteen residues in one integer
# Added to a residue, it makes each 32-bit digit d stand for the balanced digit d - 2**31.
_BALANCE: Final = sum(1 << (32 * i + 31) for i in range(_WIDE_LIMBS))


class _Modulus:
    """Constants that reduction modulo ``q`` needs, computed once per modulus."""

    __slots__ = ("limbs", "q", "weights", "words")

    def __init__(self, q: int) -> None:
        interface.check_modulus(q)
        self.q: Final = q
        self.words: Final = [q >> (64 * i) & (2**64 - 1) for i in range(4)]
        self.limbs: Final = _wide_limbs(q)
        self.weights: Final = (2**192 / q, 2**224 / q)

    def canonical(self, wide: Integers) -> bytes:
        """Reduce ``m`` integers in eight lazy 32-bit limbs to ``m * 32`` bytes.

        ``wide`` (shape ``(8, m)``, limbs up to ``MAX_TERMS * 2**53`` either sign) is
        overwritten. The two top limbs give the quotient by ``q`` within ``_UNSURE``; the few
        elements whose quotient lies that close to an integer are finished one by one.
        """
        estimate = wide[6] * self.weights[0]
        estimate += wide[7] * self.weights[1]
        quotient = np.floor(estimate)
        wide -= self.limbs * quotient.astype(np.int64)
        rows = [*wide]
        for low, high in pairwise(rows):
            high += low >> _WIDE_SHIFT
        out: bytes = wide.astype(_U32).T.tobytes()  # keeps the low 32 bits of each limb

        estimate -= quotient
        estimate -= 0.5
        (unsure,) = (np.abs(estimate, out=estimate) > 0.5 - _UNSURE).nonzero()
        if not unsure.size:
            return out
        return self._finish(out, rows[-1] >> _WIDE_SHIFT, unsure)

    def _finish(self, out: bytes, carry: Integers, unsure: npt.NDArray[np.intp]) -> bytes:
        """Reduce exactly the ``unsure`` elements, off by at most one multiple of ``q``."""
        fixed = bytearray(out)
        for j in unsure.tolist():
            where = slice(SCALAR_BYTES * j, SCALAR_BYTES * (j + 1))
            value = (int(carry[j]) << 256) + int.from_bytes(out[where], "little")
            fixed[where] = (value % self.q).to_bytes(SCALAR_BYTES, "little")
        return bytes(fixed)

    def all_below(self, data: bytes) -> bool:
        """Tell whether every 32-byte scalar of ``data`` is below ``q``."""
        scalars = np.frombuffer(data, _U64).reshape(-1, 4)
        top = scalars[:, 3]
        if bool((top < self.words[3]).all()):
            return True
        doubtful = scalars[top >= self.words[3]]
        below = np.zeros(len(doubtful), np.bool_)
        for limb, word in zip(doubtful.T, self.words, strict=True):  # least significant first
            below = (limb < word) | ((limb == word) & below)
        return bool(below.all())


@lru_cache(maxsize=16)
def _modulus(q: int) -> _Modulus:
    return _Modulus(q)


@final
class _Lazy(ScalarVector):
    """Residues as lazy 16-bit limbs, their canonical encoding, or both.

    Every limb is at most ``bound * (2**16 - 1)`` in absolute value and ``bound`` is at most
    ``_MAX_BOUND``; a result that would exceed it is reduced at once.
    """

    __slots__ = ("_encoded", "_limbs", "bound", "modulus", "n", "q")

    def __init__(
        self,
        modulus: _Modulus,
        n: int,
        limbs: Floats | None = None,
        bound: int = 1,
        encoded: bytes | None = None,
    ) -> None:
        self.modulus = modulus
        self.q = modulus.q
        self.bound = bound
        self.n = n
        self._limbs = limbs
        self._encoded = encoded
        if bound > _MAX_BOUND:
            self._encoded = self.encode()
            self._limbs, self.bound = None, 1

    def encode(self) -> bytes:
        if self._encoded is None:
            self._encoded = self.modulus.canonical(self.wide().astype(np.int64))
        return self._encoded

    @property
    def limbs(self) -> Floats:
        """The lazy limbs, shape ``(16, n)``; never to be written to."""
        if self._limbs is None:
            self._limbs = _limbs(np.frombuffer(self.encode(), _U16).reshape(-1, _LIMBS))
        return self._limbs

    def wide(self) -> Floats:
        """Return eight lazy limbs of 32 bits, shape ``(8, n)``."""
        limbs = self.limbs
        wide = limbs[1::2] * 65536.0
        wide += limbs[::2]
        return wide


def uniform(data: bytes, q: int) -> ScalarVector:
    """Read uniform 32-byte strings as residues."""
    return split(data, 1, q)[0]


def decode(data: bytes, q: int) -> ScalarVector:
    """Read canonical scalars."""
    return split_checked(data, 1, q)[0]


def split(data: bytes, k: int, q: int) -> list[ScalarVector]:
    """De-interleave rows of ``k`` uniform strings into ``k`` vectors."""
    n = interface.check_split(data, k)
    modulus = _modulus(q)
    rows = np.frombuffer(data, _U16).reshape(n, k * _LIMBS)
    return [_Lazy(modulus, n, limbs) for limbs in _limbs(rows).reshape(k, _LIMBS, n)]


def split_checked(data: bytes, k: int, q: int) -> list[ScalarVector]:
    """De-interleave rows of ``k`` canonical scalars into ``k`` vectors."""
    n = interface.check_split(data, k)
    modulus = _modulus(q)
    if not modulus.all_below(data):
        raise interface.not_canonical()
    by_vector = np.frombuffer(data, _SCALAR).reshape(n, k).T
    return [_Lazy(modulus, n, encoded=scalars.tobytes()) for scalars in by_vector]


def join(vectors: Sequence[ScalarVector]) -> bytes:
    """Interleave ``k`` vectors into rows of ``k`` canonical scalars."""
    interface.check_compatible(vectors)
    by_vector = np.frombuffer(b"".join([vector.encode() for vector in vectors]), _SCALAR)
    return by_vector.reshape(len(vectors), -1).T.tobytes()


def difference_plus(a: ScalarVector, b: ScalarVector, s: int) -> ScalarVector:
    """``a_j - b_j + s``."""
    interface.check_compatible([a, b])
    x, y = _own(a), _own(b)
    result = x.limbs - y.limbs
    constant = (s % a.q).to_bytes(SCALAR_BYTES, "little")
    result += _limbs(np.frombuffer(constant, _U16).reshape(1, _LIMBS))
    return _Lazy(x.modulus, x.n, result, x.bound + y.bound + 1)


def masked_add(gamma: ScalarVector, bits: bytes, a: ScalarVector) -> ScalarVector:
    """``gamma_j + beta_j * a_j``."""
    interface.check_compatible([gamma, a])
    interface.check_bits(bits, gamma.n)
    x, y = _own(gamma), _own(a)
    result = y.limbs * _unpack_bits(bits, x.n).astype(np.float64)
    result += x.limbs
    return _Lazy(x.modulus, x.n, result, x.bound + y.bound)


def combine(
    coefficients: Sequence[int],
    vectors: Sequence[ScalarVector],
    minus_masked: tuple[bytes, int] | None = None,
) -> ScalarVector:
    """``sum_i coefficients[i] * vectors[i]``, less ``beta_j * eta``.

    Multiplying by theta is linear in the limbs: limb ``i`` contributes itself times
    ``theta * 2**(16 i) mod q``. With these in balanced 32-bit digits, the product of an
    ``(8, 16)`` matrix and the ``(16, n)`` limbs is below 16 * 2**31 * 2**18 = 2**53: exact.
    """
    interface.check_combine(coefficients, vectors)
    own = [_own(vector) for vector in vectors]
    n, modulus = own[0].n, own[0].modulus
    wide = np.zeros((_WIDE_LIMBS, n), np.int64)
    for matrix, vector in zip(_multipliers(coefficients, modulus.q), own, strict=True):
        limbs = vector.limbs
        for start in range(0, n, _BLAS_COLUMNS):
            part = slice(start, start + _BLAS_COLUMNS)
            wide[:, part] += (matrix @ limbs[:, part]).astype(np.int64)
    if minus_masked is not None:
        bits, eta = minus_masked
        interface.check_bits(bits, n)
        wide -= _wide_limbs(eta % modulus.q) * _unpack_bits(bits, n)
    return _Lazy(modulus, n, encoded=modulus.canonical(wide))


def dot(g: ScalarVector, v: ScalarVector) -> int:
    """``sum_j g_j * v_j``."""
    interface.check_compatible([g, v])
    x, y = _own(g).limbs, _own(v).limbs
    total = 0
    for start in range(0, g.n, _BLAS_COLUMNS):
        part = slice(start, start + _BLAS_COLUMNS)
        # Entry (i, j) of the product weighs 2**(16 (i + j)). Shifting row i by i columns lines
        # equal weights up. Entries are below 512 * 2**36, sums of 16 of them below 2**49.
        shifted = np.zeros((_LIMBS, 2 * _LIMBS + 1))
        shifted[:, :_LIMBS] = x[:, part] @ y[:, part].T
        shifted = shifted.reshape(-1)[:-_LIMBS].reshape(_LIMBS, 2 * _LIMBS)
        total += _from_limbs(np.add.reduce(shifted))
    return total % g.q


def subset_sum(bits: bytes, g: ScalarVector) -> int:
    """``sum_j beta_j * g_j``."""
    interface.check_bits(bits, g.n)
    chosen = _own(g).limbs * _unpack_bits(bits, g.n).astype(np.float64)
    return _from_limbs(np.add.reduce(chosen, axis=1)) % g.q


def _own(vector: ScalarVector) -> _Lazy:
    """Convert a vector of another kernel."""
    if type(vector) is _Lazy:
        return vector
    return _Lazy(_modulus(vector.q), vector.n, encoded=vector.encode())


def _matrix(data: bytes, n: int, row_bytes: int) -> Bytes:
    """View a buffer as ``n`` rows."""
    return np.frombuffer(data, np.uint8).reshape(n, row_bytes)


def _unpack_bits(bits: bytes, n: int) -> Bytes:
    """Return the first ``n`` bits, one per byte."""
    return np.unpackbits(np.frombuffer(bits, np.uint8), count=n, bitorder="little")


def _limbs(rows: npt.NDArray[np.uint16]) -> Floats:
    """Turn ``n`` rows of 16-bit limbs, of one or more residues, into lazy limbs: a row each."""
    return rows.T.astype(np.float64, order="C")


def _wide_limbs(value: int) -> Integers:
    """Split one scalar into 32-bit limbs, shape ``(8, 1)``."""
    data = value.to_bytes(SCALAR_BYTES, "little")
    return np.frombuffer(data, _U32).astype(np.int64).reshape(_WIDE_LIMBS, 1)


def _from_limbs(limbs: Floats) -> int:
    """Return ``sum_i limbs[i] * 2**(16 i)``, limbs being exact integers of either sign."""
    total = 0
    for limb in limbs.astype(np.int64).tolist()[::-1]:
        total = (total << 16) + limb
    return total


def _multipliers(coefficients: Sequence[int], q: int) -> Floats:
    """Return per coefficient ``theta`` the matrix ``(8, 16)`` of multiplication by it.

    Column ``i`` has the digits of ``theta * 2**(16 i) mod q``, 32 bits each and balanced, that
    is in ``[-2**31, 2**31)``.
    """
    matrices = []
    for theta in coefficients:
        residue, columns = theta % q, 0
        for place in _PLACES:
            shifted = residue + _BALANCE
            if shifted >> 256:
                shifted -= q
            columns |= shifted << place
            residue = (residue << 16) % q
        matrices.append(columns.to_bytes(_LIMBS * SCALAR_BYTES, "little"))
    digits = np.frombuffer(b"".join(matrices), _U32).astype(np.float64)
    digits -= 2.0**31
    return digits.reshape(-1, _LIMBS, _WIDE_LIMBS).swapaxes(1, 2)
