"""Settings shared by all tests."""

import os

import pytest
from hypothesis import settings

# Helpers assert on behalf of tests: give their asserts the same treatment (also under python -O).
pytest.register_assert_rewrite("tests.helpers")

# Big-integer arithmetic makes single examples slow now and then, so no per-example deadline;
# the time limit per test still holds.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
