"""The specification, row by row, with a real gateway and both MPC nodes behind the node.

Node and gateway are behind sockets. Signatures are verified by libsecp256k1 and libsodium.
"""

import re
from datetime import UTC, datetime, timedelta

import pytest

import mpcsim
from mpcsim.service.errors import key_replaced
from node.api import routes
from tests.helpers.tiers import fast_few
from tests.node.harness import PASSWORD, answer
from tests.node.wallets import check_signature

CURVES = ("secp256k1", "ed25519")
HASH = "5c" * 32
UNKNOWN = "0" * 64
PUBLIC_KEY = {"secp256k1": r"0x0[23][0-9a-f]{64}", "ed25519": r"0x[0-9a-f]{64}"}
ADDRESSES = {"secp256k1": {"evm", "btc", "aptos", "tron", "xrp"}, "ed25519": {"solana"}}


def check_record(record, curve):
    assert set(record) == {"key_id", "encrypted_share", "secret_store", "public_key", "curve"}
    assert re.fullmatch(r"[0-9a-f]{64}", record["key_id"])
    assert re.fullmatch(r"[A-Za-z0-9_-]+", record["encrypted_share"])
    assert re.fullmatch(r"[A-Za-z0-9_-]+", record["secret_store"])
    assert re.fullmatch(PUBLIC_KEY[curve], record["public_key"])
    assert record["curve"] == curve


# --- success ------------------------------------------------------------------------------------


def test_health(built):
    before = datetime.now(UTC)
    record = answer(built.api.get("/"))
    assert record["name"]
    assert record["version"] == mpcsim.__version__
    assert record["build_type"]
    moment = datetime.fromisoformat(record["time"])
    assert before <= moment <= datetime.now(UTC)
    assert moment.utcoffset() == timedelta(0)
    assert re.search(r"\.\d+\+00:00$", record["time"])


@pytest.mark.parametrize("signer", [None, "operator", "institution"])
@pytest.mark.parametrize("curve", CURVES)
def test_sign(built, curve, signer):
    record = built.keys[curve]
    check_record(record, curve)
    asked = answer(built.user().post("/v3/wallet/publickey", {**record, "password": PASSWORD}))
    assert asked == {"public_key": record["public_key"]}
    body = {name: record[name] for name in ("key_id", "encrypted_share", "secret_store", "curve")}
    if signer is not None:
        body["signer"] = signer
    for message in (HASH, HASH.upper()):
        reply = answer(built.user().post("/v3/wallet/sign", {**body, "message": message}))
        assert list(reply) == ["signature"]
        assert re.fullmatch(r"[0-9a-f]{128}(1b|1c)?", reply["signature"])
        check_signature(record["public_key"], bytes.fromhex(HASH), reply["signature"])


@pytest.mark.parametrize("curve", CURVES)
def test_validate(built, curve):
    record, good = built.keys[curve], built.keys[curve]["encrypted_share"]
    other = built.keys[next(c for c in CURVES if c != curve)]["encrypted_share"]
    damaged = good[:50] + ("A" if good[50] != "A" else "B") + good[51:]
    for path, field, tried in (
        ("password", "password", {PASSWORD: True, PASSWORD.capitalize(): False}),
        ("share", "encrypted_share", {good: True, damaged: False, other: False}),
    ):
        for text, result in tried.items():
            body = {field: text, "secret_store": record["secret_store"]}
            reply = built.user().post(f"/v3/wallet/validate/{path}", body)
            assert answer(reply) == {"result": result}


def test_what_is_registered(built):
    alice = built.user()
    user = answer(alice.get("/v3/wallet/user"))
    assert set(user) == {"user_id", "username", "created_at"}
    assert user["username"] == "alice"
    assert datetime.fromisoformat(user["created_at"]).utcoffset() == timedelta(0)

    keys = answer(alice.get("/v3/wallet/key"))
    assert keys["user_id"] == user["user_id"]
    assert all(set(k) == {"key_id", "curve", "public_key", "created_at"} for k in keys["keys"])
    assert {(k["key_id"], k["curve"], k["public_key"]) for k in keys["keys"]} == {
        (k["key_id"], k["curve"], k["public_key"]) for k in built.keys.values()
    }

    wallet = answer(alice.get("/v3/wallet"))
    assert set(wallet) == {"user_id", "wallets"}
    assert wallet["user_id"] == user["user_id"]
    for entry in wallet["wallets"]:
        assert set(entry) == {"key", "address"}
        curve = entry["key"]["curve"]
        assert entry["key"] == {"curve": curve, "public_key": built.keys[curve]["public_key"]}
        assert set(entry["address"]) == ADDRESSES[curve]
        assert all(isinstance(text, str) for text in entry["address"].values())
    assert {entry["key"]["curve"] for entry in wallet["wallets"]} == set(CURVES)


def test_key_token(built):
    key_id = built.keys["ed25519"]["key_id"]
    reply = answer(built.user().get(f"/v3/wallet/token?id={key_id}"))
    assert set(reply) == {"token", "token_type", "expires_in", "key_id"}
    assert (reply["token_type"], reply["key_id"]) == ("Bearer", key_id)
    assert reply["expires_in"] > 0
    # It is for the MPC nodes, not for this one.
    error = answer(built.api.as_user(reply["token"]).get("/v3/wallet/user"), 401)
    assert error == 'Authentication failed: {"code":756,"message":"JWT_INVALID"}'


