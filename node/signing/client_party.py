"""Drives the client's party of a session: messages go out and come in by requests to the gateway.

A request carries everything the client has to say and brings back everything there is for it. If
the client has nothing to say and is not done, nothing more will come: the run has failed.

A run that fails leaves nothing behind at the gateway, as far as that can be helped: the others are
told, after the error or in its place, and whether the caller still waits or not.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, NoReturn, Self, TypeVar

from mpcsim.crypto.encoding import NO_CONTEXT
from mpcsim.crypto.rng import Rng, SystemRng
from mpcsim.errors import Aborted, AbortReason, Consequence, InvalidEncoding, Reason
from mpcsim.ids import CLIENT, ROLES, PartyId
from mpcsim.protocols.engine import Done, Output, Party, Send, Waiting
from mpcsim.protocols.engine.channel import seal
from mpcsim.protocols.engine.envelope import ABORT_KIND, GIVEN_UP, AbortNotice, Envelope
from mpcsim.protocols.engine.outcome import Phase
from mpcsim.service.error_codes import Code
from mpcsim.service.rpc.signed_messages import authenticate
from node.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Limited,
    NotFound,
    Unauthorized,
    Upstream,
)
from node.process.timing import Timing
from node.process.workers import Workers

R = TypeVar("R")

Messages = tuple[bytes, ...]
Post = Callable[[Messages], Awaitable[Sequence[bytes]]]
"""Sends the client's messages; returns those for the client."""
OnCheat = Callable[[int], Awaitable[bool]]
"""Callback that has a key suspended, after a peer was caught in a way that must not be tried again;
it returns whether the gateway has taken note."""

FAREWELL_S: Final = 3.0
"""Seconds that notifying the others may take."""

_ADVICE: Final = {
    Consequence.RETRY: "try again",
    Consequence.BAN: "stop working with it",
    Consequence.BAN_AND_DISCARD_OT: "recover the key before it signs again",
}


class SessionAborted(ApiError):
    """500: a check failed at the client, or a peer says that one failed there."""

    def __init__(self, aborted: Aborted, suspended: bool | None) -> None:
        """
        Args:
            suspended: whether the gateway refuses the key from now on; None if it need not.
        """
        recover = (
            aborted.consequence is Consequence.BAN_AND_DISCARD_OT
            or aborted.reason is Reason.SETUP_DISCARDED
        )
        code = Code.SUSPENDED if recover else Code.ABORTED
        super().__init__(500, _abort_text(aborted, suspended), code)
        self.aborted = aborted


class SessionStuck(ApiError):
    """500: the client waits for messages, and the gateway has none."""

    def __init__(self, waiting: Waiting | None) -> None:
        super().__init__(500, _waiting_text(waiting), Code.ABORTED)


@dataclass(frozen=True)
class AbortHandling:
    """Consequences of an abort at the client."""

    suspend: OnCheat | None = None
    """Called before anyone hears of it."""
    counts: Counter[AbortReason] = field(default_factory=Counter)
    """Counter of aborts by reason."""
    rng: Rng = field(default_factory=SystemRng)
    """Seals the notices that tell the others."""


