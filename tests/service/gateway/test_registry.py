"""The gateway's registry: against a dict, across restarts, kills and threads."""

import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import pytest

from mpcsim.crypto.groups.curves import CURVES
from mpcsim.errors import InvalidEncoding, UsageError
from mpcsim.ids import MPC_NODES
from mpcsim.service.errors import Refused, idempotency_key_reused, too_many_idempotency_keys
from mpcsim.service.gateway import registry as registries
from mpcsim.service.gateway.activation.idempotency import IdempotencyKeys
from mpcsim.service.rpc.statements import SignedRecord
from mpcsim.service.rpc.wire import AbortedSession
from mpcsim.service.storage import database as databases
from mpcsim.service.storage.database import StoreFailed
from tests.helpers.key_records import said_to_be_signed

PUBLIC_KEYS = {name: group.base(group.scalar(7)).encode() for name, group in CURVES.items()}
NOBODY = "00" * 16


def key_id(n):
    return f"{n:064x}"


def register(registry, user, key_id, curve, public_key=None, number=0):
    """Put a record; an unknown curve's key is any."""
    public_key = public_key or PUBLIC_KEYS[curve]
    return registry.put(said_to_be_signed(user, key_id, curve, public_key, number))


class Clock:
    """One second later at every look."""

    def __init__(self):
        self.now = 1_800_000_000.0

    def __call__(self):
        self.now += 1
        return self.now


@pytest.fixture
def registry():
    with closing(registries.Registry(now=Clock())) as opened:
        yield opened


@pytest.fixture
def file(tmp_path):
    return tmp_path / "gateway.sqlite"


# --- users --------------------------------------------------------------------------------------


def test_a_name_is_taken_once(registry):
    alice = registry.sign_up("alice")
    with pytest.raises(registries.UsernameTaken, match="taken"):
        registry.sign_up("alice")
    assert registry.user_by_name("alice") == alice
    others = {registry.sign_up(name).user_id for name in ("Alice", "bob")}
    assert len(others | {alice.user_id}) == 3


def test_a_user_has_one_name_however_it_is_spelt(registry):
    zoe = registry.sign_up("Zoe\u0308")
    assert zoe.username == "Zo\xeb"
    assert registry.user_by_name("Zoe\u0308") == registry.user_by_name("\uff3ao\xeb") == zoe
    with pytest.raises(registries.UsernameTaken):
        registry.sign_up("Zo\xeb")


# --- keys ---------------------------------------------------------------------------------------


def test_a_key_id_is_one_users(registry):
    alice, bob = (registry.sign_up(name).user_id for name in ("alice", "bob"))
    register(registry, alice, key_id(1), "ed25519")
    register(registry, bob, key_id(2), "ed25519")
    with pytest.raises(registries.KeyExists, match="registered already"):
        register(registry, bob, key_id(1), "secp256k1")
    with pytest.raises(registries.KeyExists, match="registered already"):
        register(registry, bob, key_id(1), "ed25519", number=1)
    assert not registry.is_present_key(bob, key_id(1))
    assert not registry.is_present_key(alice, key_id(2))
    assert registry.key(bob, "ed25519").key_id == key_id(2)


def test_neither_another_key_nor_an_older_record_takes_its_place(registry):
    user = registry.sign_up("alice").user_id
    register(registry, user, key_id(1), "ed25519")
    key = register(registry, user, key_id(2), "ed25519", number=1)
    other = next(g.base(g.scalar(8)).encode() for g in CURVES.values() if g.name == "ed25519")
    for new, number, public_key in [
        (1, 0, PUBLIC_KEYS["ed25519"]),
        (3, 0, PUBLIC_KEYS["ed25519"]),
        (3, 2, other),
        (2, 1, other),
    ]:
        with pytest.raises(registries.KeyChanged, match="another one, or newer"):
            register(registry, user, key_id(new), "ed25519", public_key, number)
    assert registry.keys(user) == (key,)
    assert register(registry, user, key_id(2), "ed25519", number=1) == key


DAMAGE = {"key_id": key_id(3), "public_key": b"other", "recoveries": 7}


@pytest.mark.parametrize("column", DAMAGE)
def test_a_key_is_what_its_record_says(file, column):
    with closing(registries.Registry(file)) as registry:
        user = registry.sign_up("alice").user_id
        key = register(registry, user, key_id(1), "ed25519", number=1)
        overwrite(file, column, DAMAGE[column])
        (found,) = registry.keys(user)
        assert (found, found.recoveries, found.record) == (key, 1, key.record)
        assert registry.is_present_key(user, key_id(1))
        register(registry, user, key_id(2), "ed25519", number=2)
        (written,) = registry.all_keys()
        assert (written, written.recoveries) == (replace(key, key_id=key_id(2)), 2)


