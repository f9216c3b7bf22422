"""Attacks with stores that are rolled back, and with copies of disks."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

from mpcsim.attacks.service import weakened_builds
from mpcsim.attacks.service.attack_environment import (
    PASSWORD,
    WANTED,
    AttackEnvironment,
    check_forgery,
    check_key_recovery,
)
from mpcsim.attacks.service.entries import entry
from mpcsim.attacks.service.findings import Finding, Refusal, refusal_of, succeed_if
from mpcsim.errors import InvalidEncoding
from mpcsim.ids import MPC_NODES, ROLES
from mpcsim.protocols.key_share import KeyShare
from mpcsim.service.storage.roles import REGISTRY
from mpcsim.service.vault import SecretStore, password_key


def old_strings(env: AttackEnvironment, store: str) -> Finding:
    """Restore a store from before a recovery, and try the old strings."""
    alice = env.user()
    old = alice.generate()
    copy = env.back_up_store(store)
    new = alice.recover()
    env.restore_store(store, copy)
    said = []
    for party in MPC_NODES:
        try:
            signature = alice.sign(old, WANTED.hex(), party)
        except Refusal as refusal:
            said.append(str(refusal))
        else:
            return check_forgery(old["curve"], old["public_key"], signature, "with retired shares")
    refused = refusal_of(lambda: alice.sign(new))
    shown = f": {refused}" if refused else " sign"
    raise Refusal(f"{said[0]}; and the present strings{shown}")


def another_key(env: AttackEnvironment, store: str) -> Finding:
    """Restore a store from before the user had a key, and generate one."""
    alice = env.user()
    copy = env.back_up_store(store)
    key = alice.generate()
    env.restore_store(store, copy)
    alice = env.user()
    made = alice.generate()
    return succeed_if(
        made["public_key"] != key["public_key"],
        "a second key takes the place of the first",
        "it is the same key",
    )


@entry("passwords in stores")
def passwords_in_stores(env: AttackEnvironment) -> Finding:
    """Search all files of all stores, old and new, for something to try passwords on."""
    alice, key = env.user_with_key()
    alice.public_key(key)
    alice.recover()
    store = SecretStore.from_text(key["secret_store"])
    pw_key = bytes(password_key(PASSWORD, store.salt, store.cost))
    files = [path.read_bytes() for path in env.files()]
    telling = [store.salt, pw_key, store.confirmation, PASSWORD.encode()]
    return succeed_if(
        any(secret in data for secret in telling for data in files),
        "a store gives the password away",
        "salt, pw_key and confirmation are in no store",
    )


@entry("a dropped share on the disk", weakened_builds.keep_write_log)
def dropped_share_on_disk(env: AttackEnvironment) -> Finding:
    """Recover with a stolen token without activation; later search a copy of the MPC node's
    disk."""
    alice, key = env.user_with_key()
    share = env.stolen_credentials(alice.token).recover_unactivated()
    env.service.wait(600_000)  # the session expires
    alice.sign(key)
    for path in env.files():
        if ROLES[env.me] in str(path.relative_to(env.root)):
            for found in _shares_in(path, share):
                return check_key_recovery((share, found), key["public_key"], f"left in {path.name}")
    raise Refusal("no file of the MPC node holds anything of the dropped share")


def _shares_in(path: Path, like: KeyShare) -> list[KeyShare]:
    """Return every share of an epoch that a file holds anywhere."""
    data, epoch = path.read_bytes(), like.record.epoch
    encoded = like.to_bytes()
    before = encoded.index(epoch)
    found = []
    at = data.find(epoch)
    while at >= 0:
        with suppress(InvalidEncoding):
            found.append(KeyShare.from_bytes(data[at - before : at - before + len(encoded)]))
        at = data.find(epoch, at + 1)
    return found


for _store in (REGISTRY, *(ROLES[party] for party in MPC_NODES)):
    entry(f"the {_store}'s store from before a recovery")(partial(old_strings, store=_store))
    entry(f"the {_store}'s store from before the key")(partial(another_key, store=_store))
