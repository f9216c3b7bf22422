"""Experiments ready for ``sweep``: one signing session, or one replay, a point of the grid."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, TypedDict, Unpack

from mpcsim.errors import UsageError, unknown
from mpcsim.ids import PartyId
from mpcsim.protocols.key_share import Guard, KeyShare
from mpcsim.sim.experiments.sweep import Plain
from mpcsim.sim.network.topology import Network
from mpcsim.sim.replay.graph import MessageGraph
from mpcsim.sim.run.compute import Compute, Free
from mpcsim.sim.run.faults import Fault
from mpcsim.sim.scenario import Policy
from mpcsim.sim.simulation import Simulation


class RegionSettings(TypedDict, total=False):
    """Settings of a preset network, named as the columns of a sweep."""

    operator: str | None
    institution: str | None
    gateway: str | None
    access: str
    loss: float | None
    cold: bool | None


class SigningSettings(RegionSettings, total=False):
    """Settings of a preset network, and the fields of ``Policy``."""

    timeout_ms: float
    attempts: int
    resend_ms: float


def signing_point(
    *,
    seed: int,
    network: Network | str = "virginia",
    curve: str = "secp256k1",
    signers: Iterable[int] | None = None,
    threshold: int = 2,
    scheme: str | None = None,
    compute: Compute | None = None,
    faults: Iterable[Fault] = (),
    **settings: Unpack[SigningSettings],
) -> dict[str, Plain]:
    """Sign once with the shares of a ready key, which all parties placed in the network hold.

    Args:
        network: a network, or the region of a preset.
        curve: ``secp256k1`` (ECDSA) or ``ed25519`` (FROST).
        signers: who signs; by default the first holders, as many as the key needs.
        threshold: signers that the key needs.
        scheme: multiplication scheme on secp256k1, e.g. ``ot/80``.
        compute: how long computing takes; no time by default, so that results repeat anywhere.
        settings: ``operator``, ``institution``, ``gateway``, ``access`` and ``loss`` as of
            ``Network.preset``, for a region only; ``cold``: every session opens its connections
            anew, the network's own setting by default; ``timeout_ms``, ``attempts`` and
            ``resend_ms`` as in ``Policy``.

    Returns:
        ``verdict`` of the last attempt; ``valid``: 1.0 or 0.0; ``elapsed_ms`` of all attempts
        together; ``duration_ms`` of the last; ``attempts``; of all of them, ``messages`` sent and
        their ``bytes``; and the ``scope`` of the times, ``protocol``: without the vault, which a
        REST call opens before.

    Raises:
        UsageError: bad network, curve, quorum, scheme or policy, or an unknown setting.
    """
    _check_names(settings, SigningSettings)
    network = _network(network, settings)
    shares = _key(curve, scheme, threshold, tuple(sorted(network.placement)))
    simulation = Simulation(
        network,
        seed,
        compute or Free(),
        Policy(
            settings.get("timeout_ms", math.inf),
            settings.get("attempts", 1),
            settings.get("resend_ms", math.inf),
        ),
        tuple(faults),
        secrets_seed=f"sweep {seed}",
        shares={i: replace(share, guard=Guard()) for i, share in shares.items()},
    )
    result = simulation.sign(signers=signers)
    attempts = [trace.summary() for trace in result.attempts]
    return {
        "verdict": result.verdict.value,
        "valid": float(result.ok),
        "elapsed_ms": result.elapsed_ms,
        "duration_ms": result.trace.finished_ms,
        "attempts": len(result.attempts),
        "messages": sum(each.messages for each in attempts),
        "bytes": sum(each.bytes for each in attempts),
        "scope": result.scope,
    }


def replay_point(
    *,
    seed: int,
    graph: MessageGraph,
    network: Network | str = "virginia",
    samples: int = 20_000,
    approximate: bool = False,
    **settings: Unpack[RegionSettings],
) -> dict[str, Plain]:
    """Replay a recorded graph: a protocol, or a whole call of the REST API.

        >>> call = service.record(lambda: alice.post("/v3/wallet/sign", json=order), "sign")
        >>> grid = {"network": ["seoul", "tokyo"], "access": ["fibre", "lte"]}
        >>> table = sweep(grid, partial(replay_point, graph=call, institution="frankfurt"))

    Args:
        graph: ``mpcsim.sim.replay.record`` or ``LocalService.record`` makes it.
        network: and ``settings`` from ``operator`` to ``cold``, as of ``signing_point``.
        samples: and ``approximate``, as of ``MessageGraph.replay``.

    Returns:
        ``mean_ms``, ``p50_ms``, ``p95_ms``, ``p99_ms``, of those that did not fail; ``samples``;
        ``failed``, the share of them that did; the ``scope`` of the times.

    Raises:
        UsageError: bad network or setting, or as for ``MessageGraph.replay``.
    """
    _check_names(settings, RegionSettings)
    network = _network(network, settings)
    found = graph.replay(network, samples, seed=seed, approximate=approximate)
    at = found.percentiles((50, 95, 99))
    return {
        "mean_ms": found.mean_ms,
        **{f"p{percent}_ms": ms for percent, ms in at.items()},
        "samples": found.samples,
        "failed": found.failed / found.samples,
        "scope": found.scope,
    }


def _check_names(settings: Mapping[str, Any], known: type[Any]) -> None:
    """
    Raises:
        UsageError: a setting has another name, with the near matches.
    """
    names = known.__annotations__
    for name in settings:
        if name not in names:
            raise UsageError(unknown("setting", name, tuple(names)))


def _network(network: Network | str, settings: RegionSettings) -> Network:
    """Return the network as given, or the preset of a region with its settings."""
    access, loss = settings.get("access", "datacentre"), settings.get("loss")
    operator, institution = settings.get("operator"), settings.get("institution")
    gateway, cold = settings.get("gateway"), settings.get("cold")
    if isinstance(network, str):
        network = Network.preset(
            network,
            operator=operator,
            institution=institution,
            gateway=gateway,
            access=access,
            loss=loss,
        )
    elif (operator, institution, gateway, access, loss) != (None, None, None, "datacentre", None):
        raise UsageError(
            "operator, institution, gateway, access and loss go with a region; "
            f"the network {network.name!r} has its own"
        )
    return network if cold is None else network.with_connection(cold=cold)


@cache
def _key(
    curve: str, scheme: str | None, threshold: int, parties: tuple[PartyId, ...]
) -> Mapping[PartyId, KeyShare]:
    """Return the shares of a key, the same in every process; for simulations only."""
    made = Simulation(Network.mesh(parties), compute=Free(), secrets_seed="mpcsim sweep key")
    made.generate(curve, threshold=threshold, scheme=scheme)
    return made.shares
