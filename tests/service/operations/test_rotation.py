"""Keys change under a service that runs, and nobody notices, but for those who had the old ones."""

import asyncio
import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from mpcsim.cli import main
from mpcsim.crypto.rng import SystemRng
from mpcsim.errors import UsageError
from mpcsim.ids import INSTITUTION, OPERATOR, ROLES
from mpcsim.service.errors import seal_key_lost
from mpcsim.service.gateway.registry import EXPIRY_MARGIN_S, Registry
from mpcsim.service.mpc_node.store import ShareStore
from mpcsim.service.operations import data_folder, rotation
from mpcsim.service.operations.data_folder import LinkSecret, store_file
from mpcsim.service.operations.defaults import GRACE_S
from mpcsim.service.rpc.grants import LinkKeys
from mpcsim.service.rpc.tokens import TokenIssuer
from mpcsim.service.storage.roles import REGISTRY
from node.local import LocalService
from node.process.settings import Settings
from tests.helpers.gateway import reopen
from tests.node.wallets import CHEAP, PASSWORD
from tests.service.operations.conftest import alter_store

NEW = {"curve": "ed25519", "password": PASSWORD}
HASH = "00" * 32
RNG = SystemRng()


class Service:
    """A service in a folder, in virtual time, and a user's calls."""

    def __init__(self, folder, **options):
        self.local = LocalService(cost=CHEAP, folder=folder, **options)
        self.gateway = self.local.gateway
        self.folder = folder

    def now(self):
        return self.gateway.issuer._now()

    def wait(self, seconds):
        self.local.run(asyncio.sleep(seconds))

    def user(self, token=None):
        api = self.local.user("alice")
        if token:
            api.headers["Authorization"] = f"Bearer {token}"
        return api

    def status(self, token=None, path="user"):
        """Of a call with a token: 200, or what is wrong with the token."""
        answer = self.user(token).get(f"/v3/wallet/{path}")
        found = re.search("JWT_[A-Z]+", answer.text)
        return found[0] if found else answer.status_code

    def generate(self):
        share = self.user().post("/v3/wallet/generate", json=NEW).json()
        share.pop("public_key")
        return share

    def signed(self, share, token=None):
        return self.user(token).post("/v3/wallet/sign", json={**share, "message": HASH})

    def sign(self, share, token=None):
        answer = self.signed(share, token)
        assert answer.status_code == 200, answer.text

    def rotate(self, **options):
        return rotation.rotate_token_key(self.folder, RNG, now=self.now, **options)

    def kids(self):
        return [key["kid"] for key in self.gateway.issuer.jwks()["keys"]]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.local.close()


# ---------------------------------------------------------------------- tokens


def test_tokens_of_both_keys_hold_until_the_old_ones_have_expired(tmp_path):
    with Service(tmp_path, token_lifetime_s=20) as service:
        share = service.generate()
        old_pem = service.gateway.gateway.registry.signing_key()
        old, (old_kid,) = service.gateway.token("alice"), service.kids()
        service.sign(share, old)

        end = service.rotate()
        assert service.now() + 20 <= end <= service.now() + 30
        new = service.gateway.token("alice")
        (new_kid, also) = service.kids()
        assert also == old_kid != new_kid
        for token in (old, new):
            service.sign(share, token)
        for path in (tmp_path / "gateway").iterdir():  # the private half is gone at once
            assert old_pem.splitlines()[1].encode() not in path.read_bytes()

        user_id = service.user().get("/v3/wallet/user").json()["user_id"]
        forged = TokenIssuer(old_pem, service.now).issue_access(user_id, "alice", 10_000)
        service.sign(share, forged)  # who has stolen the key can use it for as long as it counts
        service.wait(18)
        service.sign(share, old)
        service.wait(9)
        assert [service.status(token) for token in (old, forged)] == ["JWT_EXPIRED"] * 2
        jwks = "/.well-known/jwks.json"
        assert service.local.gateway_user("alice").get(jwks).json() == service.gateway.issuer.jwks()
        assert service.kids() == [new_kid]  # it has been deleted
        service.sign(share)
    with closing(sqlite3.connect(store_file(tmp_path, REGISTRY))) as registry:
        assert registry.execute("SELECT * FROM earlier_signing_keys").fetchall() == []


def test_a_key_that_has_leaked_counts_no_more(tmp_path):
    with Service(tmp_path) as service:
        share, old = service.generate(), service.gateway.token("alice")
        service.rotate()
        assert service.status(old) == 200
        between = service.gateway.token("alice")
        assert service.rotate(at_once=True) is None
        for token in (old, between):
            answer = service.signed(share, token)
            assert answer.status_code == 401
            assert "JWT_INVALID" in answer.text
        assert len(service.kids()) == 1
        # The REST node has asked for the keys a moment ago, and need not refuse this for that.
        service.sign(share, service.gateway.token("alice"))
        assert service.status(old) == "JWT_INVALID"


