"""One call, told from the log files of all servers: what happened, in order, whoever's clock is
wrong and whatever else is in the files."""

import json
import math
import os
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mpcsim import Network
from mpcsim.cli import main
from mpcsim.errors import UsageError
from mpcsim.service.operations import log_folder_of
from mpcsim.service.process.request_id import HEADER
from mpcsim.service.request_traces.lines import LogFollower, find_request, find_requests
from mpcsim.service.request_traces.request_trace import assemble_trace
from mpcsim.service.request_traces.simulator_trace import to_simulator_trace
from mpcsim.service.request_traces.text import caller_requests, format_requests, format_trace
from mpcsim.service.web.log_files import LogFile
from node.local import LocalService
from tests.node.harness import CHEAP, PASSWORD

NEW = {"curve": "ed25519", "password": PASSWORD}
COPY = Path(__file__).with_name("requests.txt")
NETWORK = Network.preset("seoul", institution="frankfurt")


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A key, two signatures and a failure, over a network in virtual time."""
    folder = tmp_path_factory.mktemp("service") / "logs"
    with (
        closing(LogFile(folder, "local")) as log,
        LocalService(NETWORK, cost=CHEAP, log=log) as service,
    ):
        alice = service.user("alice")

        def post(verb, body, name):
            return alice.post(f"/v3/wallet/{verb}", json=body, headers={HEADER: name})

        share = post("generate", NEW, "new-1").json()
        post("generate", NEW, "new-2")
        order = {**share, "message": "00" * 32}
        post("sign", order, "order-7")
        service.gateway.links[3].down = True
        post("sign", order, "order-8")
        service.http.get("/")
    return folder


def story(logs, name):
    return assemble_trace(find_request([logs], name).lines)


def test_a_failure_in_plain_words(logs):
    text = format_trace(story(logs, "order-8"))
    why = "the institution's MPC node cannot be reached"
    head, *_ = text.split("\n")
    assert head.endswith(f" ms: Upstream returned 503 Service Unavailable: {why} (upstream-down)")
    assert f"gateway: POST /mpc/v1/sign: 503: {why}" in text
    assert "operator: POST /sign: 200" in text


def test_the_list_of_calls(logs):
    made = caller_requests(find_requests([logs]).lines)
    found = {request.request_id: request.status for request in made}
    assert found == dict(
        zip(("new-1", "new-2", "order-7", "order-8"), (200, 409, 200, 500), strict=True)
    )
    wrong = format_requests(caller_requests(find_requests([logs]).lines, errors=True))
    bad = [line.split("  ")[-1].strip() for line in wrong]
    why = "ed25519 key already exists for this user (key-exists)"
    assert (bad[0], len(bad)) == (f"POST /v3/wallet/generate: {why}", 2)


def test_a_trace_beside_the_simulators(logs, tmp_path):
    trace = to_simulator_trace(story(logs, "order-7"))
    document = json.loads(trace.save_perfetto(tmp_path / "out.json").read_text())
    events = document["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert sorted(names.values()) == ["gateway", "institution", "node", "operator"]
    threads = {(names[e["pid"]], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert threads >= {("node", 1), ("operator", 2), ("institution", 3), ("gateway", 4)}
    slices = [e for e in events if e["ph"] == "X" and e["cat"] == "compute"]
    assert {"round1", "POST /sign: 200", "POST /open: 200"} <= {e["name"] for e in slices}


# ---------------------------------------------------------------------- made up


def line(role, at_s, ms=1.0, path="/sign", name="order-9", **more):
    time = f"2026-01-01T00:00:{at_s:09.6f}+00:00"
    made = {"time": time, "role": role, "event": "request", "request_id": name, "method": "POST"}
    return made | {"path": path, "status": 200, "ms": ms} | more


def written(folder, role, *lines, tail=""):
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(
        (each if isinstance(each, str) else json.dumps(each, separators=(",", ":"))) + "\n"
        for each in lines
    )
    (folder / f"{role}.jsonl").write_text(text + tail)
    return folder


def call(to, path, began, ended, status=200):
    return [to, "POST", path, began, ended, status, 10, 20]


def asks(path, *calls, role="gateway", at_s=10.0, ms=30.0, **more):
    return line(role, at_s, ms, path, calls=list(calls), **more)


def warning(at_s):
    made = {"time": f"2026-01-01T00:00:{at_s:09.6f}+00:00", "role": "operator"}
    return made | {"level": "WARNING", "event": "look out", "request_id": "order-9"}


def machines(off_s):
    """Three machines; the operator's clock is wrong."""
    first = [call("gateway", "/mpc/v1/sign", 1.0, 31.0), call("gateway", "/x", 35.0, 36.0)]
    return [
        asks("/v3/wallet/sign", *first, role="node", ms=40.0),
        asks("/mpc/v1/sign", call("operator", "/sign", 3, 23), at_s=10.002, ms=28.0),
        line("operator", 10.010 + off_s, 10.0),
        warning(10.012 + off_s),
    ]


