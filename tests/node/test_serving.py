"""``python -m node`` as a process: start, stop, workers, and what it says when it cannot."""

import gc
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
from node.__main__ import main
from node.process.settings import Settings
from tests.helpers.processes import PATIENCE_S, until
from tests.helpers.repo import ROOT


@pytest.fixture(autouse=True)
def collections_as_before():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


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


@pytest.mark.few(1)
@pytest.mark.parametrize(("variable", "what"), [("APP_PORT", ""), ("METRICS_PORT", "metrics: ")])
def test_a_taken_port(variable, what):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        run = command(**{"APP_PORT": str(free_port()), variable: port})
        done = subprocess.run(**run, timeout=PATIENCE_S, check=False)
    said = f"node: {what}cannot listen on 127.0.0.1 port {port}: Address already in use\n"
    assert (done.returncode, done.stdout) == (1, said)


def test_a_bad_setting(monkeypatch, capsys):
    monkeypatch.setenv("APP_PORT", "no")
    assert main([]) == 2
    assert capsys.readouterr().err == "node: APP_PORT must be a port number, 1 to 65535\n"


def test_help_names_every_variable(capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--help"])
    said = capsys.readouterr().out
    names = {field.name for field in fields(Settings) if field.metadata}
    for name in names | set(vars(ConnectionLimits())):
        variable = VARIABLES.get(name, name.upper())
        assert f"\n  {variable}: " in said
    assert "  WAAS_API_URL: an address such as https://gateway.example; no default\n" in said
    assert "  APP_PORT: a port number, 1 to 65535; default 9091\n" in said


def test_no_other_arguments(capsys):
    for argument in ("--port", "--hel", "serve", "-x"):
        with pytest.raises(SystemExit, match=r"^2$"):
            main([argument])
        assert f"unrecognized arguments: {argument}" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.name.invalid"])
def test_somebody_elses_address_and_a_name_that_is_none(host):
    with pytest.raises(UsageError, match=f"cannot listen on {host} port 1024: "):
        listen(host, 1024)


def test_connections_do_not_wait_for_acknowledgements():
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
