"""What each operation must satisfy, whatever the kernel."""

import hashlib

import pytest
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