@pytest.mark.parametrize("curve", fast_few(CURVES[::-1], 1))
def test_recover(built, curve):
    user = built.user(f"forgetful-{curve}")
    first = answer(user.post("/v3/wallet/generate", {"curve": curve, "password": PASSWORD}))
    wallet = answer(user.get("/v3/wallet"))
    second = answer(user.post("/v3/wallet/recover", {"curve": curve, "password": "another"}))
    check_record(second, curve)
    assert second["public_key"] == first["public_key"]
    assert second["key_id"] != first["key_id"]
    assert answer(user.get("/v3/wallet")) == wallet

    reply = answer(user.post("/v3/wallet/sign", {**second, "message": HASH}))
    check_signature(first["public_key"], bytes.fromhex(HASH), reply["signature"])
    answer(user.post("/v3/wallet/sign", {**first, "message": HASH}), 404)
    mixed = {**second, "encrypted_share": first["encrypted_share"], "message": HASH}
    answer(user.post("/v3/wallet/sign", mixed), 400)
    for password, result in ((PASSWORD, False), ("another", True)):
        body = {"password": password, "secret_store": second["secret_store"]}
        assert answer(user.post("/v3/wallet/validate/password", body)) == {"result": result}
    # There is a key of this curve, now as before.
    again = user.post("/v3/wallet/generate", {"curve": curve, "password": PASSWORD})
    assert answer(again, 409) == f"{curve} key already exists for this user"


# --- every documented failure -------------------------------------------------------------------

NEW = {"curve": "ed25519", "password": PASSWORD}
BODIES = {
    "/v3/wallet/generate": ("curve", "password"),
    "/v3/wallet/recover": ("curve", "password"),
    "/v3/wallet/sign": ("key_id", "encrypted_share", "secret_store", "curve", "message"),
    "/v3/wallet/presign": ("key_id", "encrypted_share", "secret_store", "curve", "count"),
    "/v3/wallet/publickey": ("key_id", "encrypted_share", "secret_store", "curve", "password"),
    "/v3/wallet/validate/password": ("password", "secret_store"),
    "/v3/wallet/validate/share": ("encrypted_share", "secret_store"),
}
LOOKUPS = ("/v3/wallet", "/v3/wallet/key", "/v3/wallet/user", "/v3/wallet/token")


def request_to(found, api, path, **other):
    """A request that succeeds, but for what the test does to it."""
    if path in LOOKUPS:
        query = f"?id={found.keys['ed25519']['key_id']}" if path.endswith("token") else ""
        return api.get(path + query)
    curve = "secp256k1" if path.endswith("presign") else "ed25519"
    known = {**found.keys[curve], "password": PASSWORD, "message": HASH, "count": 1, **other}
    return api.post(path, {name: known[name] for name in BODIES[path]})


NOT_FOUND = [operation.path for operation in routes.WALLET if 404 in operation.failures]


@pytest.mark.parametrize("path", NOT_FOUND)
def test_what_is_documented_not_to_be_found_is_not(built, path):
    alice = built.user()
    if path in ("/v3/wallet/recover", "/v3/wallet"):
        reply = request_to(built, built.user("keyless"), path)
    elif path == "/v3/wallet/user":
        stranger = built.gateway.issuer.issue_access("no-such-user", "nobody", 60)
        reply = request_to(built, built.api.as_user(stranger), path)
    elif path == "/v3/wallet/token":
        reply = alice.get(f"{path}?id={UNKNOWN}")
    else:
        reply = request_to(built, alice, path, key_id=UNKNOWN)
    assert answer(reply, 404)


# --- calls with a name ---------------------------------------------------------------------------


def test_a_named_call_may_be_repeated(built):
    user, named = built.user("twice"), {"headers": {"Idempotency-Key": "twice"}}
    first, second = (answer(user.post("/v3/wallet/generate", NEW, **named)) for _ in range(2))
    assert first["public_key"] == second["public_key"]
    assert first["key_id"] != second["key_id"]
    error = answer(user.post("/v3/wallet/sign", {**first, "message": HASH}), 404)
    assert error == str(key_replaced())
    other = user.post("/v3/wallet/recover", {**NEW, "curve": "secp256k1"}, **named)
    assert answer(other, 400) == "This Idempotency-Key has been used for another call"
    assert other.headers["X-Error-Code"] == "idempotency-key-used"
    (key,) = answer(user.get("/v3/wallet/key"))["keys"]
    assert key["key_id"] == second["key_id"]


@pytest.mark.parametrize("names", [[""], ["x" * 256], [b"\xe9"], ["a\tb"], ["a", "b"]])
def test_a_name_that_is_none(built, names):
    why = "must be 1 to 255 printable ASCII characters" if len(names) == 1 else "there are several"
    api = built.user("never-named")
    headers = [*api.headers.items(), *(("Idempotency-Key", name) for name in names)]
    for verb in ("generate", "recover"):
        work = built.api.client.post(f"/v3/wallet/{verb}", json=NEW, headers=headers)
        assert answer(built.api.loop.run(work), 400) == f"Invalid Idempotency-Key: {why}"


# --- whose key is it ----------------------------------------------------------------------------
