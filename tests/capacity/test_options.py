"""Every option of a run under load decides something, or is refused; none can be forgotten here."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from typing import Any

import pytest

from mpcsim.capacity import Client, Deployment, Part, ProcessPause, Steady, Users, Workload
from mpcsim.capacity.model.costs import Scheduling
from mpcsim.capacity.model.parts import Model
from mpcsim.capacity.model.workload import SIGN
from mpcsim.errors import UsageError
from mpcsim.sim import Connection, Network
from mpcsim.sim.network.latency import Uniform
from tests.helpers.made_up_costs import made_up

RECOVER = "recover secp256k1"
NETWORK = Network.star(2.0, 2.0, Uniform(1.0, 9.0), loss=0.02)
PART = Part(2, workers=2, speed=0.3)
RETRIES = Client(0.03, 3, 0.05, 2.0, 0.5)
BOTH = {SIGN: 1.0, RECOVER: 1.0}
REFUSED = "has no effect under load"

VALUES: dict[type, dict[str, Any]] = {
    Connection: {
        "cold": (True, REFUSED),
        "tls_round_trips": (2, REFUSED),
        "overhead_bytes": 30_000,
        "initial_window": 1,
        "slow_start_after_idle": False,
        "forwarding": ("stream", REFUSED),
        "profile": "ns3",
        "congestion": "reno",
        "http": "2",
        "pool": (3, REFUSED),
        "resumption": (True, REFUSED),
        "early_data": (True, "needs resumption"),
    },
    Part: {
        "cores": 1,
        "replicas": 2,
        "workers": 1,
        "speed": 2.0,
        "memory_mb": 1e-6,
        "machine": "one",
    },
    Model: {
        "network": Network.star(9.0),
        **dict.fromkeys(("node", "gateway", "operator", "institution"), Part(2, speed=0.1)),
        "caller": Part(speed=0.1),
        "making_limit": 1,
        "making_queue": 0,
    },
    Workload: {
        "arrivals": Steady(90.0),
        "mix": {RECOVER: 1.0},
        "users": 1,
        "skew": 3.0,
        "client": Client(0.01),
        "events": (ProcessPause(0.5, "gateway", 0.2),),
    },
    Scheduling: {"together": 0.0, "ahead": 0.0, "takes": 0.0, "hot_ms": 0.0},
    Client: {"timeout_s": 0.02, "attempts": 1, "pause_s": 0.2, "factor": 4.0, "jitter": 0.0},
}
ROWS = [(of, name) for of, values in VALUES.items() for name in values]


def result(deployment: Deployment, workload: Workload, **known: Any) -> str:
    costs = replace(made_up(SIGN, RECOVER), memory_mb={"node": (1.0, 0.1)}, **known)
    made = deployment.run(workload, seconds=2.0, costs=costs)
    kept = made.slow_calls.rows.tolist()
    return f"{made.outcomes()} {made.saturations} {kept} {made.gauges.in_flight.tolist()}"


def scenario(of: type, name: str, value: Any) -> str:
    """What comes of a value, where the option has something to do."""
    changed = {} if value is None else {name: value}
    deployment = Deployment(NETWORK, PART, caller=Part() if name == "caller" else None)
    workload = Workload(Steady(60.0), BOTH, users=20)
    if of is Connection:
        deployment = Deployment(NETWORK.with_connection(**changed))
    elif of is Part:
        machine = "one" if name == "machine" else ""
        node = replace(PART, **changed)
        deployment = replace(deployment, node=node, gateway=replace(PART, machine=machine))
    elif of is Model:
        limit = {"making_limit": 1} if name == "making_queue" else {}
        deployment = replace(deployment, **{**limit, **changed})
    elif of is Scheduling:
        scheduling = replace(Scheduling(0.5, 0.5, 1.0), **changed)
        return result(Deployment.on_one_machine(2, NETWORK), workload, scheduling=scheduling)
    elif of is Client:
        workload = replace(workload, client=replace(RETRIES, **changed))
    else:
        workload = replace(workload, **changed)
    return result(deployment, workload)


@cache
def usual(of: type, name: str) -> str:
    """What comes of it without that value, of which the name only matters where others are set."""
    return scenario(of, name, None)


@pytest.mark.parametrize(("of", "name"), ROWS, ids=[f"{of.__name__}.{name}" for of, name in ROWS])
def test_it_decides_something_or_is_refused(of: type, name: str) -> None:
    value = VALUES[of][name]
    if of is Connection and isinstance(value, tuple):
        with pytest.raises(UsageError, match=f"{name} .*{value[1]}"):
            scenario(of, name, value[0])
        return
    alone = name in ("caller", "machine", "making_queue")
    assert scenario(of, name, value) != usual(of, name if alone else "")


@pytest.mark.parametrize("of", VALUES)
def test_none_is_forgotten(of: type) -> None:
    assert VALUES[of].keys() == {each.name for each in fields(of)}


def test_users_who_wait_call_alike() -> None:
    with pytest.raises(UsageError, match=r"skew is 1: it has no effect"):
        result(Deployment(), Workload(Users(3), skew=1.0))
