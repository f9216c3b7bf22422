"""Attacks by an operator that cheats in signing: guesses at the client's long-lived choice bits.

The client's check fails in every second session. The attacker needs the user's key to be used again
after that: in as many sessions as Delta has bits, the operator learns Delta, and with it the
client's share (``mpcsim.attacks.gallery.ot``). So an attack succeeds if it causes a *second* failed
check in one epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from mpcsim.attacks.gallery import ot
from mpcsim.attacks.service import weakened_builds
from mpcsim.attacks.service.attack_environment import CURVE, WAY_S, AttackEnvironment, Strings, User
from mpcsim.attacks.service.builds import Part, ResearchBuild
from mpcsim.attacks.service.findings import Finding, Refusal, succeed_if
from mpcsim.attacks.service.hostile import Call, InterceptingProxy
from mpcsim.attacks.service.model import ServiceAttack
from mpcsim.attacks.service.table import Goal
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


def guess_in_sequence(env: AttackEnvironment) -> Finding:
    """Guess in one session after the other."""
    alice, key = env.user_with_key("secp256k1")
    corrupt_signer(env)
    return guess_until_two_failures(env, alice.sign, key)


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


def deliver_suspension_after_recovery(env: AttackEnvironment) -> Finding:
    """Deliver the request to suspend the key after the user has recovered it."""
    alice, proxy, key = _user_of_cheating_operator(env)
    held: list[Call] = []

    def hold(call: Call) -> None:
        if call.verb == "suspend":
            held.append(call)
            call.status, call.reply = 503, b'{"error": "held"}'

    proxy.before = hold
    try:
        guess_until_two_failures(env, alice.sign, key)
    except Refusal as refusal:
        said = str(refusal)
    del env.node(OPERATOR)._signing.signer  # it has learnt what it could, and behaves
    new = alice.recover("secp256k1")
    proxy.before = lambda call: None
    env.service.wait(HOUR_MS)
    alice = env.user()
    try:
        alice.sign(new)
    except Refusal as refusal:
        return succeed_if(True, f"the recovered key does not sign: {refusal}", "")
    raise Refusal(f"{said}; once recovered it signs")


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


def strangers_suspension(env: AttackEnvironment) -> Finding:
    """Suspend the user's key, as a token thief."""
    alice, key = env.user_with_key()
    env.ask_gateway(
        "suspend", weakened_builds.strangers_suspension(alice.user_id, key["key_id"]), alice.token
    )
    return _suspended(env, alice, key)


def gateways_suspension(env: AttackEnvironment) -> Finding:
    """Suspend the user's key as the gateway, which makes the tags itself."""
    alice, key = env.user_with_key()
    body = weakened_builds.strangers_suspension(alice.user_id, key["key_id"])
    body = replace(body, tag=env.service.gateway.gateway.suspensions.session_tag(body.occasion))
    env.ask_gateway("suspend", body, None)
    return _suspended(env, alice, key)


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
        try:
            env.ask_gateway("suspend", body, None)
        except Refusal as refusal:
            said = str(refusal)
    rows = len(registry.suspension_notices())
    for link in links:
        link.down = False
    return succeed_if(
        rows == len(MPC_NODES) * MANY, f"{rows} rows of the registry, for one key", said
    )


def _suspended(env: AttackEnvironment, user: User, key: Strings) -> Finding:
    env.service.wait(HOUR_MS)
    user = env.user()
    try:
        user.sign(key)
    except Refusal as refusal:
        return succeed_if(True, f"the user's key is suspended: {refusal}", "")
    raise Refusal("no MPC node has opened its notice, and the key signs")


K, X = Goal.K, Goal.X


def _entry(
    name: str,
    does: str,
    run: Callable[[AttackEnvironment], Finding],
    *,
    says: str,
    check: str,
    without: Sequence[Part],
    covers: str,
    on_disk: bool = False,
) -> ServiceAttack:
    return ServiceAttack(
        id=f"guesses at Delta, {name}",
        cells=(("mpc node", K), ("mpc node + database", K)),
        name=does,
        run=run,
        check=check,
        says=says,
        research=lambda: ResearchBuild(*without),
        on_disk=on_disk,
        covers=(covers,),
    )


