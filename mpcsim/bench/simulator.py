"""Speed of the simulator: replayed signatures a second, and engine time per message."""

from __future__ import annotations

import time
from statistics import median
from typing import Final

from mpcsim.bench.protocols import TimedParty, keys, signing_parties
from mpcsim.protocols import dkg
from mpcsim.sim.network.latency import LogNormal
from mpcsim.sim.network.topology import Network
from mpcsim.sim.network.transport import FORWARDING
from mpcsim.sim.replay import MessageGraph, record
from mpcsim.sim.run.compute import Free
from mpcsim.sim.run.engine import VirtualRun
from mpcsim.sim.simulation import Simulation

MILLION: Final = 1_000_000
SAMPLES: Final = MILLION // 10
LOSS: Final = 0.01


def default_network(loss: float = 0.0) -> Network:
    """Return the default topology with log-normal latencies."""
    return Network.star(LogNormal(20.0, 0.2), LogNormal(5.0, 0.2), LogNormal(70.0, 0.2), loss=loss)


def signature_graph() -> MessageGraph:
    """Return the messages of a two-party secp256k1 signature."""
    simulation = Simulation(default_network(), compute=Free())
    simulation.generate()
    return record(simulation.sign().trace)


def samples_per_s(
    graph: MessageGraph, network: Network, samples: int, *, approximate: bool = False
) -> float:
    """Return replayed sessions a second of CPU time (one thread), fitting included."""
    begin = time.process_time_ns()
    graph.replay(network, samples, approximate=approximate)
    return samples / (time.process_time_ns() - begin) * 1e9


def key_generation_graph(parties: int) -> tuple[MessageGraph, Network]:
    """Return the messages of an ed25519 key generation among ``parties``, all joined directly."""
    ids = tuple(range(1, parties + 1))
    network = Network.mesh(ids, LogNormal(20.0, 0.2))
    agreed = dkg.setup("ed25519", 2, ids)
    made = [dkg.party(agreed, i, session_id=bytes(32)) for i in ids]
    return record(VirtualRun(made, network).run()), network


def engine_figures(runs: int) -> dict[str, float]:
    """Measure the time of the discrete-event engine beyond that of the parties it drives.

    Returns:
        ``des_us_per_message``, and ``des_overhead_percent`` of the cryptography, for a two-party
        secp256k1 signature through the gateway (two hops a message).
    """
    shares, network = keys("secp256k1"), default_network()
    per_message, percent = [], []
    for n in range(-2, runs):
        timed = [TimedParty(party) for party in signing_parties(shares, (1, 2))]
        run = VirtualRun(timed, network, compute=Free())
        begin = time.process_time_ns()
        trace = run.run()
        whole = time.process_time_ns() - begin
        inside = sum(party.cpu_ns for party in timed)
        if n >= 0:
            per_message.append((whole - inside) / 1000 / len(trace.messages))
            percent.append((whole - inside) / inside * 100)
    return {"des_us_per_message": median(per_message), "des_overhead_percent": median(percent)}


def forwarding_figures() -> dict[str, float]:
    """Return durations of a two-party secp256k1 signature with 50 ms on every hop, in virtual time.

    They are those through a gateway that stores messages before it forwards them, and through one
    that does not; they follow from the model, and no machine changes them.
    """
    figures = {}
    for forwarding in FORWARDING:
        network = Network.star(50.0, 50.0, 50.0).with_connection(forwarding=forwarding)
        simulation = Simulation(network, compute=Free())
        simulation.generate()
        figures[f"sign_50ms_hops_{forwarding}_ms"] = simulation.sign().elapsed_ms
    return figures


def simulator_figures(runs: int = 30) -> dict[str, float]:
    """Return all figures of the simulator, by name.

    ``replay_{lossless,lossy}_samples_per_s``: replayed two-party signatures a second on one core,
    without losses and with ``LOSS``; ``..._approximate_samples_per_s``: the same with fitted
    transfers; ``replay_{n}_parties_us``: microseconds a sample of a key generation among n
    parties, and ``..._ns_per_message`` of it.
    """
    graph = signature_graph()
    figures = {}
    for name, network in (
        ("lossless", default_network()),
        ("lossy", default_network(LOSS)),
    ):
        samples_per_s(graph, network, SAMPLES // 100)
        figures[f"replay_{name}_samples_per_s"] = median(
            samples_per_s(graph, network, SAMPLES) for _ in range(3)
        )
        figures[f"replay_{name}_approximate_samples_per_s"] = samples_per_s(
            graph, network, MILLION, approximate=True
        )
    for parties, samples in ((4, 65_536), (16, 4_096), (64, 512)):
        many, mesh = key_generation_graph(parties)
        us = 1e6 / samples_per_s(many, mesh, samples)
        figures[f"replay_{parties}_parties_us"] = us
        figures[f"replay_{parties}_parties_ns_per_message"] = us * 1000 / len(many.messages)
    return figures | engine_figures(runs) | forwarding_figures()


def table(figures: dict[str, float]) -> str:
    """Return the figures as text."""
    return "\n".join(f"{name:<40}{value:>16,.1f}" for name, value in figures.items())