class ClientParty(Generic[R]):
    """The client's party in a session with MPC nodes. A context manager.

    Whoever leaves the context with an error while the session may be open lets the others know;
    this takes no time.
    """

    def __init__(
        self,
        party: Party[Any, R],
        exchange: Post,
        *,
        workers: Workers,
        timing: Timing,
        identities: Mapping[PartyId, bytes] = {},
        threaded: bool = False,
        check_token: Callable[[], None] = lambda: None,
        on_abort: AbortHandling | None = None,
    ) -> None:
        """
        Args:
            party: not yet started, or by ``PrestartedParty.party``.
            exchange: sends further messages of the session.
            identities: of those who sign what they do not seal.
            threaded: its steps take long: compute them in a thread.
            check_token: raises once the caller's token has expired. What comes after that is not
                looked at: a peer must not learn of it without a session that it is accountable in.
        """
        self._party = party
        self._exchange = exchange
        self._workers = workers
        self._timing = timing
        self._identities = identities
        self._threaded = threaded
        self._check_token = check_token
        self._on_abort = on_abort or AbortHandling()
        self._working: asyncio.Future[list[Output[R]]] | None = None
        self._open = False

    async def run(self, begin: Post, *, last_word: bool = True) -> R:
        """Start, and go on until done.

        Args:
            begin: sends the first messages; this opens the session.
            last_word: whether what the client says when it is done matters to anyone. To a signer
                it does not: it was done before.

        Raises:
            SessionAborted: a check failed.
            SessionStuck: no result, and nothing more to come.
            ApiError: the gateway's errors.
        """
        return await self._converse(await self._compute(self._party.start), begin, last_word)

    async def join(self, mail: Sequence[bytes], *, last_word: bool = True) -> R:
        """Go on in an open session in which the others have spoken; otherwise as ``run``.

        The party may have started already: then what they say answers its first messages.
        """
        self._open = True
        self._check_token()

        def start() -> list[Output[R]]:
            begun = self._party.phase is not Phase.NOT_STARTED
            return ([] if begun else self._party.start()) + self._receive_all(mail)

        outputs = await self._compute(start)
        return await self._converse(outputs, self._exchange, last_word, rounds=1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None and self._open:
            self._open = False
            self._workers.run_in_background(self._give_up())

    # ------------------------------------------------------------------ the conversation

    async def _converse(
        self, outputs: list[Output[R]], post: Post, last_word: bool, *, rounds: int = 0
    ) -> R:
        while True:
            messages = tuple(output.data for output in outputs if isinstance(output, Send))
            outcome = self._party.outcome
            if isinstance(outcome, Aborted):
                await self._abort(outcome, messages)
            if isinstance(outcome, Done) and not (messages and last_word):
                return outcome.result
            if not messages:
                raise SessionStuck(self._party.waiting_state())
            rounds += 1
            with self._timing.span(f"round{rounds}"):
                mail = await self._send(post, messages)
            self._check_token()
            post = self._exchange
            outputs = await self._compute(partial(self._receive_all, mail))

    async def _send(self, post: Post, messages: Messages) -> Sequence[bytes]:
        self._open = True
        try:
            return await post(messages)
        except ApiError as error:
            self._open = may_leave_open(error)
            raise

    async def _compute(self, work: Callable[[], list[Output[R]]]) -> list[Output[R]]:
        with self._timing.span("compute"):
            if not self._threaded:
                return work()
            self._working = self._workers.submit(work)
            return await asyncio.shield(self._working)

    def _receive_all(self, mail: Iterable[bytes]) -> list[Output[R]]:
        """Give the party its messages, without those that are no envelopes or not authentic."""
        outputs: list[Output[R]] = []
        for data in mail:
            with suppress(InvalidEncoding):
                if found := authenticate(data, self._identities):
                    outputs += self._party.receive(*found)
        return outputs

    # ------------------------------------------------------------------ bad ends

    async def _abort(self, aborted: Aborted, notices: Messages) -> NoReturn:
        self._open = False
        self._on_abort.counts[aborted.reason] += 1
        telling = self._workers.run_in_background(self._notify_others(aborted, notices))
        raise SessionAborted(aborted, await asyncio.shield(telling))

    async def _notify_others(self, aborted: Aborted, notices: Messages) -> bool | None:
        """Act on an abort, then tell the others; except whoever told us."""
        suspended = None
        if (
            aborted.consequence is Consequence.BAN_AND_DISCARD_OT
            and self._on_abort.suspend is not None
        ):
            suspended = await self._on_abort.suspend(min(aborted.culprits))
        notices = tuple(n for n in notices if Envelope.decode(n).receiver != aborted.reported_by)
        if notices:
            await _succeeds_in_time(self._exchange(notices))
        return suspended

    async def _give_up(self) -> None:
        if self._working is not None and not self._working.done():
            await asyncio.wait([self._working])
        party = self._party
        others = {j: party.pair_secrets.get(j) for j in party.participants if j != party.me}
        await give_up(
            self._exchange, party.definition.number, party.session_id, others, self._on_abort.rng
        )


def may_leave_open(error: BaseException) -> bool:
    """Return whether a session may be open at the gateway after this came of a request for it."""
    if isinstance(error, Upstream):
        return not 400 <= error.upstream_status < 500
    return not isinstance(error, (BadRequest, Unauthorized, NotFound, Conflict, Limited))


async def give_up(
    exchange: Post,
    protocol: int,
    session_id: bytes,
    others: Mapping[PartyId, bytes | None],
    rng: Rng,
) -> None:
    """Tell the others that the client gives up, though no check has failed; if it can be done.

    Args:
        protocol: number of the protocol's definition.
        others: the secret shared with each of them, where there is one.
    """
    notice = AbortNotice(GIVEN_UP).encode(NO_CONTEXT)
    messages = []
    for j, secret in others.items():
        plain = Envelope(protocol, ABORT_KIND, False, CLIENT, j, session_id, notice)
        messages.append(plain.encode())
        if secret is not None:
            # Who has not come as far as to have the secret takes the plain one, others this one.
            messages.append(seal(secret, replace(plain, sealed=True), notice, rng).encode())
    await _succeeds_in_time(exchange(tuple(messages)))


async def _succeeds_in_time(request: Awaitable[object]) -> bool:
    """Wait for a request for a while; whether it succeeded."""
    try:
        async with asyncio.timeout(FAREWELL_S):
            await request
    except (ApiError, TimeoutError):
        return False
    return True


# ---------------------------------------------------------------------- texts


def _name_parties(parties: Iterable[int]) -> str:
    return ", ".join(f"{i} ({ROLES.get(PartyId(i), 'unknown')})" for i in sorted(parties))


def _abort_text(aborted: Aborted, suspended: bool | None) -> str:
    if aborted.culprits:
        who = f"party {_name_parties(aborted.culprits)}"
    elif aborted.reported_by is not None:
        who = f"party {_name_parties([aborted.reported_by])}"
    elif aborted.suspects:
        who = f"one of parties {_name_parties(aborted.suspects)}"
    else:
        who = "nobody can be named"
    advice = _ADVICE[aborted.consequence]
    if aborted.reason is Reason.SETUP_DISCARDED:
        advice = "recover the key"
    detail = f" ({aborted.detail})" if aborted.detail else ""
    text = f"MPC session aborted {aborted.where}: {aborted.reason.text}{detail}; {who}; {advice}"
    if suspended is None:
        return text
    if suspended:
        return text + "; it is suspended until then"
    return text + "; this node refuses it until then, and tries to have it suspended"


def _waiting_text(waiting: Waiting | None) -> str:
    if waiting is None:
        return "MPC session ended without a result"
    silent = _name_parties(waiting.parties)
    text = f"MPC session ended {waiting.where} without a message from party {silent}"
    if waiting.unopened:
        text += f"; messages in the name of party {_name_parties(waiting.unopened)} do not open"
    for j, reason in waiting.gave_up.items():
        text += f"; party {_name_parties([j])} reports {reason}"
    return text
