"""Switches at a whole service in its processes: users come and go, and parts go down."""

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
from mpcsim.testing.backend.wallet_service import ServiceSettings, serving
from tests.helpers.processes import PATIENCE_S, descendants, serve, until

pytestmark = pytest.mark.soak  # Processes are started and stopped: seconds each.


def test_there_are_users_and_then_there_are_none(tmp_path):
    with serving(tmp_path / "data", ServiceSettings()) as service:

        def call(method, path, body=None):
            headers = {"Authorization": f"Bearer {user['token']}"}
            address = f"{service.address}/v3/wallet{path}"
            options = {"timeout": PATIENCE_S, "trust_env": False}
            return httpx.request(method, address, json=body, headers=headers, **options)

        first = service.demo_users(1)
        (user,) = service.demo_users(1)
        assert (user["username"], user["user_id"]) == ("demo-1", first[0]["user_id"])
        assert user["keys"][0]["public_key"] == first[0]["keys"][0]["public_key"]
        assert {key["curve"] for key in user["keys"]} == {"secp256k1", "ed25519"}
        for key in user["keys"]:
            body = {"secret_store": key["secret_store"], "password": user["password"]}
            assert call("POST", "/validate/password", body).json() == {"result": True}
            assert call("POST", "/sign", {**key, "message": "00" * 32}).status_code == 200
        with service.down("institution"):
            said = call("POST", "/sign", {**user["keys"][0], "message": "00" * 32}).json()
            assert said["error"].endswith("the institution's MPC node cannot be reached")
        service.fail_next("recover", 500)
        with pytest.raises(UsageError, match="demo-1: /recover is answered 500"):
            service.demo_users(1)
        service.reset_users()
        gone = call("GET", "/user")
        assert (gone.status_code, gone.json()) == (404, {"error": "no such user"})
        for role in (REGISTRY, *(ROLES[party] for party in MPC_NODES)):
            assert user["user_id"].encode() not in store_file(service.data, role).read_bytes()
        assert service.demo_users(1)[0]["user_id"] != user["user_id"]


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
