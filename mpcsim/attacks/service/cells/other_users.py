"""Attacks by a stranger, who holds nothing, and by one user on the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pybase64

from mpcsim.attacks.service import weakened_builds
from mpcsim.attacks.service.attack_environment import (
    CURVE,
    PASSWORD,
    WANTED,
    AttackEnvironment,
    Strings,
    User,
    random_id,
)
from mpcsim.attacks.service.cells.outside import count_accepted
from mpcsim.attacks.service.entries import entry
from mpcsim.attacks.service.findings import Finding, Refusal, succeed_if
from mpcsim.service.rpc import wire

NAME: Final = "the-name-of-a-call"
SIGN_UP: Final = "/member/user-management/v3/signup"
LOGIN: Final = "/auth/auth-service/v3/login"
SMART_ACCOUNT: Final = f"/core/evm/v2/erc4337/0x{'11' * 20}/nonce"


@entry("requests without credentials", weakened_builds.accept_no_token)
def requests_without_credentials(env: AttackEnvironment) -> Finding:
    """Request everything of node and gateway, without a token and with made-up ones."""
    alice, key = env.user_with_key()
    tries: list[Callable[[], object]] = [
        partial(env._http, "POST", path, token, body, kind)
        for path in (SIGN_UP, LOGIN)
        for token in (None, "nonsense")
        for body in (json.dumps({"username": "alice"}).encode(),)
        for kind in ("application/json", "text/plain")
    ]
    for token in ("", "nonsense", _unsigned(alice)):
        stranger = env.impersonate(token)
        tries += [
            *(partial(stranger.ask, path) for path in ("", "key", f"token?id={key['key_id']}")),
            *(stranger.generate, stranger.recover),
            *(partial(stranger.sign, key), partial(stranger.public_key, key)),
            *(partial(env.ask_gateway, verb, b"", token or None) for verb in env.gateway_verbs()),
            *(
                partial(env.get_registered, path, token or None)
                for path in ("/wallet/v1/user", "/wallet/v1/keys", SMART_ACCOUNT)
            ),
        ]
    accepted = count_accepted(tries)
    return succeed_if(
        accepted > 0,
        f"{accepted} of {len(tries)} requests are answered",
        f"none of {len(tries)} requests is answered without a credential",
    )


def _unsigned(user: User) -> str:
    """Return a user's token with no signature, as RFC 7519, 6 has it ("alg": "none")."""
    _, payload, _ = user.token.split(".")
    header = pybase64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').decode().rstrip("=")
    return f"{header}.{payload}."


@entry("another user's key")
def another_users_key(env: AttackEnvironment) -> Finding:
    """Use another user's strings with one's own token."""
    alice, mallory = env.user(), env.user("mallory")
    key = alice.generate()
    mallory.generate()
    thief = env.stolen_credentials(mallory.token)
    key_id = bytes.fromhex(key["key_id"])
    tries: list[Callable[[], object]] = [
        partial(mallory.sign, key, WANTED.hex()),
        partial(mallory.public_key, key),
        partial(mallory.ask, f"token?id={key['key_id']}"),
        partial(env.get_registered, f"/wallet/v1/token?id={key['key_id']}", mallory.token),
        partial(thief.open_vault, key),
        partial(thief.start_signing, key, WANTED),
        partial(env.ask_gateway, "activate", wire.Activate(random_id(), key_id), mallory.token),
    ]
    accepted = count_accepted(tries)
    return succeed_if(
        accepted > 0,
        f"another user is served in {accepted} of {len(tries)} places",
        f"no such key, in {len(tries)} places",
    )


@entry("another user's name of a call")
def another_users_name(env: AttackEnvironment) -> Finding:
    """Generate a key under the Idempotency-Key that another user uses afterwards."""
    alice, mallory = env.user(), env.user("mallory")
    planted = _generate(mallory, NAME)
    key = _generate(alice, NAME)
    adopted = alice.shown_public_key()
    return succeed_if(
        adopted == planted["public_key"] or adopted != key["public_key"],
        "the user adopts another's key",
        "a name is its user's own: the user has the key that it made",
    )


def _generate(user: User, name: str) -> Strings:
    """Return the strings of a key that a user generates by a call with a name."""
    answer = user.env.service.http.post(
        "/v3/wallet/generate",
        json={"curve": CURVE, "password": PASSWORD},
        headers={"authorization": f"Bearer {user.token}", "idempotency-key": name},
    )
    if not answer.is_success:
        raise Refusal(f"the node: {answer.status_code} {answer.text}")
    made: dict[str, Any] = answer.json()
    return made