def test_tokens_of_a_longer_lifetime_that_was_set_earlier_count(tmp_path):
    time = [1e9]

    def gateway(lifetime_s):
        return closing(reopen(tmp_path, token_lifetime_s=lifetime_s, now=lambda: time[0]))

    def rotate():
        return rotation.rotate_token_key(tmp_path, RNG, now=lambda: time[0]) - time[0]

    with gateway(10_000) as opened:
        token = opened.token("alice")
    with gateway(50):
        pass
    with gateway(100):
        time[0] += 100
        assert rotate() == 9_900 + EXPIRY_MARGIN_S
    with gateway(100) as opened:
        assert opened.issuer.verify(token).username == "alice"
        time[0] += 9_899
        assert opened.issuer.verify(token).username == "alice"
        time[0] += 1_000
        assert rotate() == 100 + EXPIRY_MARGIN_S


def test_a_rotation_that_cannot_be(tmp_path):
    with pytest.raises(UsageError, match="there is no such store"):
        rotation.rotate_token_key(tmp_path, RNG)
    assert not list(tmp_path.iterdir())
    path = store_file(tmp_path, REGISTRY)
    path.parent.mkdir()
    with closing(Registry(path)) as registry:  # as of a version that did not say
        pem = registry.signing_key()
        with pytest.raises(UsageError, match="not known how long tokens live"):
            rotation.rotate_token_key(tmp_path, RNG)
        assert registry.signing_key() == pem
        assert rotation.rotate_token_key(tmp_path, RNG, at_once=True) is None
        assert registry.signing_key() != pem


# ---------------------------------------------------------------------- links


def ends(folder, party):
    return [data_folder.read_link(folder, role, party) for role in (REGISTRY, ROLES[party])]


def written(folder, steps, party):
    for role, secret in steps:
        data_folder.write_link(folder, role, party, secret)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a user's key, and its share."""
    folder = tmp_path_factory.mktemp("made")
    with Service(folder) as service:
        return folder, service.generate()


@pytest.fixture
def folder(made, tmp_path):
    """A copy of it."""
    return Path(shutil.copytree(made[0], tmp_path / "data"))


@pytest.mark.parametrize("written_ones", range(4))
def test_a_change_of_a_link_that_is_interrupted(folder, made, written_ones):
    """After each step both ends can talk, those that run and those that start; another call
    goes on."""
    party = INSTITUTION
    first = ends(folder, party)[0].keys.key
    with Service(folder) as service:
        now = service.now()
        steps = rotation.link_steps(
            *ends(folder, party), bytes(32), party, now=now, until=now + GRACE_S
        )
        assert len(steps) == 3
        written(folder, steps[:written_ones], party)
        service.sign(made[1])
        service.wait(2)
        service.sign(made[1])
        if written_ones == 3:
            return
        until = rotation.rotate_link(folder, party, RNG, now=service.now)
        assert until == pytest.approx(service.now() + GRACE_S, abs=0.01)
        with pytest.raises(UsageError, match="the last change of this link is over in 120 sec"):
            rotation.rotate_link(folder, party, RNG, now=service.now)
        service.sign(made[1])
        service.wait(2)
        service.sign(made[1])
        gateway, node = ends(folder, party)
        new = gateway.keys.key
        assert (new == bytes(32)) == (written_ones > 0)
        assert (node.keys.key, node.keys.other) == (new, first)
        assert node.keys.until < service.now() + GRACE_S
    written(folder, steps[:written_ones], party)
    with Service(folder) as service:
        service.sign(made[1])
    data_folder.prepare(folder, RNG)


def test_a_change_of_a_link_that_cannot_be(tmp_path):
    for grace_s in (0, 604_800):
        with pytest.raises(UsageError, match="is missing: both ends"):
            rotation.rotate_link(tmp_path, OPERATOR, RNG, grace_s=grace_s)
    data_folder.prepare(tmp_path, RNG)
    for grace_s in (-0.1, 604_801):
        with pytest.raises(UsageError, match=r"0 to 604800 \(a week\)"):
            rotation.rotate_link(tmp_path, OPERATOR, RNG, grace_s=grace_s)
    whole = ends(tmp_path, OPERATOR)
    for stranger in (LinkSecret.generate(RNG), LinkSecret.generate(RNG, whole[0].deployment)):
        data_folder.write_link(tmp_path, REGISTRY, OPERATOR, stranger)
        with pytest.raises(UsageError, match="do not fit"):
            rotation.rotate_link(tmp_path, OPERATOR, RNG)
    assert ends(tmp_path, OPERATOR)[1] == whole[1]


