"""The log of key events: whoever shortens or rewrites it is found out."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.crypto.rng import SystemRng
from mpcsim.errors import UsageError
from mpcsim.ids import OPERATOR
from mpcsim.service.errors import NodeFailed, Refused
from mpcsim.service.mpc_node import events
from mpcsim.service.mpc_node.store import NodeStatement, ShareStore, StoredShare
from mpcsim.service.storage.database import StoreFailed, StoreProblem

SECONDS = count(1_800_000_000)


class Log:
    """A log by itself."""

    def __init__(self):
        self.database = sqlite3.connect(":memory:")
        self.database.executescript(events.SCHEMA)
        self.log = events.EventLog(lambda: next(SECONDS))

    def write(self, kind, **members):
        self.log.write(self.database.cursor(), kind, "user", "ed25519", **members)

    def head(self):
        return events.log_head(self.database.cursor())

    def rows(self):
        return [events.Event(*row) for row in self.database.execute("SELECT * FROM events")]


def two_logs(keys=3):
    """Of keys that were made, each node seeing the other's head."""
    one, other = Log(), Log()
    for n in range(keys):
        for log in (one, other):
            log.write(events.Kind.BEGUN, session=f"{n:064x}")
        heads = one.head(), other.head()
        one.write(events.Kind.MADE, key_id=str(n), outcome=events.head_outcome(heads[1]))
        other.write(events.Kind.MADE, key_id=str(n), outcome=events.head_outcome(heads[0]))
    return one.rows(), other.rows()


def chained(log):
    """A log with its numbers and hashes computed anew."""
    before, found = events.EMPTY.hash, []
    for number, event in enumerate(log, start=1):
        event = replace(event, number=number)
        found.append(replace(event, hash=event.digest(before)))
        before = found[-1].hash
    return found


def test_honest_logs_have_nothing_wrong():
    one, other = two_logs()
    assert (
        events.verify_logs(one)
        == events.verify_logs(one, other)
        == events.verify_logs(other, one)
        == events.verify_logs([], [])
        == []
    )
    assert events.verify_logs(one, other[:-1]) == [], "the last thing that one has seen was earlier"
    assert chained(one) == one


@given(st.data())
def test_an_altered_event_is_found_in_the_log_itself(data):
    one, _ = two_logs()
    at = data.draw(st.integers(0, len(one) - 1))
    name = data.draw(st.sampled_from([f for f in vars(one[at]) if f not in ("number", "hash")]))
    altered = [*one[:at], replace(one[at], **{name: "other"}), *one[at + 1 :]]
    assert events.verify_logs(altered) == [f"this log: event {at + 1} was altered"]
    one[at] = replace(one[at], hash=bytes(32))
    assert events.verify_logs(one) == [f"this log: event {at + 1} was altered"]


def test_a_missing_event_is_found_in_the_log_itself():
    one, _ = two_logs()
    for at in range(len(one) - 1):
        assert events.verify_logs(one[:at] + one[at + 1 :]) == [
            f"this log: event {at + 1} is missing"
        ]


def test_a_log_cut_short_is_shown_by_the_other():
    one, other = two_logs()
    for left in range(5):
        assert events.verify_logs(one[:left]) == []
        (said,) = events.verify_logs(one[:left], other)
        assert said.startswith(f"this log: it ends at event {left}, but the other log has seen")
        (said,) = events.verify_logs(other, one[:left])
        assert said.startswith(f"the other log: it ends at event {left}, but this log has seen")


def test_a_log_written_anew_is_shown_by_the_other():
    """All its hashes are right: only what the other has seen of it is not."""
    one, other = two_logs()
    for at in range(5):
        for forged in (
            chained([*one[:at], replace(one[at], user_id="another"), *one[at + 1 :]]),
            chained([*one[:at], *one[at + 1 :], one[-1], one[-1]]),
        ):
            assert events.verify_logs(forged) == []
            found = events.verify_logs(forged, other)
            assert any("is not what the other log has seen" in said for said in found)
            assert all(said.startswith("this log: event") for said in found[:1])


def test_that_a_store_was_put_back_is_said_beside_what_it_may_explain():
    one, other = two_logs()
    restored = replace(one[0], event=events.Kind.RESTORED.value, user_id="", curve="")
    for log in (chained([*one[:3], restored]), chained([*one[:3], restored, *one[3:]])):
        (said,) = events.verify_logs(log, other)
        assert said.endswith("; this log was put back from a backup at event 4")
        (said,) = events.verify_logs(other, log)
        assert said.endswith("; the other log was put back from a backup at event 4")


def test_a_head_that_is_none_is_said_to_be_so():
    one, other = two_logs()
    at = next(n for n, event in enumerate(one) if event.event == "made")
    forged = chained([*one[:at], replace(one[at], outcome="nothing"), *one[at + 1 :]])
    assert f"this log: event {at + 1} does not say what it has seen" in events.verify_logs(
        forged, other
    )


