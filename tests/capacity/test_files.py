"""Plans, deployments and workloads in files."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.capacity import plan
from mpcsim.capacity.deployment import Deployment
from mpcsim.capacity.model import files
from mpcsim.capacity.model.arrivals import Bursts, Profile, Steady, Times, Users
from mpcsim.capacity.model.incidents import (
    BulkReshare,
    ProcessCrash,
    ProcessPause,
    RollingRestart,
    Slowdown,
)
from mpcsim.capacity.model.parts import EXACTNESSES, Part
from mpcsim.capacity.model.workload import OPERATIONS, Client, Workload
from mpcsim.capacity.plan import Cheapest, Curve, Plan, Sensitivity
from mpcsim.errors import UsageError
from mpcsim.sim import Network
from tests.helpers.reviewed import check_answers
from tests.helpers.tiers import examples

FEW = st.integers(1, 50)
ABOVE = st.floats(1e-3, 1e6)
FROM_0 = st.floats(0, 1e6)
UP_TO_1 = st.floats(0, 1)
NAMES = st.sampled_from(("node", "gateway", "operator", "institution"))


def built(make, **parts):
    return st.builds(make, **parts)


PARTS = built(
    Part, cores=FEW, replicas=FEW, workers=FEW, speed=ABOVE, memory_mb=ABOVE | st.just(math.inf)
)
NETWORKS = st.sampled_from(
    (
        Network.star(),
        Network.star(1.0, 2.5, 3.0, loss=0.01),
        Network.preset("seoul", institution="frankfurt", access="lte").with_connection(cold=True),
    )
)
DEPLOYMENTS = built(
    Deployment,
    network=NETWORKS,
    node=PARTS,
    gateway=PARTS,
    operator=PARTS,
    institution=PARTS,
    caller=st.none() | PARTS,
) | built(Deployment.on_one_machine, cores=FEW)
EVENTS = (
    built(ProcessCrash, at_s=FROM_0, part=NAMES, replica=FEW, back_s=ABOVE)
    | built(ProcessPause, at_s=FROM_0, part=NAMES, lasting_s=ABOVE)
    | built(RollingRestart, at_s=FROM_0, part=NAMES, lasting_s=ABOVE)
    | built(Slowdown, at_s=FROM_0, link=st.sampled_from(("node", "operator")), factor=ABOVE)
    | built(BulkReshare, at_s=FROM_0, at_once=FEW, curve=st.sampled_from(("secp256k1", "ed25519")))
)
ARRIVALS = (
    built(Steady, per_s=FROM_0)
    | built(
        Bursts,
        per_s=FROM_0,
        burst_per_s=FROM_0,
        lasting_s=st.floats(1, 9),
        every_s=st.floats(10, 99) | st.just(math.inf),
    )
    | built(Profile, per_s=st.lists(FROM_0, min_size=1, max_size=4).map(tuple), lasting_s=ABOVE)
    | built(Times, at_s=st.lists(FROM_0, min_size=1, max_size=4).map(sorted).map(tuple))
    | built(Users, count=FEW, think_s=FROM_0)
)
CLIENTS = built(
    Client,
    timeout_s=ABOVE | st.just(math.inf),
    attempts=FEW,
    pause_s=FROM_0,
    factor=st.floats(1, 9),
    jitter=UP_TO_1,
)
WORKLOADS = built(
    Workload,
    arrivals=ARRIVALS,
    mix=st.dictionaries(st.sampled_from(list(OPERATIONS)), ABOVE, min_size=1),
    users=FEW,
    skew=st.floats(0, 3),
    client=CLIENTS,
    events=st.lists(EVENTS, max_size=3).map(tuple),
)
CHOICES = st.dictionaries(
    st.sampled_from(("node_replicas", "operator_speed")),
    st.lists(FEW | ABOVE, min_size=1, max_size=3).map(tuple),
    min_size=1,
)
PLANS = built(
    Plan,
    deployment=DEPLOYMENTS,
    workload=WORKLOADS,
    hours=FROM_0,
    minutes=FROM_0,
    seconds=FROM_0,
    seed=st.integers(0, 2**48),
    costs=st.none() | st.sampled_from(("costs.toml", "here/costs.toml", "../costs.toml")),
    exactness=st.sampled_from(EXACTNESSES),
    deadline_ms=ABOVE | st.just(math.inf),
    curve=st.none() | built(Curve, rates_per_s=st.lists(ABOVE, max_size=2).map(tuple)),
    sensitivity=st.none()
    | built(Sensitivity, percent=st.floats(1, 99), change=st.floats(0.1, 0.9)),
    cheapest=st.none() | built(Cheapest, p99_ms=ABOVE, choices=CHOICES, minutes=ABOVE),
)


@examples(20)
@given(PLANS)
def test_what_is_written_is_read_as_it_was(given: Plan) -> None:
    assert Plan.loads(given.dumps("a note\nof two lines")) == given
    assert Deployment.of(given.deployment.table()) == given.deployment
    assert Workload.of(given.workload.table()) == given.workload


def test_the_file_of_one_is_a_plan(tmp_path: Path) -> None:
    deployment = Deployment(Network.star(2.0), node=Part(4, replicas=2), caller=Part())
    workload = Workload(Bursts(1.0, 9.0, 5.0), events=(ProcessCrash(3.0),))
    one, other, both = (tmp_path / name for name in ("d.toml", "w.toml", "both.toml"))
    deployment.save(one, "ours")
    workload.save(other)
    assert Deployment.load(one) == Plan.load(one).deployment == deployment
    assert Workload.load(other) == Plan.load(other).workload == workload
    whole = Plan(deployment, workload, hours=1, costs=str(tmp_path / "measured" / "costs.toml"))
    whole.save(both)
    assert Plan.load(both) == whole
    assert Deployment.load(both) == deployment
    assert Workload.load(both) == workload
    assert 'costs = "measured/costs.toml"' in both.read_text()


def test_the_example_of_the_documentation_is_a_plan() -> None:
    first, *_, last = (part for part in (plan.__doc__ or "").split("\n\n"))
    text = (plan.__doc__ or "").removeprefix(first).removesuffix(last)
    found = Plan.loads(dedent(text))
    assert (found.hours, found.deployment.node) == (1, Part(4, replicas=2))
    assert found.workload.client == Client(5, 3, 0.5, 2)
    assert found.workload.events == (ProcessPause(1800, "institution"),)
    assert found.cheapest == Cheapest(
        400, {"node_replicas": (1, 2, 3), "operator_cores": (1, 2, 4)}
    )


def test_every_field_of_a_plan_is_an_entry() -> None:
    own = {field.name for field in fields(Plan)} - {"deployment", "workload"}
    assert own == set(files.PLAN_KEYS)
    known = {*files.PARTS, *files.LIMITS, files.NETWORK}
    assert {field.name for field in fields(Deployment)} == known
    assert set(files.ARRIVALS.values()) == {Steady, Bursts, Profile, Times, Users}


def test_paths_begin_at_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = tmp_path / "below"
    below.mkdir()
    (below / "calls.csv").write_text("who,at\na,5\nb,5.5\n")
    Network.star(7.0).save(below / "net.toml")
    (below / "plan.toml").write_text(
        'costs = "costs.toml"\nnetwork = "net.toml"\n'
        '[workload.arrivals]\nkind = "times"\nfile = "calls.csv"\ncolumn = "at"\n'
    )
    monkeypatch.chdir(tmp_path)
    found = Plan.load("below/plan.toml")
    assert found.workload.arrivals == Times((0.0, 0.5))
    assert found.deployment.network == Network.star(7.0)
    assert found.costs == "below/costs.toml"


def test_errors_say_which_entry() -> None:
    def refusal(text: str) -> str:
        with pytest.raises(UsageError) as error:
            Plan.loads(text.replace("\\n", "\n"))
        return str(error.value)

    check_answers(refusal, Path(__file__).with_name("wrong_plans.txt"))
