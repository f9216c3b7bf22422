"""The watch over the suite's logs sees what it should."""

from __future__ import annotations

import logging

import pytest

from mpcsim.rng import SystemRng
from mpcsim.service import open_gateway
from mpcsim.vault import Argon2Cost, SealKey, new_salt, password_key, seal_share
from tests.helpers.secrecy import LEDGER

LOG = logging.getLogger("tests.secrecy")
PASSWORD = "a password that is long enough"
CHEAP = Argon2Cost(1, 8)


def made() -> dict[str, str]:
    rng = SystemRng()
    salt, share = new_salt(rng), rng.bytes(400)
    encrypted_share, secret_store = seal_share(
        share,
        pw_key=password_key(PASSWORD, salt, CHEAP),
        salt=salt,
        cost=CHEAP,
        key_id="ab" * 32,
        curve="ed25519",
        user_id="somebody",
        node_keys={i: SealKey.fresh(rng).public for i in (2, 3)},
        auth_keys={i: rng.bytes(32) for i in (2, 3)},
        identities={i: rng.bytes(32) for i in (2, 3)},
        rng=rng,
    )
    return {
        "a password": PASSWORD,
        "a share": share.hex(),
        "an encrypted share": encrypted_share,
        "a secret store": secret_store,
        "a token": open_gateway().token("alice"),
    }


@pytest.mark.parametrize(
    "kind", ["a password", "a share", "an encrypted share", "a secret store", "a token"]
)
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


def test_ordinary_logs_are_left_alone():
    made()
    LOG.warning("party %d of session %s is done", 2, "ab" * 32)
    assert LEDGER.leaks() == []
