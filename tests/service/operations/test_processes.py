"""Links of gateway and MPC nodes that are processes of their own, from the command line."""

import pytest

from mpcsim.cli import main
from mpcsim.crypto.rng import SystemRng
from mpcsim.ids import OPERATOR
from mpcsim.service.operations.data_folder import claim_folder, link_file, prepare
from mpcsim.service.operations.supervisor import free_port
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
