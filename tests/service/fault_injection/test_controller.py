"""Switches are thrown all the way or not at all. The processes here are small ones that do as they
are told, or do not."""

import json
import os
import signal
import sys
from dataclasses import replace

import pytest

from mpcsim.errors import UsageError
from mpcsim.service.fault_injection import controller
from mpcsim.service.fault_injection.commands import PARTS
from mpcsim.service.fault_injection.conditions import NotApplied
from mpcsim.service.operations import supervisor
from mpcsim.service.process.http_limits import listen
from mpcsim.sim import Network, Scenario
from mpcsim.sim.run.faults import Crash
from tests.helpers.processes import until

PART = """
import json, os, socket, sys, threading
listening = socket.create_server(("127.0.0.1", int(sys.argv[1])))
line = socket.socket(fileno=0).makefile("rwb")
log = open(sys.argv[2], "a", buffering=1)
greeted = threading.Event()
def listen():
    while said := line.readline():
        told = json.loads(said)
        log.write(said.decode())
        greeted.set()
        if os.path.exists(sys.argv[2] + ".mute"):
            continue
        if os.path.exists(sys.argv[2] + ".refuses"):
            answer = {"refused": "it will not"}
        else:
            answer = {"said": {"fail": {}, "expire": 0}}
        line.write(json.dumps({"number": told["number"], **answer}).encode() + b"\\n")
        line.flush()
    os._exit(0)
threading.Thread(target=listen).start()
greeted.wait()  # like the service's programs, it serves nobody before it was told its conditions
while True:
    asking, _ = listening.accept()
    asking.recv(10000)
    asking.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
    asking.close()
"""


class Board:
    """A switchboard with all four parts."""

    def __init__(self, processes, folder, parts=PARTS, patience_s=20.0):
        self.folder, self.processes = folder, processes
        self.board = controller.FaultController(processes, folder, patience_s)
        self.programs = [self._program(name) for name in parts]
        self.board.start(*self.programs)
        self.taken = {}

    def _program(self, name):
        port = supervisor.free_port()
        command = [sys.executable, "-S", "-c", PART, str(port), str(self.folder / name)]
        return supervisor.Program(name, command, port, "", "/")

    def __call__(self, switch, **told):
        return self.board.execute(switch, told)

    def told(self, name):
        """What a part was told since this was last asked."""
        lines = (self.folder / name).read_text().splitlines()
        new = [json.loads(line) for line in lines[self.taken.get(name, 0) :]]
        self.taken[name] = len(lines)
        return [{k: v for k, v in each.items() if v and k != "number"} for each in new]

    def has(self, name, what, there=True):
        path = self.folder / f"{name}.{what}"
        path.touch() if there else path.unlink()


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    with supervisor.process_group() as processes:
        board = Board(processes, tmp_path_factory.mktemp("parts"))
        for part in PARTS:
            board.told(part)  # what each was greeted with
        yield board


@pytest.fixture(autouse=True)
def as_it_was(request):
    yield
    if "board" in request.fixturenames:
        board = request.getfixturevalue("board")
        board.board.patience_s = 20.0
        for path in board.folder.glob("*.*"):
            path.unlink()
        board("reset")
        for part in PARTS:
            board.told(part)


def test_what_takes_switches_is_another_program():
    gateway = supervisor.gateway_program(1, "data", options=["--queue", "3"])
    found = controller.with_fault_injection(gateway)
    rest = gateway.command[gateway.command.index("mpcsim") + 1 :]
    assert found == replace(
        gateway, command=(sys.executable, "-m", "mpcsim.cli.service.controlled", *rest)
    )
    assert controller.with_fault_injection(supervisor.node_program(1, gateway)).command[1:] == (
        "-m",
        "node.controlled",
    )


@pytest.mark.parametrize("workers", ["2", " 4 "])
def test_one_node_is_one_process(workers):
    for one in ("", "1", " 1 "):
        controller.check_workers({"WORKERS": one})
    with pytest.raises(UsageError, match="switches reach one process of the node"):
        controller.check_workers({"WORKERS": workers})


def test_the_first_that_a_process_hears_is_what_is_in_force(board):
    board("clock", seconds=3600)
    board("slow", part="operator", ms=20)
    board("cut", part="operator")
    set_ = {"do": "set", "ahead_s": 3600.0, "delay_ms": 20.0, "cut": True}
    assert board.told("operator")[-1] == set_
    board("kill", part="operator")
    # What made it slow, or cut it off, went with it.
    assert board.told("operator") == [{"do": "set", "ahead_s": 3600.0}]
    status = board("status")
    assert (status["clock"], status["slow"], status["cut"]) == (3600, {}, [])
    board("reset")
    assert {part: board.told(part)[-1] for part in PARTS} == {part: {"do": "set"} for part in PARTS}