def two_calls(*at_s, ms=4.0):
    asked = (call("operator", "/exchange", 1.0, 9.0), call("operator", "/exchange", 21.0, 29.0))
    said = (line("operator", at, ms, "/exchange") for at in at_s)
    return [asks("/mpc/v1/exchange", *asked), *said]


ANSWERED = call("operator", "/sign", 6.0, 16.0)
PHASES = [["load", 0.0, 0.1], ["hash", 1.0, 1.05], ["operator-link", 5.0, 6.0],
          ["operator", 6.0, 16.0], ["operator-link", 16.0, 18.0]]  # fmt: skip
FAILURES = {
    "error": "the key is missing", "code": "no-key", "why": "ran out", "exception": ["at a.py:1"],
    "user_id": "u1", "key_id": "k1", "session_id": "s1", "spans": PHASES,
}  # fmt: skip
MADE_UP = {
    "clocks agree": machines(0.0),
    "the operator's clock is ahead": machines(7.0),
    "the operator's clock is behind": machines(-7.0),
    "a call that was lost is not taken for the next": [
        asks("/mpc/v1/sign", call("operator", "/sign", 1.0, 5.0, 0), ANSWERED),
        line("operator", 10.007, 8.0),
    ],
    "a call that was broken off led to what lies within it": [
        asks("/mpc/v1/sign", call("operator", "/sign", 1.0, 9.0, 0), ms=20.0),
        line("operator", 10.002, 6.0),
    ],
    "the first of two requests seems to be part of the second call": two_calls(10.023, 10.043),
    "as far off as clocks may be": two_calls(10.0006, 10.0206, ms=8.8),
    "further off": two_calls(10.0004, 10.0204, ms=9.2),
    "one is off more than the other": two_calls(10.105, 10.127),
    "off by different times": two_calls(10.105, 10.177),
    "one that nobody asked for lies within another": [
        asks("/v3/wallet/sign", role="node", ms=40.0),
        asks("/mpc/v1/sign", at_s=10.002),
        line("operator", 10.005, 8.0),
        line("operator", 10.011, 8.0, "/open", status=404),
        warning(10.012),
        *(line("operator", at_s, 8.0) for at_s in (10.05, 10.056)),
    ],
    "failures and phases": [
        asks("/mpc/v1/sign", ANSWERED, **FAILURES | {"status": 500}),
        line("operator", 10.007, 8.0, status=0, user_id="u2", broken_off=True),
    ],
}  # fmt: skip


def told(folder, lines):
    """A request's text, and what a trace of the simulator has of it."""
    for role in {each["role"] for each in lines}:
        written(folder, role, *(each for each in lines if each["role"] == role))
    found = assemble_trace(find_request([folder], "order-9").lines)
    yield from format_trace(found).splitlines()
    trace = to_simulator_trace(found)
    for m in trace.messages:
        at = f"{m.sent_ms:.2f}..{m.received_ms or math.nan:.2f} ms, round {m.round}"
        yield f"message {m.number} {m.kind} {m.sender} > {m.receiver}, {m.size} B, {m.fate}, {at}"
    for w in trace.work:
        at = f"{w.start_ms:.2f}..{w.end_ms:.2f} ms"
        yield f"work {w.number} {w.name}, party {w.party} at {w.site}, {at}, {w.cause}"
    for e in trace.endings:
        yield f"party {e.party} {e.status} after {e.at_ms:.2f} ms {e.text}".rstrip()
    yield f"{trace.name} {trace.verdict.value} after {trace.finished_ms:.2f} ms"


@pytest.mark.parametrize("name", MADE_UP)
def test_requests_are_told_as_written_down(name, tmp_path):
    """A change shows in a diff: ``python -m tests.service.request_traces.test_request_traces``."""
    copies = dict(each.split("\n", 1) for each in COPY.read_text("utf-8").split("\n\n\n"))
    assert list(told(tmp_path, MADE_UP[name])) == copies[name].splitlines()


# ---------------------------------------------------------------------- what files may hold


