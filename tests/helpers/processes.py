"""Processes from outside: whom they started, who is left, and requests that are under way."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mpcsim.service.operations.supervisor import free_port
from tests.helpers.repo import ROOT

PATIENCE_S = 60
PORTS = ("OPERATOR_PORT", "INSTITUTION_PORT", "GATEWAY_PORT", "APP_PORT", "LAB_PORT")
"""The variables that move the ports of what ``mpcsim serve`` starts."""
SERVE = (sys.executable, "-m", "mpcsim", "serve")


def until(true: Callable[[], Any], patience_s: float = PATIENCE_S) -> None:
    """Wait for something, but not for ever."""
    deadline = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline, "that did not happen"
        time.sleep(0.05)


def descendants(process_id: int) -> set[int]:
    """The processes that a process has started, and those that these have."""
    parents = _running()
    found, new = set[int](), {process_id}
    while new:
        new = {child for child, parent in parents.items() if parent in new}
        found |= new
    return found


def left(process_ids: Collection[int]) -> set[int]:
    """Those that still run."""
    return set(process_ids) & _running().keys()


@contextmanager
def nothing_left(process_ids: set[int]) -> Iterator[None]:
    """Whatever happens in the block: of these processes, none runs afterwards."""
    try:
        yield
    finally:
        for process_id in left(process_ids):
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)


@contextmanager
def not_outliving_us(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """In the block: if the tests are killed, so is a process with all of its group, whose leader it
    is. (What it has started ends by itself: ``mpcsim.service.process.process_lifetime``.)"""
    watch = "import os, signal, sys; os.read(0, 1); os.killpg(int(sys.argv[1]), signal.SIGKILL)"
    watcher = subprocess.Popen(
        [sys.executable, "-c", watch, str(process.pid)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield
    finally:
        watcher.kill()
        watcher.communicate()


@contextmanager
def serve(
    folder: Path, *options: str
) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], str], Mapping[str, str]]]:
    """``mpcsim serve`` once it is up: the process, its output so far, and its ports by variable.

    Args:
        folder: of its output and its data.
    """
    ports = {name: str(free_port()) for name in PORTS}
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*SERVE, "--data", str(folder / "data"), *options],
            env={**os.environ, **ports},
            stdout=out,
            stderr=out,
        )
    family = {process.pid}
    try:
        until(lambda: "Ctrl-C stops everything" in log.read_text() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        family |= descendants(process.pid)
        yield process, log.read_text, ports
    finally:
        with nothing_left(family | descendants(process.pid)):
            process.terminate()
            process.wait(PATIENCE_S)


def pytest_with_the_kit(
    folder: Path, *options: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run pytest with the plugin of the test kit, in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "mpcsim.testing.plugin", *options],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"} | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _running() -> dict[int, int]:
    """All processes that have not ended, and their parents."""
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,stat="], check=True, capture_output=True, text=True
    )
    rows = (line.split() for line in listing.stdout.splitlines())
    return {int(child): int(parent) for child, parent, state in rows if not state.startswith("Z")}


class Begun:
    """A request that the server has begun to handle: it waits for the body."""

    def __init__(
        self, address: str, path: str, document: object, headers: Mapping[str, str] = {}
    ) -> None:
        parts = urlsplit(address)
        self._body = json.dumps(document).encode()
        lines = [f"POST {path} HTTP/1.1", f"Host: {parts.netloc}", "Expect: 100-continue"]
        lines += ["Content-Type: application/json", f"Content-Length: {len(self._body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._socket = socket.create_connection((parts.hostname, parts.port), PATIENCE_S)
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())
        interim = b""
        while not interim.endswith(b"\r\n\r\n"):
            interim += self._socket.recv(1)
        assert interim.startswith(b"HTTP/1.1 100 ")

    def finish(self) -> tuple[int, Any]:
        """Send the body; status and document of the answer."""
        with self._socket:
            self._socket.sendall(self._body)
            response = HTTPResponse(self._socket)
            response.begin()
            with response:
                return response.status, json.loads(response.read())
