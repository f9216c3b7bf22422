"""An MPC node by itself: what it believes, whoever asks, and what its store survives."""

import os
import re
import stat
import threading
from contextlib import closing
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pytest

from mpcsim.attacks.service.weakened_builds import _AnyGrants
from mpcsim.crypto.bip32 import HARDENED
from mpcsim.errors import UsageError
from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR, ROLES
from mpcsim.protocols import dkg
from mpcsim.protocols.engine import Done
from mpcsim.protocols.key_share import KeyShare
from mpcsim.service.errors import Refused
from mpcsim.service.mpc_node import events
from mpcsim.service.mpc_node.sessions import table
from mpcsim.service.mpc_node.verbs.activation import Activation, ListShares, Scope
from mpcsim.service.operations import open_gateway
from mpcsim.service.operations.data_folder import claim_folder, store_file
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.activation_messages import AbortEpoch, AbortEpochReply, GetActivationState
from mpcsim.service.rpc.statements import Abort, SignedRecord
from mpcsim.service.storage.database import StoreFailed, StoreProblem
from mpcsim.service.storage.expiry import periodic_expiry
from tests.helpers import gateway as service
from tests.helpers.tiers import fast_few
from tests.service.operations.test_grants import everything, seen


def status(link, verb, user_id, body):
    """Status of what an MPC node answers; no gateway looks at the request first."""
    with pytest.raises(Refused) as refused:
        service.ask_node(link, verb, user_id, body)
    return refused.value.status


# ---------------------------------------------------------------------- sessions


@pytest.mark.parametrize("signer", MPC_NODES)
async def test_the_node_itself_allows_one_signing_session_a_key(gateway, client, ec_share, signer):
    """Whatever the gateway does."""
    link, user_id = gateway.links[signer], await client.user_id()
    party, request = client.begin_sign(ec_share, signer=signer)
    answer = wire.Answer.from_bytes(service.ask_node(link, "sign", user_id, request))
    assert status(link, "sign", user_id, client.begin_sign(ec_share, signer=signer)[1]) == 409
    outputs = service.feed(party, answer.messages)
    body = wire.Exchange(party.session_id, service.sends(outputs))
    reply = service.ask_node(link, "exchange", user_id, body, ec_share.record.epoch)
    service.feed(party, wire.Answer.from_bytes(reply).messages)
    service.check_signature(ec_share, service.MESSAGE, party.outcome.result)
    await client.check_works(ec_share)


@pytest.mark.parametrize("signer", MPC_NODES)
async def test_a_malformed_message_leaves_no_lock_at_the_node(gateway, client, signer):
    share = client.give_key("ed25519")
    link, user_id = gateway.links[signer], await client.user_id()
    body = wire.Sign(
        os.urandom(32), share.record.epoch, signer, service.MESSAGE, (b"?",), (), service.NO_PROOF
    )
    assert status(link, "sign", user_id, client.proven(share, body)) == 400
    await client.sign(share, signer=signer)


async def test_a_session_that_has_made_nothing_votes_for_nothing(gateway, client):
    link, user_id = gateway.links[OPERATOR], await client.user_id()
    session_id = os.urandom(32)
    service.ask_node(link, "generate", user_id, wire.Generate(session_id, "ed25519", ()))
    assert status(link, "vote", user_id, wire.Activate(session_id, bytes(32))) == 409


async def test_vote_and_signing_never_wait_for_each_other(monkeypatch, gateway, client, ec_share):
    """The vote is in its transaction when the signing session begins."""
    link, user_id = gateway.links[OPERATOR], await client.user_id()
    session_id, made = await client.begin_generate("ed25519")
    voting, signing = threading.Event(), threading.Event()

    def head(cursor, original=events.log_head):
        voting.set()
        signing.wait(10)  # from now on it holds what it begins under, and wants the store
        return original(cursor)

    def usable(*arguments, original=link.node._shares.usable_share):
        signing.set()
        return original(*arguments)

    monkeypatch.setattr(events, "log_head", head)
    link.node._shares.usable_share = usable
    vote, request = wire.Activate(session_id, made.record.epoch), client.begin_sign(ec_share)[1]
    threads = [
        threading.Thread(target=service.ask_node, args=(link, verb, user_id, body), daemon=True)
        for verb, body in [("vote", vote), ("sign", request)]
    ]
    threads[0].start()
    assert voting.wait(10)
    threads[1].start()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)


