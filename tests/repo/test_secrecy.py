"""The watch over the suite's logs sees what it should, and texts of values show no secret."""

import importlib
import inspect
import logging
import pkgutil
from contextlib import closing
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import BaseModel, RootModel

from mpcsim.crypto import SystemRng
from mpcsim.service.operations import open_gateway
from mpcsim.service.process.request_id import HEADER
from mpcsim.service.rpc.session_keys import SessionKey
from mpcsim.service.vault import (
    Argon2Cost,
    DerivedKey,
    NodeKeys,
    SealKey,
    new_salt,
    password_key,
    seal_share,
)
from mpcsim.service.web import LogFile, request_records
from node.local import LocalService
from tests.helpers.secrecy import LEDGER

LOG = logging.getLogger("tests.secrecy")
PASSWORD = "a password that is long enough"
CHEAP = Argon2Cost(1, 8)
KINDS = ("a password", "a share", "an encrypted share", "a secret store", "a token")
KINDS += ("a session's key",)


def made() -> dict[str, str]:
    rng = SystemRng()
    salt, share = new_salt(rng), rng.bytes(400)
    about = {"key_id": "ab" * 32, "curve": "ed25519", "user_id": "somebody"}
    seal_keys = {i: SealKey.generate(rng).public for i in (2, 3)}
    nodes = NodeKeys(seal_keys, *({i: rng.bytes(32) for i in (2, 3)} for _ in range(2)))
    password = DerivedKey(password_key(PASSWORD, salt, CHEAP), salt, CHEAP)
    encrypted_share, secret_store = seal_share(
        share, password=password, nodes=nodes, rng=rng, **about
    )
    return {
        "a password": PASSWORD,
        "a share": share.hex(),
        "an encrypted share": encrypted_share,
        "a secret store": secret_store,
        "a token": open_gateway().token("alice"),
        "a session's key": SessionKey()._secret[:32].hex(),
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["message", "part", "extra", "traceback"])
def test_a_logged_secret_is_seen(kind, how):
    secret = made()[kind]
    LEDGER.leaks()
    if how == "message":
        LOG.warning("it is %s", secret)
    elif how == "part":
        LOG.warning("it begins with %s", secret[: max(30, len(secret) * 2 // 3)])
    elif how == "extra":
        LOG.warning("it is in here", extra={"it": secret})
    else:
        try:
            raise ValueError(secret)
        except ValueError:
            LOG.exception("it is in there")
    if how == "part" and kind == "a token":
        assert LEDGER.leaks() == []  # without its signature a token is worth nothing
    else:
        assert any(kind in leak for leak in LEDGER.leaks())


def test_a_secret_in_an_entry_is_seen():
    """As if somebody noted the wrong thing."""
    secret = made()["a password"]
    LEDGER.leaks()
    book = request_records.RequestRecorder("node", SimpleNamespace(put=lambda entry: None))
    entry = book.open("order-7", "GET", f"/{secret}")
    book.close(entry)
    assert any("a password" in leak for leak in LEDGER.leaks())


def test_log_files_have_no_secrets(tmp_path):
    """Of a key's life with its failures, at node, gateway and both MPC nodes."""
    with closing(LogFile(tmp_path, "local")) as log, LocalService(cost=CHEAP, log=log) as service:
        alice = service.user("alice")

        def post(verb, body, status=200):
            answer = alice.post(f"/v3/wallet/{verb}", json=body, headers={HEADER: verb[:8]})
            assert answer.status_code == status, answer.text
            return answer.json()

        new = {"curve": "ed25519", "password": PASSWORD}
        share = post("generate", new)
        order = {**share, "message": "5ec2e7" * 10 + "abcd"}
        post("sign", order)
        other = {"secret_store": share["secret_store"], "encrypted_share": share["encrypted_share"]}
        post("validate/password", {**other, "password": PASSWORD})
        post("validate/share", other)
        damaged = share["encrypted_share"][:-8] + "AAAAAAAA"
        post("sign", {**order, "encrypted_share": damaged}, 400)
        post("sign", {**order, "secret_store": PASSWORD}, 400)
        alice.get(f"/v3/wallet/{PASSWORD[:20].replace(' ', '-')}?password={PASSWORD}")
        alice.get("/v3/wallet", headers={"authorization": "Bearer " + service.gateway.token("bob")})
        post("recover", new)
        post("sign", order, 404)
        token = alice.get("/v3/wallet/token", params={"id": share["key_id"]}).text
        log.flush()
        text = log.path.read_text()
    assert text.count('"event":"request"') > 20
    for role in ("node", "gateway", "operator", "institution"):
        assert f'"role":"{role}"' in text
    for secret in (PASSWORD, order["message"], share["encrypted_share"], share["secret_store"]):
        assert secret not in text
        assert secret[-40:] not in text
    LEDGER.written(text)
    assert LEDGER.leaks() == []
    assert token not in text


# Rooms whose values may hold secrets.
SECRETIVE = ("mpcsim.crypto", "mpcsim.protocols", "mpcsim.service.vault", "mpcsim.service.rpc")
SECRETIVE += ("mpcsim.service.mpc_node", "mpcsim.service.gateway", "node")


def test_fields_that_are_not_shown_stay_hidden():
    """A field leaves this list, or a new one joins it, after somebody has looked."""
    found = set()
    for room in SECRETIVE:
        for info in pkgutil.walk_packages(importlib.import_module(room).__path__, f"{room}."):
            if info.name.endswith("__main__"):
                continue
            for value in vars(importlib.import_module(info.name)).values():
                if not isinstance(value, type) or value.__module__ != info.name:
                    continue
                hidden = set()
                if is_dataclass(value):
                    hidden = {each.name for each in fields(value) if not each.repr}
                elif issubclass(value, BaseModel) and not issubclass(value, RootModel):
                    about = value.model_fields.items()
                    hidden = {name for name, field in about if not field.repr}
                    assert value.model_config["hide_input_in_errors"], info.name
                    assert value.model_config["frozen"], info.name
                hidden &= inspect.get_annotations(value).keys()
                found |= {f"{info.name}.{value.__name__}.{each}" for each in hidden}
    listed = Path(__file__).with_name("hidden_fields.txt").read_text("utf-8").split()
    assert sorted(found) == listed
