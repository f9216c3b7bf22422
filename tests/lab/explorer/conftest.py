"""Sessions to explore, made once."""

from functools import cache

import pytest

from mpcsim import Simulation
from mpcsim.lab.explorer import Explorer
from tests.lab.explorer.wallets import SESSIONS, simulation


@cache
def _session(name: str) -> Explorer:
    return SESSIONS[name]()


@pytest.fixture(params=SESSIONS)
def session(request: pytest.FixtureRequest) -> Explorer:
    """Every kind of session, as it is when nothing was changed; not to be changed."""
    return _session(request.param)


@pytest.fixture
def wallet() -> Simulation:
    """A wallet with a key on secp256k1."""
    return simulation()


@pytest.fixture
def ed_wallet() -> Simulation:
    """A wallet with a key on ed25519."""
    return simulation("ed25519")


@pytest.fixture
def explorer(wallet: Simulation) -> Explorer:
    """A signature of two parties, live."""
    return Explorer.live(wallet, "sign", signers=(1, 3))
