"""``python -m node`` as a process: start, stop, workers, and what it says when it cannot."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import fields

import httpx
import pytest

from mpcsim.errors import UsageError
from mpcsim.service.operations.supervisor import free_port
from mpcsim.service.process.http_limits import ConnectionLimits, listen
from node.process.settings import Settings
from tests.helpers.processes import PATIENCE_S, until
from tests.helpers.repo import ROOT

VARIABLES = {
    "connections": "MAX_CONNECTIONS",
    "header_bytes": "MAX_HEADER_BYTES",
    "header_s": "HEADER_TIMEOUT_S",
    "body_s": "BODY_TIMEOUT_S",
    "idle_s": "IDLE_TIMEOUT_S",
}
"""Of the fields of settings that are called otherwise."""


def command(*arguments, **variables):
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "SYSTEMROOT")}
    environment = {**kept, "LOG_FORMAT": "json", **variables}
    output = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    run = [sys.executable, "-m", "node", *arguments]
    return {"args": run, "cwd": ROOT, "env": environment, **output}


def ended(*arguments, **variables):
    """Status and output of a node that does not start."""
    run = command(*arguments, **{"APP_PORT": str(free_port()), **variables})
    done = subprocess.run(**run, timeout=PATIENCE_S, check=False)
    return done.returncode, done.stdout


@contextmanager
def node(**variables):
    """A running node: its process, and a client."""
    port = free_port()
    process = subprocess.Popen(**command(APP_PORT=str(port), **variables))
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:

            def answers():
                assert process.poll() is None
                with suppress(httpx.TransportError):
                    return client.get("/", timeout=5).status_code == 200

            until(answers)
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
        said = f"node: {what}cannot listen on 127.0.0.1 port {port}: Address already in use\n"
        assert ended(**{variable: port}) == (1, said)


def test_a_bad_setting():
    assert ended(APP_PORT="no") == (2, "node: APP_PORT must be a port number, 1 to 65535\n")


def test_help_names_every_variable():
    status, said = ended("--help")
    assert status == 0
    names = {field.name for field in fields(Settings) if field.metadata}
    for name in names | set(vars(ConnectionLimits())):
        variable = VARIABLES.get(name, name.upper())
        assert f"\n  {variable}: " in said
    assert "  WAAS_API_URL: an address such as https://gateway.example; no default\n" in said
    assert "  APP_PORT: a port number, 1 to 65535; default 9091\n" in said


@pytest.mark.few(1)
@pytest.mark.parametrize("argument", ["--port", "--hel", "serve", "-x"])
def test_no_other_arguments(argument):
    status, said = ended(argument)
    assert (status, f"unrecognized arguments: {argument}" in said) == (2, True)


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.name.invalid"])
def test_somebody_elses_address_and_a_name_that_is_none(host):
    with pytest.raises(UsageError, match=f"cannot listen on {host} port 1024: "):
        listen(host, 1024)


def test_connections_do_not_wait_for_acknowledgements():
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