def test_one_that_is_down_is_told_when_it_is_up(board):
    board("down", part="institution")
    assert not board("status")["parts"]["institution"]["runs"]
    for switch in ("down", "kill", "cut"):
        with pytest.raises(UsageError, match="the institution is down"):
            board(switch, part="institution")
    board("clock", seconds=-5)
    assert board.told("institution") == []
    board("up", part="institution")
    assert board.told("institution") == [{"do": "set", "ahead_s": -5.0}]
    before = board.processes.process_id("institution")
    board("up", part="institution")  # it is
    assert board.processes.process_id("institution") == before
    board("down", part="institution")
    board("reset")
    assert board("status")["parts"]["institution"]["runs"]


def test_a_part_that_does_not_acknowledge_changes_nothing(board):
    board("clock", seconds=60)
    board.has("gateway", "mute")
    board.board.patience_s = 0.3
    with pytest.raises(NotApplied, match=r"the gateway has not acknowledged within 0.3 s"):
        board("clock", seconds=3600)
    board.board.patience_s = 20.0
    ahead = [3600.0, 60.0]  # as they were before; what it is told late, too, ends with that
    for part in ("operator", "institution", "gateway"):
        assert [told["ahead_s"] for told in board.told(part)[-2:]] == ahead, part
    assert board.told("node")[-1]["ahead_s"] == 60
    board.has("gateway", "mute", there=False)
    assert board("status")["clock"] == 60
    board("clock", seconds=61)  # the line is as good as before


def test_what_no_service_can_be_is_refused_before_anybody_is_told(board):
    board.told("gateway")
    for text, why in (
        ("run = 5", "scenario: run"),
        ("nonsense", "scenario is not TOML"),
        (Scenario(Network.mesh(5, 1.0)).dumps(), "the parties of a service are"),
        (Scenario(faults=(Crash(2),)).dumps(), "no network crashes a process"),
        ('[preset]\nregion = "atlantis"', "atlantis"),
    ):
        with pytest.raises(UsageError, match=why):
            board("network", scenario=text)
    with pytest.raises(UsageError, match="wallet never answers 429"):
        board("fail", endpoint="wallet", answer="429")
    assert board.told("gateway") == board.told("node") == []
    text = Scenario(Network.star(2.0)).dumps()
    board("network", scenario=text)
    assert board.told("gateway") == [{"do": "set", "scenario": text}]
    assert board("status")["network"] == text
    board("kill", part="gateway")
    assert board.told("gateway")[-1] == {"do": "set", "scenario": text}
    board("network")
    assert board.told("gateway") == [{"do": "set"}]


def test_a_part_that_refuses_changes_nothing(board):
    board.has("node", "refuses")
    with pytest.raises(NotApplied, match="node: it will not"):
        board("clock", seconds=3600)
    board.has("node", "refuses", there=False)
    assert board.told("operator")[-1] == {"do": "set"}
    assert board("status")["clock"] == 0


def test_a_part_that_cannot_be_started_is_down(board):
    (gateway,) = (each for each in board.programs if each.name == "gateway")
    board("down", part="gateway")
    with listen("127.0.0.1", gateway.port), pytest.raises(NotApplied, match="; down: gateway"):
        board("up", part="gateway")
    with pytest.raises(UsageError, match=r"^the gateway is down: "):
        board("network", scenario=Scenario(Network.star(2.0)).dumps())
    assert not board("status")["parts"]["gateway"]["runs"]


def test_a_service_without_a_node(tmp_path):
    with supervisor.process_group() as processes:
        board = Board(processes, tmp_path, ())
        for switch, told in (
            ("down", {"part": "node"}),
            ("cut", {"part": "node"}),
            ("fail", {"endpoint": "sign", "answer": "504"}),
            ("demo-users", {}),
        ):
            with pytest.raises(UsageError, match="there is no node here"):
                board(switch, **told)


def test_who_crashes_is_started_again_under_the_same_conditions(board):
    revival = supervisor.RestartPolicy(board.processes, board.programs[:2])
    board("clock", seconds=7)
    board.told("operator")
    os.kill(board.processes.process_id("operator"), signal.SIGKILL)
    until(lambda: board.processes.status("operator") is not None)
    revival.restart_due()
    until(lambda: revival.restart_due() or board.processes.status("operator") is None)
    until(lambda: (board.folder / "operator").read_text().count("7.0") >= 2)
    assert board.told("operator") == [{"do": "set", "ahead_s": 7.0}]
    board("down", part="operator")
    revival.restart_due()
    assert "operator" not in board.processes  # it stays so: nobody crashed
    os.kill(board.processes.process_id("institution"), signal.SIGKILL)
    until(lambda: board.processes.status("institution") is not None)
    revival.restart_due()
    board("up", part="institution")  # before it is due
    mine = board.processes.process_id("institution")
    revival.restart_due()
    assert board.processes.process_id("institution") == mine
