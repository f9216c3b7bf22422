"""Runs of protocols under anything that can be drawn: ours hold, planted mistakes are found."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from mpcsim.crypto import Message
from mpcsim.errors import UsageError
from mpcsim.protocols.engine import Done
from mpcsim.protocols.local_run import LocalRun
from mpcsim.sim import Simulation
from mpcsim.sim.network.topology import Network
from mpcsim.sim.run import faults as fault_kinds
from mpcsim.sim.run.adversary import Adversary
from mpcsim.sim.run.faults import drop
from mpcsim.testing import invariant, protocols
from mpcsim.testing import strategies as wallets
from mpcsim.testing.runs import protocol_checks as checks
from mpcsim.testing.runs.deviation import AbstractDeviation, Deviation
from mpcsim.testing.runs.protocol_run import (
    MessageReplay,
    Order,
    run_over_network,
    run_protocol,
)
from mpcsim.testing.runs.scenarios import frost_signing
from tests.helpers.reviewed import check_calls
from tests.helpers.tiers import examples
from tests.testing import implementations
from tests.testing.own_invariants import all_or_none

EVERY_CHECK = list(HealthCheck)


@examples(15, suppress_health_check=EVERY_CHECK)
@given(data=st.data())
def test_any_run_in_memory(data):
    scenario = data.draw(wallets.scenarios())
    run_protocol(
        scenario,
        order=data.draw(wallets.schedules()),
        faults=data.draw(wallets.fault_plans(scenario)),
        replays=data.draw(wallets.replays(scenario)),
        deviation=data.draw(st.none() | wallets.adversaries(scenario)),
    )


@examples(15, suppress_health_check=EVERY_CHECK)
@given(data=st.data())
def test_any_run_over_a_network(data):
    scenario = data.draw(wallets.scenarios())
    run_over_network(
        scenario,
        data.draw(wallets.networks(scenario.members)),
        faults=data.draw(wallets.fault_plans(scenario, clocked=True)),
        deviation=data.draw(st.none() | wallets.adversaries(scenario)),
        seed=data.draw(st.integers(0, 99)),
    )


@examples(15, suppress_health_check=EVERY_CHECK)
@given(data=st.data())
def test_without_losses_and_cheaters_everybody_finishes(data):
    scenario = data.draw(wallets.scenarios(secp256k1=False))
    run = run_protocol(
        scenario,
        order=data.draw(wallets.schedules()),
        faults=data.draw(wallets.fault_plans(scenario, lossy=False)),
        replays=data.draw(wallets.replays(scenario)),
    )
    assert not run.silence
    assert set(run.outcomes) == set(scenario.members)
    assert all(isinstance(outcome, Done) for outcome in run.outcomes.values())


# ---------------------------------------------------------------------- the runs themselves


def test_an_exception_over_a_network():
    class Broken(implementations.Around):
        def receive(self, sender, data):
            raise ZeroDivisionError("by nothing")

    scenario = frost_signing(2, 3, (1, 2)).wrapped(Broken, "broken")
    with pytest.raises(checks.no_exception.Broken, match="a party raised ZeroDivisionError"):
        run_over_network(scenario, Network.mesh((1, 2), 5.0))


@dataclass(frozen=True)
class Mute(AbstractDeviation):
    """A party that says nothing, as somebody else would write it."""

    party: int
    silences = True

    def adversary(self, party, on_deviation):
        def drop_all(kind: str, to: int, message: Message) -> None:
            on_deviation(f"party {self.party} kept its {kind} from party {to}")

        return Adversary(party, drop_all)


def test_a_snippet_is_run_as_it_is_pasted():
    """Over a network, with a deviation and an invariant of one's own; and one that was not there
    is told."""
    scenario = frost_signing(2, 3, (1, 2, 3))
    network = Network.mesh(scenario.members, 5.0)
    lost = (drop("SignatureShare", sender=3, receiver=1),)
    with pytest.raises(all_or_none.Broken) as caught:
        run_over_network(scenario, network, faults=lost, invariants=[all_or_none])
    with pytest.raises(all_or_none.Broken) as again:
        exec(caught.value.failure.snippet, {})
    assert str(again.value) == str(caught.value)

    run = run_protocol(scenario, deviation=Mute(2))
    assert "party 2 kept its Commitments from party 3" in run.sentences
    names: dict[str, Any] = {}
    exec(run.snippet, names)
    assert f"from {__name__} import Mute" in run.snippet
    with pytest.raises(UsageError, match="party 4 takes no part"):
        run_protocol(scenario, deviation=Mute(4))


def test_the_abort_that_came_first_is_told_first():
    """Party 3 hears the spoilt message first; party 1 hears of that, or of the message, later."""
    scenario = frost_signing(2, 3, (1, 2, 3))
    spoilt = Deviation(2, "SignatureShare", ".share + 1")
    for network in (None, Network.mesh(scenario.members, 5.0)):
        play = partial(run_over_network, network=network) if network else run_protocol
        last = {} if network else {"order": Order((-1,))}
        with pytest.raises(all_finish.Broken) as caught:
            play(scenario, deviation=spoilt, invariants=[all_finish], **last)
        first = next(step for step in caught.value.failure.steps if "aborted" in step)
        assert first.startswith("party 1" if network else "party 3")


@invariant
def all_finish(run: protocols.ProtocolRun) -> str | None:
    """Everybody finishes, whoever cheats."""
    return None if all(isinstance(o, Done) for o in run.outcomes.values()) else "not all did"


def test_what_names_nothing_is_refused() -> None:
    """A typo would make a test that tests nothing."""

    def play(**how: Any) -> None:
        run_protocol(**{"scenario": frost_signing(2, 3, (1, 2)), **how})

    names = {"play": play, "MessageReplay": MessageReplay, "Deviation": Deviation}
    check_calls(Path(__file__).with_name("wrong_runs.txt"), fault_kinds, **names)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda: Order(()), "an order has no numbers"),
        (lambda: Order(3), "order: expected tuple, not int"),  # type: ignore[arg-type]
        (lambda: Order(("a",)), "order: expected int, not str"),  # type: ignore[arg-type]
        (lambda: MessageReplay(0), "replay message is 0: counted from 1"),
        (lambda: LocalRun([1, 2]), "parties: 1 is none"),  # type: ignore[list-item]
        (lambda: LocalRun([frost_signing(2, 3, (1, 2)).party(1)] * 2), "two of them are party 1"),
        (lambda: Simulation("seoul"), "expected Network, not str"),  # type: ignore[arg-type]
    ],
)
def test_arguments_are_checked_where_they_are_given(made: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        made()


def test_lists_are_taken_and_copied() -> None:
    numbers = [1, 0]
    order = Order(numbers)  # type: ignore[arg-type]
    numbers.clear()
    assert order == Order((1, 0))
    assert str(order) == "messages arrived in the order [1, 0]"
    scenario = frost_signing(2, 3, [1, 2])  # type: ignore[arg-type]
    assert scenario.members == (1, 2)
    hash(scenario)
