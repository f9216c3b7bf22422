"""Attacks by an operator that cheats in signing: guesses at the client's long-lived choice bits.

The client's check fails in every second session. The attacker needs the user's key to be used again
after that: in as many sessions as Delta has bits, the operator learns Delta, and with it the
client's share (``mpcsim.attacks.gallery.ot``). So an attack succeeds if it causes a *second* failed
check in one epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast

from mpcsim.attacks.gallery import ot
from mpcsim.attacks.service import weakened_builds
from mpcsim.attacks.service.attack_environment import CURVE, WAY_S, AttackEnvironment, Strings, User
from mpcsim.attacks.service.entries import entry
from mpcsim.attacks.service.findings import Finding, Refusal, refusal_of, succeed_if
from mpcsim.attacks.service.hostile import Call, InterceptingProxy
from mpcsim.errors import Reason
from mpcsim.ids import CLIENT, INSTITUTION, MPC_NODES, OPERATOR
from mpcsim.protocols.ecdsa.messages import Offer
from mpcsim.protocols.engine import Party, RoundOutput
from mpcsim.service.gateway.links.mpc_nodes import InProcess
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.wire import SIGNING_S
from mpcsim.sim.run.adversary import deviating_party
from node.errors import ApiError

SESSIONS = 60
"""Number of sessions: enough for two failed checks; fewer happen in one case of 10^16."""
SHORT_S = 10.0
"""Lifetime of a token in whose last call the operator cheats."""

HOUR_MS = 3_600_000
AWAY_S = 1.0
"""Delay from the gateway to callers who are far away."""
MANY = 12
"""Number of sessions whose tags the attacker keeps."""

Sign = Callable[[Strings], bytes]


def corrupt_signer(env: AttackEnvironment, bits: Iterator[int] | None = None) -> None:
    """Make the operator guess at one more bit of Delta in each session.

    Args:
        bits: bits not yet guessed at.
    """
    node = env.node(OPERATOR)
    honest, guess = node._signing.signer, bits or iter(range(SESSIONS))

    def signer(share: Any, *arguments: Any) -> Party[Any, Any]:
        craft = ot.guess_delta_bit(next(guess))

        def offering(original: Callable[..., RoundOutput], *view: Any) -> RoundOutput:
            turn = original(*view)
            offer = cast(Offer, turn.direct[CLIENT])
            offer = replace(offer, offer=craft(ot.Receiver.of(share, turn.keep.transcript)))
            return replace(turn, direct={**turn.direct, CLIENT: offer})

        return deviating_party(honest(share, *arguments), 2, offering)

    node._signing.signer = signer
    node.store.suspend = lambda *_: None  # whatever it says, it goes on


def guess_until_two_failures(env: AttackEnvironment, sign: Sign, key: Strings) -> Finding:
    """Make the user sign until a second check has failed.

    Raises:
        Refusal: the error that the user gets from the first failed check on.
    """
    failed, last = 0, ""
    for _ in range(SESSIONS):
        try:
            sign(key)
        except Refusal as refusal:
            last = str(refusal)
            if Reason.MULTIPLICATION_CHECK.name in last or "JWT_EXPIRED" in last:
                continue  # no check has failed; the operator, or the gateway, ends the session
            if Reason.OT_EXTENSION_CHECK.text not in last:
                raise Refusal(f"after {failed} failed check: {last}") from None
            failed += 1
            if failed == 2:
                return succeed_if(True, "a bit of Delta a session: the key answers on and on", "")
    raise Refusal(f"{failed} failed checks of {SESSIONS}: {last}")


# ------------------------------------------------------------------ variants


def _user_of_cheating_operator(
    env: AttackEnvironment,
) -> tuple[User, InterceptingProxy, Strings]:
    """Return a user with a key whose operator cheats from now on, and a proxy at the gateway."""
    alice, proxy = env.user(), env.intercept_gateway()
    key = alice.generate("secp256k1")
    corrupt_signer(env)
    return alice, proxy, key


@entry("guesses at Delta, plainly", weakened_builds.ignore_failed_checks)
def guess_in_sequence(env: AttackEnvironment) -> Finding:
    """Guess in one session after the other."""
    alice, key = env.user_with_key("secp256k1")
    corrupt_signer(env)
    return guess_until_two_failures(env, alice.sign, key)


@entry(
    "guesses at Delta, as tokens expire",
    weakened_builds.ignore_failed_checks,
    weakened_builds.accept_late_messages,
)
def guess_as_token_expires(env: AttackEnvironment) -> Finding:
    """Guess in calls whose token expires before the operator answers: nobody may suspend the key
    then."""
    _, proxy, key = _user_of_cheating_operator(env)

    async def late(call: Call) -> None:
        if call.verb == "sign":
            await asyncio.sleep(1.5 * SHORT_S)

    proxy.after = late

    def sign(key: Strings) -> bytes:
        env.service.wait(10_000)  # a session that nobody continues gives up its place
        token = env.service.gateway.token("alice", SHORT_S)
        return env.impersonate(token).sign(key)

    return guess_until_two_failures(env, sign, key)


@entry(
    "guesses at Delta, while the other is away",
    weakened_builds.ask_once_to_suspend,
    weakened_builds.suspend_once,
)
def guess_while_institution_is_down(env: AttackEnvironment) -> Finding:
    """Guess while the institution is cut off once the vault is open: it never hears of the
    suspension."""
    alice, proxy, key = _user_of_cheating_operator(env)
    link = env.service.gateway.links[INSTITUTION]

    def cut(call: Call) -> None:
        link.down = call.verb in ("exchange", "suspend")

    proxy.before = cut

    def sign(key: Strings) -> bytes:
        link.down = False
        return alice.sign(key)

    return guess_until_two_failures(env, sign, key)


@entry("guesses at Delta, while mail is lost", weakened_builds.ask_once_to_suspend)
def guess_while_suspensions_are_lost(env: AttackEnvironment) -> Finding:
    """Guess while the first requests to suspend the key are lost on the way to the gateway."""
    alice, proxy, key = _user_of_cheating_operator(env)
    lost: list[Call] = []

    def lose(call: Call) -> None:
        if call.verb == "suspend" and len(lost) < 3:
            lost.append(call)
            call.status, call.reply = 503, b'{"error": "lost"}'

    proxy.before = lose
    return guess_until_two_failures(env, alice.sign, key)


@entry("guesses at Delta, at two replicas", weakened_builds.forget_suspensions)
def guess_at_two_replicas(env: AttackEnvironment) -> Finding:
    """Guess at two REST nodes in turn: one has seen the failed check, one has not."""
    alice, key = env.user_with_key("secp256k1")
    corrupt_signer(env)
    replica = env.stolen_credentials(alice.token)
    turns = [alice.sign, replica.sign_stored]

    def sign(key: Strings) -> bytes:
        turns.reverse()
        try:
            return turns[0](key)
        except Refusal as refusal:
            if "discarded" not in str(refusal):
                raise
        return turns[1](key)  # one that knows of it refuses: the other may not know

    return guess_until_two_failures(env, sign, key)


@entry("guesses at Delta, across restarts", weakened_builds.forget_suspensions)
def guess_across_restarts(env: AttackEnvironment) -> Finding:
    """Guess while everything is restarted after every call: only stored state survives."""
    alice, key = env.user_with_key("secp256k1")
    bits = iter(range(SESSIONS))
    corrupt_signer(env, bits)

    def sign(key: Strings) -> bytes:
        try:
            return alice.sign(key)
        finally:
            env.restart()
            corrupt_signer(env, bits)

    return guess_until_two_failures(env, sign, key)


@entry("a suspension after a recovery")
def deliver_suspension_after_recovery(env: AttackEnvironment) -> Finding:
    """Deliver the request to suspend the key after the user has recovered it."""
    alice, proxy, key = _user_of_cheating_operator(env)
    held: list[Call] = []

    def hold(call: Call) -> None:
        if call.verb == "suspend":
            held.append(call)
            call.status, call.reply = 503, b'{"error": "held"}'

    proxy.before = hold
    said = refusal_of(lambda: guess_until_two_failures(env, alice.sign, key))
    del env.node(OPERATOR)._signing.signer  # it has learnt what it could, and behaves
    new = alice.recover("secp256k1")
    proxy.before = lambda call: None
    env.service.wait(HOUR_MS)
    refused = refusal_of(lambda: env.user().sign(new))
    return succeed_if(
        bool(refused),
        f"the recovered key does not sign: {refused}",
        f"{said}; once recovered it signs",
    )


@entry("guesses at Delta, in sessions at once", weakened_builds.end_turns_on_request)
def guess_concurrently(env: AttackEnvironment) -> Finding:
    """Guess in many sessions at once: the operator claims that its part is over after each guess,
    so that many REST nodes look at a guess before any has reported."""
    alice, proxy, key = _user_of_cheating_operator(env)
    hostile = env.corrupt_node(OPERATOR)

    def over(verb: str, credential: Any, body: bytes) -> bytes:
        if verb == "sign":
            hostile.honest._sessions._exclusive.clear()
        reply: bytes = hostile.honest.handle(verb, credential, body)
        if verb != "sign":
            return reply
        return replace(wire.Answer.from_bytes(reply), open=0).to_bytes()

    hostile.answer = over  # type: ignore[method-assign]

    async def far(call: Call) -> None:
        if call.verb == "sign":
            await asyncio.sleep(AWAY_S)

    proxy.after = far
    replicas = [env.stolen_credentials(alice.token) for _ in range(SESSIONS // 2)]

    async def one(number: int) -> str:
        await asyncio.sleep(number * WAY_S)
        return await _error_message(replicas[number].signing(key))

    async def all_at_once() -> list[str]:
        return await asyncio.gather(*map(one, range(len(replicas))))

    while True:
        said = env.run(all_at_once())
        failed = sum(Reason.OT_EXTENSION_CHECK.text in text for text in said)
        if failed > 1:
            return succeed_if(
                True, "two failed checks, and more, in sessions of one key at once", ""
            )
        if failed:
            raise Refusal(f"after one failed check: {said[-1]}")


@entry("guesses at Delta, in answers kept back", weakened_builds.route_closed_sessions)
def guess_with_delayed_answers(env: AttackEnvironment) -> Finding:
    """Guess in answers that are kept back until the session's turn is over and the next has begun,
    so that two are looked at before any is reported."""
    alice, proxy, key = _user_of_cheating_operator(env)
    port = _DelayedAnswers(env.corrupt_node(OPERATOR))
    env.service.gateway.links[OPERATOR].port = port

    async def far(call: Call) -> None:
        if call.verb == "sign":
            await asyncio.sleep(AWAY_S)

    proxy.after = far
    replicas = [env.stolen_credentials(alice.token) for _ in range(SESSIONS)]

    async def two() -> list[str]:
        port.released = asyncio.Event()
        first = asyncio.create_task(_error_message(replicas.pop().signing(key)))
        await asyncio.sleep(SIGNING_S + WAY_S)
        second = asyncio.create_task(_error_message(replicas.pop().signing(key)))
        await asyncio.sleep(WAY_S)
        port.released.set()
        return [await first, await second]

    said = [""]
    while len(replicas) > 1 and not any(Reason.OT_EXTENSION_CHECK.text in text for text in said):
        said = env.run(two())
    if all(call.status == 200 for call in proxy.calls_of("sign")[-2:]):
        return succeed_if(True, "the client looks at two guesses, though one of them fails", "")
    raise Refusal(f"one guess is looked at, and fails; of the other: {said[0]}")


class _DelayedAnswers(InProcess):
    """Link to an MPC node that delays its answers to ``sign`` until they are released."""

    released: asyncio.Event

    async def handle(self, verb: str, grant: bytes, body: bytes) -> bytes:
        reply = await super().handle(verb, grant, body)
        if verb == "sign":
            await self.released.wait()
        return reply


async def _error_message(signing: Awaitable[str]) -> str:
    """Return the error message that a caller gets; empty if there is none."""
    try:
        await signing
    except ApiError as error:
        return error.message
    return ""


# ------------------------------------------------------------------ suspensions by strangers


@entry("a stranger's suspension", weakened_builds.accept_any_tag, weakened_builds.accept_any_notice)
def strangers_suspension(env: AttackEnvironment) -> Finding:
    """Suspend the user's key, as a token thief."""
    alice, key = env.user_with_key()
    env.ask_gateway(
        "suspend", weakened_builds.strangers_suspension(alice.user_id, key["key_id"]), alice.token
    )
    return _suspended(env, key)


