"""Interface of a kernel: the functions that both kernels export, and their argument checks.

Conventions, the same everywhere:

* a buffer is ``bytes``: ``n`` rows of equal length, one after the other, no padding;
* bits inside a row are little-endian: bit ``j`` is ``row[j // 8] >> (j % 8) & 1``;
* a block is 16 bytes (an AES block, an OT seed, a row of the 128-bit OT matrix);
* a scalar is 32 bytes, little-endian;
* a vector of ``n`` choice bits is ``ceil(n / 8)`` bytes; bits past the ``n``-th are ignored.

Every function is pure. A wrong length or parameter raises ``ValueError``. None of this is
constant-time: it serves simulation and measurement, not production keys.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol, final

BLOCK_BYTES = 16
KEY_BYTES = 32
SCALAR_BYTES = 32
MODULUS_BITS = 256
MAX_TERMS = 64
"""Most vectors one ``combine`` accepts (keeps the lazy arithmetic exact)."""


MAX_FOLDED_BITS = 8
"""Limit of the bits of a row's number in ``fold_by_bit``."""


class ScalarVector(ABC):
    """``n`` residues modulo ``q``, a group order of exactly 256 bits. Immutable.

    A kernel makes them and computes with them; equality is equality of the residues.
    """

    __slots__ = ()

    n: int
    """Number of residues."""
    q: int
    """Modulus."""

    @abstractmethod
    def encode(self) -> bytes:
        """Return the canonical encoding, ``n * 32`` bytes."""

    @final
    def __len__(self) -> int:
        return self.n

    @final
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ScalarVector):
            return NotImplemented
        return self.q == other.q and self.encode() == other.encode()

    @final
    def __hash__(self) -> int:
        return hash((self.q, self.encode()))

    @final
    def __repr__(self) -> str:
        return f"ScalarVector(n={len(self)}, values=<redacted>)"


