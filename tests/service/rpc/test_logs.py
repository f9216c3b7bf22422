"""What is logged by others than the node, in both formats; log files: bounded, in whole lines."""

import errno
import json
import logging
import os
import stat
import sys
from types import SimpleNamespace

import pytest

from mpcsim.service.web import log_files, logs
from mpcsim.service.web.log_files import LogFile, LogFileHandler
from mpcsim.service.web.logs import LINES_OF_REQUESTS, JsonLines, LinesOfRequests, TextLines
from mpcsim.service.web.request_records import CURRENT, RequestRecord
from tests.helpers.processes import until

SECRET = "password-that-nobody-may-see"


def record(message, *arguments, error=None, **extra):
    made = logging.LogRecord("asyncio", logging.ERROR, "", 1, message, arguments, error)
    vars(made).update(extra)
    return made


def test_of_others_messages_only_the_first_line():
    said = record("never retrieved\n%s", SECRET)
    line = json.loads(JsonLines().format(said))
    assert line["event"] == "never retrieved"
    assert SECRET not in str(line)
    assert TextLines().format(said)[len("hh:mm:ss ") :] == "ERROR asyncio: never retrieved"


def test_exceptions_of_others():
    try:
        raise ValueError(SECRET)
    except ValueError:
        said = record("failed", error=sys.exc_info())
    line = json.loads(JsonLines().format(said))
    assert line["exception"][0].startswith("builtins.ValueError at ")
    first, second = TextLines().format(said).split("\n")
    assert first.endswith("ERROR asyncio: failed")
    assert second.startswith("    builtins.ValueError at ")
    assert SECRET not in f"{line} {second}"


def test_what_the_message_leaves_out():
    said = record("refused", fields={"limit": "BODY", "peer": "192.0.2.1"})
    assert json.loads(JsonLines().format(said)).items() >= said.fields.items()
    assert TextLines().format(said).endswith(": refused (limit BODY, peer 192.0.2.1)")


def test_what_callers_choose_makes_no_lines():
    line = TextLines().format(record("GET %s", "/x\r\x1b[2J\u2028é"))
    assert line.endswith(r": GET /x\r\x1b[2J\u2028é")


def test_a_request_in_a_line_for_people():
    """As `RequestLog` writes it: what callers choose is short, and moves no cursor."""
    known = {"method": "GET", "path": "/a\x1b[2J", "status": 500, "latency_ms": 1.26}
    named = {"request_id": "order-7-of-today", "user_id": "id-of-alice"}
    said = TextLines().format(record("request", fields=known | named | {"error": "E", "why": "x"}))
    assert said.endswith(r"[order-7-…]: GET /a\x1b[2J 500 in 1.3 ms, user id-of-al…: E: x"), said


