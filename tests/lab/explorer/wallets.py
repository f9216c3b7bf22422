"""Wallets and sessions to explore, deterministic to the last bit."""

from collections.abc import Callable
from functools import cache

from mpcsim import Network, Simulation
from mpcsim.lab.explorer import Explorer
from mpcsim.sim import Free, Link, Site

NETWORK = Network.preset("seoul", institution="frankfurt")


@cache
def _key(curve: str) -> Simulation:
    made = Simulation(NETWORK, seed=2, compute=Free(), secrets_seed="explorer")
    made.generate(curve)
    return made


def simulation(curve: str = "secp256k1") -> Simulation:
    """A wallet with a key."""
    made = Simulation(NETWORK, seed=2, compute=Free(), secrets_seed="explorer")
    made.shares = dict(_key(curve).shares)
    return made


def presigned() -> Simulation:
    """A wallet with a key and presignatures of two signers and of three."""
    made = simulation()
    made.presign(signers=(1, 3))
    made.presign(signers=(1, 2, 3))
    return made


SESSIONS: dict[str, Callable[[], Explorer]] = {
    "ecdsa, 2 signers": lambda: Explorer.live(simulation(), "sign", signers=(1, 3)),
    "ecdsa, 3 signers": lambda: Explorer.live(simulation(), "sign", signers=(1, 2, 3)),
    "presign, 2 signers": lambda: Explorer.live(simulation(), "presign", count=2, signers=(1, 3)),
    "presigned, 3 signers": lambda: Explorer.live(
        presigned(), "sign_presigned", signers=(1, 2, 3), finisher=1
    ),
    "frost, 2 signers": lambda: Explorer.live(simulation("ed25519"), "sign", signers=(1, 2)),
    "dkg, secp256k1": lambda: Explorer.live(simulation(), "generate"),
    "dkg, ed25519": lambda: Explorer.live(simulation(), "generate", curve="ed25519"),
    "reshare, secp256k1": lambda: Explorer.live(simulation(), "recover"),
    "reshare, ed25519": lambda: Explorer.live(simulation("ed25519"), "recover", lost=2),
}

NASTY = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1>&amp;\u2028\"'"


def nasty_explorer():
    """A session whose network is named by somebody malicious."""
    network = Network(
        {name: Site(name) for name in ("home", NASTY)},
        (Link("home", NASTY, 10.0),),
        {1: "home", 2: NASTY, 3: "home"},
        name=NASTY,
    )
    made = simulation("ed25519")
    made.network = network
    return Explorer.live(made, "sign", signers=(1, 2))
