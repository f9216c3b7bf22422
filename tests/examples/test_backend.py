"""A backend gets through everything that the switches can do to it.

As anybody's suite would have it: the fixture ``wallet_service`` is the service, the rest is the
backend's own. Overriding the settings keeps the waiting short.
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from nacl.signing import VerifyKey

from mpcsim.sim import Network, Scenario
from mpcsim.sim.run import drop
from mpcsim.testing.backend import ServiceSettings
from tests.examples.backend import Backend

pytest_plugins = ["mpcsim.testing.wallet_plugin"]
pytestmark = pytest.mark.soak  # Processes are started and stopped: seconds each.

PASSWORD = "correct horse"
MESSAGE = bytes(32)
NAMES = map("backend-{}".format, count())


@pytest.fixture(scope="session")
def wallet_service_settings():
    return ServiceSettings({"GATEWAY_TIMEOUT_S": "3"}, ["--link-timeout", "1", "--lease", "1"])


@pytest.fixture
def backend(wallet_service):
    return Backend(wallet_service.address, wallet_service.token)


LOSSY = Scenario(Network.star(1.0), faults=(drop("Commitments"),))
SWITCHES = {
    "operator down": lambda service: service.down("operator"),
    "gateway down": lambda service: service.down("gateway"),
    "node down": lambda service: service.down("node"),
    "institution cut off": lambda service: service.cut("institution"),
    "gateway cut off": lambda service: service.cut("gateway"),
    "operator too slow": lambda service: service.slow("operator", 2000),
    "messages lost": lambda service: service.network(LOSSY),
    "busy": lambda service: service.fail_next("sign", 409),
    "internal error": lambda service: service.fail_next("sign", 500, times=3),
    "no gateway": lambda service: service.fail_next("sign", 502),
    "late": lambda service: service.fail_next("sign", 504, done=True),
    "hanging": lambda service: service.fail_next("sign", "hang"),
    "token expired": lambda service: service.fail_next("sign", 401),
    "an hour later": lambda service: service.clock(hours=2),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_a_signature_comes_in_the_end(wallet_service, backend, name):
    user = next(NAMES)
    key = backend.make_key(user, PASSWORD)
    with ThreadPoolExecutor(1) as thread:
        with SWITCHES[name](wallet_service):
            signature = thread.submit(backend.sign, user, PASSWORD, MESSAGE)
            while not (backend.failures or signature.done()):
                pass
        VerifyKey(bytes.fromhex(key[2:])).verify(MESSAGE, signature.result())
    assert backend.failures


@pytest.mark.parametrize("answer", [409, 429, 500, 502, 504])
@pytest.mark.parametrize("done", [False, True])
def test_a_key_is_made_whatever_is_answered(wallet_service, backend, answer, done):
    user = next(NAMES)
    wallet_service.fail_next("generate", answer, done=done)
    key = backend.make_key(user, PASSWORD)
    assert backend.failures
    assert backend.strings[user]["public_key"] == key
    assert backend.sign(user, PASSWORD, MESSAGE)


def test_what_is_killed_comes_back(wallet_service, backend):
    user = next(NAMES)
    key = backend.make_key(user, PASSWORD)
    wallet_service.kill("operator")
    signature = backend.sign(user, PASSWORD, MESSAGE)
    VerifyKey(bytes.fromhex(key[2:])).verify(MESSAGE, signature)


def test_a_service_that_has_forgotten_everybody(wallet_service, backend):
    user = next(NAMES)
    key = backend.make_key(user, PASSWORD)
    wallet_service.reset_users()
    del backend.tokens[user]
    assert backend.make_key(user, PASSWORD) != key
    assert backend.sign(user, PASSWORD, MESSAGE)