class Kernel(Protocol):
    """The bulk operations of OT extension and random VOLE; each kernel module is one.

    Vectors that meet in a call have one length and one modulus, else ``ValueError``; those of
    another kernel are converted. Scalar arguments (``s``, coefficients, ``eta``) are any Python
    integers and count modulo ``q``.
    """

    def crhash(self, key: bytes, blocks: bytes, width: int, group: int = 1) -> bytes:
        """Hash ``n`` blocks to ``width`` blocks each: ``n * width * 16`` bytes.

        The tweakable correlation-robust hash TMMO of Guo, Katz, Wang and Yu (eprint
        2019/074, section 7.4), ``H(x, i) = pi(pi(x) xor i) xor pi(x)``, where ``pi`` is
        AES-256 under ``key``. Output block ``b`` of input block ``j`` is
        ``H(x_j, j * width + b)``, the tweak being a 16-byte little-endian integer; ``pi(x_j)``
        is computed once and shared by the ``width`` outputs. With ``group`` above 1, every so
        many blocks have the tweaks of one: ``j // group`` stands for ``j``.

        It serves twice: as the PRG that stretches the long-lived OT seeds (each seed is
        random, and of those with the same tweaks either party lacks one at most) and as the
        hash that breaks the correlation of the extended OTs.

        ``key`` (32 bytes) is public: the secrets are the blocks. The paper proves TMMO
        secure for one random permutation, with a bound that degrades with everything ever
        hashed under it. Taking AES-256 as an ideal cipher, every key names an independent
        random permutation, so with a key per session the bound is per session: work an
        attacker spends on one key is useless for the others, tweaks may restart from zero,
        and a long-lived seed stretched in two sessions gives independent outputs. For
        this, ``key`` must come from a hash of the session's identifier and the purpose of
        the call, so that it neither repeats nor is chosen by one party (AES-256 has
        related-key weaknesses, which an ideal cipher has not).
        """

    def expand(self, key: bytes, seeds: bytes, row_bytes: int, group: int = 1) -> bytes:
        """Expand ``n`` 16-byte seeds to ``n`` rows of ``row_bytes`` bytes.

        ``crhash`` of width ``ceil(row_bytes / 16)``, each row cut to ``row_bytes``.
        """

    def xor(self, a: bytes, b: bytes) -> bytes:
        """Return the exclusive or of two buffers of the same length."""

    def select_rows(self, bits: bytes, rows: bytes, row_bytes: int, repeats: int) -> bytes:
        """Keep row ``i`` if bit ``i`` is set, else zero it (``Delta_i * u_i``).

        Every row counts as ``repeats`` equal ones.
        """

    def fold(self, rows: bytes, row_bytes: int, group: int) -> bytes:
        """Return the exclusive or of every ``group`` rows."""

    def fold_by_bit(self, rows: bytes, row_bytes: int, k: int) -> bytes:
        """Return ``k`` rows for every ``2^k - 1``, numbered from 1: each is the exclusive or of
        those whose number has a bit set, the highest bit first (``sum_w w r_w`` in SoftSpoken).
        """

    def repeat_row(self, row: bytes, n: int) -> bytes:
        """Return ``n`` copies of ``row``."""

    def split_columns(self, rows: bytes, row_bytes: int, at: int) -> tuple[bytes, bytes]:
        """Cut every row after its first ``at`` bytes: all left parts, and all right parts."""

    def transpose(self, rows: bytes, n_rows: int, n_cols: int) -> bytes:
        """Transpose a bit matrix: ``n_rows`` rows of ``n_cols`` bits to the converse.

        Both dimensions are multiples of 8. Row ``c`` of the result has, as bit ``r``, bit
        ``c`` of row ``r``.
        """

    def binary_matvec(self, matrix: bytes, out_bits: int, rows: bytes, in_bits: int) -> bytes:
        """Return ``y_i = M x_i`` over GF(2) for every row ``x_i``.

        ``M`` has ``out_bits`` rows of ``in_bits`` bits, ``x_i`` has ``in_bits`` bits and
        ``y_i`` has ``out_bits`` bits; both are multiples of 8. With ``M`` public and random
        this is the linear hash of the consistency check (SoftSpoken, eprint 2022/192).
        """

    def uniform(self, data: bytes, q: int) -> ScalarVector:
        """Read ``n`` uniform 32-byte strings as residues; values of ``q`` or more wrap."""

    def decode(self, data: bytes, q: int) -> ScalarVector:
        """Read ``n`` canonical scalars; ``ValueError`` if any of them is ``q`` or more."""

    def split(self, data: bytes, k: int, q: int) -> list[ScalarVector]:
        """De-interleave ``n`` rows of ``k`` uniform 32-byte strings into ``k`` vectors.

        Component ``c`` of row ``j`` becomes element ``j`` of vector ``c``.
        """

    def split_checked(self, data: bytes, k: int, q: int) -> list[ScalarVector]:
        """``split`` for a peer's message: ``ValueError`` if any scalar is ``q`` or more."""

    def join(self, vectors: Sequence[ScalarVector]) -> bytes:
        """Interleave ``k`` vectors into ``n`` rows of ``k`` canonical scalars.

        The inverse of ``split_checked``: ``n * k * 32`` bytes.
        """

    def difference_plus(self, a: ScalarVector, b: ScalarVector, s: int) -> ScalarVector:
        """Return ``a_j - b_j + s`` (DKLs23, Protocol 5.2: a~ = alpha0 - alpha1 + a)."""

    def masked_add(self, gamma: ScalarVector, bits: bytes, a: ScalarVector) -> ScalarVector:
        """Return ``gamma_j + beta_j * a_j`` for ``n`` choice bits beta (there: d.)."""

    def combine(
        self,
        coefficients: Sequence[int],
        vectors: Sequence[ScalarVector],
        minus_masked: tuple[bytes, int] | None = None,
    ) -> ScalarVector:
        """Return ``sum_i coefficients[i] * vectors[i]``, elementwise.

        ``minus_masked = (bits, eta)`` also subtracts ``beta_j * eta`` from element ``j``.
        Takes 1 to ``MAX_TERMS`` vectors.
        """

    def dot(self, g: ScalarVector, v: ScalarVector) -> int:
        """Return the inner product ``sum_j g_j * v_j`` in ``[0, q)``."""

    def subset_sum(self, bits: bytes, g: ScalarVector) -> int:
        """Return ``sum_j beta_j * g_j`` in ``[0, q)``: the sum of the chosen entries."""


def row_count(name: str, data: bytes, row_bytes: int) -> int:
    """Return how many rows ``data`` holds, or raise if that is not a whole number."""
    if row_bytes < 1:
        raise ValueError(f"{name}: a row must have at least one byte, not {row_bytes}")
    size = len(data)
    if size % row_bytes:
        raise ValueError(f"{name}: {len(data)} bytes is not a multiple of {row_bytes}")
    return size // row_bytes


def check_length(name: str, data: bytes, expected: int) -> None:
    """Raise unless ``data`` has ``expected`` bytes."""
    if len(data) != expected:
        raise ValueError(f"{name}: expected {expected} bytes, got {len(data)}")


