"""Shrinking: what remains of a failing run is what matters, and it fails."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from mpcsim.testing import ApiRun, BrokenInvariant, Call, Failure, Profile, check_wallet_service
from mpcsim.testing.backend import service_checks as checks
from mpcsim.testing.machine.machine import UNSTEADY
from mpcsim.testing.machine.shrink import shrink
from tests.testing import faulty
from tests.testing.own_node import OwnNode

ED = {"user": "alice", "curve": "ed25519"}
SECP = {"user": "alice", "curve": "secp256k1"}


def shrunk(service: Any, calls: Sequence[Call]) -> tuple[list[Call], list[Sequence[Call]]]:
    """What remains of a run that fails, and every run that was taken."""
    tried: list[Sequence[Call]] = []

    def attempt(candidate: Sequence[Call]) -> BrokenInvariant | None:
        tried.append(candidate)
        api = ApiRun(target)
        try:
            api.play(candidate)
            api.end()
        except BrokenInvariant as broken:
            return broken
        return None

    with OwnNode(service) as target:
        first = attempt(calls)
        assert first is not None
        found = shrink(calls, first, attempt)
        assert attempt(found.failure.calls) is not None
    return found.failure.calls, tried


@pytest.mark.parametrize(
    "call",
    [
        Call("sign", ED),
        Call("all_sign_at_once"),
        *(Call(step, {"part": "gateway"}) for step in ("stop", "start", "restart")),
        Call("lose", {"nth": 1}),
    ],
    ids=str,
)
def test_skipped_steps_ask_nothing(call):
    target = SimpleNamespace(loses=0)  # has no ask, and no token
    api = ApiRun(target)
    api.play([call])
    assert api.sequence.steps == []
    assert api.model.users == {}


def test_skipped_steps_are_left_out():
    skipped = [Call("sign", SECP), Call("all_sign_at_once"), Call("start", {"part": "gateway"})]
    calls = [*skipped, Call("generate", ED), *skipped, Call("recover", ED), *skipped]
    found, tried = shrunk(faulty.OldShareSigns, [*calls, Call("sign", ED | {"share": 0})])
    assert [call.method for call in found] == ["generate", "recover", "sign"]
    # They went at once, not one by one.
    assert all(len(candidate) <= 3 for candidate in tried[1:])


GENERATE, SIGN = Call("generate", ED), Call("sign", ED | {"share": 0})
COMPOSITE = {
    "taken apart": (
        faulty.OldShareSigns,
        [GENERATE, Call("recover_twice_at_once", ED), SIGN],
        [GENERATE, Call("recover", ED | {"password": "correct horse battery staple"}), SIGN],
    ),
    "needed": (
        faulty.ForgetsLock,
        [GENERATE, Call("sign_twice_at_once", ED | {"times": 3})],
        [GENERATE, Call("sign_twice_at_once", ED | {"times": 2})],
    ),
}


@pytest.mark.parametrize(("service", "calls", "left"), COMPOSITE.values(), ids=COMPOSITE)
def test_composite_steps(service, calls, left):
    assert shrunk(service, calls)[0] == left


# ---------------------------------------------------------------------- the search itself


def broken(calls: Sequence[Call]) -> BrokenInvariant:
    error = checks.service_answers.Broken("no answer")
    error.failure = Failure(error, list(map(str, calls)), "", list(calls))
    return error


def runs(names: str) -> list[Call]:
    return [Call(name) for name in names]


@pytest.mark.parametrize("tries", [0, 1, 7])
def test_no_more_runs_than_allowed(tries):
    taken = []

    def attempt(calls: Sequence[Call]) -> BrokenInvariant:
        taken.append(calls)
        return broken(calls)

    calls = runs("abcdefghijklmnopqrstuvwxyz" * 4)
    found = shrink(calls, broken(calls), attempt, tries)
    assert len(taken) == tries
    assert found.failure.calls == (taken[-1] if taken else calls)


@pytest.mark.parametrize("ending", [runs("z"), runs("yz"), runs("xyzxyz")])
def test_what_the_end_of_a_run_adds_is_not_taken_for_progress(ending):
    """A run puts everything in order at its end, and may fail only then."""
    taken = []

    def attempt(calls: Sequence[Call]) -> BrokenInvariant | None:
        taken.append(calls)
        kept = [call for call in calls if call not in ending]
        return broken([*kept, *ending]) if Call("a") in calls else None

    calls = [*runs("bacd"), *ending]
    found = shrink(calls, broken(calls), attempt)
    assert found.failure.calls == [Call("a"), *ending]
    assert len(taken) == len({str(list(map(str, calls))) for calls in taken})
    assert len(taken) < 60


# ---------------------------------------------------------------------- a service that is unsteady


def seldom(times: int) -> Callable[[Any], faulty.Faulty]:
    """Half-forgotten errors, so many times."""

    class Seldom(faulty.Faulty):
        left = times

        def says(self, asked: faulty.Asked, said: faulty.Said) -> faulty.Said:
            if said.status == 404 and Seldom.left:
                Seldom.left -= 1
                return faulty.Said.of(418, {"error": "short and stout"})
            return said

    return Seldom


def test_a_run_that_does_not_fail_again_is_marked():
    profile = Profile("short", 10, 8, both_curves=0.0)
    with OwnNode(seldom(1)) as target, pytest.raises(BrokenInvariant) as caught:
        check_wallet_service(target, profile, seed=0)
    assert caught.value.failure.notes == [UNSTEADY]
    with OwnNode(seldom(10**6)) as target, pytest.raises(BrokenInvariant) as caught:
        check_wallet_service(target, profile, seed=0)
    assert caught.value.failure.notes == []
    assert caught.value.__context__ is None
    assert len(caught.value.failure.steps) == 1
