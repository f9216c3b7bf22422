"""Scenarios: what is written is read again, errors name the entry, and everybody takes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim import Network, Scenario, Simulation
from mpcsim.errors import UsageError
from mpcsim.sim import Declared, Free, Measured, Policy, run_scenario
from mpcsim.sim.network.latency import LogNormal
from mpcsim.sim.run.faults import Crash, Effect, Fault, MessageFault, Partition, drop
from mpcsim.sim.tasks import Generate, Presign, Recover, Sign, SignPresigned
from mpcsim.sim.traces.records import Verdict
from tests.helpers.reviewed import check_answers
from tests.helpers.tiers import examples

IDS = st.lists(st.integers(1, 9), unique=True, min_size=1, max_size=3).map(tuple)
FEW = st.none() | IDS
TIMES = st.floats(0, 1e6)
TASKS = st.one_of(
    st.builds(Generate, st.sampled_from(["secp256k1", "ed25519"]), st.integers(2, 5)),
    st.builds(Sign, st.binary() | st.text().map(str.encode), FEW, IDS),
    st.builds(Presign, st.integers(1, 64), FEW),
    st.builds(SignPresigned, st.binary(), FEW, st.none() | st.integers(1, 3)),
    st.builds(Recover, st.integers(1, 3), FEW),
)
FAULTS: st.SearchStrategy[Fault] = st.one_of(
    st.builds(
        MessageFault,
        st.sampled_from(Effect),
        st.none() | st.sampled_from(["Commit", "Offer"]),
        st.none() | st.integers(1, 3),
        st.none() | st.integers(1, 3),
        st.none() | st.integers(1, 9),
        st.floats(0, 1),
        TIMES,
    ),
    st.builds(Partition, st.just(frozenset({1})), st.just(frozenset({2, 3})), TIMES),
    st.builds(Crash, st.integers(1, 3), st.integers(0, 9), TIMES),
)
NETWORKS = [
    Network.star(1.0, LogNormal(9.5, 0.8, 7), 4),
    Network.preset("seoul", institution="frankfurt", access="lte", loss=0.01),
    Network.mesh(5, 3.0).with_connection(cold=True),
    Network.hub((2, 3, 9), 20.0, service_ms=1.0),
]


@given(
    st.builds(
        Scenario,
        st.sampled_from(NETWORKS),
        st.lists(TASKS, max_size=3).map(tuple),
        st.lists(FAULTS, max_size=3).map(tuple),
        st.builds(Policy, st.just(1e4), st.integers(1, 3), st.sampled_from([2.5, 1e6])),
        st.sampled_from([Measured(), Declared({("frost", "commit"): 0.5, ("frost", "end"): 1})]),
        st.sampled_from(["virtual", "real"]),
        st.integers(0, 2**48),
        st.none() | st.text(st.characters(exclude_categories=["Cs", "Cc"])),
    )
)
@examples(25)
def test_every_scenario_comes_back(scenario: Scenario) -> None:
    assert Scenario.loads(scenario.dumps("a note")) == scenario


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "wallet.toml"
    Scenario(seed=7).save(path, "from nowhere")
    assert path.read_text().startswith("# from nowhere\n\n")
    assert Scenario.load(path) == Scenario(seed=7)
    network = NETWORKS[1]
    network.save(path)
    assert Scenario.load(path) == Scenario(network), "a network file is a scenario"
    with pytest.raises(UsageError, match=f"^{path} is not TOML"):
        path.write_text("run = [")
        Scenario.load(path)


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("", Network.star()),
        ("[star]\nclient = 5\ninstitution = 80.0", Network.star(5, institution=80)),
        (
            '[star]\nclient = { kind = "log-normal", median_ms = 9.5, sigma = 0.8, floor_ms = 7 }',
            Network.star(LogNormal(9.5, 0.8, 7)),
        ),
        ("[mesh]\nparties = 5\nlatency = 3\nloss = 0.01", Network.mesh(5, 3, loss=0.01)),
        (
            "[hub]\nparties = [2, 3]\nlatency = 3\n[connection]\ncold = true",
            Network.hub((2, 3), 3).with_connection(cold=True),
        ),
        ('[preset]\nregion = "tokyo"\naccess = "lte"', Network.preset("tokyo", access="lte")),
    ],
)
def test_short_spellings_of_networks(text: str, network: Network) -> None:
    assert Scenario.loads(text).network == network


def test_an_error_says_where_and_what_is_near() -> None:
    def said(text: str) -> str:
        with pytest.raises(UsageError) as refused:
            Scenario.loads(text.replace("\\n", "\n"))
        return str(refused.value)

    check_answers(said, Path(__file__).with_name("wrong_scenarios.txt"))


def test_what_a_file_cannot_have_is_refused() -> None:
    class Slow(Measured):
        pass

    with pytest.raises(UsageError, match="compute measured has no place in a scenario file"):
        Scenario(compute=Slow()).dumps()


def test_what_a_simulation_has_done_is_a_scenario() -> None:
    sim = Simulation(Network.star(5), seed=3, compute=Free(), secrets_seed="a")
    sim.generate("ed25519")
    with pytest.raises(UsageError):
        sim.sign(signers=(1, 9))
    stepping = sim.begin_sign(b"x", signers=(1, 3))
    stepping.finish()
    again = Simulation.of(sim.scenario or Scenario())
    assert sim.scenario is not None
    assert sim.scenario.run == (Generate("ed25519"), Sign(b"x", (1, 3)))
    results = [again.run_task(task) for task in sim.scenario.run]
    assert results[1].trace.messages == stepping.trace.messages
    assert again.scenario == sim.scenario
    assert Simulation(shares=sim.shares).scenario is None
    assert Simulation(corrupt={1: lambda party: party}).scenario is None


def test_a_key_that_fails_ends_it() -> None:
    faults = (drop("Commit"),)
    (only,) = run_scenario(Scenario(run=(Generate("ed25519"), Sign()), faults=faults))
    assert only.verdict is Verdict.STALLED


def test_a_service_takes_conditions_that_are_a_services() -> None:
    Scenario(Network.star(5, 5, 5), faults=(drop("Commit"),), seed=3).check_service()
    for scenario, why in [
        (Scenario(Network.hub(5)), "parties of a service are client, operator, institution"),
        (Scenario(run=(Generate(threshold=3),)), "the keys of a service are 2 of 3, not 3"),
        (Scenario(faults=(Crash(2),)), "no network crashes a process"),
    ]:
        with pytest.raises(UsageError, match=why):
            scenario.check_service(in_process=False)
