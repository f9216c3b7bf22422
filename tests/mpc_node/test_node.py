"""An MPC node by itself: what it believes, whoever asks, and what its store survives."""

import asyncio
import os
import stat
import threading
from contextlib import closing
from dataclasses import replace
from random import Random

import pytest

from mpcsim.attacks.service.weak import _AnyGrants
from mpcsim.errors import UsageError
from mpcsim.ids import INSTITUTION, OPERATOR
from mpcsim.keyshare import KeyShare
from mpcsim.mpc_node import events
from mpcsim.mpc_node import node as mpc_node
from mpcsim.mpc_node.node import MpcNode
from mpcsim.mpc_node.store import ShareStore, StoredShare
from mpcsim.mpc_node.sweeping import sweeping
from mpcsim.mta import schemes
from mpcsim.protocol import Done
from mpcsim.rng import SeededRng
from mpcsim.rpc import wire
from mpcsim.rpc.database import Database, StoreFailed, StoreTrouble
from mpcsim.rpc.errors import Refused
from mpcsim.rpc.grants import Keyring, LinkKeys
from mpcsim.rpc.statements import SignedRecord
from mpcsim.sample_keys import keys
from mpcsim.service import open_gateway
from mpcsim.service.data_folder import claimed, store_file
from tests.examples.open_multiplication import OpenMta
from tests.helpers.gateway import (
    MESSAGE,
    NO_PROOF,
    Client,
    Clock,
    Failed,
    ask_node,
    check_signature,
    feed,
    give_key,
    hellos,
    open_with,
    reopen,
    run_with,
    sends,
    shares_of,
    with_gateway,
)
from tests.helpers.locks import AnnouncingLock
from tests.helpers.schemes import with_scheme
from tests.helpers.tiers import fast_few
from tests.service.test_grants import everything, seen


def refusal(link, verb, user_id, body):
    """Status of what an MPC node answers; no gateway looks at the request first."""
    with pytest.raises(Refused) as refused:
        ask_node(link, verb, user_id, body)
    return refused.value.status


# ---------------------------------------------------------------------- sessions


@with_gateway()
async def test_the_node_itself_allows_one_signing_session_a_key(gateway, client):
    """Whatever the gateway does."""
    share = await give_key(gateway, client, "secp256k1")
    link, user_id = gateway.links[OPERATOR], await client.user_id()
    party, request = client.begin_sign(share)
    answer = wire.Answer.from_bytes(ask_node(link, "sign", user_id, request))
    assert refusal(link, "sign", user_id, client.begin_sign(share)[1]) == 409
    outputs = feed(party, answer.messages)
    body = wire.Exchange(party.session_id, sends(outputs))
    reply = ask_node(link, "exchange", user_id, body, share.record.epoch)
    feed(party, wire.Answer.from_bytes(reply).messages)
    check_signature(share, MESSAGE, party.outcome.result)
    await client.check_works(share)


@with_gateway()
async def test_a_malformed_message_leaves_no_lock_at_the_node(gateway, client):
    share = await client.generate("ed25519")
    link, user_id = gateway.links[OPERATOR], await client.user_id()
    body = wire.Sign(os.urandom(32), share.record.epoch, 2, MESSAGE, (b"?",), (), NO_PROOF)
    assert refusal(link, "sign", user_id, client.proven(share, body)) == 400
    await client.check_works(share)


@with_gateway()
async def test_another_signer_is_not_played(gateway, client):
    share = await client.generate("ed25519")
    link, user_id = gateway.links[OPERATOR], await client.user_id()
    assert refusal(link, "sign", user_id, client.begin_sign(share, signer=3)[1]) == 400


def test_a_stored_share_of_a_multiplication_scheme_of_ones_own_is_no_share(monkeypatch):
    """Whether or not this process knows the scheme, as that of a notebook may."""
    own = keys("secp256k1")[OPERATOR]
    foreign = with_scheme(own, OpenMta())
    monkeypatch.setattr(schemes, "_REGISTERED", {})
    schemes.register_scheme(foreign.mta)
    assert KeyShare.from_bytes(foreign.to_bytes()) == foreign
    row = StoredShare(own.record.epoch.hex(), "alice", "secp256k1", b"", own.to_bytes(), "active")

    async def work(gateway, client):
        node = gateway.links[OPERATOR].node
        assert node._decode(row) == own
        with pytest.raises(Refused, match="stored share of this key is damaged"):
            node._decode(replace(row, share=foreign.to_bytes()))

    run_with(work)


