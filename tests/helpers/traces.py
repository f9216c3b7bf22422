"""Traces to look at: honest runs with closed-form times, and runs with every kind of trouble."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from mpcsim.ids import PartyId
from mpcsim.protocols.key_share import KeyShare
from mpcsim.sim import Free, Network, Simulation, Trace
from mpcsim.sim.network.topology import Link, Site
from mpcsim.sim.network.transport import Connection
from mpcsim.sim.run.adversary import Adversary, alter_kind
from mpcsim.sim.run.compute import RoundWork
from mpcsim.sim.run.faults import Crash, Fault, delay, drop, duplicate
from mpcsim.sim.simulation import Policy


@dataclass(frozen=True)
class Fixed:
    """Every activation takes ``handling`` ms, and every round ``each`` ms more."""

    handling: float = 0.5
    each: float = 2.0
    name: str = "fixed"

    def handling_ms(self, whole_ms: float, rounds: Iterable[RoundWork]) -> float:
        return self.handling

    def round_ms(self, work: RoundWork) -> float:
        return self.each


def star(**options: object) -> Network:
    """Links of 20, 5 and 140 ms without limit of bandwidth."""
    return Network.star(20.0, 5.0, 140.0, **{"mbit_per_s": math.inf, **options})  # type: ignore[arg-type]


@cache
def _shares() -> dict[PartyId, KeyShare]:
    made = Simulation(Network.star(), compute=Free(), secrets_seed="traces")
    made.generate()
    return made.shares


def simulation(network: Network | None = None, **options: object) -> Simulation:
    """A wallet with a key on the curve secp256k1; the options hold from then on."""
    network = network or Network.star(20.0, 5.0, 140.0, mbit_per_s=100)
    made = Simulation(network, seed=4, compute=Free(), secrets_seed="traces")
    made.shares = dict(_shares())
    for name, value in options.items():
        setattr(made, name, value)
    return made


def _with_faults(*faults: Fault, **options: object) -> Trace:
    return simulation(faults=faults, compute=Fixed(), **options).sign(signers=(1, 3)).trace


def _keygen() -> Trace:
    network = Network.star(20.0, 5.0, 140.0, mbit_per_s=100, service_ms=0.5)
    return Simulation(network, seed=3, compute=Fixed(), secrets_seed="t").generate().trace


def _cold() -> Trace:
    network = Network.preset("seoul", institution="frankfurt", access="lte")
    return simulation(network.with_connection(cold=True), compute=Fixed()).sign().trace


def _shared() -> Trace:
    """Two parties on one core."""
    network = Network(
        {"one": Site("one"), "two": Site("two")},
        (Link("one", "two", star().links[0].latency),),
        {1: "one", 2: "one", 3: "two"},  # type: ignore[dict-item]
        Connection(),
        "shared",
    )
    return Simulation(network, compute=Fixed(), secrets_seed="s").generate().trace


def _abort() -> Trace:
    made = simulation(
        corrupt={1: lambda party: Adversary(party, alter_kind("Offer", lambda m: b"x"))}
    )
    return made.sign(signers=(1, 2, 3)).trace


MAKERS: dict[str, Callable[[], Trace]] = {
    "two-party signature": lambda: simulation().sign(signers=(1, 3)).trace,
    "two-party signature with compute": _with_faults,
    "three-party signature": lambda: simulation().sign(signers=(1, 2, 3)).trace,
    "key generation": _keygen,
    "recovery": lambda: simulation(compute=Fixed()).recover().trace,
    "cold connections": _cold,
    "shared core": _shared,
    "dropped": lambda: _with_faults(drop("SignatureShare", sender=1)),  # 1 is done, 3 waits
    "delayed": lambda: _with_faults(delay(77.0, "Offer", sender=1)),
    "duplicated": lambda: _with_faults(duplicate("Offer", after_ms=30.0)),
    "crashed": lambda: _with_faults(Crash(1, 1, 500.0), duplicate("Offer", after_ms=30.0)),
    "deadline": lambda: _with_faults(policy=Policy(timeout_ms=500.0)),
    "aborted": _abort,
}
NAMES = tuple(MAKERS)


@cache
def trace(name: str) -> Trace:
    """One of the traces, made once."""
    return MAKERS[name]()
