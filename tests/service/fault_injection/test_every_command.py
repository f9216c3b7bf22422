"""Every row of the table at a whole service: what it says of the node's answers is so.

One start of all processes for all of them.
"""

import json
import os
import signal

import httpx
import pytest

from mpcsim.cli import main
from mpcsim.errors import UsageError
from mpcsim.ids import MPC_NODES, ROLES
from mpcsim.service.fault_injection.client import over_http
from mpcsim.service.operations.data_folder import store_file
from mpcsim.service.operations.supervisor import free_port
from mpcsim.service.storage.roles import REGISTRY
from mpcsim.sim import Network, Scenario
from mpcsim.testing.backend.wallet_service import ServiceSettings, serving
from tests.helpers.processes import PATIENCE_S, descendants, serve, until

pytestmark = pytest.mark.soak  # Processes are started and stopped: seconds each.

QUICK = ServiceSettings({"GATEWAY_TIMEOUT_S": "4"}, ["--link-timeout", "1.5", "--lease", "1"])
BUSY = (
    "Upstream returned 409 Conflict: a signing session for this key is in progress; with the "
    "gateway's --queue, calls wait"
)
EXPIRED = 'Authentication failed: {"code":757,"message":"JWT_EXPIRED"}'
LATE = "The gateway did not answer in time"
LATE_NODE = "did not answer in time"
FAR = Scenario(Network.star(1.0, institution=1000.0))  # a round trip takes two seconds


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("service") / "data", QUICK) as service:
        yield service


@pytest.fixture
def service(running):
    yield running
    running.reset()


class User:
    """One with a key, who calls as a backend does."""

    def __init__(self, service, name, curve="ed25519"):
        self.service, self.name = service, name
        self.new = {"curve": curve, "password": "correct horse"}
        self.log_in()
        self.share = self.ok("POST", "/generate", self.new)

    def log_in(self):
        self.token = self.service.token(self.name)

    def call(self, method, path, body=None, timeout=PATIENCE_S):
        """Status, error or document, and headers."""
        answer = httpx.request(
            method,
            f"{self.service.address}/v3/wallet{path}",
            json=body,
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=timeout,
            trust_env=False,
        )
        document = answer.json()
        return answer.status_code, document.get("error", document), answer.headers

    def ok(self, method, path, body=None):
        status, document, _ = self.call(method, path, body)
        assert status == 200, document
        return document

    def sign(self, timeout=PATIENCE_S, **more):
        order = {**self.share, "message": "00" * 32, **more}
        return self.call("POST", "/sign", order, timeout)[:2]

    def recover(self):
        return self.call("POST", "/recover", self.new)[:2]


@pytest.fixture(scope="module")
def alice(running):
    return User(running, "alice")


@pytest.fixture(autouse=True)
def as_before(request):
    """After each test, signing goes on."""
    yield
    if "alice" in request.fixturenames:
        alice = request.getfixturevalue("alice")
        for signer in ("operator", "institution"):
            status, said = alice.sign(signer=signer)
            if status == 500 and BUSY in said:
                until(lambda signer=signer: alice.sign(signer=signer)[0] == 200)
            else:
                assert status == 200, said


# ---------------------------------------------------------------------- processes


OUT_OF_REACH = [
    (lambda service: service.down("institution"), "503 Service Unavailable", "cannot be reached"),
    (lambda service: service.slow("institution", 3000), "504 Gateway Timeout", LATE_NODE),
    (lambda service: service.cut("institution"), "504 Gateway Timeout", LATE_NODE),
    (lambda service: service.network(FAR), "504 Gateway Timeout", LATE_NODE),
]


@pytest.mark.parametrize(
    ("throw", "status", "said"), OUT_OF_REACH, ids=["down", "slow", "cut", "network"]
)
def test_an_mpc_node_is_out_of_reach(alice, service, throw, status, said):
    usual = service.status()
    with throw(service):
        error = f"Upstream returned {status}: the institution's MPC node {said}"
        assert alice.sign() == (500, error)
        assert service.status() != usual
        assert alice.call("GET", "/user")[0] == 200
    until(lambda: alice.sign()[0] == 200)  # once the lease of the one before is over
    assert service.status() == usual
    for part in ("operator", "gateway", "node"):
        with service.slow(part, 50):
            assert alice.sign()[0] == 200