def test_a_damaged_record_counts_for_nothing(file, caplog):
    """Wherever it is; until another one is put in its place."""
    with closing(registries.Registry(file)) as registry:
        alice, bob = (registry.sign_up(name).user_id for name in ("alice", "bob"))
        key = register(registry, alice, key_id(1), "ed25519")
        anothers = said_to_be_signed(bob, key_id(1), "ed25519", PUBLIC_KEYS["ed25519"])
        another_curves = said_to_be_signed(alice, key_id(1), "p256", PUBLIC_KEYS["ed25519"])
        unsigned = replace(SignedRecord.from_bytes(key.record), signatures={}).to_bytes()
        unnamed = replace(anothers.record, user_id=alice, identities={})
        altered = bytearray(key.record)
        damaged = [b"", key.record[:-1], unsigned, anothers.to_bytes(), another_curves.to_bytes()]
        damaged.append(replace(anothers, record=unnamed).to_bytes())
        for place in range(0, len(altered), 7):
            altered[place] ^= 1
            damaged.append(bytes(altered))
            altered[place] ^= 1
        for record in damaged:
            caplog.clear()
            overwrite(file, "record", record)
            for _ in range(2):
                assert registry.keys(alice) == (key,)
                assert registry.key(alice, "ed25519").record is None
            (line,) = caplog.messages
            assert line.startswith(f"gateway.sqlite: the record of the ed25519 key of user {alice}")
        register(registry, alice, key_id(1), "ed25519")
        assert registry.key(alice, "ed25519").record == key.record


def overwrite(file, column, value):
    with closing(sqlite3.connect(file)) as database:
        database.execute(f"UPDATE keys SET {column} = ?", (value,))
        database.commit()


def test_an_unknown_user_has_no_keys_and_gets_none(registry):
    assert registry.keys(NOBODY) == ()
    assert registry.key(NOBODY, "ed25519") is None
    assert not registry.is_present_key(NOBODY, key_id(1))
    with pytest.raises(registries.UnknownUser):
        register(registry, NOBODY, key_id(1), "ed25519")


def test_what_is_no_key_is_refused(registry):
    user = registry.sign_up("alice").user_id
    with pytest.raises(UsageError, match="unknown curve"):
        register(registry, user, key_id(1), "p256", PUBLIC_KEYS["ed25519"])
    with pytest.raises(InvalidEncoding):
        register(registry, user, key_id(1), "ed25519", PUBLIC_KEYS["secp256k1"])
    with pytest.raises(InvalidEncoding):
        register(registry, user, key_id(1), "secp256k1", b"\x02" + b"\xff" * 32)
    assert registry.keys(user) == ()


# --- the gateway's own secrets ------------------------------------------------------------------


# --- calls with a name -----------------------------------------------------------------------


def named_call(user, name="n", verb="generate", curve="ed25519"):
    return registries.NamedCall(name, user.user_id, verb, curve)


def test_what_came_into_force_under_a_name_is_written_with_it(file, monkeypatch):
    """Both or neither; under this name, not another."""

    def in_force():
        return tuple(registry.is_named_call_in_force(each) for each in (named, other))

    with closing(registries.Registry(file)) as registry:
        alice = registry.sign_up("alice")
        named, other = named_call(alice), named_call(alice, "other")
        assert registry.is_named_call_in_force(named) is None
        registry.put_named_call(named, key_id(1))
        registry.put_named_call(other, key_id(2))
        assert in_force() == (False, False)
        with monkeypatch.context() as patch:
            patch.setattr(registries, "astuple", lambda key: ("too few",))
            with pytest.raises(sqlite3.ProgrammingError):
                register(registry, alice.user_id, key_id(1), "ed25519")
        assert registry.is_named_call_in_force(named) is False
        register(registry, alice.user_id, key_id(1), "ed25519")
        assert in_force() == (True, False)
        registry.put_named_call(named, key_id(3))  # the recovery that a repetition is
        assert registry.is_named_call_in_force(named) is True
        registry.put_named_call(other, key_id(4))  # its first one came to nothing
        register(registry, alice.user_id, key_id(4), "secp256k1")
    with closing(registries.Registry(file)) as registry:
        assert in_force() == (True, True)