def check_bits(bits: bytes, n: int) -> None:
    """Raise unless ``bits`` is the length of ``n`` bits."""
    check_length("bits", bits, (n + 7) // 8)


def bytes_of_bits(name: str, bits: int) -> int:
    """Return ``bits / 8``, or raise if that is not a positive whole number."""
    if bits < 8 or bits % 8:
        raise ValueError(f"{name}: must be a positive multiple of 8, not {bits}")
    return bits // 8


def check_hash(key: bytes, blocks: bytes, width: int, group: int) -> int:
    """Check the arguments of ``crhash`` and return the number of blocks."""
    check_length("key", key, KEY_BYTES)
    if width < 1:
        raise ValueError(f"width: must be at least 1, not {width}")
    return check_groups("blocks", blocks, BLOCK_BYTES, group) * group


def check_expand(seeds: bytes, row_bytes: int) -> int:
    """Check the arguments of ``expand`` and return the width to hash to."""
    row_count("seeds", seeds, BLOCK_BYTES)
    if row_bytes < 1:
        raise ValueError(f"row_bytes: must be at least 1, not {row_bytes}")
    return -(-row_bytes // BLOCK_BYTES)


def check_select(bits: bytes, rows: bytes, row_bytes: int, repeats: int) -> int:
    """Check the arguments of ``select_rows`` and return the number of rows it returns."""
    if repeats < 1:
        raise ValueError(f"repeats: must be at least 1, not {repeats}")
    n = row_count("rows", rows, row_bytes) * repeats
    check_bits(bits, n)
    return n


def check_groups(name: str, data: bytes, row_bytes: int, group: int) -> int:
    """Return how many groups of so many rows ``data`` holds, or raise if that is not whole."""
    if group < 1:
        raise ValueError(f"group: must be at least 1, not {group}")
    rows = row_count(name, data, row_bytes)
    groups, excess = divmod(rows, group)
    if excess:
        raise ValueError(f"{name}: {rows} rows are not a multiple of {group}")
    return groups


def check_fold_by_bit(rows: bytes, row_bytes: int, k: int) -> int:
    """Check the arguments of ``fold_by_bit`` and return the number of groups."""
    if not 1 <= k <= MAX_FOLDED_BITS:
        raise ValueError(f"k: must be from 1 to {MAX_FOLDED_BITS}, not {k}")
    return check_groups("rows", rows, row_bytes, (1 << k) - 1)


def check_repeat(n: int) -> None:
    """Check the argument of ``repeat_row``."""
    if n < 0:
        raise ValueError(f"n: must not be negative, not {n}")


def check_columns(rows: bytes, row_bytes: int, at: int) -> int:
    """Check the arguments of ``split_columns`` and return the number of rows."""
    if not 0 <= at <= row_bytes:
        raise ValueError(f"at: {at} is not inside a row of {row_bytes} bytes")
    return row_count("rows", rows, row_bytes)


def check_transpose(rows: bytes, n_rows: int, n_cols: int) -> None:
    """Check the arguments of ``transpose``."""
    height, width = bytes_of_bits("n_rows", n_rows), bytes_of_bits("n_cols", n_cols)
    check_length("rows", rows, 8 * height * width)


def check_matvec(matrix: bytes, out_bits: int, rows: bytes, in_bits: int) -> int:
    """Check the arguments of ``binary_matvec`` and return the number of rows."""
    in_bytes = bytes_of_bits("in_bits", in_bits)
    check_length("matrix", matrix, 8 * bytes_of_bits("out_bits", out_bits) * in_bytes)
    return row_count("rows", rows, in_bytes)


def check_modulus(q: int) -> None:
    """Raise unless ``q`` has exactly 256 bits."""
    if q < 0 or q.bit_length() != MODULUS_BITS:
        raise ValueError(f"q: must have exactly {MODULUS_BITS} bits, not {q.bit_length()}")


def check_split(data: bytes, k: int) -> int:
    """Check the arguments of ``split`` and return the number of rows."""
    if k < 1:
        raise ValueError(f"k: must be at least 1, not {k}")
    return row_count("scalars", data, k * SCALAR_BYTES)


def check_compatible(vectors: Sequence[ScalarVector]) -> None:
    """Raise unless there is a vector, and all have one length and modulus."""
    if not vectors:
        raise ValueError("vectors: at least one is needed")
    first = vectors[0]
    for other in vectors[1:]:
        if other.n != first.n:
            raise ValueError(f"vectors: lengths differ, {len(first)} and {len(other)}")
        if other.q != first.q:
            raise ValueError("vectors: moduli differ")


def check_combine(coefficients: Sequence[int], vectors: Sequence[ScalarVector]) -> None:
    """Check the arguments of ``combine``."""
    check_compatible(vectors)
    if len(coefficients) != len(vectors):
        raise ValueError(f"combine: {len(coefficients)} coefficients, {len(vectors)} vectors")
    if len(vectors) > MAX_TERMS:
        raise ValueError(f"combine: at most {MAX_TERMS} vectors, got {len(vectors)}")


def not_canonical() -> ValueError:
    """Return the error for an encoded scalar of ``q`` or more (which one is not told)."""
    return ValueError("scalars: an element is not below the modulus")
