"""A wallet over a gateway in memory for each test that asks for one; tests of it are coroutines."""

import pytest

from tests.helpers.coroutines import pytest_pyfunc_call  # noqa: F401
from tests.node.wallets import House


@pytest.fixture
def house(request: pytest.FixtureRequest) -> House:
    """A wallet on a gateway of its own, or on the module's ``stored`` one for tests of its keys."""
    shared = "records" in request.fixturenames
    return House(request.getfixturevalue("stored")[0] if shared else None)
