"""A wallet over a gateway in memory for each test that asks for one; tests of it are coroutines."""

from contextlib import asynccontextmanager

import pytest

from mpcsim.ids import MPC_NODES
from node.process.settings import Settings
from tests.helpers.coroutines import pytest_pyfunc_call  # noqa: F401
from tests.node.harness import system
from tests.node.wallets import House


@pytest.fixture
def house(request):
    """A wallet on a gateway of its own, or on the module's ``stored`` one for tests of its keys.

    A test that is given ``early`` says whether first messages go with the vault's request.
    """
    names = request.fixturenames
    early = request.getfixturevalue("early") if "early" in names else True
    gateway = request.getfixturevalue("stored")[0] if "records" in names else None
    return House(gateway, settings=Settings(early_requests=early))


@asynccontextmanager
async def _made(house, curve):
    await house.client.nodes()  # once in a node's life
    yield house.give_key(curve)


@pytest.fixture
def record(request, house):
    """Alice's key on the test's ``curve``, on the module's, or on ed25519."""
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    return _made(house, params.get("curve", getattr(request.module, "CURVE", "ed25519")))


@pytest.fixture
def ec_record(house):
    """The same on secp256k1, whose signatures take two requests."""
    return _made(house, "secp256k1")


@pytest.fixture(params=[True, False], ids=["early", "two steps"])
def early(request):
    """The first message goes with the request that opens the vault, or comes after it."""
    return request.param


@pytest.fixture(params=MPC_NODES)
def party(request):
    return request.param


@pytest.fixture(scope="module")
def built():
    """A node with everything behind it, and keys of alice on both curves, for a module."""
    with system() as found:
        found.make_keys()
        yield found
