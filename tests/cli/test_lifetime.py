"""Processes end when they are told to, in order; and none outlives the one that started it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from mpcsim.cli.token import fresh_token
from mpcsim.service.operations import HOST, Program, free_port, process_group
from mpcsim.service.operations import supervisor as system
from mpcsim.service.process import interrupt_once
from mpcsim.service.process.http_limits import listen
from tests.helpers.processes import (
    PATIENCE_S,
    PORTS,
    SERVE,
    Begun,
    descendants,
    left,
    not_outliving_us,
    nothing_left,
    until,
)
from tests.helpers.repo import ROOT

pytestmark = pytest.mark.soak  # Processes are started and stopped: seconds each.

APART_S = 0.05
"""Between a terminal's signal and the same one from ``make``."""


class ServiceProcesses:
    """``mpcsim serve``, started as a shell does: with a process group of its own."""

    def __init__(self, folder: Path, command: Sequence[str], **variables: str) -> None:
        self.data, self._log = folder / "data", folder / "log"
        self.ports = {name: free_port() for name in PORTS}
        ports = {name: str(port) for name, port in self.ports.items()}
        with self._log.open("wb") as out:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **ports, "MPCSIM_DATA": str(self.data), **variables},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def said(self) -> str:
        return self._log.read_text()

    def address(self, port: str) -> str:
        return f"http://{HOST}:{self.ports[port]}"

    def token(self, user: str = "alice") -> str:
        return fresh_token(user, self.address("GATEWAY_PORT"), self.data)

    def up(self) -> bool:
        assert self.process.poll() is None, self.said()
        return "Ctrl-C stops everything" in self.said()


@contextmanager
def served(
    folder: Path, command: Sequence[str] = SERVE, **variables: str
) -> Iterator[tuple[ServiceProcesses, set[int]]]:
    """A system that is up, and the processes that belong to it."""
    system = ServiceProcesses(folder, command, **variables)
    family = {system.process.pid}
    try:
        with not_outliving_us(system.process):
            until(system.up, 2 * PATIENCE_S)
            family |= descendants(system.process.pid)
            yield system, family
    finally:
        with nothing_left(family | descendants(system.process.pid)):
            system.process.kill()
            system.process.wait()


def check_all_gone(system: ServiceProcesses, family: set[int]) -> None:
    until(lambda: not left(family))
    for port in system.ports.values():
        listen(HOST, port).close()


@pytest.mark.parametrize(
    "signals",
    [
        [signal.SIGHUP],
        [signal.SIGINT, signal.SIGINT],
        [signal.SIGTERM, signal.SIGTERM, signal.SIGINT],
        [signal.SIGKILL],
    ],
    ids=lambda signals: "+".join(one.name for one in signals),
)
def test_nothing_outlives_serve(tmp_path, signals):
    with served(tmp_path, WORKERS="2") as (system, family):
        assert len(family) >= 7  # itself, MPC nodes, gateway, node, and the node's two workers
        for one in signals:
            system.process.send_signal(one)
            time.sleep(APART_S)
        status = system.process.wait(PATIENCE_S)
        if signals == [signal.SIGKILL]:
            assert status == -signal.SIGKILL
        else:
            assert status == 0
            assert not left(family)
        check_all_gone(system, family)
        assert "Traceback" not in system.said()


def test_ctrl_c_before_it_is_up(tmp_path):
    started = ServiceProcesses(tmp_path, SERVE)
    with nothing_left({started.process.pid}):
        until(lambda: descendants(started.process.pid))
        family = descendants(started.process.pid)
        with nothing_left(family):
            started.process.send_signal(signal.SIGINT)
            assert started.process.wait(PATIENCE_S) == 0
            assert not left(family)
            assert "Traceback" not in started.said()


def test_requests_under_way_are_finished(tmp_path):
    """For a key, node and gateway exchange several requests after the node was told to stop."""
    with served(tmp_path, (*SERVE, "--log-format=json")) as (system, family):
        new = {"curve": "ed25519", "password": "correct horse"}
        headers = {"Authorization": f"Bearer {system.token()}"}
        begun = Begun(system.address("APP_PORT"), "/v3/wallet/generate", new, headers)
        system.process.send_signal(signal.SIGTERM)
        until(lambda: "Shutting down" in system.said())
        status, share = begun.finish()
        assert (status, share["curve"]) == (200, "ed25519")
        assert system.process.wait(PATIENCE_S) == 0
        assert not left(family)
        # Copies of the three files are all that there is to keep.
        assert len([*system.data.glob("*/*.sqlite")]) == 3
        assert not [log for log in system.data.glob("*/*-wal") if log.stat().st_size]


DEAF = """
import signal, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer
class Hello(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
HTTPServer(("127.0.0.1", int(sys.argv[1])), Hello).serve_forever()
"""


def test_who_does_not_stop_is_killed(monkeypatch):
    monkeypatch.setattr(system, "STOPPING_S", 0.2)
    port = free_port()
    with process_group() as processes:
        command = [sys.executable, "-c", DEAF, str(port)]
        processes.start(Program("deaf", command, port, "", "/"), quiet=True)
        process_id = processes.process_id("deaf")
    assert not left({process_id})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_only_the_first_signal_interrupts(number):
    before = signal.getsignal(number)
    cleaned_up = False
    with pytest.raises(KeyboardInterrupt), interrupt_once():
        try:
            signal.raise_signal(number)
        finally:
            for again in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.raise_signal(again)
            cleaned_up = True
    assert cleaned_up
    assert signal.getsignal(number) == before


def test_what_is_ignored_stays_so():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupt_once():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