async def test_what_is_replaced_is_let_go_though_the_disk_keeps_it(gateway, client, monkeypatch):
    """The gateway asks again: by then there is nothing more to replace."""
    link, user_id = gateway.links[OPERATOR], await client.user_id()
    old = client.give_key("ed25519")
    begun = await client.begin_recover("ed25519")
    party, request = client.begin_sign(old)
    service.ask_node(link, "sign", user_id, request)
    database = link.node.store._database
    trouble = StoreFailed("operator.sqlite", StoreProblem.LOCKED)
    with monkeypatch.context() as patch:
        patch.setattr(database, "forget", lambda: (_ for _ in ()).throw(trouble))
        await client.activate(*begun)
    record = SignedRecord.from_bytes(gateway.gateway.registry.key(user_id, "ed25519").record)
    service.ask_node(link, "activate", user_id, record)
    body = wire.Exchange(party.session_id, ())
    with pytest.raises(Refused, match="no such session"):
        service.ask_node(link, "exchange", user_id, body, old.record.epoch)
    assert not link.node._sessions
    assert not any(share.record == old.record for _, share in link.node._shares._decoded.values())
    await client.check_works(begun[1])


async def test_a_node_is_swept_by_time(tmp_path):
    """It cannot be told that a session is off, and is not asked for anything any more."""

    now = [0.0]
    with closing(service.open_with(tmp_path, clock=lambda: now[0], making_s=60)) as gateway:
        client = service.Client.of(gateway)
        await client.begin_generate("ed25519")
        threads = {thread.name for thread in threading.enumerate()}
        assert threads >= {f"sweeping {who}" for who in ("gateway", "operator", "institution")}
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
            return len(node.store.share_inventory("", 9))

        with periodic_expiry("operator", node.sweep, 0.001):
            assert holds_at(59) == 1
            assert holds_at(61) == 0
        link, user_id = gateway.links[INSTITUTION], await client.user_id()
        assert len(link.node.store.share_inventory("", 9)) == 1
        service.ask_node(link, "standing", user_id, GetActivationState(user_id, "ed25519"))
        assert not link.node.store.share_inventory("", 9)
    with closing(open_gateway(tmp_path)) as gateway:
        assert not any(service.shares_of(gateway).values())


@pytest.mark.parametrize("seed", fast_few(range(4), 1))
async def test_whatever_the_gateway_says_is_answered_or_refused(gateway, client, seed):
    """Bodies cut off, altered and made up, with grants that are good for anything."""
    requests = seen(gateway)
    await everything(gateway, client)
    for link in gateway.links.values():
        link.node._boot._grants = _AnyGrants()  # the gallery's: else nothing would be looked at
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


async def test_sessions_are_bounded(monkeypatch, gateway, client):
    monkeypatch.setattr(table, "MAX_SESSIONS", 2)
    for name in ("bob", "carol"):
        await service.Client.of(gateway, name).begin_generate("ed25519")
    response = await client.post("generate", wire.Generate(bytes(32), "ed25519", ()))
    assert response.status_code == 409
    assert response.json() == {"error": "too many sessions are open"}


@pytest.mark.parametrize(
    ("step", "is_reached"),
    [
        ("_record_epoch", lambda session: dkg.epoch(session.party) is not None),
        ("_store_output", lambda session, output: isinstance(output, Done)),
    ],
)
async def test_a_session_that_is_off_reveals_nothing_and_leaves_no_share(
    gateway, client, monkeypatch, step, is_reached
):
    """It was called off while a thread computed: its epoch must not be one that is begun."""
    node = gateway.links[OPERATOR].node
    original = getattr(node._runner, step)

    def called_off_before(session, *output):
        if is_reached(session, *output):
            node._sessions.forget(session)
        original(session, *output)

    with monkeypatch.context() as patch:
        patch.setattr(node._runner, step, called_off_before)
        assert (await service.refusal(client.begin_generate("ed25519")))[0] == 410
    assert node.store.share_inventory("", 10) == []
    await client.check_consistent("ed25519")


