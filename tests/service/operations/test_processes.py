"""Gateway and MPC nodes as processes of their own: one that is gone takes nobody along."""

import os
import re
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


@pytest.mark.parametrize("victim", ["operator", "institution"])
def test_serve_starts_an_mpc_node_again(tmp_path, victim):
    with serve(tmp_path) as (process, said, ports):
        before = commands(process)
        assert set(before) == {"operator", "institution", "gateway", "node"}
        port = ports[f"{victim.upper()}_PORT"]
        for _ in range(2):
            heard = len(said())
            os.kill(commands(process)[victim], signal.SIGKILL)
            until(lambda heard=heard: f"{victim}: ended by SIGKILL" in said()[heard:])
            until(lambda: answers(f"http://127.0.0.1:{port}/hello"))
        after = commands(process)
        assert after.pop(victim) != before.pop(victim)
        assert after == before
        assert re.search(
            rf" ERROR mpcsim.service.operations.supervisor: {victim}: ended by SIGKILL; "
            r"it is started again in 0.5 s, and the others go on$",
            said(),
            re.MULTILINE,
        )


@pytest.mark.parametrize("victim", ["gateway", "node"])
def test_serve_ends_with_the_rest(tmp_path, victim):
    with serve(tmp_path) as (process, said, _):
        family = descendants(process.pid)
        os.kill(commands(process)[victim], signal.SIGKILL)
        assert process.wait(PATIENCE_S) == 2
        assert f"the {victim} has stopped; so does the rest" in said()
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
