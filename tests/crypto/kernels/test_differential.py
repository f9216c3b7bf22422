"""The two kernels give the same results, and refuse the same arguments, on random inputs."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mpcsim.crypto.kernels import DEFAULT, PLAIN, VECTORISED, Kernel, ScalarVector

SECP256K1 = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
P256 = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
TOP = 2**256 - 1

keys = st.binary(min_size=32, max_size=32)
moduli = st.sampled_from([SECP256K1, P256, 2**255, 2**255 + 95, TOP]) | st.integers(2**255, TOP)
multiples_of_8 = st.integers(1, 12).map(lambda n: 8 * n)


def buffers(size: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size) | st.sampled_from([bytes(size), b"\xff" * size])


def residues(q: int) -> st.SearchStrategy[int]:
    """Mostly uniform, sometimes where carries and quotients are hard."""
    hard = [0, 1, q - 2, q - 1, q // 2, 2**224, 2**224 - 1, 2**255 - 1, 2**128 - 1]
    return st.integers(0, q - 1) | st.sampled_from(hard)


@st.composite
def scalar_buffers(draw: st.DrawFn, q: int, n: int, canonical: bool = False) -> bytes:
    element = residues(q)
    if not canonical:
        element = element | st.integers(0, TOP) | st.sampled_from([q, min(q + 1, TOP), TOP])
    values = draw(st.lists(element, min_size=n, max_size=n))
    return b"".join(value.to_bytes(32, "little") for value in values)


def same(call: Callable[[Kernel], Any]) -> Any:
    """Call with both kernels and return the common result, of a readable type."""
    plain, fast = (readable(call(kernel)) for kernel in (PLAIN, VECTORISED))
    assert plain == fast
    return plain


def readable(result: Any) -> Any:
    if isinstance(result, ScalarVector):
        return (result.q, len(result), result.encode())
    if isinstance(result, list):
        return [readable(item) for item in result]
    return result


def functions(kernel: object) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(value)
        for name, value in vars(kernel).items()
        if inspect.isfunction(value) and not name.startswith("_")
        if value.__module__ == getattr(kernel, "__name__", None)
    }


def test_same_names_and_signatures() -> None:
    assert functions(PLAIN) == functions(VECTORISED)
    protocol = {name for name, value in vars(Kernel).items() if inspect.isfunction(value)}
    assert set(functions(PLAIN)) == {name for name in protocol if not name.startswith("_")}
    assert DEFAULT is VECTORISED


groups = st.sampled_from([1, 2, 3, 15])


@given(st.data(), keys, st.integers(0, 9), st.integers(1, 7), groups)
def test_crhash(data: st.DataObject, key: bytes, n: int, width: int, group: int) -> None:
    blocks = data.draw(buffers(16 * n * group))
    assert len(same(lambda k: k.crhash(key, blocks, width, group))) == n * group * width * 16


@given(st.data(), keys, st.integers(0, 9), st.integers(1, 70), groups)
def test_expand(data: st.DataObject, key: bytes, n: int, row_bytes: int, group: int) -> None:
    seeds = data.draw(buffers(16 * n * group))
    assert len(same(lambda k: k.expand(key, seeds, row_bytes, group))) == n * group * row_bytes


@given(st.data(), st.integers(0, 100))
def test_xor(data: st.DataObject, size: int) -> None:
    a, b = data.draw(buffers(size)), data.draw(buffers(size))
    same(lambda k: k.xor(a, b))


@given(st.data(), st.integers(0, 20), st.integers(1, 20), st.integers(1, 9))
def test_select_rows(data: st.DataObject, n: int, row_bytes: int, repeats: int) -> None:
    bits, rows = data.draw(buffers((n * repeats + 7) // 8)), data.draw(buffers(n * row_bytes))
    same(lambda k: k.select_rows(bits, rows, row_bytes, repeats))


@given(st.data(), st.integers(0, 9), st.integers(1, 20), st.integers(1, 9))
def test_fold(data: st.DataObject, n: int, row_bytes: int, group: int) -> None:
    rows = data.draw(buffers(n * group * row_bytes))
    assert len(same(lambda k: k.fold(rows, row_bytes, group))) == n * row_bytes


@given(st.data(), st.integers(0, 9), st.integers(1, 20), st.integers(1, 4))
def test_fold_by_bit(data: st.DataObject, n: int, row_bytes: int, k: int) -> None:
    rows = data.draw(buffers(n * ((1 << k) - 1) * row_bytes))
    assert len(same(lambda kernel: kernel.fold_by_bit(rows, row_bytes, k))) == n * k * row_bytes


@given(st.binary(max_size=20), st.integers(0, 9))
def test_repeat_row(row: bytes, n: int) -> None:
    same(lambda k: k.repeat_row(row, n))


@given(st.data(), st.integers(0, 9), st.integers(1, 20))
def test_split_columns(data: st.DataObject, n: int, row_bytes: int) -> None:
    rows, at = data.draw(buffers(n * row_bytes)), data.draw(st.integers(0, row_bytes))
    same(lambda k: k.split_columns(rows, row_bytes, at))


@given(st.data(), multiples_of_8, multiples_of_8)
def test_transpose(data: st.DataObject, n_rows: int, n_cols: int) -> None:
    rows = data.draw(buffers(n_rows * n_cols // 8))
    same(lambda k: k.transpose(rows, n_rows, n_cols))


@pytest.mark.soak
@given(st.data(), multiples_of_8 | st.sampled_from([64, 128]), multiples_of_8, st.integers(0, 9))
def test_binary_matvec(data: st.DataObject, out_bits: int, in_bits: int, n: int) -> None:
    matrix = data.draw(buffers(out_bits * in_bits // 8))
    rows = data.draw(buffers(n * in_bits // 8))
    result = same(lambda k: k.binary_matvec(matrix, out_bits, rows, in_bits))
    assert len(result) == n * out_bits // 8


@given(st.data(), moduli, st.integers(0, 6), st.integers(1, 4))
def test_reading_and_writing(data: st.DataObject, q: int, n: int, k: int) -> None:
    uniform = data.draw(scalar_buffers(q, n * k))
    canonical = data.draw(scalar_buffers(q, n * k, canonical=True))
    same(lambda kernel: kernel.uniform(uniform, q))
    same(lambda kernel: kernel.decode(canonical, q))
    same(lambda kernel: kernel.split(uniform, k, q))
    same(lambda kernel: kernel.split_checked(canonical, k, q))
    same(lambda kernel: kernel.join(kernel.split(uniform, k, q)))
    assert same(lambda kernel: kernel.join(kernel.split_checked(canonical, k, q))) == canonical


@given(st.data(), moduli, st.integers(0, 10), st.integers(1, 5), st.booleans())
def test_combine(data: st.DataObject, q: int, n: int, terms: int, masked: bool) -> None:
    coefficients = data.draw(st.lists(residues(q) | st.integers(), min_size=terms, max_size=terms))
    vectors = [data.draw(scalar_buffers(q, n)) for _ in range(terms)]
    minus = (data.draw(buffers((n + 7) // 8)), data.draw(residues(q))) if masked else None
    same(lambda k: k.combine(coefficients, [k.uniform(v, q) for v in vectors], minus))


@given(st.data(), moduli, st.integers(0, 20))
def test_dot_and_subset_sum(data: st.DataObject, q: int, n: int) -> None:
    g, v = (data.draw(scalar_buffers(q, n)) for _ in range(2))
    bits = data.draw(buffers((n + 7) // 8))
    assert 0 <= same(lambda k: k.dot(k.uniform(g, q), k.uniform(v, q))) < q
    assert 0 <= same(lambda k: k.subset_sum(bits, k.uniform(g, q))) < q


@given(st.data(), moduli, st.integers(0, 20), st.integers(1, 8))
def test_long_computations_stay_exact(data: st.DataObject, q: int, n: int, steps: int) -> None:
    """Unreduced results feed further operations."""
    a, b = (data.draw(scalar_buffers(q, n)) for _ in range(2))
    s = data.draw(residues(q) | st.integers())
    bits = data.draw(buffers((n + 7) // 8))

    def chain(kernel: Kernel) -> list[Any]:
        x, y = kernel.uniform(a, q), kernel.uniform(b, q)
        seen: list[Any] = []
        for _ in range(steps):
            x, y = kernel.difference_plus(x, y, s), kernel.masked_add(y, bits, x)
            z = kernel.combine([s, s + 1], [x, y], (bits, s))
            seen += [kernel.dot(x, y), kernel.subset_sum(bits, y), readable(z)]
        return [*seen, readable(x), readable(y)]

    same(chain)


@pytest.mark.soak
@given(moduli, st.sampled_from([0, 1, 2**255, TOP]), st.sampled_from([0x00, 0x55, 0xFF]))
@example(TOP, TOP, 0xFF)
def test_extreme_sizes(q: int, value: int, pattern: int) -> None:
    """Extreme limbs, the most terms, and more elements than one matrix product takes."""
    n, terms = 1030, 64
    data = value.to_bytes(32, "little") * n
    bits = bytes([pattern]) * ((n + 7) // 8)
    worst = sum(0x8000 << (16 * i) for i in range(16)) % q

    def extreme(kernel: Kernel) -> list[Any]:
        x = kernel.uniform(data, q)
        x = kernel.masked_add(x, bits, x)
        x = kernel.masked_add(x, bits, x)
        combined = kernel.combine([worst] * terms, [x] * terms, (bits, q - 1))
        return [kernel.dot(x, x), kernel.subset_sum(bits, x), readable(combined)]

    same(extreme)


@given(st.data(), moduli, st.integers(0, 6))
def test_kernels_take_each_others_vectors(data: st.DataObject, q: int, n: int) -> None:
    a, b = (data.draw(scalar_buffers(q, n)) for _ in range(2))
    plain, fast = PLAIN.uniform(a, q), VECTORISED.uniform(a, q)
    assert plain == fast
    assert hash(plain) == hash(fast)
    for kernel in (PLAIN, VECTORISED):
        mixed = kernel.difference_plus(PLAIN.uniform(a, q), VECTORISED.uniform(b, q), 1)
        assert mixed == PLAIN.difference_plus(plain, PLAIN.uniform(b, q), 1)
        assert kernel.join([plain, fast]) == PLAIN.join([plain, plain])


def one(kernel: Kernel, n: int = 1, q: int = SECP256K1) -> ScalarVector:
    return kernel.uniform(bytes(32 * n), q)


@pytest.mark.parametrize("kernel", [PLAIN, VECTORISED], ids=["plain", "vectorised"])
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda k: k.crhash(bytes(31), b"", 1), "key: expected 32"),
        (lambda k: k.crhash(bytes(32), bytes(17), 1), "blocks: 17 bytes"),
        (lambda k: k.crhash(bytes(32), bytes(16), 0), "width"),
        (lambda k: k.crhash(bytes(32), bytes(16), 1, 0), "group: must"),
        (lambda k: k.crhash(bytes(32), bytes(48), 1, 2), "blocks: 3 rows are not a multiple of 2"),
        (lambda k: k.expand(bytes(31), bytes(16), 1), "key: expected 32"),
        (lambda k: k.expand(bytes(32), bytes(15), 1), "seeds: 15 bytes"),
        (lambda k: k.expand(bytes(32), bytes(16), 0), "row_bytes"),
        (lambda k: k.xor(bytes(2), bytes(3)), "b: expected 2"),
        (lambda k: k.select_rows(bytes(1), bytes(18), 2, 1), "bits: expected 2"),
        (lambda k: k.select_rows(bytes(1), bytes(2), 2, 0), "repeats: must"),
        (lambda k: k.fold(bytes(6), 2, 2), "rows: 3 rows are not a multiple of 2"),
        (lambda k: k.fold(bytes(6), 2, 0), "group: must"),
        (lambda k: k.fold(bytes(5), 2, 1), "rows: 5 bytes"),
        (lambda k: k.fold_by_bit(bytes(6), 2, 0), "k: must be from 1"),
        (lambda k: k.fold_by_bit(bytes(6), 2, 9), "k: must be from 1"),
        (lambda k: k.fold_by_bit(bytes(8), 2, 2), "rows: 4 rows are not a multiple of 3"),
        (lambda k: k.select_rows(bytes(1), bytes(3), 2, 1), "rows: 3 bytes"),
        (lambda k: k.select_rows(b"", b"", 0, 1), "at least one byte"),
        (lambda k: k.repeat_row(b"a", -1), "negative"),
        (lambda k: k.split_columns(bytes(4), 2, 3), "at: 3"),
        (lambda k: k.split_columns(bytes(4), 2, -1), "at: -1"),
        (lambda k: k.split_columns(bytes(5), 2, 1), "rows: 5 bytes"),
        (lambda k: k.transpose(bytes(8), 8, 7), "n_cols"),
        (lambda k: k.transpose(bytes(8), 0, 8), "n_rows"),
        (lambda k: k.transpose(bytes(9), 8, 8), "rows: expected 8"),
        (lambda k: k.binary_matvec(bytes(8), 8, b"", 12), "in_bits"),
        (lambda k: k.binary_matvec(bytes(8), 9, b"", 8), "out_bits"),
        (lambda k: k.binary_matvec(bytes(7), 8, b"", 8), "matrix: expected 8"),
        (lambda k: k.binary_matvec(bytes(16), 8, bytes(3), 16), "rows: 3 bytes"),
        (lambda k: k.uniform(bytes(33), SECP256K1), "scalars: 33 bytes"),
        (lambda k: k.decode(bytes(31), SECP256K1), "scalars: 31 bytes"),
        (lambda k: k.split(bytes(32), 2, SECP256K1), "multiple of 64"),
        (lambda k: k.split(bytes(32), 0, SECP256K1), "k: must"),
        (lambda k: k.split_checked(bytes(32), 2, SECP256K1), "multiple of 64"),
        (lambda k: k.split_checked(bytes(32), 0, SECP256K1), "k: must"),
        (lambda k: k.uniform(bytes(32), 2**255 - 1), "q: must"),
        (lambda k: k.uniform(bytes(32), 2**256), "q: must"),
        (lambda k: k.uniform(bytes(32), -(2**255)), "q: must"),
        (lambda k: k.join([]), "at least one"),
        (lambda k: k.join([one(k), one(k, 2)]), "lengths differ"),
        (lambda k: k.difference_plus(one(k), one(k, q=P256), 0), "moduli differ"),
        (lambda k: k.difference_plus(one(k), one(k, 2), 0), "lengths differ"),
        (lambda k: k.masked_add(one(k), b"", one(k)), "bits: expected 1"),
        (lambda k: k.masked_add(one(k), b"a", one(k, 2)), "lengths differ"),
        (lambda k: k.combine([], []), "at least one"),
        (lambda k: k.combine([1], [one(k), one(k)]), "1 coefficients, 2 vectors"),
        (lambda k: k.combine([1, 1], [one(k), one(k, 2)]), "lengths differ"),
        (lambda k: k.combine([1], [one(k)], (b"", 1)), "bits: expected 1"),
        (lambda k: k.combine([1] * 65, [one(k)] * 65), "at most 64"),
        (lambda k: k.dot(one(k), one(k, 2)), "lengths differ"),
        (lambda k: k.dot(one(k), one(k, q=P256)), "moduli differ"),
        (lambda k: k.subset_sum(bytes(2), one(k)), "bits: expected 1"),
    ],
)
def test_bad_arguments(kernel: Kernel, call: Callable[[Kernel], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(kernel)
