"""What each operation must satisfy, whatever the kernel."""

import hashlib

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.crypto.kernels import PLAIN, VECTORISED, Kernel

Q = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141

both = pytest.mark.parametrize("kernel", [PLAIN, VECTORISED], ids=["plain", "vectorised"])
seeds = st.integers(0, 2**64)


def stream(seed: int, size: int) -> bytes:
    """``size`` bytes determined by ``seed`` (cheaper than drawing large buffers)."""
    return hashlib.shake_256(str(seed).encode()).digest(size)


def scalar(value: int) -> bytes:
    return value.to_bytes(32, "little")


@both
@given(seed=seeds, width=st.integers(1, 6))
def test_crhash_is_its_formula(kernel: Kernel, seed: int, width: int) -> None:
    key, blocks = stream(seed, 32), stream(seed + 1, 5 * 16)

    def pi(x: int) -> int:
        aes = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()
        return int.from_bytes(aes.update(x.to_bytes(16, "little")) + aes.finalize(), "little")

    expected = b""
    for j in range(5):
        x = int.from_bytes(blocks[16 * j : 16 * j + 16], "little")
        for b in range(width):
            h = pi(pi(x) ^ (j * width + b)) ^ pi(x)
            expected += h.to_bytes(16, "little")
    assert kernel.crhash(key, blocks, width) == expected


@both
def test_crhash_known_answer(kernel: Kernel) -> None:
    """With pi from FIPS 197, appendix C.3: pi(00112233...) = 8ea2b7ca..., tweak 0."""
    key = bytes(range(32))
    x = bytes.fromhex("00112233445566778899aabbccddeeff")
    pi_x = bytes.fromhex("8ea2b7ca516745bfeafc49904b496089")
    pi_pi_x = Cipher(algorithms.AES256(key), modes.ECB()).encryptor().update(pi_x)
    assert kernel.crhash(key, x, 1) == bytes(a ^ b for a, b in zip(pi_pi_x, pi_x, strict=True))


@both
@given(seed=seeds, rows=st.integers(1, 8), columns=st.integers(1, 8))
def test_transpose(kernel: Kernel, seed: int, rows: int, columns: int) -> None:
    matrix = stream(seed, 8 * rows * columns)
    once = kernel.transpose(matrix, 8 * rows, 8 * columns)
    assert kernel.transpose(once, 8 * columns, 8 * rows) == matrix
    for r, c in ((0, 0), (8 * rows - 1, 0), (0, 8 * columns - 1), (8 * rows - 3, 8 * columns - 2)):
        before = matrix[r * columns + c // 8] >> (c % 8) & 1
        assert once[c * rows + r // 8] >> (r % 8) & 1 == before


@both
@given(seed=seeds, bits=st.binary(min_size=2, max_size=2))
def test_subset_sum_is_a_dot_with_bits(kernel: Kernel, seed: int, bits: bytes) -> None:
    g = kernel.uniform(stream(seed, 13 * 32), Q)
    beta = kernel.decode(b"".join(scalar(bits[j // 8] >> (j % 8) & 1) for j in range(13)), Q)
    assert kernel.subset_sum(bits, g) == kernel.dot(g, beta)


@both
@given(seed=seeds, a=st.integers(0, Q - 1), bits=st.binary(min_size=1, max_size=1))
def test_chosen_pads_plus_corrections_share_the_product(
    kernel: Kernel, seed: int, a: int, bits: bytes
) -> None:
    """gamma_j + beta_j a~_j = alpha0_j + beta_j a, the identity behind random VOLE."""
    alpha0, alpha1 = kernel.split(stream(seed, 8 * 64), 2, Q)
    zero = kernel.decode(bytes(8 * 32), Q)
    gamma = kernel.masked_add(alpha0, bits, kernel.difference_plus(alpha1, alpha0, 0))
    correction = kernel.difference_plus(alpha0, alpha1, a)
    share = kernel.masked_add(gamma, bits, correction)
    constant = kernel.difference_plus(zero, zero, a)
    assert share == kernel.masked_add(alpha0, bits, constant)
    assert kernel.combine([1], [share], (bits, a)) == alpha0


@both
def test_uniform_wraps(kernel: Kernel) -> None:
    values = [0, Q - 1, Q, Q + 1, 2**256 - 1]
    vector = kernel.uniform(b"".join(map(scalar, values)), Q)
    assert vector.encode() == b"".join(scalar(value % Q) for value in values)


@both
@pytest.mark.parametrize(
    "bad", [Q, Q + 1, Q + 2**64, Q + 2**128, 2**256 - 1, 2**256 - 2**64], ids=hex
)
@pytest.mark.parametrize("position", range(6))
def test_not_canonical(kernel: Kernel, bad: int, position: int) -> None:
    values = [Q - 1, 0, Q - 1 - 2**64, 1, Q - 2**128, 2**255]
    good = b"".join(map(scalar, values))
    assert kernel.decode(good, Q).encode() == good
    assert kernel.join(kernel.split_checked(good, 2, Q)) == good
    values[position] = bad
    data = b"".join(map(scalar, values))
    with pytest.raises(ValueError, match="not below the modulus"):
        kernel.decode(data, Q)
    with pytest.raises(ValueError, match="not below the modulus"):
        kernel.split_checked(data, 2, Q)


@both
def test_split_interleaves(kernel: Kernel) -> None:
    data = b"".join(map(scalar, range(6)))
    first, second = kernel.split(data, 2, Q)
    assert first.encode() == b"".join(map(scalar, (0, 2, 4)))
    assert second.encode() == b"".join(map(scalar, (1, 3, 5)))
    assert kernel.join([first, second]) == data


@both
def test_vectors_hide_their_values(kernel: Kernel) -> None:
    vector = kernel.decode(scalar(0xC0FFEE), Q)
    for text in (repr(vector), str(vector), f"{[vector]}"):
        assert "ScalarVector(n=1, values=<redacted>)" in text
        assert "c0ffee" not in text.lower()


@both
def test_equality(kernel: Kernel) -> None:
    one = kernel.uniform(scalar(1), Q)
    assert one == kernel.uniform(scalar(Q + 1), Q)
    assert hash(one) == hash(kernel.uniform(scalar(Q + 1), Q))
    assert one != kernel.uniform(scalar(2), Q)
    assert one != kernel.uniform(scalar(1), Q - 2)
    assert one != scalar(1)


@both
def test_blocks_of_a_group_have_the_same_tweaks(kernel: Kernel) -> None:
    key, block, other = stream(0, 32), stream(1, 16), stream(2, 16)
    first, again, third = (
        kernel.crhash(key, block + block + other + block, 2, 2)[at : at + 32] for at in (0, 32, 96)
    )
    assert first == again == kernel.crhash(key, block, 2)
    assert third != first
