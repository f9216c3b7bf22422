"""The three stores, lost, damaged and restored from copies of different moments: what is said at
the start, what still signs, and that the right files bring everything back."""

import asyncio
import logging
import random
import shutil
import sqlite3
from contextlib import closing, suppress
from itertools import combinations_with_replacement, product
from pathlib import Path

import pytest

from mpcsim.cli.token import credentials
from mpcsim.errors import UsageError
from mpcsim.ids import MPC_NODES, ROLES
from mpcsim.service.gateway.registry import RegisteredKey, Registry
from mpcsim.service.gateway.store_consistency import ConsistencyCheck, KnownKey, inconsistency_of
from mpcsim.service.operations.data_folder import store_file
from mpcsim.service.rpc.activation_messages import ACTIVE, PREPARED, VOTED, ShareInfo
from mpcsim.service.storage.database import Database
from tests.helpers.gateway import reopen, shares_of
from tests.helpers.reviewed import check_reviewed
from tests.helpers.tiers import fast_few
from tests.service.operations.conftest import PARTS, USERS


def file(role):
    return f"{role}.sqlite"


def start(folder, past):
    """Who can sign, after a start, with what they hold; and the shares that are there."""
    with closing(reopen(folder)) as gateway:
        return asyncio.run(past.able(gateway)), shares_of(gateway)


def told(caplog, level):
    """The lines about what does not fit, without what to do and examples."""
    return sorted(
        record.getMessage().partition(". ")[0]
        for record in caplog.records
        if record.levelno == level and record.name == "mpcsim.service.gateway.store_consistency"
    )


def held(folder):
    """Rows of the MPC nodes' files."""
    found = {party: [] for party in MPC_NODES}
    for party in MPC_NODES:
        path = store_file(folder, ROLES[party])
        if not path.exists() or not path.stat().st_size:
            continue
        with closing(sqlite3.connect(path)) as database:
            found[party] = database.execute(
                "SELECT user_id, curve, key_id, state, suspended FROM shares ORDER BY key_id"
            ).fetchall()
    return found


NEW = dict.fromkeys(PARTS, "new")
OLD = dict.fromkeys(PARTS, "old")
ONE, TWO, FOUR = "1 key of 1 user", "2 keys of 2 users", "4 keys of 4 users"
MISSING = "(the file was missing or empty)"
UNKNOWN = "gateway.sqlite does not know the users"
LACKS = "the {} holds no share of this key"
OLDER = "the {} holds an older share of this key"


BOTH = "operator.sqlite, institution.sqlite"
CASES = [
    ({**NEW, "gateway": "empty"}, [("gateway.sqlite", FOUR, f"{UNKNOWN} {MISSING}")], set()),
    ({**NEW, "gateway": "old"}, [("gateway.sqlite", ONE, UNKNOWN)], {"alice", "bob", "carol"}),
    (
        {**OLD, "gateway": "new"},
        [
            (BOTH, ONE, f"{OLDER.format('operator')} and {OLDER.format('institution')}"),
            (BOTH, TWO, f"{LACKS.format('operator')} and {LACKS.format('institution')}"),
        ],
        {"bob"},
    ),
    (
        {**NEW, "operator": "missing"},
        [("operator.sqlite", FOUR, f"{LACKS.format('operator')} {MISSING}")],
        set(),
    ),
]


@pytest.mark.parametrize(
    ("moments", "lines", "able"),
    CASES,
    ids=[", ".join(f"{k} {v}" for k, v in moments.items()) for moments, _, _ in CASES],
)
def test_files_of_different_moments(tmp_path, past, caplog, moments, lines, able):
    """Twice, as nothing must change by the first start; then with the right files again."""
    folder = tmp_path / "data"
    past.put(folder, links=False, **moments)
    before = held(folder)
    for nth in range(2):
        caplog.clear()
        assert start(folder, past) == (able, before)
        followed = "older than the MPC nodes' stores" in caplog.text
        assert followed == (nth == 0 and moments == {**NEW, "gateway": "old"})
        assert told(caplog, logging.ERROR) == sorted(
            f"{files}: {many} cannot be used: {text}" for files, many, text in lines
        )
    put_right(past.folder, folder, [role for role, moment in moments.items() if moment != "new"])
    caplog.clear()
    assert start(folder, past) == (set(USERS), held(past.folder / "new"))
    assert not caplog.records


@pytest.mark.parametrize("present", [1, 2])
def test_one_share_in_force_tells_that_the_registry_is_older(present):
    """Whether it is one MPC node's or both nodes'; of a user that it does not know, too."""
    at = ("user", "ed25519")
    found = RegisteredKey(*at, "ab" * 32, b"", "", 0, b"")
    shares = [ShareInfo(name, *at, b"", ACTIVE, 0) for name in ("ab" * 32, "cd" * 32)][:present]
    held = dict(zip(MPC_NODES, [shares[:1], shares[1:]], strict=True))
    check = ConsistencyCheck({at: KnownKey(None, held)}, {"user"})
    check.record_outcome(at, found, consistent=True, lone_vote=False)
    assert check._registry_older == [at]
    assert [*ConsistencyCheck({at: KnownKey(None, held)}, set())._inconsistencies.values()] == [
        [at]
    ]


