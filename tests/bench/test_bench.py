"""The bench command produces every figure that the project promises."""

import json
from contextlib import closing

import nbformat
import pytest

from mpcsim.bench import notebooks, rest
from mpcsim.bench.protocols import call_figures
from mpcsim.bench.report import TARGETS
from mpcsim.bench.simulator import engine_figures, key_generation_graph, samples_per_s, table
from mpcsim.bench.starting import BROKEN_OFF, fill
from mpcsim.cli import main
from mpcsim.errors import UsageError
from mpcsim.service.operations import open_gateway
from tests.helpers.tiers import fast_few

PROMISED = {
    *("scalar_mult_us", "base_mult_us", "share_secp256k1_bytes", "signing_memory_mb"),
    *("sign_secp256k1_2p_ms", "sign_secp256k1_2p_party_ms", "sign_secp256k1_2p_xi512_ms"),
    *("sign_secp256k1_3p_ms", "presign_secp256k1_2p_per_signature_ms"),
    *("sign_presigned_secp256k1_2p_ms", "sign_ed25519_2p_ms", "keygen_secp256k1_ms"),
    *("keygen_ed25519_ms", "reshare_secp256k1_ms", "sign_secp256k1_2p_calls"),
    *("sign_presigned_secp256k1_2p_calls", "sign_ed25519_2p_calls"),
}


@pytest.mark.soak
def test_bench_writes_its_figures(tmp_path, capsys):
    file = tmp_path / "bench.json"
    assert main(["bench", "--only", "protocols", "--runs", "1", "--json", str(file)]) == 0
    figures = json.loads(file.read_text())
    assert figures.keys() >= PROMISED | TARGETS.keys()
    assert all(isinstance(value, int | float) for value in figures.values())
    # Not timings: these follow from the protocols.
    assert figures["sign_secp256k1_2p_round_trips"] == 2
    assert figures["sign_ed25519_2p_round_trips"] == 1
    assert figures["sign_secp256k1_2p_delays"] == 4
    assert figures["sign_presigned_secp256k1_2p_round_trips"] == 1
    assert figures["sign_presigned_secp256k1_2p_messages"] == 1
    assert figures["sign_presigned_secp256k1_2p_bytes"] <= 250
    assert figures["keygen_secp256k1_delays"] == 3
    assert figures["share_secp256k1_bytes"] < 20_000
    printed = capsys.readouterr().out
    assert "sign_secp256k1_2p" in printed
    assert "where the time goes" in printed


@pytest.mark.parametrize("case", fast_few([*rest.TARGETS, *rest.TARGET_MS], 2))
def test_a_rest_call_takes_the_round_trips_that_are_promised(case):
    """In virtual time: no timing, but what follows from the messages."""
    (found,) = [each for each in rest.CASES if each.name == case]
    drawn = rest.DRAWS if case in rest.TARGET_MS else 1
    assert rest.reached(case, rest.call_ms(found, "virtual", drawn))


@pytest.mark.parametrize(("name", "most"), rest.TARGET_MS.items())
def test_a_target_is_reached_by_what_is_as_slow(name, most):
    assert (rest.reached(name, most), rest.reached(name, most + 0.1)) == (True, False)


def test_a_signature_keeps_to_its_calls():
    """A count, not a timing: it is the same on every machine with this version of Python."""
    figures = call_figures()
    assert figures["sign_secp256k1_2p_calls"] <= TARGETS["sign_secp256k1_2p_calls"] == 5000
    assert figures["sign_ed25519_2p_calls"] <= 1500
    assert figures["sign_presigned_secp256k1_2p_calls"] <= 1000


def test_simulator_figures():
    figures = engine_figures(1)
    assert set(figures) == {"des_us_per_message", "des_overhead_percent"}
    graph, network = key_generation_graph(4)
    assert len(graph.messages) == 3 * 12
    assert samples_per_s(graph, network, 100) > 0
    assert "des_us_per_message" in table(figures)


def test_a_filled_gateway(tmp_path):
    """What the starts are measured on: keys in all three stores, and a log that a crash leaves."""
    clean, crashed = tmp_path / "clean", tmp_path / "crashed"
    fill(clean, crashed, 3)
    assert not list(clean.rglob("*-wal"))
    assert len([file for file in crashed.rglob("*-wal") if file.stat().st_size]) == 3
    for folder in (clean, crashed):
        with closing(open_gateway(folder)) as gateway:
            registry = gateway.gateway.registry
            users = [registry.user_by_name(f"user {n}") for n in range(3 + BROKEN_OFF)]
            for n, user in enumerate(users):
                held = [registry.key(user.user_id, "secp256k1")]
                held += [
                    link.node.store.active(user.user_id, "secp256k1")
                    for link in gateway.links.values()
                ]
                if n < 3:
                    assert len({share.key_id for share in held}) == 1
                else:
                    assert held == [None, None, None]


def test_notebooks_are_timed(tmp_path):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("print(6 * 7)")])
    nbformat.write(notebook, tmp_path / "01_small.ipynb")
    before = (tmp_path / "01_small.ipynb").read_bytes()
    figures = notebooks.notebook_figures(tmp_path)
    assert list(figures) == ["notebook_01_small_s"]
    assert "01_small" in notebooks.table(figures)
    assert "NOT reached" in notebooks.table({"notebook_slow_s": 31.0})
    assert (tmp_path / "01_small.ipynb").read_bytes() == before
    with pytest.raises(UsageError, match="no notebooks in"):
        notebooks.notebook_figures(tmp_path / "none")