def test_one_users_requests_have_so_many_lines(monkeypatch):
    """Whose sessions are aborted again and again pushes nobody else's lines out of the files."""
    now, limits = [0.0], LinesOfRequests()
    monkeypatch.setattr(logs, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def admitted(user_id, count=1):
        before = CURRENT.set(RequestRecord("", user_id=user_id))
        try:
            records = [record("aborted") for _ in range(count)]
            return [each for each in records if limits.filter(each)]
        finally:
            CURRENT.reset(before)

    assert len(admitted("alice", LINES_OF_REQUESTS.count + 7)) == LINES_OF_REQUESTS.count
    (bobs,) = admitted("bob")
    assert bobs.fields == {"left_out": 7}
    assert len(admitted(None, LINES_OF_REQUESTS.count + 1)) == LINES_OF_REQUESTS.count
    assert admitted("alice") == []
    now[0] += LINES_OF_REQUESTS.each_s
    assert len(admitted("alice")) == 1
    assert limits.filter(record("of no request's"))


# ---------------------------------------------------------------------- files


@pytest.fixture
def opened():
    """Log files that are closed at the end."""
    found = []

    def make(*arguments, **options):
        found.append(LogFile(*arguments, **options))
        return found[-1]

    yield make
    for file in found:
        file.close()


def written(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_lines_are_whole_and_for_their_owner_alone(tmp_path, opened):
    before = os.umask(0)
    try:
        file = opened(tmp_path / "new" / "logs", "gateway")
    finally:
        os.umask(before)
    file.put('{"a":1}')
    file.put('{"a":2}')
    file.flush()
    path = tmp_path / "new" / "logs" / "gateway.jsonl"
    assert file.path == path
    assert written(path) == [{"a": 1}, {"a": 2}]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (path.parent, path.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_they_are_written_without_being_asked_for(tmp_path, opened, monkeypatch):
    monkeypatch.setattr(log_files, "EVERY_S", 0.001)
    file = opened(tmp_path, "node")
    file.put("{}")
    until(lambda: file.path.stat().st_size)


def test_so_many_lines_wait_for_a_slow_disk(tmp_path, opened, monkeypatch, caplog):
    monkeypatch.setattr(log_files, "EVERY_S", 3600)
    monkeypatch.setattr(log_files, "MAX_WAITING", 3)
    file = opened(tmp_path, "node")
    for number in range(5):
        file.put(f"{number}")
    file.flush()
    assert written(file.path) == [2, 3, 4]
    assert "the disk is so slow that lines are missing" in caplog.text


def test_full_files_make_room_and_the_oldest_go(tmp_path, opened):
    file = opened(tmp_path, "node", most_bytes=100, files=3)
    for number in range(50):
        file.put(f'{{"number":{number:02}}}'.replace(":0", ":"))
        if number % 7 == 0:
            file.flush()
    file.flush()
    names = ["node.jsonl.2", "node.jsonl.1", "node.jsonl"]
    assert sorted(path.name for path in tmp_path.glob("node*")) == sorted(names)
    numbers = [line["number"] for name in names for line in written(tmp_path / name)]
    assert numbers == list(range(50 - len(numbers), 50))
    assert len(numbers) > 12
    for name in names:
        assert (tmp_path / name).stat().st_size <= 100
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_no_two_write_to_one_file(tmp_path, opened):
    one, two = opened(tmp_path, "node"), opened(tmp_path, "node")
    assert (one.path.name, two.path.name) == ("node.jsonl", "node-2.jsonl")
    one.close()
    assert opened(tmp_path, "node").path.name == "node.jsonl"


def test_after_a_crash_within_a_line_the_next_one_is_whole(tmp_path, opened):
    (tmp_path / "node.jsonl").write_text('{"a":1}\n{"b":')
    file = opened(tmp_path, "node")
    file.put('{"c":3}')
    file.flush()
    assert (tmp_path / "node.jsonl").read_text() == '{"a":1}\n{"b":\n{"c":3}\n'


def test_a_full_disk(tmp_path, opened, caplog, monkeypatch):
    file = opened(tmp_path, "node")
    write, room = os.write, 10

    def full(opened, data):
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        room -= (count := min(len(data), room))
        return write(opened, data[:count])

    monkeypatch.setattr(os, "write", full)
    for _ in range(2):
        file.put('{"a":1}')
        file.put('{"a":2}')
        file.flush()
    assert len(caplog.messages) == 1
    assert "No space left on device" in caplog.text
    room = 1000
    file.put('{"a":3}')
    file.flush()
    first, torn, missing, last = file.path.read_text().splitlines()
    assert (first, torn, last) == ('{"a":1}', '{"', '{"a":3}')
    assert "up to 4 lines" in missing


def test_records_with_whose_they_are_and_requests_only_once(tmp_path, opened):
    file = opened(tmp_path, "gateway")
    handler, logger = LogFileHandler(file, JsonLines("gateway")), logging.getLogger("test of files")
    logger.addHandler(handler)
    try:
        logger.warning("first\nsecond")
        logger.warning("no", extra={LogFileHandler.NOT_IN_FILES: True})
    finally:
        logger.removeHandler(handler)
    path = file.path
    file.close()
    (line,) = written(path)
    assert (line["role"], line["level"], line["event"]) == ("gateway", "WARNING", "first")
    assert "request_id" not in line


def test_a_removed_folder_is_made_again_and_one_that_is_none_is_said_once(tmp_path, opened, caplog):
    folder = tmp_path / "logs"
    folder.write_text("no folder")
    file = opened(folder, "node")
    assert file.path is None
    for _ in range(3):
        file.put("{}")
        file.flush()
    (said,) = caplog.messages
    assert said.startswith(f"log files in {folder}: Not a directory; what cannot be written")
    folder.unlink()
    file.put('{"a":1}')
    file.flush()
    missing, line = written(folder / "node.jsonl")
    assert missing["event"].startswith("up to 3 lines before this one are missing")
    assert line == {"a": 1}
    for path in [*folder.iterdir()]:
        path.unlink()
    folder.rmdir()
    file.put('{"b":1}')
    file.flush()
    assert written(folder / "node.jsonl") == [{"b": 1}]


def test_of_its_start_a_supervised_process_says_nothing_on_the_console(monkeypatch):
    started, other = ({logs.OF_START: True}, {})
    for supervised, shown in (("", [True, True]), ("1", [False, True])):
        monkeypatch.setenv(logs.SUPERVISED, supervised)
        records = map(logging.makeLogRecord, (started, other))
        assert list(map(logs.is_for_console, records)) == shown
