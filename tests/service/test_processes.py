"""Gateway and MPC nodes as processes of their own: one that is gone takes nobody along."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from types import MappingProxyType

import httpx
import pytest

from mpcsim.cli import main
from mpcsim.cli.token import credentials, fresh
from mpcsim.ids import OPERATOR
from mpcsim.rng import SystemRng
from mpcsim.rpc.request_ids import HEADER
from mpcsim.service.data_folder import claimed, link_file, prepare, store_file
from mpcsim.stories.lines import Request, about, read
from mpcsim.stories.story import told
from mpcsim.system import access_token, backend, free_port, node_program, running
from tests.helpers.processes import PATIENCE_S, PORTS, descendants, left, serve, until

pytestmark = pytest.mark.soak  # Processes are started and stopped: seconds each.

ALL = ("operator", "institution", "gateway", "node")
NEW = {"curve": "ed25519", "password": "correct horse"}


class Served:
    """Both MPC nodes, gateway and node, with a log each."""

    def __init__(self, processes, folder, **environment):
        *mpc_nodes, gateway = backend(folder / "data")
        node = node_program(free_port(), gateway, {"LOG_FORMAT": "json", **environment})
        self.data, self._folder, self.processes = folder / "data", folder, processes
        self.programs = {p.name: self._logged(p) for p in (*mpc_nodes, gateway, node)}

    def _logged(self, program):
        log = str(self._folder / f"{program.name}.log")
        return replace(
            program, command=("/bin/sh", "-c", 'exec "$@" >>"$0" 2>&1', log, *program.command)
        )

    def start(self, *names):
        self.processes.start(*(self.programs[name] for name in names))

    def log(self, name):
        return (self._folder / f"{name}.log").read_text()

    def user(self, name="alice"):
        known = credentials(self.data)
        address = self.programs["gateway"].address
        token = access_token(address, known.api_key, known.api_secret, name)
        headers = {"Authorization": f"Bearer {token}"}
        base = self.programs["node"].address + "/v3/wallet"
        return httpx.Client(base_url=base, headers=headers, timeout=PATIENCE_S, trust_env=False)


@contextmanager
def served(folder, of_all=MappingProxyType({}), **environment):
    """
    Args:
        of_all: variables of all four; environment: of the node alone.
    """
    with running(of_all) as processes:
        yield Served(processes, folder, **environment)


def test_the_gateway_starts_while_an_mpc_node_is_down(tmp_path):
    with served(tmp_path) as system:
        system.start("operator", "gateway", "node")
        assert "WARNING mpcsim.gateway.meeting: the institution's MPC node cannot be reached" in (
            system.log("gateway")
        )
        with system.user() as alice:
            assert alice.get("/user").json()["username"] == "alice"
            assert alice.post("/generate", json=NEW).status_code == 500
            system.start("institution")
            until(lambda: "both MPC nodes have been reached" in system.log("gateway"))
            assert alice.post("/generate", json=NEW).is_success
        for name in system.programs:
            assert "Traceback" not in system.log(name)


def test_all_four_log_the_callers_name_for_a_request(tmp_path):
    with served(tmp_path, {"LOG_FOLDER": str(tmp_path / "logs")}) as system:
        system.start("operator", "institution", "gateway", "node")
        with system.user() as alice:
            share = alice.post("/generate", json=NEW).json()
            for name in ("operator", "institution"):
                system.processes.kill(name)
                with closing(sqlite3.connect(store_file(system.data, name))) as store, store:
                    store.execute("UPDATE shares SET share = X'00'")
                system.start(name)
            for signer in ("operator", "institution"):
                order = {**share, "message": "00" * 32, "signer": signer}
                answer = alice.post("/sign", json=order, headers={HEADER: f"order-{signer}"})
                assert answer.headers[HEADER] == f"order-{signer}"
                assert not answer.is_success
                assert f"[order-{signer}]: the {signer}'s stored share" in system.log(signer)
            # A story across processes, written before one of them is killed.
            logs = tmp_path / "logs"

            def roles():
                lines = read([logs], lambda line: b'"order-operator"' in line).lines
                return {line.role for line in lines if isinstance(line, Request)}

            until(lambda: roles() == set(ALL))
            system.processes.kill("institution")
            alice.post("/sign", json=order, headers={HEADER: "order-last"})
        (line,) = (x for x in system.log("gateway").splitlines() if " WARNING " in x)
        assert " WARNING mpcsim.gateway.mpc_nodes [order-last]: the institution's" in line

        def named():  # each line is written when its request has been answered
            lines = map(json.loads, system.log("node").splitlines())
            return {line.get("request_id") for line in lines}

        until(lambda: named() >= {"order-operator", "order-institution", "order-last"})
        assert {path.name for path in logs.glob("*.jsonl")} == {f"{name}.jsonl" for name in ALL}
        (node,) = told(about([logs], "order-operator").lines).steps
        assert [step.request.role for step in node.below][-1] == "gateway"
        assert "operator" in [step.request.role for step in node.walk()]
        assert not [step for step in node.walk() if step.others]


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
            rf" ERROR mpcsim.system: {victim}: ended by SIGKILL; it is started again in 0.5 s, and "
            r"the others go on$",
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


def test_the_node_need_not_believe_the_gateway_who_the_mpc_nodes_are(tmp_path, monkeypatch):
    with serve(tmp_path) as (_, said, ports):
        for name, port in ports.items():
            monkeypatch.setenv(name, port)
        headers = {"Authorization": f"Bearer {fresh('alice', data=tmp_path / 'data')}"}
        url = f"http://127.0.0.1:{ports['APP_PORT']}/v3/wallet/generate"
        answer = httpx.post(url, json=NEW, headers=headers, timeout=PATIENCE_S, trust_env=False)
        assert answer.status_code == 200
        assert "MPC_NODE_KEYS=operator=" in said()  # the gateway's line for others
        assert "taken from the gateway" not in said()


def answers(url):
    try:
        return httpx.get(url, timeout=2, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


# ---------------------------------------------------------------------- one at a time


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mpc-node", "operator"], "gateway.link is missing: mpcsim link operator --data"),
        (["gateway"], "operator.link is missing: mpcsim link operator --data"),
    ],
)
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
    with claimed(tmp_path / "gateway"):  # there is nothing left to do
        prepare(tmp_path, SystemRng())
    with pytest.raises(SystemExit):
        main(["link", "client"])


def test_an_address_that_is_none(tmp_path, capsys, monkeypatch):
    prepare(tmp_path, SystemRng())
    monkeypatch.setenv("OPERATOR_URL", "operator:9092")
    assert main(["gateway", "--data", str(tmp_path)]) == 2
    said = "'operator:9092', where the operator is to be: not an http or https address"
    assert said in capsys.readouterr().err


def test_keys_are_rotated_while_calls_are_made_and_none_fails(tmp_path, capsys):
    """New tokens all the time, and signatures with new ones and the first."""
    with served(tmp_path) as system, ThreadPoolExecutor(2) as threads:
        system.start(*ALL)
        over = threading.Event()
        answers = []

        def calling(name, share):
            with system.user(name) as api:
                while not over.is_set():
                    if name == "bob":
                        with system.user(name) as other:
                            api.headers = other.headers
                    answers.append(api.post("/sign", json={**share, "message": "00"}))

        with system.user() as alice, system.user("bob") as bob:
            shares = {}
            for name, api in (("alice", alice), ("bob", bob)):
                shares[name] = api.post("/generate", json=NEW).json()
                shares[name].pop("public_key")
            share = shares["alice"]
            calls = [threads.submit(calling, *each) for each in shares.items()]
            try:
                data = ["--data", str(system.data)]
                kids = [key["kid"] for key in _jwks(system)]
                for what in (["token-key"], ["link", "operator"], ["link", "institution"]):
                    before = len(answers)
                    assert main(["rotate", *what, *data]) == 0
                    until(lambda before=before: len(answers) > before + 20)
                assert main(["rotate", "token-key", *data]) == 0
                for role in ("operator", "institution"):  # both ends have seen it
                    until(lambda role=role: f"{role}.link: it says" in system.log("gateway"))
                    until(lambda role=role: "gateway.link: it says" in system.log(role))
            finally:
                over.set()
            for call in calls:
                call.result()
            assert [answer.text for answer in answers if not answer.is_success] == []
            new = [key["kid"] for key in _jwks(system)]
            assert (len(new), new[1]) == (3, kids[0])

            assert main(["rotate", "token-key", "--now", *data]) == 0
            assert alice.post("/sign", json={**share, "message": "00"}).status_code == 401
            with system.user() as again:
                assert again.post("/sign", json={**share, "message": "00"}).is_success
    capsys.readouterr()


def _jwks(system):
    address = system.programs["gateway"].address
    return httpx.get(address + "/.well-known/jwks.json", trust_env=False).json()["keys"]
