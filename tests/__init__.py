"""Tests of the project; see README.md for which test goes where."""

import pytest

# Helpers assert on behalf of tests: give their asserts the same treatment (also under python -O).
# Here, because plugins of our own import helpers before any conftest.py is read.
pytest.register_assert_rewrite("tests.helpers")
