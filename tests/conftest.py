"""Settings shared by all tests."""

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.helpers import secrecy
from tests.helpers.tiers import SOAK_FACTOR, mark_all_but_few

# Big-integer arithmetic makes single examples slow now and then, so no per-example deadline;
# the time limit per test still holds.
# The same examples in every run of `make test`: what only chance finds is found by `make soak`,
# which draws anew (tests/helpers/tiers.py says how much more).
settings.register_profile("default", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("soak", deadline=None, max_examples=100 * SOAK_FACTOR, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Started by nohup or in a shell's background, all processes of a test would ignore the hang-ups and
# interrupts that it sends them.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Looking for garbage among all that is imported took a tenth of the tests' time.
gc.set_threshold(50_000)

secrecy.watch()


def pytest_collection_finish() -> None:
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_all_but_few(items)


@pytest.fixture(autouse=True)
def nothing_secret_is_logged() -> Iterator[None]:
    """No password, share or token of any test so far is in what this one logged."""
    yield
    leaks = secrecy.LEDGER.leaks()
    assert not leaks, leaks