def test_names_are_forgotten_after_a_day_and_so_many_at_a_time_are_remembered():
    now = 1_800_000_000.0
    with closing(registries.Registry(now=lambda: now)) as registry:
        alice, bob = registry.sign_up("alice"), registry.sign_up("bob")
        for i in range(registries.MAX_NAMED_CALLS):
            registry.put_named_call(named_call(alice, f"{i}"), key_id(i))
            now += 60
        one_more = named_call(alice, "one more")
        for refusing in (
            registry.check_named_call,
            lambda a: registry.put_named_call(a, key_id(99)),
        ):
            with pytest.raises(registries.TooManyNamedCalls) as refused:
                refusing(one_more)
            assert refused.value.wait_s == 86_400 - 60 * registries.MAX_NAMED_CALLS
        registry.put_named_call(named_call(bob, "one more"), key_id(100))
        registry.put_named_call(named_call(alice, "1"), key_id(101))  # a day more
        now += refused.value.wait_s - 1
        with pytest.raises(registries.TooManyNamedCalls):
            registry.check_named_call(named_call(alice, "0 again"))
        now += 61
        assert registry.is_named_call_in_force(named_call(alice, "0")) is None
        assert registry.is_named_call_in_force(named_call(alice, "1")) is False
        registry.put_named_call(named_call(alice, "0", "recover"), key_id(102))
        now += 86_400
        registry.put_named_call(named_call(bob), key_id(103))
        assert registry._database.rows("SELECT name FROM named_calls") == [("n",)]


def test_what_is_remembered_of_a_suspension_stays(registry):
    """Whoever has the session's tag could have the gateway ask the MPC nodes once more."""
    at = AbortedSession("u", b"K" * 32, b"S" * 32)
    registry.suspend(at, dict.fromkeys(MPC_NODES, b"notice"))
    one, other = registry.suspension_notices()
    registry.acknowledge(replace(one, opened=1), b"signature")
    registry.suspend(at, dict.fromkeys(MPC_NODES, b"another"))
    assert registry.suspension_notices() == [replace(one, opened=1), other]


def test_a_sweep_leaves_nothing_that_has_had_its_time_or_was_deleted_by_anybody(file, monkeypatch):
    """A process rotates the key of tokens while a third one reads; the gateway's then sweeps."""
    monkeypatch.setattr(databases, "BUSY_S", 0.1)
    now = 1_800_000_000.0
    with closing(registries.Registry(file, now=lambda: now)) as registry:
        registry.set_token_lifetime(600)
        registry.put_named_call(
            named_call(registry.sign_up("alice"), "a name of its own"), key_id(1)
        )
        registry.sweep()
        gone = [registry.signing_key().encode(), b"a name of its own"]
        with (
            closing(registries.Registry(file, now=lambda: now)) as other,
            closing(sqlite3.connect(file)) as reader,
        ):
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM secrets").fetchall()
            other.rotate_signing_key()
            with pytest.raises(StoreFailed):
                other.forget()
            with pytest.raises(StoreFailed):
                registry.sweep()
        now += registries.NAMED_CALLS_S
        registry.sweep()
        assert registry.signing_keys().earlier == ()
        files = [path.read_bytes() for path in file.parent.iterdir()]
        assert not [secret for secret in gone for data in files if secret in data]


def test_what_is_no_registry_is_refused(tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("not a database\n" * 1000)
    for path in (other, tmp_path / "no" / "such" / "folder", tmp_path):
        with pytest.raises(UsageError, match=r"^registry .*: "):
            registries.Registry(path)
    assert other.read_text() == "not a database\n" * 1000


# --- failures ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (registries.NameReused("x"), idempotency_key_reused()),
        (registries.TooManyNamedCalls(7), too_many_idempotency_keys(7)),
    ],
)
async def test_a_name_that_is_not_free_is_refused_before_and_afterwards(error, refusal):
    def fail(*arguments):
        raise error

    call = named_call(SimpleNamespace(user_id="alice"))
    registry = SimpleNamespace(check_named_call=fail, put_named_call=fail)
    keys = IdempotencyKeys(registry, sessions=None)  # which it does not look at here
    with pytest.raises(Refused, match=re.escape(str(refusal))):
        keys.check(call, "generation")
    with pytest.raises(Refused, match=re.escape(str(refusal))):
        await keys.remember(call, bytes(32))


async def test_a_name_that_another_call_has_taken_meanwhile_is_refused():
    with closing(registries.Registry()) as registry:
        alice = registry.sign_up("alice")
        registry.put_named_call(named_call(alice), key_id(1))
        keys = IdempotencyKeys(registry, sessions=None)  # which it does not look at here
        with pytest.raises(Refused, match=re.escape(str(idempotency_key_reused()))):
            await keys.remember(named_call(alice, verb="recover"), bytes(32))
        assert registry.is_named_call_in_force(named_call(alice)) is False
