"""What a store keeps at hand while its files are as they were."""

import pytest

from mpcsim.service.storage import database
from mpcsim.service.storage.database import Database

SCHEMA = "CREATE TABLE IF NOT EXISTS things (name TEXT)"


@pytest.fixture
def opened(tmp_path):
    opened = Database(tmp_path / "things.sqlite", SCHEMA)
    yield opened
    opened.close()


def count(opened):
    """How many things there are, and whether it was looked up."""
    looked = []

    def read():
        looked.append(True)
        return opened.rows("SELECT count(*) FROM things")[0][0]

    return opened.read_cached("count", read), bool(looked)


def put(opened):
    with opened.transaction() as cursor:
        cursor.execute("INSERT INTO things VALUES ('one')")


def test_read_once_and_again_after_a_write(opened):
    assert count(opened) == (0, True)
    assert count(opened) == (0, False)
    put(opened)
    assert count(opened) == (1, True)
    assert count(opened) == (1, False)


def test_what_was_read_before_a_write_that_came_between_is_for_nobody(opened):
    def late():
        found = opened.rows("SELECT count(*) FROM things")[0][0]
        put(opened)
        return found

    assert opened.read_cached("count", late) == 0
    assert count(opened) == (1, True)


def test_a_file_that_was_changed_by_whatever_is_read(opened):
    put(opened)
    opened.forget()
    assert count(opened) == (1, True)
    opened._path.write_bytes(b"?" * opened._path.stat().st_size)
    _, looked_up = count(opened)  # SQLite itself may still know
    assert looked_up


def test_files_that_cannot_be_looked_at_are_read(opened, monkeypatch):
    count(opened)
    monkeypatch.setattr(opened, "_files", (str(opened._path.parent / "gone"),))
    assert count(opened) == (0, True)
    assert count(opened) == (0, True)


def test_a_write_that_failed_counts_as_one(opened):
    count(opened)
    with pytest.raises(ZeroDivisionError), opened.transaction() as cursor:
        cursor.execute("INSERT INTO things VALUES ('one')")
        raise ZeroDivisionError
    assert count(opened) == (0, True)


def test_nothing_is_kept_of_what_failed_and_none_is_an_answer(opened):
    def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        opened.read_cached("count", fail)
    assert opened.read_cached("count", lambda: None) is None
    assert opened.read_cached("count", fail) is None


def test_only_so_much_is_kept(opened, monkeypatch):
    monkeypatch.setattr(database, "AT_HAND", 2)
    read = []
    for name in "abca":
        opened.read_cached(name, lambda name=name: read.append(name))
    assert read == list("abca")  # c took the places of a and b
    opened.read_cached("c", lambda: read.append("again"))
    assert "again" not in read