@pytest.mark.parametrize("kind", events.Kind)
def test_what_one_user_causes_does_not_fill_the_disk_and_is_counted(kind):
    """Of each kind there are so many lines an hour for a user's key on a curve; the number of
    further ones is in a line before the key's next one, whatever that says."""
    log = Log()
    at, log.log._now = [0.0], lambda: at[0]
    cursor, other = (
        log.database.cursor(),
        events.Kind.MADE if kind is not events.Kind.MADE else events.Kind.BEGUN,
    )

    def happens(times):
        for _ in range(times):
            log.write(kind)

    happens(events.LINES_AT_ONCE + 3)
    assert [event.event for event in log.rows()] == [kind.value] * events.LINES_AT_ONCE
    log.log.write(cursor, kind, "bystander", "ed25519")
    log.log.write(cursor, kind, "user", "secp256k1")
    log.write(other)
    for _ in range(2):
        at[0] += events.LINES_S
        happens(events.LINES_AT_ONCE + 3)
    rows = log.rows()[events.LINES_AT_ONCE :]
    said = f"3 {kind.value}: too many for a line each"
    assert [(e.event, e.user_id, e.outcome) for e in rows[:5]] == [
        (kind.value, "bystander", ""),
        (kind.value, "user", ""),
        ("left out", "user", said),
        (other.value, "user", ""),
        (kind.value, "user", ""),
    ]
    assert [n for n, e in enumerate(rows) if e.outcome == said] == [2, 4 + events.LINES_AT_ONCE]
    assert len(rows) == 5 + 2 * events.LINES_AT_ONCE
    assert not events.verify_logs(log.rows())


def test_an_event_is_there_exactly_if_its_change_is(tmp_path, monkeypatch):
    with closing(ShareStore(tmp_path / "db")) as store:
        store.log_event(events.Kind.BEGUN, "u", "ed25519", "", "s")
        original = events.EventLog.write

        def fail(log, cursor, *arguments, **members):
            original(log, cursor, *arguments, **members)
            raise ZeroDivisionError

        store.prepare(StoredShare("a", "u", "ed25519", b"public", b"share", "prepared"))
        store.vote("a", lambda share, head: b"one vote")
        monkeypatch.setattr(events.EventLog, "write", fail)
        with pytest.raises(ZeroDivisionError):
            store.activate("a", b"both votes", events.EMPTY)
        monkeypatch.undo()
        assert store.active_share("u", "ed25519") is None
        assert [event.event for event in store.events()] == ["begun"]
        store.activate("a", b"both votes", events.EMPTY)
        assert [event.event for event in store.events()] == ["begun", "made"]
        assert events.verify_logs(store.events()) == []


def test_what_becomes_of_a_key_is_told_in_order():
    with closing(ShareStore()) as store:

        def prepare(key_id, replaces, number):
            fields = {"recoveries": number, "predecessor": replaces}
            share = StoredShare(key_id, "u", "ed25519", b"public", b"share", "prepared", **fields)
            store.prepare(share)

        for number, (key_id, replaces) in enumerate([("a", None), ("b", "a")]):
            for each in (key_id, "one that is never voted for"):
                prepare(each, replaces, number)
            store.vote(key_id, lambda share, head: b"a vote")
            store.activate(key_id, b"both votes", events.EMPTY, session=f"session {number}")
        prepare("c", "b", 2)
        store.vote("c", lambda share, head: b"a vote")
        prepare("d", "b", 2)
        for key_id in "cd":
            store.drop("u", "ed25519", key_id)
        at_peer = NodeStatement("u", "ed25519", None, "b", None, frozenset("b"), restored=False)
        for _ in range(2):
            store.merge(at_peer, lambda share: None)
        for key_id in ("b", "nobody's"):
            store.suspend(key_id, "cheated")
        store.keys.identity(SystemRng())
        store.keys.replace_seal_key(SystemRng())
        told = [(e.event, e.user_id, e.key_id, e.session, e.outcome) for e in store.events()]
        assert events.verify_logs(store.events()) == []
    head = events.head_outcome(events.EMPTY)
    assert told == [
        ("made", "u", "a", "session 0", head),
        ("recovered", "u", "b", "session 1", head),
        ("retired", "u", "a", "", "replaced by b"),
        ("retired", "u", "c", "", "never in force"),
        ("suspended", "u", "b", "", "the other MPC node says that it is suspended"),
        ("suspended", "u", "b", "", "cheated"),
        (
            "seal key",
            "",
            "",
            "",
            "a new one in place of the lost one, to which 1 shares were sealed",
        ),
    ]


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    ("error", "noted"),
    [(Refused(409, "why"), 1), (NodeFailed(503, "why", OPERATOR), 0), (ZeroDivisionError(), 0)],
)
def test_a_refusal_is_logged_if_it_can_be_and_goes_on(error, noted, full):
    log = []

    def note(*event):
        log.append(event)
        if full:
            raise StoreFailed("db", StoreProblem.FULL)

    with (
        pytest.raises(type(error)) as raised,
        events.recording_refusals(note, "user", "ed25519", b"\1\2", "key"),
    ):
        raise error
    assert raised.value is error
    assert log == noted * [(events.Kind.REFUSED, "user", "ed25519", "key", "0102", "why")]


def test_what_is_no_store_is_said_to_be_none(tmp_path):
    with pytest.raises(UsageError, match="there is no such store"):
        events.read_log(tmp_path / "db")
    (tmp_path / "db").write_text("this is no database")
    with pytest.raises(UsageError, match=r"db: file is not a database"):
        events.read_log(tmp_path / "db")
