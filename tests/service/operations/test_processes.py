"""Links of gateway and MPC nodes that are processes of their own, from the command line."""

from functools import partial
from types import SimpleNamespace

import pytest

from mpcsim.cli import main
from mpcsim.crypto.rng import SystemRng
from mpcsim.ids import OPERATOR
from mpcsim.service.operations.composition import mpc_node_at
from mpcsim.service.operations.data_folder import claim_folder, link_file, prepare
from mpcsim.service.operations.supervisor import STOPPING_S, ProcessGroup, free_port
from tests.helpers.processes import PORTS

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


def test_an_mpc_node_is_waited_for_longer_than_its_link():
    assert mpc_node_at(OPERATOR, "http://localhost:1", 7.0)._transport._limits.total_s == 8.0


def test_the_last_process_started_ends_first_after_those_aside_were_told():
    done, group = [], ProcessGroup()
    group._aside.add("c")
    for name in "abc":
        group._control_lines[name] = SimpleNamespace(close=partial(done.append, f"close {name}"))
        group._processes[name] = SimpleNamespace(
            terminate=partial(done.append, f"end {name}"),
            wait=lambda patience_s, name=name: done.append((name, patience_s)),
            poll=lambda: 0,
        )
    group.stop()
    waits = ["end b", ("b", STOPPING_S), "end a", ("a", STOPPING_S), ("c", 0.5)]
    assert done == ["end c", *waits, "close c", "close b", "close a"]
