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
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import httpx
import pytest

from mpcsim.cli.token import credentials
from mpcsim.errors import UsageError
from mpcsim.listening import ConnectionLimits, listen
from mpcsim.system import access_token, backend, free_port, running
from node.settings import Settings
from tests.helpers.processes import descendants, left, nothing_left, until
from tests.helpers.repo import ROOT

PATIENCE_S = 60
VARIABLES = {
    "connections": "MAX_CONNECTIONS",
    "header_bytes": "MAX_HEADER_BYTES",
    "header_s": "HEADER_TIMEOUT_S",
    "body_s": "BODY_TIMEOUT_S",
    "idle_s": "IDLE_TIMEOUT_S",
}
"""Of the fields of settings that are called otherwise."""


def command(**variables):
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "SYSTEMROOT")}
    return {
        "args": [sys.executable, "-m", "node"],
        "cwd": ROOT,
        "env": {**kept, "LOG_FORMAT": "json", **variables},
        "text": True,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
    }


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


@pytest.mark.soak
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


@pytest.mark.soak
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


@pytest.mark.soak
def test_for_people_it_says_little():
    with node(LOG_FORMAT="text") as (process, client):
        client.get("/nothing")
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=PATIENCE_S)
    listens, unconfigured, *health, last = output.splitlines()
    assert f"node: listens on 127.0.0.1 port {client.base_url.port}" in listens
    assert "ERROR node: " in unconfigured
    assert all(": GET / 200 in " in line for line in health)
    assert ": GET /nothing 404 in " in last


@pytest.mark.soak
def test_several_workers(tmp_path):
    """Each has a log file of its own, and has written all of it when it ends."""
    with node(WORKERS="2", LOG_FOLDER=str(tmp_path)) as (process, client):
        for number in range(20):
            answer = httpx.get(
                client.base_url, headers={"X-Request-Id": f"ask-{number}"}, trust_env=False
            )
            assert answer.status_code == 200
        lines = stop(process)
        assert process.returncode == 0
    names = {path.name for path in tmp_path.glob("*.jsonl")}
    assert names == {"node.jsonl", "node-2.jsonl", "node-3.jsonl"}
    handled = [
        json.loads(line)
        for path in tmp_path.glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    asked = [line["request_id"] for line in handled if line["event"] == "request"]
    assert {f"ask-{number}" for number in range(20)} <= set(asked)
    assert len(asked) == sum(line["event"] == "request" for line in lines)
    started = {line["event"] for line in lines if "Started server process" in line["event"]}
    assert len(started) == 2


def refused_header(address):
    """The answer to a header of 3 kB."""
    with socket.create_connection(address, PATIENCE_S) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 3000 + b"\r\n\r\n")
        return connection.makefile("rb").readline()


@pytest.mark.soak
def test_limits_of_connections_come_from_the_environment():
    """Of each worker."""
    with node(WORKERS="2", MAX_HEADER_BYTES="2048") as (process, client):
        for _ in range(20):
            assert refused_header((client.base_url.host, client.base_url.port)).startswith(
                b"HTTP/1.1 431 "
            )
        lines = stop(process)
    (first, *_) = (line for line in lines if line["logger"] == "mpcsim.listening")
    assert first["level"] == "WARNING"
    assert first["event"].endswith("header too long")
    assert (first["limit"], first["closed"], first["peer"]) == ("LONG_HEADER", 1, "127.0.0.1")


