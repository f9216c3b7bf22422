"""Everything that comes out of a run can be copied and sent to another process."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from mpcsim.capacity.model.costs import Costs
from mpcsim.capacity.plan import Cheapest
from mpcsim.crypto.groups import ED25519, SECP256K1
from mpcsim.crypto.kernels import PLAIN
from mpcsim.crypto.mta import OtMta
from mpcsim.errors import Reason, UsageError
from mpcsim.protocols.frost.rounds import FrostSetup
from mpcsim.sim import Free, Network, Simulation
from mpcsim.testing import BrokenInvariant, Failure, invariant
from mpcsim.testing.runs.protocol_checks import agreement
from tests.helpers.traces import trace

COPIES = pytest.mark.parametrize(
    "duplicate",
    [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))],
    ids=("deep", "pickle"),
)


@cache
def simulation(curve: str) -> tuple[Simulation, list[Any]]:
    made = Simulation(Network.star(), compute=Free(), secrets_seed="copies", contents=True)
    results: list[Any] = [made.generate(curve)]
    results += [made.presign()] if curve == "secp256k1" else []
    return made, [*results, made.sign(), made.recover()]


@COPIES
def test_values_are_equal_to_their_copies(duplicate: Callable[[Any], Any]) -> None:
    ed25519, results = simulation("ed25519")
    secp256k1, more = simulation("secp256k1")
    values = [*results, *more, ed25519.shares, secp256k1.shares, trace("aborted"), Network.star()]
    values += [
        FrostSetup(ed25519.shares[1], (1, 3), b"m"),
        OtMta(kernel=PLAIN),
        Reason.MALFORMED_MESSAGE,
    ]  # type: ignore[index]
    for group in (ED25519, SECP256K1):
        values += [group.identity, group.base(group.scalar(5)), group.scalar(7)]
        assert duplicate(group) is group
    for value in values:
        assert duplicate(value) == value
    assert duplicate(trace("aborted")).outcomes == trace("aborted").outcomes


def test_mappings_in_frozen_values_do_not_change() -> None:
    places = dict(Network.star().placement)
    network = replace(Network.star(), placement=places)
    places.clear()
    assert network.placement == Network.star().placement
    assert repr(network.placement).startswith("{1: 'client'")
    assert hash(network) == hash(copy.deepcopy(network))
    for change in (lambda d: d.update(a=1), lambda d: d.pop(1), lambda d: d.__setitem__(1, "a")):
        with pytest.raises(TypeError, match="this mapping is frozen"):
            change(network.placement)
    with pytest.raises(UsageError, match="choices: expected a mapping, not int"):
        Cheapest(1000.0, 5)  # type: ignore[arg-type]
    cheapest = Cheapest(1000.0, {"node_cores": [1, 2]})  # type: ignore[dict-item]
    assert cheapest.choices == {"node_cores": (1, 2)}
    with pytest.raises(TypeError, match="this mapping is frozen"):
        Costs.measured().cpu_ms["sign secp256k1"].clear()  # type: ignore[attr-defined]


def test_a_seed_of_secrets_does_not_show() -> None:
    made, _ = simulation("ed25519")
    assert made.secrets_seed == "copies"
    assert "copies" not in f"{made!r} {made.scenario!r}"


@COPIES
def test_a_copied_simulation_goes_on_alike(duplicate: Callable[[Any], Any]) -> None:
    made = simulation("ed25519")[0]
    one, other = duplicate(made), duplicate(made)
    assert one.sign(b"next").value == other.sign(b"next").value


@COPIES
def test_a_broken_invariant_keeps_its_class_and_steps(duplicate: Callable[[Any], Any]) -> None:
    @invariant
    def local(value: int) -> str | None:
        "It is small."
        return None

    for check in (agreement, local):
        broken = check.Broken("a problem")
        broken.failure = Failure(broken, ["the step"], "code()")
        found = duplicate(broken)
        assert str(found) == str(broken)
        assert type(found) is (BrokenInvariant if check is local else agreement.Broken)
        assert found.failure.broken is found
