"""What is logged by others than the node, in both formats."""

import json
import logging
import sys
from types import SimpleNamespace

import pytest

from mpcsim.errors import UsageError
from mpcsim.service.process.settings import read
from mpcsim.service.web import logs
from mpcsim.service.web.logs import (
    LINES_OF_REQUESTS,
    JsonLines,
    LinesOfRequests,
    LogSettings,
    TextLines,
    formatter,
)
from mpcsim.service.web.request_records import CURRENT, RequestRecord

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


def test_the_format_comes_from_the_environment():
    assert isinstance(formatter(read(LogSettings, {}).log_format), TextLines)
    assert isinstance(formatter(read(LogSettings, {"LOG_FORMAT": "JSON"}).log_format), JsonLines)
    with pytest.raises(UsageError, match="LOG_FORMAT must be text or json"):
        read(LogSettings, {"LOG_FORMAT": "xml"})


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
