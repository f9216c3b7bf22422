"""What is drawn is what the docstrings say, and shrinks to the ordinary case."""

from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from mpcsim.crypto.bip32 import parse_path, path_text
from mpcsim.crypto.encoding import NO_CONTEXT, U8, Bytes, Optional, PerParty, Reader, Seq, Text
from mpcsim.errors import InvalidEncoding, UsageError
from mpcsim.protocols.sample_keys import keys
from mpcsim.service.precis import enforce_password
from mpcsim.service.smart_account.operation.operation import UserOperation
from mpcsim.testing import PROFILES, ApiRun, BrokenInvariant, Call, Profile
from mpcsim.testing import strategies as wallets
from mpcsim.testing.machine.api_steps import STEPS, damaged
from mpcsim.testing.machine.rules import _is_allowed, child_paths, rules
from mpcsim.testing.machine.shrink import shrink
from mpcsim.testing.profile import Progress
from mpcsim.testing.runs.fields import _spoils
from mpcsim.testing.runs.scenarios import shares_problem
from tests.helpers.tiers import examples
from tests.testing.own_node import OwnNode

few = examples(15, suppress_health_check=list(HealthCheck))


@few
@given(st.data())
def test_thresholds_and_quorums(data):
    sharing = data.draw(wallets.thresholds())
    assert 2 <= sharing.threshold <= len(sharing.holders) <= 5
    quorum = data.draw(wallets.quorums(sharing))
    assert sharing.threshold <= len(quorum)
    assert set(quorum) <= set(sharing.holders)
    assert list(quorum) == sorted(quorum)
    assert len(data.draw(wallets.quorums(sharing, exactly=True))) == sharing.threshold


@few
@given(wallets.paths(), child_paths(3))
def test_paths(path, text):
    assert parse_path(path_text(path)) == path
    assert len(parse_path(text)) <= 3


@few
@given(wallets.key_shares())
def test_key_shares_are_real(shares):
    assert shares_problem(shares) is None


def test_key_shares_are_made_once_and_loaded_anew():
    first, second = keys("ed25519")[1], keys("ed25519")[1]
    assert first.to_bytes() == second.to_bytes()
    assert first.guard is not second.guard
    assert shares_problem({1: first, 2: first}) is not None


@few
@given(wallets.user_operations(), wallets.user_operations(signed=False))
def test_user_operations_are_read_by_the_smart_account_flow(signed, unsigned):
    assert len(signed.pop("signature")) == 132
    for fields in (signed, unsigned):
        read = UserOperation.from_request(fields, signed=False)
        assert UserOperation.from_request(read.to_request(signed=False), signed=False) == read


@few
@given(st.data())
def test_fault_plans_and_adversaries_fit_their_scenario(data):
    scenario = data.draw(wallets.scenarios(secp256k1=False))
    for fault in data.draw(wallets.fault_plans(scenario, clocked=True)):
        hash(fault)
    data.draw(wallets.adversaries(scenario)).check_names(scenario)


@few
@given(wallets.api_call_sequences(), wallets.api_messages("ed25519"), wallets.passwords())
def test_calls_are_steps_that_can_be_written_down(calls, message, password):
    for call in calls:
        assert call.method in STEPS
        assert call.code("api", ApiRun).startswith(f"api.{call.method}(")
    assert len(bytes.fromhex(message)) >= 1
    assert 1 <= len(enforce_password(password)) <= 256
    assert not _is_allowed("\0")


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        *((Optional(U8), value) for value in (1, None)),
        *((Seq(U8), (1, 2)), (PerParty(U8), {1: 2, 3: 4}), (Bytes(9), b"ab"), (Text(9), "ab")),
    ],
    ids=str,
)
def test_what_is_spoilt_does_not_decode(codec, value):
    def decode(data):
        codec.read(reader := Reader(data), NO_CONTEXT)
        reader.finish()

    for _, spoil in _spoils(codec, value, NO_CONTEXT):
        spoilt = spoil(value)
        with pytest.raises(InvalidEncoding):
            decode(spoilt)


# ---------------------------------------------------------------------- the rest of the kit


def test_what_is_drawn_is_what_the_target_can():
    """The service of this repository can all; one of which nothing is known, only what all can."""
    needs = {"presign", "use_child", "outages"}
    with OwnNode() as target:
        everything, outages = rules(target), rules(target)["outages"].draw["what"]
    assert needs <= set(everything)
    assert everything.keys() - needs == rules(SimpleNamespace(signers=())).keys()
    assert {call.method for call in outages.elements} == {
        *("restart", "stop", "start", "lose", "lose_nothing")
    }
    with pytest.raises(UsageError, match="no protected endpoint: 'GET nothing'"):
        ApiRun(SimpleNamespace()).unauthenticated("alice", "ed25519", "no token", "GET nothing")


def test_damage_keeps_the_form():
    text = "ABCdef_-"
    for where in ("start", "middle", "end"):
        other = damaged(text, where)
        assert len(other) == len(text)
        assert sum(a != b for a, b in zip(text, other, strict=True)) == 1


def test_shrinking_leaves_out_and_makes_plain():
    class Walked(BrokenInvariant):
        pass

    generate = Call("generate", {"user": "bob", "curve": "secp256k1", "password": "odd"})
    look = Call("keys", {"user": "alice"})
    sign = Call("sign", {"user": "bob", "curve": "secp256k1", "message": "00", "share": 1})
    tried = []

    def attempt(calls):
        tried.append(calls)
        methods = [call.method for call in calls]
        return Walked(calls) if "generate" in methods and methods[-1] == "sign" else None

    found = shrink([look, generate, look, look, sign], Walked([]), attempt)
    first, last = found.args[0]
    assert first.arguments["user"] == last.arguments["user"] == "alice"
    assert first.arguments["curve"] == last.arguments["curve"] == "ed25519"
    assert last.arguments["share"] == -1
    assert len(tried) < 60


def test_profiles_and_budgets():
    quick = PROFILES["quick"]
    assert list(quick.rounds()) == [quick.examples]
    assert quick.with_budget(7).examples == 7
    timed = quick.with_budget(seconds=10.0)
    clock = iter([0.0, 1.0, 9.0, 11.0])
    assert len(list(timed.rounds(lambda: next(clock)))) == 2
    hurried = iter([0.0, 11.0, 12.0])
    assert len(list(timed.rounds(lambda: next(hurried)))) == 1
    assert timed.with_budget(3).seconds is None
    for bad in ({"examples": 0}, {"steps": 0}, {"seconds": 0.0}):
        with pytest.raises(UsageError):
            Profile(**{"name": "bad", "examples": 1, "steps": 1, **bad})


def test_progress_is_counted_and_shown_on_a_terminal(tmp_path):
    progress = Progress("runs")
    progress.step(1500, 2)
    assert str(progress) == "runs: 1, calls: 1,500, races: 2"
    with (tmp_path / "terminal").open("w") as stream:
        progress = Progress("runs", 1, stream)
        progress.step()
        progress.close()
    assert "runs: 100%" in (tmp_path / "terminal").read_text()