def test_a_part_is_killed(service):
    user = User(service, "killed", "secp256k1")
    order = {name: user.share[name] for name in ("key_id", "encrypted_share", "secret_store")}
    order |= {"curve": "secp256k1", "signer": "operator", "count": 2}
    made = user.ok("POST", "/presign", order)["presignatures"]
    # Presignatures are in the MPC node's memory alone.
    for part, left in (("node", 1), ("gateway", 0), ("operator", 0)):
        service.kill(part)
        status, signed = user.sign(presignatures=made)
        assert status == 200
        assert len(signed["presignatures"]) == left
        made = made[1:]


# ---------------------------------------------------------------------- clocks


def test_the_clock_is_ahead(alice, service):
    before = alice.token
    with service.clock(hours=1, seconds=2):  # a token holds an hour, up to the next whole second
        assert service.status()["clock"] == 3602
        assert alice.sign() == (401, EXPIRED)
        alice.log_in()
        for signer in ("operator", "institution"):
            assert alice.sign(signer=signer)[0] == 200
        created = User(service, "from-the-future").ok("GET", "/key")["keys"][0]["created_at"]
    now = User(service, "from-now").ok("GET", "/key")["keys"][0]["created_at"]
    assert created > now
    assert alice.sign()[0] == 200
    alice.token = before
    assert alice.sign()[0] == 200


# ---------------------------------------------------------------------- calls that fail


FAILED_SIGNATURES = [
    (401, (401, EXPIRED)),
    (409, (500, BUSY)),
    (500, (500, "Upstream returned 500 Internal Server Error: internal error")),
    (502, (502, "The gateway cannot be reached; check WAAS_API_URL")),
    (504, (504, LATE)),
]


@pytest.mark.parametrize(("answer", "result"), FAILED_SIGNATURES)
def test_a_signature_fails(alice, service, answer, result):
    service.fail_next("sign", answer, times=2)
    assert alice.sign() == alice.sign() == result
    assert alice.sign()[0] == 200
    with service.fail_next("sign", answer):
        assert alice.call("GET", "/key")[0] == 200


# ---------------------------------------------------------------------- users


def test_there_are_users_and_then_there_are_none(service, alice):
    first = service.demo_users(1)
    (user,) = service.demo_users(1)
    assert user["username"] == "demo-1"
    assert user["user_id"] == first[0]["user_id"]
    assert user["keys"][0]["public_key"] == first[0]["keys"][0]["public_key"]
    assert {key["curve"] for key in user["keys"]} == {"secp256k1", "ed25519"}
    for key in user["keys"]:
        body = {"secret_store": key["secret_store"], "password": user["password"]}
        alice.token, mine = user["token"], alice.token
        assert alice.ok("POST", "/validate/password", body) == {"result": True}
        assert alice.call("POST", "/sign", {**key, "message": "00" * 32})[0] == 200
        alice.token = mine
    service.fail_next("recover", 500)
    with pytest.raises(UsageError, match="demo-1: /recover is answered 500"):
        service.demo_users(1)

    secret = service.api_secret
    service.reset_users()
    assert alice.call("GET", "/user")[:2] == (404, "no such user")
    assert alice.sign()[0] == 404
    for role in (REGISTRY, *(ROLES[party] for party in MPC_NODES)):
        assert user["user_id"].encode() not in store_file(service.data, role).read_bytes()
    login = httpx.post(
        f"{service.gateway}/auth/auth-service/v3/login",
        data={"grant_type": "client_credentials", "username": "alice"},
        auth=(service.api_key, secret),
        trust_env=False,
    )
    assert login.status_code == 400
    alice.__init__(service, "alice")  # signs up again
    assert alice.sign()[0] == 200


# ---------------------------------------------------------------------- mpcsim serve


def test_serve_with_switches(tmp_path, capsys):
    port = str(free_port())
    with serve(tmp_path, "--control", port) as (process, said, _):
        address = f"http://127.0.0.1:{port}"
        assert address in said()
        control = over_http(tmp_path / "data")
        assert httpx.post(f"{address}/control/reset", trust_env=False).status_code == 401
        with control.down("gateway"):
            assert process.poll() is None  # that was on purpose
            runs = {part: found["runs"] for part, found in control.status()["parts"].items()}
            assert runs == {"operator": True, "institution": True, "gateway": False, "node": True}
        control.clock(hours=1)
        (user,) = control.demo_users(1)
        assert main(["control", "status", "--data", str(tmp_path / "data")]) == 0
        assert json.loads(capsys.readouterr().out)["clock"] == 3600
        log = said()
        assert " WARNING mpcsim.service.fault_injection.controller" in log
        assert "control: the clock is 3600 s ahead" in log
        assert user["password"] not in log
        assert user["keys"][0]["encrypted_share"][:40] not in log
        family = descendants(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        until(lambda: not family & descendants(1))  # nobody is left of it