def put_right(copies, folder, roles):
    """As the documentation says."""
    for role in roles:
        for path in (folder / role).glob(f"{file(role)}*"):
            path.unlink()
        shutil.copy(store_file(copies / "new", role), folder / role)


# ---------------------------------------------------------------------- the registry follows


# ---------------------------------------------------------------------- meanwhile


# ---------------------------------------------------------------------- no start


KINDS = ("foreign", "truncated", "damaged", "another's")


@pytest.mark.parametrize(("role", "kind"), fast_few(product(PARTS, KINDS), 6))
def test_files_that_are_refused(tmp_path, past, role, kind):
    folder = tmp_path / "data"
    moment = "new" if kind in ("damaged", "another's") else kind
    past.put(folder, links=False, **{**NEW, role: moment})
    path = store_file(folder, role)
    if kind == "damaged":  # a page in the middle
        data = bytearray(path.read_bytes())
        data[4096:8192] = bytes(range(256)) * 16
        path.write_bytes(data)
    other = PARTS[PARTS.index(role) - 1]
    if kind == "another's":
        shutil.copy(store_file(folder, other), path)
    rest = {name: store_file(folder, name) for name in PARTS if name != role}
    before = {name: store.read_bytes() for name, store in rest.items()}
    said = {
        "foreign": f"^{file(role)} is of another deployment than .*sqlite and .*sqlite: put back",
        "truncated": f"{file(role)}: it is damaged, or not a store of this kind; put a whole one",
        "damaged": f"{file(role)}: it is damaged, or not a store of this kind; put a whole one",
        "another's": f"^{file(role)} is a copy of {file(other)}: put the right one back$",
    }
    with pytest.raises(UsageError, match=said[kind]):
        reopen(folder)
    assert {name: store.read_bytes() for name, store in rest.items()} == before
    put_right(past.folder, folder, [role])
    assert start(folder, past) == (set(USERS), held(past.folder / "new"))


def damaged(data, rng):
    """A file with other bytes in it, or without some."""
    yield from (data[:-4096], data[:-1], bytes(100) + data[100:])
    for length in (*[1] * 60, *[100] * 10, 4096):
        at = rng.randrange(len(data) - length)
        other = bytes(byte ^ 1 << rng.randrange(8) for byte in data[at : at + length])
        yield data[:at] + other + data[at + length :]


@pytest.mark.soak
@pytest.mark.parametrize("role", PARTS)
def test_wherever_a_store_is_damaged_it_is_refused_or_its_trouble_is_logged(
    tmp_path, past, caplog, role
):
    """Nobody's signature is wrong, and whoever puts the file back has lost nothing."""
    folder, rng = tmp_path / "data", random.Random(role)
    for data in damaged(store_file(past.folder / "new", role).read_bytes(), rng):
        caplog.clear()
        past.put(folder, links=False, **NEW)
        store_file(folder, role).write_bytes(data)
        with suppress(UsageError):
            able, _ = start(folder, past)
            assert able == set(USERS) or any(r.levelno == logging.ERROR for r in caplog.records)
    put_right(past.folder, folder, PARTS)
    assert start(folder, past) == (set(USERS), held(past.folder / "new"))


KEY = RegisteredKey("u", "ed25519", "k", b"K", "", recoveries=2)


def share(state=ACTIVE, key_id="k", public_key=b"K", recoveries=2):
    return ShareInfo(key_id, "u", "ed25519", public_key, state, recoveries)


SHARES = {
    "none": [],
    **{state: [share(state)] for state in (PREPARED, VOTED)},
    "active": [share()],
    "older": [share(key_id="o", recoveries=1)],
    "other": [share(key_id="o")],
    "newer": [share(key_id="o", recoveries=3)],
    "other key": [share(key_id="o", public_key=b"O")],
    "older and voted": [share(key_id="o", recoveries=1), share(VOTED)],
}


def test_inconsistencies_are_explained_as_written_down():
    """By what operator and institution hold; what is changed on purpose is entered in the copy."""
    found = []
    for registered, (a, b) in product((KEY, None), combinations_with_replacement(SHARES, 2)):
        held = dict(zip(MPC_NODES, (SHARES[a], SHARES[b]), strict=True))
        said = inconsistency_of(KnownKey(registered, held), frozenset())
        of = "registered" if registered else "unknown"
        found.append(f"{of}, {a} | {b}: {said.text}; {', '.join(said.files)}; {said.older}")
    check_reviewed(found, Path(__file__).with_name("inconsistencies.txt"))


def test_a_store_is_empty_that_has_no_share_of_any_key():
    held = [{2: SHARES["active"], 3: []}, {2: [], 3: []}]
    keys = {("u", str(n)): KnownKey(KEY, shares) for n, shares in enumerate(held)}
    assert ConsistencyCheck(keys, {"u"})._empty == {3}


# ---------------------------------------------------------------------- no store yet


def test_a_token_makes_no_registry(tmp_path):
    """Nor part of a deployment of what is none yet."""
    path = store_file(tmp_path, "gateway")
    path.parent.mkdir()
    path.touch()
    with pytest.raises(UsageError, match="no gateway has kept its data in"):
        credentials(tmp_path)
    assert path.read_bytes() == b""
    with closing(reopen(tmp_path)) as gateway:
        assert credentials(tmp_path) == gateway.credentials
    Registry(tmp_path / "other").close()
    with closing(Database(tmp_path / "other", "")) as database:
        assert database.deployment() is None