def test_what_is_no_log_line_is_left_out_and_said(tmp_path, capsys):
    odd = [
        '{"request_id":"order-9"}',
        '{"request_id":"order-9","time":"yesterday","role":"node","event":"x"}',
        '{"request_id":"order-9","time":"2026-01-01T00:00:01","role":7,"event":"x"}',
        '["request_id":"order-9',
        json.dumps(line("node", 1.0, ms=float("nan")), separators=(",", ":")),
        json.dumps(line("node", 1.0, calls=[["too", "short"]]), separators=(",", ":")),
        json.dumps(line("node", 1.0, spans=7), separators=(",", ":")),
        json.dumps(line("node", 1.0, status=math.inf), separators=(",", ":")),
        '{"request_id":"order-9","a":' + "[" * 100_000,
        "\udc80".encode(errors="surrogateescape").hex(),
    ]
    tail = '{"time":"2026-01-01T00:00:03+00:00","request_id":"order-9","ro'
    written(tmp_path, "node", *odd, line("node", 2.0), tail=tail)
    written(tmp_path, "operator", odd[0])
    (tmp_path / "node.jsonl.1").write_bytes(b"\xff\xfe\0 not a log \n" * 3)
    (tmp_path / "notes.txt").write_text('"request_id":"order-9"\n')
    assert main(["logs", "order-9", "--folder", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert out.count("node: POST /sign: 200") == 1
    left_out = [("node", 9), ("operator", 1)]
    assert err.splitlines() == [
        f"{tmp_path}/{role}.jsonl: left out what is no log line ({n})" for role, n in left_out
    ]


def test_what_lines_say_moves_no_cursor(tmp_path, capsys):
    nasty = line("node", 1.0, error="\x1b[2J\r\n", path="/\x07", user_id="\x1b]0;x")
    written(tmp_path, "node", nasty)
    for arguments in (["order-9"], []):
        assert main(["logs", *arguments, "--folder", str(tmp_path)]) == 0
        said = capsys.readouterr().out
        assert "\x1b" not in said
        assert "\x07" not in said
        assert r"\x1b[2J\r\n" in said


NOT_THERE = [
    ("nothing", "nothing: no line of 1 file in {0} bears this request id"),
    ("order-", "order-: 2 request ids begin so: order-1, order-10\n"),
    ("five-", "five-: 5 request ids begin so: five-0, five-1, five-2, five-3, five-4\n"),
    ("six-", "six-: 6 request ids begin so: six-0, six-1, six-2, six-3, six-4, ...\n"),
    ("", "a request id is 1 to 64 letters"),
    ("a b", "a request id is 1 to 64 letters"),
    ("x" * 65, "a request id is 1 to 64 letters"),
]


@pytest.mark.parametrize(("name", "said"), NOT_THERE)
def test_what_is_asked_for_is_not_there(tmp_path, name, said):
    names = [
        "order-1",
        "order-10",
        *(f"five-{i}" for i in range(5)),
        *(f"six-{i}" for i in range(6)),
    ]
    written(tmp_path, "node", *(line("node", 1.0, name=n) for n in names))
    with pytest.raises(UsageError) as error:
        find_request([tmp_path], name)
    assert f"{error.value}\n".startswith(said.format(tmp_path))


@pytest.mark.parametrize("named", [False, True])
def test_log_files_are_those_of_the_variable_or_else_of_the_data_folder(
    tmp_path, monkeypatch, capsys, named
):
    folder = tmp_path / "elsewhere" if named else log_folder_of(tmp_path)
    monkeypatch.setenv("LOG_FOLDER", str(folder) if named else "")
    folder.mkdir()
    written(folder, "node", line("node", 1.0))
    assert main(["logs", "order-9", "--data", str(tmp_path)]) == 0
    assert "node: POST /sign: 200" in capsys.readouterr().out


def test_the_beginning_of_an_id_will_do_and_a_whole_one_comes_first(tmp_path):
    written(tmp_path, "node", *(line("node", 1.0, name=n) for n in ("order-1", "order-10")))
    assert {each.request_id for each in find_request([tmp_path], "order-1").lines} == {"order-1"}
    assert {each.request_id for each in find_request([tmp_path], "order-10").lines} == {"order-10"}


def test_following(tmp_path):
    log = tmp_path / "node.jsonl"
    written(tmp_path, "node", line("node", 1.0))
    following = LogFollower([tmp_path])
    assert list(following.lines()) == []

    def add(text):
        with log.open("a") as file:
            file.write(text)

    whole = json.dumps(line("node", 2.0, path="/a")) + "\n"
    add(whole[:20])
    assert list(following.lines()) == []
    add(whole[20:])
    assert [each.path for each in following.lines()] == ["/a"]
    add(json.dumps(line("node", 3.0, path="/b")) + "\n")
    os.rename(log, tmp_path / "node.jsonl.1")
    written(tmp_path, "node", line("node", 4.0, path="/c"))
    assert sorted(each.path for each in following.lines()) == ["/b", "/c"]
    os.unlink(tmp_path / "node.jsonl.1")
    assert list(following.lines()) == []
    following.close()


if __name__ == "__main__":
    texts = []
    for name, lines in MADE_UP.items():
        with TemporaryDirectory() as folder:
            texts.append("\n".join((name, *told(Path(folder), lines))))
    COPY.write_text("\n\n\n".join(texts) + "\n", "utf-8")