ENTRIES = (
    _entry(
        "plainly",
        "cheats in one session after the other",
        guess_in_sequence,
        says="suspended",
        check="a failed check suspends the key",
        without=[weakened_builds.CARELESS],
        covers="an MPC node that never suspends",
    ),
    _entry(
        "as tokens expire",
        "answers after the token of the call has expired",
        guess_as_token_expires,
        says="JWT_EXPIRED",
        check="what arrives after the token has expired is not looked at",
        without=[weakened_builds.CARELESS, weakened_builds.LATE_MAIL],
        covers="expired suspensions",
    ),
    _entry(
        "while the other is away",
        "cheats while the institution cannot be reached",
        guess_while_institution_is_down,
        says="suspended",
        check="the gateway keeps the suspension, and delivers it until both have acknowledged",
        without=[weakened_builds.ASKS_ONCE, weakened_builds.TELLS_ONCE],
        covers="stalled suspensions",
    ),
    _entry(
        "while mail is lost",
        "cheats while requests to suspend are lost",
        guess_while_suspensions_are_lost,
        says="suspended",
        check="the REST node refuses the epoch at once, and asks until the gateway has it",
        without=[weakened_builds.ASKS_ONCE],
        covers="dropped suspensions",
    ),
    _entry(
        "at two replicas",
        "cheats at two REST nodes in turn",
        guess_at_two_replicas,
        says="suspended",
        check="the gateway refuses the epoch to everybody",
        without=[weakened_builds.FORGETFUL_GATEWAY],
        covers="a replica that missed a suspension",
    ),
    _entry(
        "across restarts",
        "cheats, and everything is restarted",
        guess_across_restarts,
        says="suspended",
        check="the suspension is in three stores",
        without=[weakened_builds.FORGETFUL_GATEWAY],
        covers="a replica that missed a suspension",
        on_disk=True,
    ),
    ServiceAttack(
        id="guesses at Delta, in sessions at once",
        cells=(("mpc node", K), ("mpc node + database", K)),
        name="cheats, says that it is done, and has the key's next session begin at once",
        run=guess_concurrently,
        check="a session has its turn until its client has come back, whatever an MPC node says",
        says="a signing session for this key is in progress",
        research=lambda: ResearchBuild(weakened_builds.TURNS_ON_ITS_WORD),
        covers=("a turn that is given up on an MPC node's word",),
    ),
    ServiceAttack(
        id="guesses at Delta, in answers kept back",
        cells=(("mpc node", K), ("mpc node + database", K)),
        name="cheats, and keeps its answers back until the key's next session has begun",
        run=guess_with_delayed_answers,
        check="of a session that is off the client hears nothing any more",
        says="no such session",
        research=lambda: ResearchBuild(weakened_builds.HEARS_TOO_LATE),
        covers=("a turn that is given up on an MPC node's word",),
    ),
    ServiceAttack(
        id="a suspension after a recovery",
        cells=(("mpc node", X),),
        name="has a suspension arrive after the user has recovered",
        run=deliver_suspension_after_recovery,
        check="a suspension names the epoch, and its notices open for no other",
        says="once recovered it signs",
        covers=("reordered suspensions",),
    ),
    ServiceAttack(
        id="suspensions without end",
        cells=(("database + token", X),),
        name="has a key suspended for every session that there was, with notices that open nowhere",
        run=many_suspensions,
        check="a few suspensions of a key are remembered; none is pushed out for another",
        says="too many suspensions of this key",
        research=lambda: ResearchBuild(weakened_builds.NO_BOUND),
        covers=("suspensions that fill the registry",),
    ),
    ServiceAttack(
        id="a stranger's suspension",
        cells=(("token", X), ("database + token", X)),
        name="suspends the user's key with the token alone",
        run=strangers_suspension,
        check="a suspension needs the tag of an open session",
        says="tag",
        research=lambda: ResearchBuild(weakened_builds.ANY_TAG, weakened_builds.ANY_NOTICE),
        covers=("a stranger's suspension",),
    ),
    ServiceAttack(
        id="a gateway's suspension",
        cells=(("gateway", X), ("gateway, not pinned", X)),
        name="suspends the user's key with a tag of its own",
        run=gateways_suspension,
        check="notices are sealed with what client and MPC node share",
        says="no MPC node has opened its notice",
        research=lambda: ResearchBuild(weakened_builds.ANY_NOTICE),
        covers=("a stranger's suspension",),
    ),
)