@with_gateway()
async def test_a_session_that_has_made_nothing_votes_for_nothing(gateway, client):
    link, user_id = gateway.links[OPERATOR], await client.user_id()
    session_id = os.urandom(32)
    ask_node(link, "generate", user_id, wire.Generate(session_id, "ed25519", ()))
    assert refusal(link, "vote", user_id, wire.Activate(session_id, bytes(32))) == 409


def test_signing_does_not_wait_for_a_vote_that_waits_for_signing(monkeypatch):
    """The vote is in its transaction when the signing session begins."""

    async def work():
        gateway = open_gateway()
        client = Client.of(gateway)
        link, user_id = gateway.links[OPERATOR], await client.user_id()
        share = await give_key(gateway, client, "secp256k1")
        session_id, made = await client.begin_generate("ed25519")
        voting, signing = threading.Event(), threading.Event()

        def head(cursor, original=events.head):
            voting.set()
            signing.wait(10)  # from now on it holds what it begins under, and wants the store
            return original(cursor)

        def usable(*arguments, original=link.node._usable):
            signing.set()
            return original(*arguments)

        monkeypatch.setattr(events, "head", head)
        link.node._usable = usable
        vote, request = wire.Activate(session_id, made.record.epoch), client.begin_sign(share)[1]
        threads = [
            threading.Thread(target=ask_node, args=(link, verb, user_id, body), daemon=True)
            for verb, body in [("vote", vote), ("sign", request)]
        ]
        threads[0].start()
        assert voting.wait(10)
        threads[1].start()
        for thread in threads:
            thread.join(10)
        assert not any(thread.is_alive() for thread in threads)
        gateway.close()  # which would wait for them

    asyncio.run(work())


@with_gateway()
async def test_what_is_replaced_is_let_go_though_the_disk_could_not_forget_it(
    gateway, client, monkeypatch
):
    """The gateway asks again: by then there is nothing more to replace."""
    link, user_id = gateway.links[OPERATOR], await client.user_id()
    old = await client.generate("ed25519")
    begun = await client.begin_recover("ed25519")
    party, request = client.begin_sign(old)
    ask_node(link, "sign", user_id, request)
    database = link.node._store._database
    trouble = StoreFailed("operator.sqlite", StoreTrouble.LOCKED)
    with monkeypatch.context() as patch:
        patch.setattr(database, "forget", lambda: (_ for _ in ()).throw(trouble))
        await client.activate(*begun)
    record = SignedRecord.from_bytes(gateway.gateway.registry.key(user_id, "ed25519").record)
    ask_node(link, "activate", user_id, record)
    body = wire.Exchange(party.session_id, ())
    with pytest.raises(Refused, match="no such session"):
        ask_node(link, "exchange", user_id, body, old.record.epoch)
    assert link.node._sessions == {}
    assert not any(share.record == old.record for _, share in link.node._decoded.values())
    await client.check_works(begun[1])


def test_a_node_is_swept_by_time(tmp_path):
    """It cannot be told that a session is off, and is not asked for anything any more."""

    async def work():
        now = [0.0]
        with closing(open_with(tmp_path, clock=lambda: now[0], making_s=60)) as gateway:
            await Client.of(gateway).begin_generate("ed25519")
            node, swept = gateway.links[OPERATOR].node, threading.Semaphore(0)
            original = node.sweep
            node.sweep = lambda: (original(), swept.release())

            def holds_at(seconds):
                """How many shares are left after a sweep that begins then."""
                now[0] = seconds
                while swept.acquire(blocking=False):
                    pass
                for _ in range(2):  # the first may have begun before
                    assert swept.acquire(timeout=60)
                return len(node.store.holdings("", 9))

            with sweeping(node, 0.001):
                assert holds_at(59) == 1
                assert holds_at(61) == 0
            assert len(gateway.links[INSTITUTION].node._store.holdings("", 9)) == 1
        with closing(open_gateway(tmp_path)) as gateway:
            assert not any(shares_of(gateway).values())

    asyncio.run(work())


