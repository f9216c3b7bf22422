"""``python -m node`` as a process: start, stop, workers, and what it says when it cannot."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from mpcsim.errors import UsageError
from mpcsim.listening import listen
from tests.helpers.repo import ROOT

PATIENCE_S = 60


def command(**variables):
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "SYSTEMROOT")}
    return {
        "args": [sys.executable, "-m", "node"],
        "cwd": ROOT,
        "env": {**kept, **variables},
        "text": True,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
    }


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


@contextmanager
def node(**variables):
    """A running node: its process, and a client."""
    port = free_port()
    process = subprocess.Popen(**command(APP_PORT=str(port), **variables))
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            until = time.monotonic() + PATIENCE_S
            while True:
                try:
                    assert client.get("/", timeout=5).status_code == 200
                    break
                except httpx.TransportError:
                    assert process.poll() is None, process.stdout.read()
                    assert time.monotonic() < until
                    time.sleep(0.05)
            yield process, client
    finally:
        process.kill()
        process.wait(PATIENCE_S)
        process.stdout.close()


def stop(process):
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=PATIENCE_S)
    return [json.loads(line) for line in output.splitlines()]


def test_without_a_gateway():
    with node(BUILD_TYPE="test") as (process, client):
        assert client.get("/").json()["build_type"] == "test"
        token = {"authorization": "Bearer a.b.c"}
        answer = client.get("/v3/wallet", headers=token)
        assert answer.status_code == 500
        assert "WAAS_API_URL" in answer.json()["error"]
        lines = stop(process)
    errors = [line["event"] for line in lines if line["level"] == "ERROR"]
    assert any("WAAS_API_URL" in event for event in errors)
    requests = [line for line in lines if line["event"] == "request"]
    assert requests[-1]["status"] == 500
    # Its own lines, uvicorn's, and no second access log.
    assert {line["logger"] for line in lines} == {"node", "uvicorn.error"}


def test_running_requests_are_finished():
    """The gateway is slow; the node is told to stop while it waits."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        asked, go = threading.Event(), threading.Event()

        def gateway():
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                asked.set()
                go.wait(PATIENCE_S)
                connection.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")

        threading.Thread(target=gateway, daemon=True).start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with node(WAAS_API_URL=url) as (process, client), ThreadPoolExecutor(1) as threads:
            token = {"authorization": "Bearer a.b.c"}
            running = threads.submit(client.get, "/v3/wallet", headers=token, timeout=PATIENCE_S)
            assert asked.wait(PATIENCE_S)
            process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            assert process.poll() is None
            go.set()
            answer = running.result(PATIENCE_S)
            assert answer.status_code == 500
            assert answer.json()["error"].startswith("Upstream returned 503 ")
            process.wait(PATIENCE_S)


def test_several_workers():
    with node(WORKERS="2") as (process, client):
        for _ in range(20):
            assert httpx.get(client.base_url, trust_env=False).status_code == 200
        lines = stop(process)
        assert process.returncode == 0
    started = {line["event"] for line in lines if "Started server process" in line["event"]}
    assert len(started) == 2


def test_no_http():
    with node() as (_, client):
        address = (client.base_url.host, client.base_url.port)
        with socket.create_connection(address, PATIENCE_S) as connection:
            connection.sendall(b"NOT HTTP\r\n\r\n")
            head, _, body = connection.makefile("rb").read().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert list(json.loads(body)) == ["error"]


def test_a_taken_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = subprocess.run(**command(APP_PORT=str(port)), timeout=PATIENCE_S, check=False)
    assert ended.returncode == 1
    assert ended.stdout == (
        f"node: cannot listen on 127.0.0.1 port {port}: Address already in use\n"
    )


def test_a_bad_setting():
    ended = subprocess.run(**command(APP_PORT="no"), timeout=PATIENCE_S, check=False)
    assert ended.returncode == 2
    assert ended.stdout == "node: APP_PORT must be a port number, 1 to 65535\n"


def test_somebody_elses_address():
    with pytest.raises(UsageError, match=r"cannot listen on 192\.0\.2\.1 port 1024: "):
        listen("192.0.2.1", 1024)


def test_a_name_that_is_none():
    with pytest.raises(UsageError, match=r"cannot listen on no\.such\.name\.invalid port 1024: "):
        listen("no.such.name.invalid", 1024)


def test_connections_do_not_wait_for_acknowledgements():
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
