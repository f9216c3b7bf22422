"""Attacks that use a presignature twice: two signatures with one, and the shift of each, are two
equations for the nonce and the key.

The MPC node that signs is corrupt and consumes nothing. The REST node is honest, but stores
nothing: it would use a presignature again that it is given again.
"""

from __future__ import annotations

import asyncio
import copy
from dataclasses import dataclass, field, replace
from typing import Any

from mpcsim.attacks.harness import can_recover_key
from mpcsim.attacks.service import weakened_builds
from mpcsim.attacks.service.attack_environment import (
    HONEST,
    WANTED,
    AttackEnvironment,
    Strings,
    User,
)
from mpcsim.attacks.service.entries import entry
from mpcsim.attacks.service.findings import Finding, Refusal, succeed_if
from mpcsim.attacks.service.hostile import HostileNode
from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.ids import CLIENT, ROLES
from mpcsim.protocols import presigned
from mpcsim.protocols.presign import Presignature
from mpcsim.protocols.presign.presignature import Use
from mpcsim.protocols.presigned import steps
from mpcsim.service.errors import Refused
from mpcsim.service.rpc import wire
from mpcsim.service.vault import SealedPresignature
from node.models import StoredShare
from node.process.timing import Timing


@dataclass
class Collector:
    """The corrupt MPC node: signs with a presignature as often as it is asked, and takes notes."""

    env: AttackEnvironment
    node: HostileNode
    parts: dict[bytes, Presignature] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    """Refusals of the other MPC node."""

    @classmethod
    def of(cls, env: AttackEnvironment) -> Collector:
        made = cls(env, env.corrupt_node(env.me))
        pool = env.node(env.me)._presignatures.shares
        take_once = pool.take

        def take(key_id: str, name: bytes) -> Presignature:
            if name not in made.parts:
                made.parts[name] = take_once(key_id, name)
            return replace(made.parts[name], use=Use())

        pool.take = take
        forget_used(env.service.app.state.wallet)
        other = env.node(env.other)
        handle = other.handle

        def listening(*asked: Any) -> bytes:
            try:
                reply: bytes = handle(*asked)
            except Refused as refused:
                made.refusals.append(str(refused))
                raise
            return reply

        other.handle = listening
        return made

    def key_from(self, public_key: str, signatures: list[bytes]) -> Finding:
        """Return that s (k + delta) = m + r x, twice, gives the key.

        Raises:
            Refusal: there are no two signatures with one presignature; the other MPC node's words.
        """
        used = [
            wire.Presigned.from_bytes(a.body) for a in self.node.requests if a.verb == "presigned"
        ]
        (share,) = self.env.shares(self.env.me).values()
        given = []
        for body, signature in zip(used, signatures, strict=False):
            part = replace(self.parts[body.using.presignature], use=Use())
            hashed, rho = body.using.message_hash, body.using.rho
            agreed = presigned.setup(share, part, CLIENT, hashed, rho)
            delta = steps.shift(agreed.request(), {self.env.me: part.rho_i})
            numbers = (signature[32:64], signature[:32], hashed)
            s, r, m = (SECP256K1.scalar(int.from_bytes(part, "big")) for part in numbers)
            given.append((s, r, delta, m))
        Y = SECP256K1.decode_point(bytes.fromhex(public_key.removeprefix("0x")))
        if len(given) == 2 and can_recover_key(Y, given):
            return succeed_if(True, "the key from two signatures with one presignature", "")
        reason = (
            f"the {ROLES[self.env.other]}: {self.refusals[-1]}"
            if self.refusals
            else ("the presignature does not open")
        )
        raise Refusal(f"{reason}; signed by the full protocol instead")


def set_up_presignatures(
    env: AttackEnvironment, count: int = 1
) -> tuple[User, Strings, Collector, list[str]]:
    """Return a user with a key and presignatures, at the corrupt MPC node."""
    alice, key = env.user_with_key("secp256k1")
    collector = Collector.of(env)
    body = {**key, "count": count, "signer": ROLES[env.me]}
    return alice, key, collector, alice.ask("presign", body)["presignatures"]