@pytest.mark.soak
def test_signing_goes_on_among_hostile_connections(tmp_path):
    """Half-sent headers, bodies and trailers by the hundred, at both servers."""
    few = {"MAX_CONNECTIONS": "40"}
    *mpc_nodes, gateway = backend(tmp_path / "data")
    gateway = replace(gateway, environment={**gateway.environment, **few})
    beginnings = (
        b"",
        b"GET / HTTP/1.1\r\nX: ",
        b"POST /member/user-management/v3/signup HTTP/1.1\r\nContent-Length: 9\r\n\r\n",
        b"POST /v3/wallet/sign HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
    )
    with ExitStack() as stack:
        processes = stack.enter_context(running())
        processes.start(*mpc_nodes, gateway, quiet=True)
        known = credentials(tmp_path / "data")
        token = access_token(gateway.address, known.api_key, known.api_secret, "alice")
        process, client = stack.enter_context(node(WAAS_API_URL=gateway.address, **few))
        client.headers["authorization"] = f"Bearer {token}"
        new = {"curve": "ed25519", "password": "correct horse"}
        share = client.post("/v3/wallet/generate", json=new, timeout=PATIENCE_S).json()
        ports = (gateway.port, client.base_url.port)
        for number in range(400):
            hostile = stack.enter_context(
                socket.create_connection(("127.0.0.1", ports[number % 2]), PATIENCE_S)
            )
            hostile.sendall(beginnings[number // 2 % len(beginnings)])
            if number % 50 == 0:
                body = {**share, "message": "00" * 32}
                signed = client.post("/v3/wallet/sign", json=body, timeout=PATIENCE_S)
                assert signed.status_code == 200, signed.text
                assert httpx.get(client.base_url, trust_env=False).status_code == 200
        assert process.poll() is None


@pytest.mark.soak
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        *(pytest.param(n, marks=pytest.mark.soak) for n in (signal.SIGHUP, signal.SIGINT)),
    ],
)
def test_stopped_as_asked(number):
    with node() as (process, _):
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 0
        assert "Traceback" not in process.stdout.read()


@pytest.mark.soak
def test_workers_do_not_outlive_their_starter():
    with node(WORKERS="2") as (process, _):
        workers = descendants(process.pid)
        assert len(workers) >= 2
        with nothing_left(workers):
            process.kill()
            process.wait(PATIENCE_S)
            until(lambda: not left(workers))


def test_no_http():
    with node() as (_, client):
        address = (client.base_url.host, client.base_url.port)
        with socket.create_connection(address, PATIENCE_S) as connection:
            connection.sendall(b"NOT HTTP\r\n\r\n")
            head, _, body = connection.makefile("rb").read().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert list(json.loads(body)) == ["error"]


@pytest.mark.few(1)
@pytest.mark.parametrize(("variable", "what"), [("APP_PORT", ""), ("METRICS_PORT", "metrics: ")])
def test_a_taken_port(variable, what):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ports = {"APP_PORT": str(free_port()), variable: port}
        ended = subprocess.run(**command(**ports), timeout=PATIENCE_S, check=False)
    assert ended.returncode == 1
    assert ended.stdout == (
        f"node: {what}cannot listen on 127.0.0.1 port {port}: Address already in use\n"
    )


def test_a_bad_setting():
    ended = subprocess.run(**command(APP_PORT="no"), timeout=PATIENCE_S, check=False)
    assert ended.returncode == 2
    assert ended.stdout == "node: APP_PORT must be a port number, 1 to 65535\n"


def test_help_names_every_variable():
    run = command()
    run["args"].append("--help")
    ended = subprocess.run(**run, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 0
    fields = {field for field in vars(Settings()) if field != "limits"}
    for name in fields | set(vars(ConnectionLimits())):
        variable = VARIABLES.get(name, name.upper())
        assert f"\n  {variable}: " in ended.stdout
    assert (
        "  WAAS_API_URL: an address such as https://gateway.example; no default\n" in ended.stdout
    )
    assert "  APP_PORT: a port number, 1 to 65535; default 9091\n" in ended.stdout


@pytest.mark.few(1)
@pytest.mark.parametrize("argument", ["--port", "--hel", "serve", "-x"])
def test_no_other_arguments(argument):
    run = command(APP_PORT=str(free_port()))
    run["args"].append(argument)
    ended = subprocess.run(**run, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 2
    assert f"unrecognized arguments: {argument}" in ended.stdout


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