def test_a_sweep_that_fails_is_said_and_not_the_last(tmp_path, caplog):
    async def work():
        with closing(open_gateway(tmp_path)) as gateway:
            node = gateway.links[OPERATOR].node
            swept = threading.Semaphore(0)

            def sweep():
                swept.release()
                raise StoreFailed("operator.sqlite", StoreTrouble.FULL)

            node.sweep = sweep
            with sweeping(node, 0.01):
                assert swept.acquire(timeout=10)
                assert swept.acquire(timeout=10)

    asyncio.run(work())
    assert "operator: what nobody has voted for stays: operator.sqlite: no space" in caplog.text


def test_files_have_their_sweeper(tmp_path):
    with closing(open_gateway(tmp_path)):
        names = {thread.name for thread in threading.enumerate()}
        assert {"sweeping operator", "sweeping institution"} <= names
    assert not any(thread.name.startswith("sweeping") for thread in threading.enumerate())


@pytest.mark.parametrize("seed", fast_few(range(4), 1))
@with_gateway()
async def test_whatever_the_gateway_says_is_answered_or_refused(gateway, client, seed):
    """Bodies cut off, altered and made up, with grants that are good for anything."""
    requests = seen(gateway)
    await everything(gateway, client)
    for link in gateway.links.values():
        link.node._grants = _AnyGrants()  # the gallery's: with others nothing would be looked at
    random = Random(seed)
    answers = {"answered": 0, "refused": 0}
    for _ in range(800):
        party, verb, grant, body = random.choice(requests[: 1 << 10])
        mangled = bytearray(body)
        match random.randrange(4):
            case 0:
                del mangled[random.randrange(len(body) + 1) :]
            case 1:
                mangled += random.randbytes(random.randrange(1, 5))
            case 2:
                mangled = bytearray(random.randbytes(random.randrange(200)))
            case _ if mangled:
                mangled[random.randrange(min(len(mangled), 200))] ^= 1 << random.randrange(8)
        try:
            gateway.links[party].node.handle(verb, grant, bytes(mangled))
            answers["answered"] += 1
        except Refused:
            answers["refused"] += 1
    assert min(answers.values()) > 0


def test_sessions_are_bounded(monkeypatch):
    monkeypatch.setattr(mpc_node, "MAX_SESSIONS", 2)

    async def work(gateway, client):
        for name in ("bob", "carol"):
            await Client.of(gateway, name).begin_generate("ed25519")
        response = await client.post("generate", wire.Generate(bytes(32), "ed25519", ()))
        assert response.status_code == 409
        assert response.json() == {"error": "too many sessions are open"}

    run_with(work)


def test_decoded_shares_are_bounded_and_the_one_unused_for_longest_goes(monkeypatch):
    monkeypatch.setattr(mpc_node, "DECODED_SHARES", 2)
    own = keys("ed25519")[OPERATOR]
    key_id, data = own.record.epoch.hex(), own.to_bytes()
    with closing(ShareStore()) as store:
        node = MpcNode(OPERATOR, store, Keyring(LinkKeys(bytes(32))), clock=Clock())
        for user, kept in (("a", "a"), ("b", "ab"), ("a", "ba"), ("c", "ac"), ("a", "ca")):
            # Nobody is shown a share: memory is all that shows what is kept.
            assert node._share(StoredShare(key_id, user, "ed25519", b"", data, "active")) == own
            assert [at[0] for at in node._decoded] == [*kept]


@with_gateway()
async def test_a_share_of_a_session_that_is_off_is_not_kept(gateway, client):
    """It was called off while a thread computed the share."""
    node = gateway.links[OPERATOR].node
    original = node._note

    def note(session, output):
        if isinstance(output, Done):
            node._forget(session)
        original(session, output)

    node._note = note
    with pytest.raises(Failed) as failed:
        await client.begin_generate("ed25519")
    assert failed.value.status == 410
    node._note = original
    assert node._store.holdings("", 10) == []
    await client.check_consistent("ed25519")


@with_gateway()
async def test_settling_spares_what_is_being_made(gateway, client):
    """Somebody tries to begin a second generation while the first waits to be activated."""
    begun = await client.begin_generate("ed25519")
    with pytest.raises(Failed):
        await client.begin_generate("ed25519")
    await client.activate(*begun)
    await client.check_works(begun[1])


