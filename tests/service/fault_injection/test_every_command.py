"""Switches at a whole service in its processes: parts go down, and a user comes."""

import json
import os
import signal

import httpx
import pytest

from mpcsim.cli import main
from mpcsim.service.fault_injection.client import over_http
from mpcsim.service.operations.supervisor import free_port
from tests.helpers.processes import descendants, serve, until

pytestmark = pytest.mark.soak  # Processes are started and stopped: seconds each.


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