async def test_a_session_whose_epoch_is_aborted_is_off_though_it_has_made_nothing(gateway, client):
    """Aborts are not remembered for ever: no vote may follow one, however late it is."""
    node, other = (gateway.links[party].node for party in MPC_NODES)
    node._runner._prepare = lambda session, share: None
    await client.begin_generate("ed25519")
    user_id, (made,) = await client.user_id(), other.store.share_inventory("", 9)
    (session,) = node._sessions
    assert (session.epoch, session.made) == (made.key_id, None)
    abort = Abort(user_id, "ed25519", bytes.fromhex(made.key_id))
    vote = other._voting.vote(made.key_id)
    reply = service.ask_node(
        gateway.links[node.me], "abort", user_id, AbortEpoch(abort, vote), abort.epoch
    )
    assert AbortEpochReply.from_bytes(reply).signature is not None
    assert node.sessions == 0


# ---------------------------------------------------------------------- stores and files


def holding(contents, share):
    """Which of the contents have the secret share in them."""
    secret = share.secret_share.n.to_bytes(32, "big")
    return [name for name, data in contents.items() if secret in data or secret[::-1] in data]


async def test_files_are_their_owners_alone_and_hold_its_own_data(tmp_path, gateway, client):
    shares = [await client.generate(curve) for curve in ("ed25519", "secp256k1")]
    contents = {}
    for name in ("gateway", "operator", "institution"):
        files = list((tmp_path / name).iterdir())
        assert {f"{name}.sqlite", f"{name}.sqlite-wal"} <= {file.name for file in files}
        assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700
        contents[name] = b"".join(file.read_bytes() for file in files)
    for n, name in enumerate(("operator", "institution"), start=2):
        store = gateway.links[n].node.store
        for share in shares:
            held = KeyShare.from_bytes(store.find(share.record.epoch.hex()).share)
            assert holding(contents, held) == [name]
            assert holding(contents, share) == []


@pytest.mark.parametrize("name", ["gateway", "operator", "institution"])
def test_one_service_a_folder(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "lock").write_text("4294967295000 has left this behind\n")
    said = rf"another service keeps its data in .*: process {os.getpid()}; stop it, or .*--data"
    with closing(open_gateway(tmp_path)), pytest.raises(UsageError, match=said):
        open_gateway(tmp_path)
    said = said.replace(".*: ", f".*/{name}: ", 1)
    with claim_folder(tmp_path / name), pytest.raises(UsageError, match=said):
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


@pytest.mark.parametrize(("here", "there"), [MPC_NODES, MPC_NODES[::-1]])
async def test_a_key_that_the_other_node_has_suspended_is_not_used_here(
    gateway, client, share, here, there
):
    gateway.links[here].node.store.mark_suspended_at_peer([share.record.epoch.hex()])
    with pytest.raises(service.Failed) as failed:
        await client.sign(share, signer=here)
    assert f"suspended at the {ROLES[there]}; recover it" in failed.value.error
    await client.check_works(await client.recover("ed25519"))


# ---------------------------------------------------------------------- child keys


NOWHERE = [
    ("secp256k1", (0, HARDENED), 'step 2 ("2147483648") is hardened'),
    ("ed25519", (0,), "ed25519 keys have no chain code"),
]


@pytest.mark.parametrize("signer", MPC_NODES)
@pytest.mark.parametrize(("curve", "path", "words"), NOWHERE)
async def test_a_path_that_leads_nowhere(gateway, client, share, curve, path, words, signer):
    """Whatever its caller has looked at."""
    link, user_id = gateway.links[signer], await client.user_id()
    request = client.proven(share, replace(client.begin_sign(share, signer=signer)[1], path=path))
    with pytest.raises(Refused, match=f"^Invalid path: {re.escape(words)}") as refused:
        service.ask_node(link, "sign", user_id, request)
    assert not link.node._sessions, "nothing has been begun"
    assert refused.value.status == 422
    assert await service.refusal(client.ask("sign", request)) == (422, str(refused.value))
    await client.check_works(share)


def test_a_page_of_shares_begins_behind_the_last_share_seen():
    asked, verb = [], object.__new__(Activation)
    store = SimpleNamespace(share_inventory=lambda *page: asked.append(page) or [])
    verb.context = SimpleNamespace(store=store)
    verb.share_inventory(SimpleNamespace(check=asked.append), ListShares("k").to_bytes())
    assert asked == [Scope("holdings"), ("k", 500)]
