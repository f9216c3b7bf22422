"""Keys for the FROST tests, generated once for each size."""

from collections.abc import Callable, Mapping
from functools import cache

import pytest

from mpcsim.crypto.rng import SeededRng
from mpcsim.protocols import dkg
from mpcsim.protocols.key_share import KeyShare
from mpcsim.protocols.local_run import results, run

Keys = Callable[[int, int], Mapping[int, KeyShare]]


@cache
def _generate(threshold: int, n: int) -> Mapping[int, KeyShare]:
    agreed = dkg.setup("ed25519", threshold, tuple(range(1, n + 1)))
    rng = SeededRng(f"frost tests, {threshold} of {n}")
    return results(
        run(
            dkg.party(agreed, i, session_id=bytes(32), rng=rng.fork(str(i))) for i in agreed.parties
        )
    )


@pytest.fixture(scope="session")
def keys() -> Keys:
    """``keys(t, n)``: the shares of a t-of-n key, by holder."""
    return _generate
