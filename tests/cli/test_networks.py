"""``mpcsim network``, and network files where presets may be."""

import re
from pathlib import Path

from mpcsim import Network, Scenario
from mpcsim.cli import main
from mpcsim.cli.network import scenario
from mpcsim.service import operations
from mpcsim.service.operations import GatewayOptions
from mpcsim.sim.network.bursts import Bursts
from mpcsim.sim.run.faults import Crash, drop
from tests.vectors.network import make

FOLDER = Path(make.__file__).parent
LOADED = FOLDER / "network.toml"


def test_a_gateway_is_under_the_conditions_of_a_scenario(tmp_path, monkeypatch, capsys) -> None:
    path = tmp_path / "wallet.toml"
    faulty = Scenario(Network.star(5), faults=(drop("Commit"),), seed=7)
    faulty.save(path)
    opened: list[GatewayOptions] = []
    monkeypatch.setattr(operations, "open_gateway", lambda _, options: opened.append(options))
    monkeypatch.setattr(operations, "serve", lambda *_: None)
    for network in ([f"--network={path}"], ["--network=seoul"], []):
        assert main(["gateway", f"--data={tmp_path}", *network]) == 0
    first, second, third = opened
    assert (first.network, first.faults, first.seed) == (faulty.network, faulty.faults, 7)
    assert (second.network, second.faults) == (Network.preset("seoul"), ())
    assert third.network is None
    Scenario(Network.star(5), faults=(Crash(2, after_messages=1),)).save(path)
    assert main(["gateway", f"--data={tmp_path}", f"--network={path}"]) == 2
    assert "no network crashes a process: mpcsim control kill does" in capsys.readouterr().err


def fit(name: str, *options: str) -> int:
    return main(["network", "fit", str(FOLDER / name), *options])


def test_what_was_measured_its_fit_and_files(tmp_path: Path, capsys) -> None:
    out, picture = tmp_path / "net.toml", tmp_path / "fit.png"
    assert fit("ping_linux.txt", f"--output={out}", f"--figure={picture}", "--blocks=24") == 0
    said = capsys.readouterr().out
    for text in (
        "read as ping (Linux)",
        "593 round trips, 7 of 600 lost (ICMP echo)",
        "Warning: ICMP, not TCP",
        "client - gateway: bursts for 593 round trips: bursts of 24",
        "bursts *",
        "assumed: client - gateway takes ",
        f"mpcsim serve --network={out}",
    ):
        assert text in said
    assert picture.read_bytes().startswith(b"\x89PNG")
    network = scenario(str(out)).network
    assert network == Network.load(out)
    assert isinstance(network.links[0].latency, Bursts)
    assert out.read_text().startswith("# Measured: ping_linux.txt, read as ping (Linux).\n")
    assert str(tmp_path) not in out.read_text()
    assert main(["network", "show", str(out)]) == 0
    said = capsys.readouterr().out
    assert re.search("client → gateway +bursts of 24", said)
    assert re.search("gateway → client +constant", said)
    assert "congestion cubic" in said


def test_files_where_presets_may_be(tmp_path: Path, capsys) -> None:
    assert scenario(str(LOADED)).network == Network.load(LOADED)
    bad = tmp_path / "bad.toml"
    bad.write_text(LOADED.read_text().replace('b = "gateway"', 'b = "gatway"', 1))
    for command in (["serve", "--network"], ["demo", "--network"], ["network", "show"]):
        assert main([*command, str(bad)]) == 2
        assert "links.client-gateway.b: unknown site 'gatway'" in capsys.readouterr().err