@with_gateway()
async def test_preparing_and_settling_at_once_never_part_a_session_from_its_share(gateway, client):
    """A second generation begins, and sweeps, just when the share of the first has been stored."""
    node = gateway.links[OPERATOR].node
    entered, leave = threading.Event(), threading.Event()
    prepare, drop = node.store.prepare, node.store.drop_orphans

    def preparing(share):
        prepare(share)
        leave.clear()
        entered.set()
        assert leave.wait(60)

    def dropping(*live):
        drop(*live)
        leave.set()

    node.store.prepare, node.store.drop_orphans = preparing, dropping
    node._settling = AnnouncingLock(leave)  # in place of the node's own
    first = asyncio.create_task(client.begin_generate("ed25519"))
    await asyncio.to_thread(entered.wait, 60)
    second = asyncio.create_task(client.post("generate", wire.Generate(bytes(32), "ed25519", ())))
    begun = await first
    assert (await second).status_code == 409
    await client.activate(*begun)
    await client.check_works(begun[1])


def test_seeded_parts_draw_their_own():
    """Nodes that draw at the same time, from threads, do not draw the same."""

    async def work(gateway, client):
        share = await client.generate("ed25519")
        await client.check_works(share)
        return {hello.seal_key for hello in hellos(gateway).values()} | {
            gateway.credentials.api_key
        }

    assert run_with(work, rng=SeededRng(1)) == run_with(work, rng=SeededRng(1))
    assert len(run_with(work, rng=SeededRng(1))) == 3


# ---------------------------------------------------------------------- stores and files


def holding(contents, share):
    """Which of the contents have the secret share in them."""
    secret = share.secret_share.n.to_bytes(32, "big")
    return [name for name, data in contents.items() if secret in data or secret[::-1] in data]


def test_the_files_are_their_owners_alone_and_hold_their_own_services_data(tmp_path):
    folder = tmp_path / "data"

    async def work():
        with closing(reopen(folder)) as gateway:
            client = Client.of(gateway)
            shares = [await client.generate(curve) for curve in ("ed25519", "secp256k1")]
            contents = {}
            for name in ("gateway", "operator", "institution"):
                files = list((folder / name).iterdir())
                assert any(file.name == f"{name}.sqlite" for file in files)
                assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
                contents[name] = b"".join(file.read_bytes() for file in files)
            for n, name in enumerate(("operator", "institution"), start=2):
                store = gateway.links[n].node._store
                for share in shares:
                    held = KeyShare.from_bytes(store.find(share.record.epoch.hex()).share)
                    assert holding(contents, held) == [name]
                    assert holding(contents, share) == []

    asyncio.run(work())
    for place in (folder, *(folder / name for name in ("gateway", "operator", "institution"))):
        assert stat.S_IMODE(place.stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["gateway", "operator", "institution"])
def test_one_service_a_folder(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "lock").write_text("4294967295000 has left this behind\n")
    said = rf"another service keeps its data in .*: process {os.getpid()}; stop it, or .*--data"
    with closing(open_gateway(tmp_path)), pytest.raises(UsageError, match=said):
        open_gateway(tmp_path)
    said = said.replace(".*: ", f".*/{name}: ", 1)
    with claimed(tmp_path / name), pytest.raises(UsageError, match=said):
        open_gateway(tmp_path)
    open_gateway(tmp_path).close()


@pytest.mark.parametrize("name", ["gateway", "operator", "institution"])
def test_a_folder_that_cannot_be_used_is_said_to_be_so(tmp_path, name):
    store = store_file(tmp_path, name)
    store.parent.mkdir()
    store.write_bytes(b"this is not a database, whatever its name says")
    with pytest.raises(UsageError, match=f"{name}.sqlite"):
        open_gateway(tmp_path)
    store.unlink()
    open_gateway(tmp_path).close()  # the failure has let go of everything
    with pytest.raises(UsageError, match="data folder"):
        open_gateway(store)


def test_a_transaction_that_fails_changes_nothing_and_blocks_nothing(tmp_path):
    for path in (":memory:", tmp_path / "db"):
        with closing(Database(path, "CREATE TABLE t (x INTEGER PRIMARY KEY)")) as database:
            with pytest.raises(ZeroDivisionError), database.transaction() as cursor:
                cursor.execute("INSERT INTO t VALUES (1)")
                raise ZeroDivisionError
            with pytest.raises(ZeroDivisionError), database.transaction() as cursor:
                cursor.execute("ROLLBACK")  # as SQLite does by itself when the disk is full
                raise ZeroDivisionError
            with database.transaction() as cursor:
                cursor.execute("INSERT INTO t VALUES (2)")
            assert database.rows("SELECT x FROM t") == [(2,)]
            assert database.row("SELECT x FROM t WHERE x = 3") is None
