"""Users on demand: none at all, or a few that have keys."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import httpx

from mpcsim.crypto.groups.curves import CURVES
from mpcsim.crypto.rng import SystemRng
from mpcsim.errors import UsageError
from mpcsim.ids import MPC_NODES, ROLES
from mpcsim.service.gateway.registry import Credentials, Registry
from mpcsim.service.operations.data_folder import claim_folder, store_file
from mpcsim.service.operations.supervisor import access_token
from mpcsim.service.storage.roles import REGISTRY

KEPT: Final = frozenset({"secrets", "earlier_signing_keys", "deployment"})
"""Tables that say who a service is, not whom it serves."""
CALLING_S: Final = 60.0


def empty_stores(data: Path) -> None:
    """Empty the stores of services that do not run: what is left of them is who they are.

    Raises:
        UsageError: one of them runs, or its store cannot be written.
    """
    roles = [REGISTRY, *(ROLES[party] for party in MPC_NODES)]
    with ExitStack() as claims:
        for role in roles:
            claims.enter_context(claim_folder(data / role))
        for role in roles:
            _empty(store_file(data, role))


def _empty(path: Path) -> None:
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as store:
            query = "SELECT name FROM sqlite_master WHERE type = 'table'"
            tables = {name for (name,) in store.execute(query)}
            store.execute("BEGIN IMMEDIATE")
            for name in tables - KEPT:
                if not name.startswith("sqlite_"):
                    store.execute(f'DELETE FROM "{name}"')
            store.execute("COMMIT")
            store.execute("VACUUM")  # nothing that was deleted is left in the file
            store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise UsageError(f"{path}: {error}") from None


def read_credentials(data: Path) -> Credentials:
    """Return the API key and secret with which callers log in."""
    with closing(Registry(store_file(data, REGISTRY))) as registry:
        return registry.credentials()


def make_demo_users(data: Path, gateway: str, node: str, count: int) -> list[dict[str, Any]]:
    """Users with a key on each curve, made through the API as any backend does.

    One who has a key already gets a new share of it.

    Args:
        gateway: its address.
        node: its address.

    Raises:
        UsageError: a call fails; the users before that one are there.
    """
    known = read_credentials(data)
    made = []
    for number in range(1, count + 1):
        name, password = f"demo-{number}", SystemRng().bytes(8).hex()
        token = access_token(gateway, known.api_key, known.api_secret, name)
        with httpx.Client(
            base_url=f"{node}/v3/wallet",
            headers={"Authorization": f"Bearer {token}"},
            timeout=CALLING_S,
            trust_env=False,
        ) as http:
            found = _call(name, http, "GET", "/key")
            there = {key["curve"] for key in found["keys"]}
            keys = [
                _call(
                    name,
                    http,
                    "POST",
                    "/recover" if curve in there else "/generate",
                    {"curve": curve, "password": password},
                )
                for curve in CURVES
            ]
        made.append(
            {
                "username": name,
                "user_id": found["user_id"],
                "token": token,
                "password": password,
                "keys": keys,
            }
        )
    return made


def _call(
    name: str, http: httpx.Client, method: str, path: str, body: Mapping[str, str] | None = None
) -> dict[str, Any]:
    try:
        answer = http.request(method, path, json=body)
    except httpx.TransportError as error:
        raise UsageError(f"{name}: {path}: {error}; the users before it are there") from None
    if answer.status_code != 200:
        text = f"{answer.status_code} {answer.text}"
        raise UsageError(f"{name}: {path} is answered {text}; the users before it are there")
    document: dict[str, Any] = answer.json()
    return document
