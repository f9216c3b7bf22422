"""Processes that are started again when they end."""

import os
import signal
import sys
from pathlib import Path

import pytest

from mpcsim.service.operations import supervisor as system
from mpcsim.service.operations.supervisor import (
    HOST,
    Program,
    RestartPolicy,
    free_port,
    process_group,
)
from mpcsim.service.process.http_limits import listen
from tests.helpers.gateway import Clock
from tests.helpers.processes import until

HANDED_OUT = Path("/proc/sys/net/ipv4/ip_local_port_range")
SLEEPER = "import time; time.sleep(600)"


def program(name, code=SLEEPER):
    return Program(name, [sys.executable, "-c", code], free_port(), "", "/")


def ends(processes, name, number=signal.SIGKILL):
    os.kill(processes.process_id(name), number)
    until(lambda: processes.status(name) is not None)


def test_who_ends_is_started_again_and_the_others_are_left_alone(caplog):
    one, other, rest = (program(name) for name in ("one", "other", "rest"))
    clock = Clock()
    with process_group() as processes:
        for each in (one, other, rest):
            processes.launch(each)
        ids = {name: processes.process_id(name) for name in ("one", "other", "rest")}
        revival = RestartPolicy(processes, [one, other], clock)
        revival.restart_due()
        ends(processes, "one")
        assert processes.find_ended() == "one"
        assert processes.find_ended(revival.names) is None
        revival.restart_due()
        assert caplog.messages == [
            "one: ended by SIGKILL; it is started again in 0.5 s, and the others go on"
        ]
        revival.restart_due()
        assert processes.process_id("one") == ids["one"]
        clock.now += 0.5
        revival.restart_due()
        assert processes.status("one") is None
        assert processes.process_id("one") != ids["one"]
        assert all(processes.process_id(name) == ids[name] for name in ("other", "rest"))
        ends(processes, "rest")
        assert processes.find_ended(revival.names) == "rest"


def test_who_keeps_ending_is_started_less_and_less_often(caplog):
    one = program("one", "raise SystemExit(3)")
    clock = Clock()
    with process_group() as processes:
        processes.launch(one)
        revival = RestartPolicy(processes, [one], clock)
        for pause in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0):
            until(lambda: processes.status("one") is not None)
            revival.restart_due()
            said = caplog.messages[-1]
            assert said.startswith(f"one: ended with status 3; it is started again in {pause} s")
            clock.now += pause - 0.1
            revival.restart_due()
            assert processes.status("one") is not None
            clock.now += 0.2
            revival.restart_due()
        clock.now += system.STABLE_AFTER_S + 0.1  # it has run for long: that is another matter
        until(lambda: processes.status("one") is not None)
        revival.restart_due()
        assert "started again in 0.5 s" in caplog.messages[-1]


def test_a_port_that_is_taken_meanwhile_is_waited_for(caplog):
    one, clock = program("one"), Clock()
    with process_group() as processes:
        processes.launch(one)
        revival = RestartPolicy(processes, [one], clock)
        ends(processes, "one")
        revival.restart_due()
        with listen(HOST, one.port):
            clock.now += 1
            revival.restart_due()
            assert "already in use" in caplog.messages[-1]
        clock.now += 2
        revival.restart_due()
        assert processes.status("one") is None


@pytest.mark.skipif(not HANDED_OUT.exists(), reason="only Linux says which ports it hands out")
def test_a_free_port_is_none_that_the_system_hands_out_meanwhile():
    first, last = (int(port) for port in HANDED_OUT.read_text().split())
    found = [free_port() for _ in range(50)]
    assert not any(first <= port <= last for port in found)
    assert len(set(found)) == 50, "nor one that was chosen before"
