"""Gateway and MPC nodes as processes of their own: one that is gone takes nobody along."""

import os
import signal
import subprocess

import httpx
import pytest

from mpcsim.cli import main
from mpcsim.crypto.rng import SystemRng
from mpcsim.ids import OPERATOR
from mpcsim.service.operations.data_folder import claim_folder, link_file, prepare
from mpcsim.service.operations.supervisor import free_port
from tests.helpers.processes import PATIENCE_S, PORTS, descendants, left, serve, until

pytestmark = pytest.mark.soak  # Processes are started and stopped: seconds each.

ALL = ("operator", "institution", "gateway", "node")


# ---------------------------------------------------------------------- mpcsim serve


def commands(process):
    """The processes below one, by what they run."""
    found = {}
    for child in descendants(process.pid):
        arguments = subprocess.run(
            ["ps", "-ww", "-o", "args=", "-p", str(child)],
            capture_output=True,
            text=True,
            check=False,
        ).stdout.split()
        words = [word for word in arguments if word in ALL]
        if words:
            found[words[0]] = child
    return found


def test_serve_starts_an_mpc_node_again_and_ends_with_the_rest(tmp_path):
    with serve(tmp_path) as (process, said, ports):
        before = commands(process)
        assert set(before) == set(ALL)
        os.kill(before["operator"], signal.SIGKILL)
        until(lambda: "operator: ended by SIGKILL; it is started again in 0.5 s" in said())
        until(lambda: answers(f"http://127.0.0.1:{ports['OPERATOR_PORT']}/hello"))
        after = commands(process)
        assert after.pop("operator") != before.pop("operator")
        assert after == before
        family = descendants(process.pid)
        os.kill(after["gateway"], signal.SIGKILL)
        assert process.wait(PATIENCE_S) == 2
        assert "the gateway has stopped; so does the rest" in said()
        assert not left(family)


def answers(url):
    try:
        return httpx.get(url, timeout=2, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


# ---------------------------------------------------------------------- one at a time


WITHOUT_A_LINK = [
    (["mpc-node", "operator"], "gateway.link is missing: mpcsim link operator --data"),
    (["gateway"], "operator.link is missing: mpcsim link operator --data"),
]


@pytest.mark.parametrize(("arguments", "said"), WITHOUT_A_LINK)
def test_without_a_link_there_is_advice(tmp_path, capsys, monkeypatch, arguments, said):
    for name in PORTS:
        monkeypatch.setenv(name, str(free_port()))
    assert main([*arguments, "--data", str(tmp_path)]) == 2
    out = capsys.readouterr()
    assert out.err.startswith(f"mpcsim {arguments[0]}: error: ")
    assert said in out.err


def test_links_from_the_command_line(tmp_path, capsys):
    for _ in range(2):
        assert main(["link", "operator", "--data", str(tmp_path)]) == 0
        assert link_file(tmp_path, "gateway", OPERATOR).exists()
        assert not (tmp_path / "institution").exists()
    assert main(["link", "institution", "--data", str(tmp_path)]) == 0
    with claim_folder(tmp_path / "gateway"):  # there is nothing left to do
        prepare(tmp_path, SystemRng())
    assert main(["link", "client"]) == 2


def test_an_address_that_is_none(tmp_path, capsys, monkeypatch):
    prepare(tmp_path, SystemRng())
    monkeypatch.setenv("OPERATOR_URL", "operator:9092")
    assert main(["gateway", "--data", str(tmp_path)]) == 2
    said = "'operator:9092', where the operator is to be: not an http or https address"
    assert said in capsys.readouterr().err
