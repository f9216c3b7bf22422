"""A gateway in memory for each test that asks for one, with keys; tests may be coroutines."""

from contextlib import closing
from dataclasses import fields

import pytest

from mpcsim.ids import MPC_NODES
from mpcsim.service.operations import GatewayOptions
from tests.helpers.coroutines import pytest_pyfunc_call  # noqa: F401
from tests.helpers.gateway import CURVES, Client, Clock, open_with
from tests.helpers.voting import World, first_key

OPTIONS = {option.name for option in fields(GatewayOptions)}


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "options(**options): ``GatewayOptions`` of the test's gateway"
    )


@pytest.fixture(params=MPC_NODES)
def party(request):
    """Each MPC node; whose share is restored, if the test asks for that."""
    return request.param


@pytest.fixture(params=CURVES)
def curve(request):
    """Each curve; that of ``share``, too."""
    return request.param


@pytest.fixture
def clock():
    """The monotonic clock of the test's gateway, if the test asks for it."""
    return Clock()


@pytest.fixture
def wall_clock():
    """The time of day of the test's gateway, if the test asks for it."""
    return Clock()


@pytest.fixture
def gateway(request):
    """An open gateway with its MPC nodes: in memory, unless the test asks for a folder.

    Its options are those of the mark, and the test's parameters that are named as options are.
    """
    marker = request.node.get_closest_marker("options")
    options = dict(marker.kwargs) if marker else {}
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    options |= {name: params[name] for name in params.keys() & OPTIONS}
    for fixture, option in (("clock", "clock"), ("wall_clock", "now"), ("tmp_path", "folder")):
        if fixture in request.fixturenames:
            options[option] = request.getfixturevalue(fixture)
    with closing(open_with(**options)) as opened:
        yield opened


@pytest.fixture
def client(gateway):
    """Alice's connection to the gateway."""
    return Client.of(gateway)


@pytest.fixture
def share(request, client):
    """Alice's share of a key on ed25519, or on the test's ``curve``; it is in force everywhere."""
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    return client.give_key(params.get("curve", "ed25519"))


@pytest.fixture
def ec_share(client):
    """Alice's share of a key on secp256k1, whose signatures take two requests."""
    return client.give_key("secp256k1")


@pytest.fixture
def empty_world():
    """Both MPC nodes' votes and the registry, and no key yet."""
    with World() as opened:
        yield opened


@pytest.fixture
def world(empty_world):
    """The same with a key in force, whose epoch is ``first``."""
    first_key(empty_world)
    return empty_world
