"""The kit finds planted mistakes, and tells them in a few steps that anybody can take again."""

from functools import cache
from typing import Any

import pytest

from mpcsim.testing import BrokenInvariant, Profile, check_wallet_service
from mpcsim.testing.backend import service_checks as checks
from tests.testing import faulty
from tests.testing.own_node import OwnNode

pytestmark = pytest.mark.soak  # Whole runs of the kit against services with mistakes: seconds each.

HUNT = Profile("hunt", examples=300, steps=12, both_curves=0.0)

PLANTED: dict[str, tuple[Any, Any, int]] = {
    "a retired share signs": (faulty.OldShareSigns, checks.retired_share_never_signs, 3),
    "no lock": (faulty.ForgetsLock, checks.concurrent_requests_do_no_harm, 2),
    "another key after recovery": (faulty.RecoversAnotherKey, checks.public_key_never_changes, 2),
    "errors of another form": (faulty.ErrorsOfTheFramework, checks.error_is_as_specified, 2),
    "a failed recovery": (
        *(faulty.FailedRecoveryForgetsKey, checks.failed_request_changes_nothing, 4),
    ),
}
"""By what is wrong: the service, the invariant that breaks, and the most steps it takes."""

SEEDS = {"a failed recovery": 3}
"""Any seed finds it, most after a while: a part must fail during a recovery."""


@cache
def found_in(service: Any, profile: Profile, seed: int) -> BrokenInvariant:
    with OwnNode(service) as target, pytest.raises(BrokenInvariant) as caught:
        check_wallet_service(target, profile, seed=seed)
    return caught.value


def taken_again(snippet: str, service: Any) -> BrokenInvariant:
    """What happens if somebody runs the snippet."""
    with OwnNode(service) as target, pytest.raises(BrokenInvariant) as caught:
        recipe = "target = OwnNode()"
        assert recipe in snippet
        exec(snippet.replace(recipe, ""), {"target": target})
    return caught.value


@pytest.mark.parametrize("mistake", PLANTED)
def test_planted_mistakes(mistake):
    service, broken, most = PLANTED[mistake]
    found = found_in(service, HUNT, SEEDS.get(mistake, 0))
    assert type(found) is broken.Broken
    failure = found.failure
    assert len(failure.steps) <= most, str(found)
    again = taken_again(failure.snippet, service)
    assert type(again) is broken.Broken
    assert again.failure.steps == failure.steps
