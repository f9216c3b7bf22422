"""Invariants of somebody's own: asked, told and shrunk like the kit's."""

import inspect
import json
import textwrap
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim import testing
from mpcsim.errors import UsageError
from mpcsim.protocols.engine import Done
from mpcsim.testing import strategies as wallets
from mpcsim.testing.protocols import Network, frost_signing, run_over_network, run_protocol
from tests.testing import own_invariants as own
from tests.testing.implementations import hunting
from tests.testing.own_node import OwnNode

pytestmark = pytest.mark.soak  # Whole runs of the kit: seconds each.

HUNT = testing.Profile("hunt", examples=100, steps=12, both_curves=0.0)


# ---------------------------------------------------------------------- services


def test_a_broken_one_is_told_and_shrunk():
    with OwnNode() as target, pytest.raises(own.no_share_signs_twice.Broken) as caught:
        testing.check_wallet_service(target, HUNT, seed=9, invariants=[own.no_share_signs_twice])
    assert str(caught.value).splitlines() == [
        "No share signs twice.",
        "[no_share_signs_twice]",
        "",
        "  1. alice generated an ed25519 key",
        "  2. alice signed with the ed25519 share",
        "  3. alice signed with the ed25519 share: signed once more",
        "",
        "seed 9 (100 runs, 12 rules each)",
        "",
        "To see it again:",
        "",
        "    from mpcsim.testing import ApiRun",
        "    from tests.testing.own_invariants import no_share_signs_twice",
        "    from tests.testing.own_node import OwnNode",
        "",
        "    target = OwnNode()",
        "",
        "    api = ApiRun(target, [no_share_signs_twice])",
        "    api.generate('alice', 'ed25519')",
        "    api.sign('alice', 'ed25519')",
        "    api.sign('alice', 'ed25519')",
    ]
    with OwnNode() as target, pytest.raises(own.no_share_signs_twice.Broken) as again:
        snippet = caught.value.failure.snippet
        exec(snippet.replace("target = OwnNode()", ""), {"target": target})
    assert again.value.failure.steps == caught.value.failure.steps


def test_one_that_holds_is_asked_after_every_step():
    asked = []

    @testing.invariant
    def present(api: testing.ApiRun) -> str | None:
        asked.append((len(api.sequence.steps), len(api.exchanged), api.has_key("alice", "ed25519")))
        return None

    with OwnNode() as target:
        api = testing.ApiRun(target, [present])
        api.sign("alice", "ed25519")  # there is no key: no step
        api.generate("alice", "ed25519")
        api.sign("alice", "ed25519")
        api.sign_twice_at_once("alice", "ed25519")
        assert asked == [(1, 1, True), (2, 2, True), (3, 4, True)]
        assert (api.calls, api.races) == (4, 1)
        few = HUNT.with_budget(2)
        runs = testing.check_wallet_service(target, few, seed=0, invariants=[present])
        assert runs >= 2
    assert len(asked) > 20


def test_a_check_that_trips_has_found_something():
    with OwnNode() as target:
        api = testing.ApiRun(target, [own.nobody_reads_errors])
        with pytest.raises(own.nobody_reads_errors.Broken) as caught:
            api.generate("alice", "ed25519")
    assert caught.value.problem == "the check raised KeyError: 'error'"
    assert isinstance(caught.value.__cause__, KeyError)
    assert str(caught.value).splitlines()[:4] == [
        "nobody reads errors.",
        "[nobody_reads_errors]",
        "",
        "  1. alice generated an ed25519 key: the check raised KeyError: 'error'",
    ]


def test_secrets_are_masked_in_what_it_says():
    with OwnNode() as target:
        api = testing.ApiRun(target, [own.shares_are_told])
        with pytest.raises(testing.BrokenInvariant) as caught:
            api.generate("alice", "ed25519")
    assert caught.value.problem == "<alice's encrypted_share> was made for <alice's token>"


# ---------------------------------------------------------------------- protocols


def test_a_broken_one_of_a_protocol_is_told_and_shrunk():
    @hunting
    @given(data=st.data())
    def hunt(data):
        scenario = data.draw(wallets.scenarios(secp256k1=False))
        run_protocol(
            scenario,
            order=data.draw(wallets.schedules(8)),
            deviation=data.draw(st.none() | wallets.adversaries(scenario)),
            invariants=[own.all_or_none],
        )

    with pytest.raises(own.all_or_none.Broken) as caught:
        hunt()
    lines = str(caught.value).splitlines()
    assert lines[0] == "Either every honest party has its result, or none has."
    _, cheated, last = caught.value.failure.steps
    assert "withheld its" in cheated, lines
    assert last == ""
    assert "    from tests.testing.own_invariants import all_or_none" in lines
    assert "        invariants=(all_or_none, )," in lines
    with pytest.raises(own.all_or_none.Broken) as again:
        exec(caught.value.failure.snippet, dict(vars(testing.protocols)))
    assert str(again.value) == str(caught.value)


# ---------------------------------------------------------------------- the documentation


def test_the_examples_run():
    lines = (inspect.getdoc(testing.invariant) or "").splitlines()
    code = textwrap.dedent("\n".join(line for line in lines if line.startswith(" ") or not line))
    check = partial(testing.check_wallet_service, profile=HUNT.with_budget(2), seed=0)
    names: dict[str, Any] = {"ApiRun": testing.ApiRun, "Done": Done, "invariant": testing.invariant}
    names |= {"order": testing.Order((1, 0)), "faults": (), "scenario": frost_signing(2, 3, (1, 2))}
    names |= {"check_wallet_service": check} | vars(testing.protocols)
    with OwnNode() as names["target"]:
        exec(code, names)
    found = names["no_nonce_twice"]
    said = testing.Answer(200, json.dumps({"signature": "ab" * 64}))
    one, other = ({"message": text} for text in ("00", "01"))
    asked = [(testing.Request("POST", "/v3/wallet/sign", body), said) for body in (one, other)]
    found(SimpleNamespace(exchanged=[asked[0], asked[0]]))
    with pytest.raises(found.Broken, match="signed with the same nonce"):
        found(SimpleNamespace(exchanged=asked))
    assert isinstance(names["all_or_none"], testing.Invariant)


# ---------------------------------------------------------------------- what is none


@testing.invariant
def upside_down(subject: object) -> str | None:
    """Says whether it is right."""
    return True  # type: ignore[return-value]


def test_what_is_no_invariant_is_refused():
    def forgot(api: testing.ApiRun) -> str | None:
        return "never asked"

    scenario, target = frost_signing(2, 3, (1, 3)), object()
    for use in (
        lambda given: testing.ApiRun(target, given),
        lambda given: testing.check_wallet_service(target, invariants=given),
        lambda given: testing.machine_for(target, invariants=given),
        lambda given: run_protocol(scenario, invariants=given),
        lambda given: run_over_network(scenario, Network.mesh((1, 3)), invariants=given),
    ):
        with pytest.raises(UsageError, match="invariants: forgot is none; put @invariant before"):
            use([own.all_or_none, forgot])
    with pytest.raises(UsageError, match="upside_down returned a bool; expected a text"):
        run_protocol(scenario, invariants=[upside_down])
