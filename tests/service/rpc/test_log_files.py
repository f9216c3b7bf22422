"""Log files: whole lines, bounded, for their owner alone; nobody suffers when there are none."""

import errno
import json
import logging
import os
import stat

import pytest

from mpcsim.service.web import log_files
from mpcsim.service.web.log_files import LogFile, LogFileHandler
from mpcsim.service.web.logs import JsonLines
from tests.helpers.processes import until


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
    again = opened(tmp_path, "node")
    assert again.path.name == "node.jsonl"


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
    file.flush()
    (line,) = written(file.path)
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