def test_a_change_without_grace_ends_the_last_one():
    gateway = LinkSecret.generate(RNG)
    node = replace(gateway, keys=LinkKeys(gateway.keys.key, bytes(32), 10.0))
    for now, until in ((5.0, 5.0), (10.0, 20.0)):
        steps = rotation.link_steps(gateway, node, b"\1" * 32, OPERATOR, now=now, until=until)
        assert steps[-1][1].keys == LinkKeys(b"\1" * 32, gateway.keys.key, until)
    with pytest.raises(UsageError, match="is over in 5 seconds: wait for that"):
        rotation.link_steps(gateway, node, bytes(32), OPERATOR, now=5.0, until=5.001)


def test_on_the_command_line(folder, capsys):
    def rotate(*words):
        status = main(["rotate", *words, "--data", str(folder)])
        said = capsys.readouterr()
        return status, said.out + said.err

    old = ends(folder, OPERATOR)[0].keys.key
    for words, says in [
        (["token-key"], "the last until 20"),
        (["token-key", "--now"], "Tokens are signed with a new key from now on."),
        (["link", "operator", "--grace", "60"], "until 20"),
    ]:
        status, said = rotate(*words)
        assert (status, says in said) == (0, True), said
    assert ends(folder, OPERATOR)[0].keys.key != old
    store = store_file(folder, "institution")
    alter_store(store, "DELETE FROM secrets WHERE name = 'seal_key'")
    status, said = rotate("seal-key", "institution", "--lost")
    assert (status, "1 share: the key of each has to be recovered" in said) == (0, True), said
    alter_store(store, "DELETE FROM secrets WHERE name IN ('seal_key', 'identity')")
    status, said = rotate("seal-key", "institution", "--lost")
    assert (status, "put back a backup" in said) == (2, True), said


def test_the_file_of_a_link():
    secret = LinkSecret.generate(RNG)
    old = f"{secret.deployment} {secret.keys.key.hex()}\n"
    assert secret.to_text() == old  # as it always was
    assert LinkSecret.from_text(old) == secret
    for keys in (LinkKeys(bytes(32), bytes([1]) * 32), LinkKeys(bytes(32), bytes(32), 1.5e9)):
        found = LinkSecret(secret.deployment, keys)
        assert LinkSecret.from_text(found.to_text()) == found
        assert keys.key.hex() not in repr(found)
    key = "00" * 32
    for more in (key, key[2:] + " also", "x also", *(f"{key} {t}" for t in ("soon", "nan", "0"))):
        with pytest.raises(ValueError):
            LinkSecret.from_text(old + more)


def test_what_is_no_other_key_of_a_link_stays_out_of_use(made, folder, caplog):
    with Service(folder) as service:
        paths = [
            data_folder.link_file(folder, role, OPERATOR) for role in (REGISTRY, ROLES[OPERATOR])
        ]
        for text in ("nothing", LinkSecret.generate(RNG).to_text(), None):
            for path in paths:
                path.unlink(missing_ok=True)
                if text is not None:
                    path.write_text(text)
            service.wait(2)
            service.sign(made[1])
        assert caplog.text.count("the keys in use stay") == 6
        assert "damaged" in caplog.text
        assert "of another deployment" in caplog.text


# ---------------------------------------------------------------------- a lost seal key


LOST = "DELETE FROM secrets WHERE name = 'seal_key'"


@pytest.mark.parametrize(
    ("policy", "how"),
    [("both", LOST), ("signer", "UPDATE secrets SET value = zeroblob(64) WHERE name = 'seal_key'")],
)
def test_a_lost_seal_key_is_replaced_and_keys_are_recovered(tmp_path, policy, how):
    settings = Settings(vault_policy=policy)
    with Service(tmp_path, settings=settings) as service:
        share = service.generate()
        public = service.user().get("/v3/wallet/key").json()["keys"][0]["public_key"]
    alter_store(store_file(tmp_path, "operator"), how)
    with pytest.raises(UsageError, match="mpcsim rotate seal-key"):
        Service(tmp_path)
    assert rotation.replace_lost_seal_key(tmp_path, OPERATOR, RNG) == 1
    with closing(ShareStore(tmp_path / "operator/operator.sqlite")) as store:
        assert store.keys.seal_number() == 1
    with Service(tmp_path, settings=settings) as service:
        answer = service.signed(share)
        assert answer.status_code == 500
        assert answer.json()["error"].endswith(f"409 Conflict: {seal_key_lost(OPERATOR)}")
        assert "recover the key" in answer.text
        if policy == "signer":  # what is sealed to the other one opens
            order = {**share, "message": HASH, "signer": "institution"}
            assert service.user().post("/v3/wallet/sign", json=order).status_code == 200
        new = service.user().post("/v3/wallet/recover", json=NEW).json()
        assert new.pop("public_key") == public
        service.sign(new)
        damaged = {**new, "secret_store": share["secret_store"]}
        assert service.signed(damaged).status_code == 400  # is of an earlier key
    with pytest.raises(UsageError, match="is there, and whole"):
        rotation.replace_lost_seal_key(tmp_path, OPERATOR, RNG)