@entry("a gateway's suspension", weakened_builds.accept_any_notice)
def gateways_suspension(env: AttackEnvironment) -> Finding:
    """Suspend the user's key as the gateway, which makes the tags itself."""
    alice, key = env.user_with_key()
    body = weakened_builds.strangers_suspension(alice.user_id, key["key_id"])
    body = replace(body, tag=env.service.gateway.gateway.suspensions.session_tag(body.occasion))
    env.ask_gateway("suspend", body, None)
    return _suspended(env, key)


@entry("suspensions without end", weakened_builds.remember_all_suspensions)
def many_suspensions(env: AttackEnvironment) -> Finding:
    """Keep the tags of all sessions of a signer, and have the key suspended for each while no MPC
    node can be reached."""
    alice, key = env.user_with_key()
    thief = env.stolen_credentials(alice.token)
    for _ in range(MANY):
        thief.sign_stored(key)
    links, registry = env.service.gateway.links.values(), env.service.gateway.gateway.registry
    for link in links:
        link.down = True
    said = ""
    for occasion, tag in thief.tags.items():
        body = wire.Suspend(occasion, tag, dict.fromkeys(MPC_NODES, b"?"), CURVE)
        said = refusal_of(partial(env.ask_gateway, "suspend", body, None)) or said
    rows = len(registry.suspension_notices())
    for link in links:
        link.down = False
    return succeed_if(
        rows == len(MPC_NODES) * MANY, f"{rows} rows of the registry, for one key", said
    )


def _suspended(env: AttackEnvironment, key: Strings) -> Finding:
    """Return whether the user's key is suspended, an hour later."""
    env.service.wait(HOUR_MS)
    said = refusal_of(lambda: env.user().sign(key))
    return succeed_if(
        bool(said),
        f"the user's key is suspended: {said}",
        "no MPC node has opened its notice, and the key signs",
    )
