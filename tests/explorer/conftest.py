"""Sessions to explore, made once."""

from collections.abc import Callable
from functools import cache

import pytest

from mpcsim import Network, Simulation
from mpcsim.explorer import Explorer
from mpcsim.sim import Free

NETWORK = Network.preset("seoul", institution="frankfurt")


@cache
def _key(curve: str) -> Simulation:
    made = Simulation(NETWORK, seed=1, compute=Free(), secrets_seed="explorer")
    made.generate(curve)
    return made


def simulation(curve: str = "secp256k1") -> Simulation:
    """A wallet with a key, deterministic to the last bit."""
    made = Simulation(NETWORK, seed=1, compute=Free(), secrets_seed="explorer")
    made.shares = dict(_key(curve).shares)
    return made


SESSIONS: dict[str, Callable[[], Explorer]] = {
    "ecdsa, 2 signers": lambda: Explorer.live(simulation(), "sign", signers=(1, 3)),
    "ecdsa, 3 signers": lambda: Explorer.live(simulation(), "sign", signers=(1, 2, 3)),
    "frost, 2 signers": lambda: Explorer.live(simulation("ed25519"), "sign", signers=(1, 2)),
    "dkg, secp256k1": lambda: Explorer.live(simulation(), "generate"),
    "dkg, ed25519": lambda: Explorer.live(simulation(), "generate", curve="ed25519"),
    "reshare, secp256k1": lambda: Explorer.live(simulation(), "recover"),
    "reshare, ed25519": lambda: Explorer.live(simulation("ed25519"), "recover", lost=2),
}


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