def forget_used(wallet: Any) -> None:
    """Make a REST node forget which presignatures it has used, as if restarted every time."""
    opened = wallet._presigner.open_part

    def part(*arguments: Any) -> Presignature:
        found: Presignature = opened(*arguments)
        return replace(found, use=Use())

    wallet._presigner.open_part = part


def sign(user: User, key: Strings, presignatures: list[str], message: str) -> bytes:
    body = {**key, "message": message, "presignatures": presignatures}
    return bytes.fromhex(user.ask("sign", body)["signature"])


# ------------------------------------------------------------------ variants


@entry("a presignature used twice", weakened_builds.skip_allowances)
def use_twice_after_database_restore(env: AttackEnvironment) -> Finding:
    """Make the caller restore its database, and sign something else."""
    alice, key, collector, made = set_up_presignatures(env)
    signatures = [sign(alice, key, made, message) for message in (HONEST, WANTED.hex())]
    return collector.key_from(key["public_key"], signatures)


@entry("a presignature used twice, by a retry", weakened_builds.skip_allowances)
def use_twice_by_retry(env: AttackEnvironment) -> Finding:
    """Cut the connection, so that the caller asks once more; the attacker sees both answers."""
    alice, key, collector, made = set_up_presignatures(env)
    signatures = [sign(alice, key, made, HONEST) for _ in range(2)]
    return collector.key_from(key["public_key"], signatures)


@entry("a presignature used twice, at once", weakened_builds.skip_allowances)
def use_twice_at_replicas(env: AttackEnvironment) -> Finding:
    """Give two replicas of the REST node the same presignature at once."""
    alice, key, collector, made = set_up_presignatures(env)
    replicas = [env.stolen_credentials(alice.token) for _ in range(2)]
    fields = {name: key[name] for name in StoredShare.model_fields}

    async def signature(replica: Any, message: bytes) -> bytes:
        forget_used(replica)
        stored = StoredShare.model_validate(fields)
        signed, _ = await replica.sign(
            replica.caller,
            stored,
            message=message,
            signer=None,
            presignatures=made,
            timing=Timing(),
        )
        return bytes.fromhex(signed)

    async def race() -> list[bytes]:
        messages = bytes.fromhex(HONEST), WANTED
        return await asyncio.gather(*map(signature, replicas, messages))

    return collector.key_from(key["public_key"], env.run(race()))


@entry("a presignature used twice, after a restore", weakened_builds.keep_boot_at_restart)
def use_twice_after_node_restore(env: AttackEnvironment) -> Finding:
    """Restore the other MPC node, and the caller's database, from before the presignature was
    used."""
    alice, key, collector, made = set_up_presignatures(env)
    node = env.node(env.other)
    tokens = node._presignatures.usage_tokens
    backup = copy.deepcopy(vars(tokens))
    signatures = [sign(alice, key, made, HONEST)]
    node.restart()
    vars(tokens).update(backup)
    signatures.append(sign(alice, key, made, WANTED.hex()))
    return collector.key_from(key["public_key"], signatures)


@entry("a presignature under another one's header", weakened_builds.accept_any_header)
def use_under_another_header(env: AttackEnvironment) -> Finding:
    """Insert a used presignature under the header of one that the other MPC node still allows."""
    alice, key, collector, made = set_up_presignatures(env, 2)
    used, fresh = map(SealedPresignature.from_text, made)
    signatures = [sign(alice, key, made[:1], HONEST)]
    header = replace(used.header, allowance=fresh.header.allowance, index=fresh.header.index)
    forged = replace(used, header=header).to_text()
    signatures.append(sign(alice, key, [forged], WANTED.hex()))
    return collector.key_from(key["public_key"], signatures)
