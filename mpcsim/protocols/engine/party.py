"""A party of a protocol as a sans-IO state machine.

``start()`` and ``receive(sender, data)`` return what the party sends and how it ends. ``receive``
never raises on anything a peer or a network can do.

Randomness comes from one 32-byte seed drawn at creation and hedged with a secret of the share, the
session and what it is about (``Definition.hedge``). So a party is a deterministic function of its
set-up, that seed and what it received: its snapshot is exactly those three, and resuming replays
them. Each round's randomness also depends on everything
its rounds were given by then: a copy that is rolled back and receives something else draws other
nonces (only what precedes the first message cannot be hedged this way).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from mpcsim.crypto.encoding import (
    NO_CONTEXT,
    Message,
    WireContext,
)
from mpcsim.crypto.hashing import Tag, tagged_hash, u32
from mpcsim.crypto.rng import SEED_BYTES, Drbg, Rng, SystemRng
from mpcsim.errors import (
    Aborted,
    CheckFailed,
    ContractError,
    Evidence,
    InvalidEncoding,
    OnReceipt,
    Reason,
    UsageError,
    Where,
    check_type,
    with_article,
)
from mpcsim.ids import SESSION_ID_BYTES, PartyId
from mpcsim.protocols.engine.channel import PeerSecrets, seal
from mpcsim.protocols.engine.contract import (
    NO_RESULT,
    Definition,
    Delivery,
    Inbox,
    Round,
    RoundOutput,
    Sends,
    View,
    place_of,
    wrong_secret,
)
from mpcsim.protocols.engine.envelope import (
    ABORT_KIND,
    HEADER_BYTES,
    UNKNOWN,
    AbortNotice,
    Envelope,
)
from mpcsim.protocols.engine.events import (
    Ignored,
    Listener,
    MessageIgnored,
    MessageReceived,
    MessageSent,
    PartyAborted,
    PartyDone,
    PartyStarted,
    silent,
    step,
)
from mpcsim.protocols.engine.outcome import (
    Done,
    Output,
    Phase,
    Prepared,
    Send,
    Waiting,
    judge,
)
from mpcsim.protocols.engine.randomness import hedged_seed, round_rng
from mpcsim.protocols.engine.snapshot import Snapshot
from mpcsim.protocols.key_share import KeyShare

S = TypeVar("S", bound=Message)
R = TypeVar("R")

MAX_UNOPENED = 4
"""Messages of a kind and sender kept before they can be opened or the party has started. More than
one, so that a few forged ones cannot take the place of the real one (it can be sent again)."""


class Party(Generic[S, R]):
    """Party of a session: a state machine that runs the rounds of its protocol.

    Its life, in the order of this class: ``start`` runs the first round; ``receive`` accepts a
    message (open, decode, keep) and runs every round whose messages are all there; the last round,
    or a check that fails, ends it. ``Phase`` has the table of what becomes of which message when.

    ==============  ==========================================  ==================================
    buffer          holds                                       bound
    ==============  ==========================================  ==================================
    ``inbox``       accepted messages, decoded                  one a kind and sender
    ``_log``        accepted envelopes, for a snapshot          one a kind and sender; a notice
    ``_log``        envelopes that came before the start        ``MAX_UNOPENED`` a kind and sender
    ``_unopened``   envelopes that no secret opens yet          ``MAX_UNOPENED`` a kind and sender
    ==============  ==========================================  ==================================

    An envelope is at most ``Definition.largest`` bytes long.
    """

    def __init__(
        self,
        definition: Definition[S, R],
        setup: S,
        me: int,
        *,
        session_id: bytes,
        rng: Rng | None = None,
        listener: Listener = silent,
        _seed: bytes | None = None,
    ) -> None:
        """Create the party; nothing is sent before ``start``.

        Args:
            session_id: 32 bytes that name the session, the same for all its parties, never used
                again. No secret is at stake if one repeats, every party adds randomness of its
                own; but messages of the earlier session may then be mistaken for ones of this.

        Raises:
            UsageError: the session id has the wrong length, the set-up makes no sense, or ``me``
                takes no part.
        """
        check_type("me", me, int)
        check_type("session_id", session_id, bytes)
        if len(session_id) != SESSION_ID_BYTES:
            raise UsageError(f"session id of {len(session_id)} bytes, expected {SESSION_ID_BYTES}")
        self.definition = definition
        self.setup = setup
        self.me = PartyId(me)
        self.session_id = session_id
        self.listener = listener

        # Fixed for the session.
        rng = rng or SystemRng()
        self.reproducible = rng.reproducible
        definition.check_setup(setup, self.me)
        self._roles = definition.roles_of(setup)
        if self.me not in self._roles["all"]:
            raise UsageError(f"party {me} takes no part in this {definition.name} session")
        self._seed = _seed or hedged_seed(
            rng.bytes(SEED_BYTES), definition, self.me, session_id, *definition.hedge(setup)
        )
        self._root = Drbg(self._seed)
        self._kinds = definition.kinds()
        self._senders = {sends.message: self._senders_to_me(sends) for _, sends in self._kinds}
        """Parties that a message of each kind comes from."""
        self._first = {sends.message for sends in definition.rounds[0].sends}
        """Kinds of the first round."""
        wire = definition.wire(setup)
        if wire is NO_CONTEXT:
            definition.check_no_context()
        self._view: View[S] = View(
            setup, self.me, session_id, self._root, self._roles, wire, self._step
        )

        # Progress.
        self.phase = Phase.NOT_STARTED
        self.outcome: Done[R] | Aborted | None = None
        """End of the run, or None while it goes on."""
        self.keep: Any = None
        """State kept from the last round; secrets in it do not show in its repr."""
        self._position = 0
        """Index of the round that runs next."""
        self._started = False
        """Whether the first round has run."""
        self._received = b""
        """Digest of everything that rounds were given."""

        # Messages.
        self.inbox = Inbox()
        self._log: list[tuple[PartyId, bytes]] = []
        """Sender and envelope of each accepted message; before the start, of each that came."""
        self._unopened: list[tuple[PartyId, bytes]] = []
        """Sender and envelope of messages that may open once the parties have agreed on secrets."""
        secrets = definition.pair_secrets(setup)
        if wrong := wrong_secret(secrets):
            raise ContractError(f"{place_of(definition.pair_secrets)}: {wrong}")
        self._secrets = PeerSecrets(
            secrets,
            partial(definition.early_secrets, setup),
            self._roles.get(definition.identified, ()),
        )
        self._gave_up: dict[PartyId, str] = {}
        """Reasons of peers that reported an abort after this party was prepared."""

    # ------------------------------------------------------------------ public views

    @property
    def participants(self) -> tuple[PartyId, ...]:
        """Participants of the session, this party included."""
        return self._roles["all"]

    @property
    def share(self) -> KeyShare | None:
        """Key share that the session began with; None where it uses none. SECRET."""
        share: KeyShare | None = getattr(self.setup, "share", None)
        return share

    @property
    def wire(self) -> WireContext:
        """Context that messages of this session are encoded and decoded with. Public data."""
        return self._view.wire

    @property
    def pair_secrets(self) -> Mapping[PartyId, bytes]:
        """End-to-end secrets in force now, by peer.

        SECRET: with one, anybody reads and forges the messages between the two parties.
        """
        return MappingProxyType(self._secrets.in_force)

    # ------------------------------------------------------------------ starting and receiving

    def start(self) -> list[Output[R]]:
        """Run the first round.

        Raises:
            UsageError: the party has already started; or the first round does not run, and the
                party is over.
        """
        if self.phase is not Phase.NOT_STARTED:
            raise UsageError("this party has already started")
        try:
            return self._start()
        except BaseException:
            self._end()
            raise

    def _start(self) -> list[Output[R]]:
        self.listener(PartyStarted(self.me, self.definition.name, self.reproducible))
        to_agree = any(not sends.sealed for _, sends in self._kinds)
        self.phase = Phase.AGREEING if to_agree else Phase.SEALED
        outputs = self._advance()
        early, self._log = self._log, []
        for sender, data in early:
            outputs += self.receive(sender, data)
        return outputs

    def receive(self, sender: int, data: bytes) -> list[Output[R]]:
        """Take one message from the transport.

        Args:
            sender: who the transport says it is from.
            data: an envelope.

        Returns:
            What to do next; empty if the message changes nothing yet. Late, duplicate, foreign and
            forged messages are ignored, early ones kept (before ``start``, too).
        """
        if self.phase is Phase.OVER:
            return self._ignore(sender, Ignored.OVER, data)
        try:
            envelope = Envelope.decode(data)
        except InvalidEncoding:
            return self._ignore(sender, Ignored.NO_ENVELOPE, data)
        if len(data) > self.definition.largest:
            return self._ignore(sender, Ignored.TOO_LARGE, data)
        if why := self._reason_to_ignore(PartyId(sender), envelope):
            return self._ignore(sender, why, data)
        if self.phase is Phase.NOT_STARTED:
            self._keep(self._log, envelope.sender, data)
            return []
        outputs: list[Output[R]] = []
        try:
            if self._accept_or_abort(envelope, data, outputs):
                outputs += self._advance()
        except BaseException:
            self._end()
            raise
        return outputs

    def _end(self) -> None:
        """End the party after an exception of a round or a listener: half of a step may be done,
        and a round that ran twice could use its nonces twice."""
        self.phase = Phase.OVER
        self._unopened.clear()

    def kind_of(self, data: bytes) -> str:
        """Return the kind of message that an envelope claims to hold; empty if it is unknown."""
        number = data[2] if len(data) >= HEADER_BYTES else 0
        if number == ABORT_KIND:
            return AbortNotice.__name__
        return self._kinds[number - 1][1].kind if 1 <= number <= len(self._kinds) else ""

    def waiting_state(self) -> Waiting | None:
        """Return whom the party waits for, or None if it is done, aborted or not started."""
        if self.phase in (Phase.NOT_STARTED, Phase.OVER):
            return None
        round_ = self._next_round
        missing = {kind.__name__: who for kind in round_.needs if (who := self._missing(kind))}
        unopened = frozenset(self._secrets.unopened)
        return Waiting(round_.number, round_.name, missing, unopened, dict(self._gave_up))

    # ------------------------------------------------------------------ pause and resume

    def snapshot(self) -> bytes:
        """Return everything needed to go on later, elsewhere.

        Secret (it holds the set-up and the seed). Two runs from one point that receive different
        messages give the key away, just as a nonce used twice does. So a driver that stores
        snapshots must, after every ``start`` and ``receive``, replace the stored one *before*
        delivering any output, and take it out of the store when resuming it.
        """
        return Snapshot(
            self.definition.number,
            self._started,
            self._ended_by_guard(),
            self.me,
            self.session_id,
            self._seed,
            self.setup.encode(NO_CONTEXT),
            self._log + self._unopened,
        ).to_bytes()

    @classmethod
    def resume(
        cls,
        definition: Definition[S, R],
        data: bytes,
        *,
        share: KeyShare | None = None,
        listener: Listener = silent,
    ) -> tuple[Party[S, R], list[Output[R]]]:
        """Rebuild a party from its snapshot.

        Args:
            share: the key share as it is stored *now*, for protocols that use state of it which
                other sessions may have discarded since (``ecdsa``). What was done is replayed as
                it was; what was discarded is not used again.

        Returns:
            The party, and everything it has put out so far: deliver it again if in doubt whether
            it arrived; receivers ignore duplicates.

        Raises:
            InvalidEncoding: not a snapshot of this protocol.
            UsageError: the protocol needs the share, and it is missing or another.
        """
        kept = Snapshot.from_bytes(data, definition.number)
        setup = definition.setup.decode(kept.setup, NO_CONTEXT)
        setup = definition.adapt(setup, share)
        try:
            party = cls(
                definition,
                setup,
                kept.me,
                session_id=kept.session_id,
                listener=listener,
                _seed=kept.seed,
            )
        except UsageError as error:
            raise InvalidEncoding(f"snapshot: {error}") from error
        party._view.recall = not kept.refused
        outputs = party.start() if kept.started else []
        for sender, message in kept.log:
            outputs += party.receive(sender, message)
        party._view.recall = None
        return party, outputs

    def _ended_by_guard(self) -> bool:
        """Return whether the share's guard ended it, which a replay cannot find out by itself."""
        outcome = self.outcome
        return (
            isinstance(outcome, Aborted)
            and outcome.reason is Reason.SETUP_DISCARDED
            and outcome.reported_by is None
        )

    @property
    def _next_round(self) -> Round:
        return self.definition.rounds[self._position]

    # ------------------------------------------------------------------ acceptance

    def _reason_to_ignore(self, sender: PartyId, envelope: Envelope) -> Ignored | None:
        """Return why a message is not for this session, or None; cheap checks only."""
        if envelope.sender != sender:
            return Ignored.ANOTHER_SENDER
        if envelope.session_id != self.session_id or envelope.protocol != self.definition.number:
            return Ignored.ANOTHER_SESSION
        if envelope.receiver != self.me or sender == self.me or sender not in self._roles["all"]:
            return Ignored.NOT_PARTICIPANTS
        if envelope.kind == ABORT_KIND:
            if sender in self._secrets.sealing and not envelope.sealed:
                return Ignored.SEALING
            return None
        if not 1 <= envelope.kind <= len(self._kinds):
            return Ignored.UNKNOWN_KIND
        sends = self._kinds[envelope.kind - 1][1]
        if envelope.sealed != self._is_sealed(sends, sender):
            return Ignored.SEALING
        if sender not in self._roles[sends.senders] or self.me not in self._roles[sends.receivers]:
            return Ignored.WRONG_WAY
        return None

    def _accept_or_abort(self, envelope: Envelope, data: bytes, outputs: list[Output[R]]) -> bool:
        """Accept one message; return False if that ended the run."""
        try:
            self._accept(envelope, data)
        except CheckFailed as failed:
            outputs += self._abort(failed, OnReceipt(envelope.sender, self.kind_of(data)))
            return False
        return True

    def _accept(self, envelope: Envelope, data: bytes) -> None:
        """Take a message; ``data`` is the envelope as it came."""
        sender, payload, early = envelope.sender, envelope.body, False
        if envelope.sealed:
            opened = self._open(envelope)
            if opened is None and self._is_first_message(envelope):
                opened = self._secrets.open_early(envelope)
                early = opened is not None
            if opened is None and self._may_open_later(envelope):
                self._keep(self._unopened, sender, data)
                return
            if opened is None:
                self._secrets.unopened.add(sender)
                self._ignore(sender, Ignored.DOES_NOT_OPEN, data)
                return
            payload = opened
        if envelope.kind == ABORT_KIND:
            if sender in self._gave_up:
                self._ignore(sender, Ignored.DUPLICATE, data)
                return
            self._log.append((sender, data))
            self._accept_notice(sender, payload)
            return
        round_, sends = self._kinds[envelope.kind - 1]
        seen = self.inbox.payloads.setdefault(sends.message, {})
        if seen.get(sender) == payload:
            self._ignore(sender, Ignored.DUPLICATE, data)
            return
        current = self._next_round
        late = self.phase is Phase.PREPARED or round_.number < current.number - 1
        if sender in seen and late:
            self._ignore(sender, Ignored.LATE_VARIANT, data)
            return
        self._log.append((sender, data))
        if early:
            self._secrets.unproven.add(sender)
        if sender in seen:
            # Not proof of bad will: a peer that lost its state and started again does the same.
            raise CheckFailed(
                Reason.CONFLICTING_MESSAGE,
                suspects={sender},
                detail=f"{sends.kind} of round {round_.number}",
                evidence=[Evidence(sender, sends.kind, payload)],
            )
        seen[sender] = payload
        try:
            message = sends.message.decode(payload, self._view.wire)
        except InvalidEncoding as error:
            raise CheckFailed(
                Reason.MALFORMED_MESSAGE, {sender}, detail=f"{sends.kind}: {error}"
            ) from None
        self.inbox.values.setdefault(sends.message, {})[sender] = message
        if self.listener is not silent:
            self.listener(
                MessageReceived(
                    sender,
                    self.me,
                    self.definition.name,
                    round_.number,
                    sends.kind,
                    len(data),
                    early=sends.message not in current.needs,
                )
            )

    def _open(self, envelope: Envelope) -> bytes | None:
        """Return the payload, if the right secret shared with the sender opens it.

        ===================  ===============================  =================================
        message              while the parties agree          afterwards
        ===================  ===============================  =================================
        always sealed        none does: kept                  the secret in force
        sealed if it can be  the initial secret               the one in force, or the initial
        notice of an abort   the initial secret; else: kept   the one in force, or the initial
        ===================  ===============================  =================================

        Signers have their secrets from the start: the initial ones are in force. A message of the
        first round may have been sealed by a peer that did not have its share yet, too
        (``PeerSecrets.open_early``).
        """
        if envelope.kind == ABORT_KIND or not self._kinds[envelope.kind - 1][1].sealed:
            return self._secrets.open(envelope, current=True, initial=True)
        current = self.phase is not Phase.AGREEING
        return self._secrets.open(envelope, current=current, initial=False)

    def _is_first_message(self, envelope: Envelope) -> bool:
        first = self.definition.rounds[0]
        return envelope.kind != ABORT_KIND and self._kinds[envelope.kind - 1][0] is first

    def _may_open_later(self, envelope: Envelope) -> bool:
        """Return whether it may be sealed with a secret that the parties are still to agree on."""
        always = envelope.kind == ABORT_KIND or self._kinds[envelope.kind - 1][1].sealed
        return always and self.phase is Phase.AGREEING

    def _keep(self, kept: list[tuple[PartyId, bytes]], sender: PartyId, data: bytes) -> None:
        """Keep a message that cannot be judged yet, once, and ``MAX_UNOPENED`` of a kind."""
        alike = [d for s, d in kept if s == sender and self.kind_of(d) == self.kind_of(data)]
        if data in alike:
            self._ignore(sender, Ignored.DUPLICATE, data)
        elif len(alike) == MAX_UNOPENED:
            self._ignore(sender, Ignored.TOO_MANY, data)
        else:
            kept.append((sender, data))

    def _accept_notice(self, sender: PartyId, payload: bytes) -> None:
        try:
            said = AbortNotice.decode(payload, self._view.wire).reason
            said = said if self.definition.knows_reason(said) else UNKNOWN
        except InvalidEncoding as error:
            if self.phase is Phase.PREPARED:
                self._gave_up[sender] = UNKNOWN
                return
            raise CheckFailed(
                Reason.MALFORMED_MESSAGE,
                {sender},
                detail=f"AbortNotice: {error}",
                evidence=[Evidence(sender, AbortNotice.__name__, payload)],
            ) from None
        if self.phase is Phase.PREPARED:
            # Another party may already be done: only confirmations decide now.
            self._gave_up[sender] = said
            return
        raise CheckFailed(
            Reason.PEER_ABORTED,
            about={sender},
            detail=f"party {sender} reports {said}",
            reported_by=sender,
        )

    # ------------------------------------------------------------------ rounds

    def _senders_to_me(self, sends: Sends) -> frozenset[PartyId]:
        if self.me not in self._roles[sends.receivers]:
            return frozenset()
        return frozenset(self._roles[sends.senders]) - {self.me}

    def _missing(self, kind: type[Message]) -> frozenset[PartyId]:
        return self._senders[kind] - self.inbox.values.get(kind, {}).keys()

    def _advance(self) -> list[Output[R]]:
        """Run every round whose messages are all there; open kept ones once secrets are agreed."""
        outputs: list[Output[R]] = []
        while self.phase is not Phase.OVER:
            round_ = self._next_round
            if not any(map(self._missing, round_.needs)):
                self._run(round_, outputs)
            elif self._unopened and self.phase is not Phase.AGREEING:
                _, data = self._unopened.pop(0)
                self._accept_or_abort(Envelope.decode(data), data, outputs)
            else:
                break
        return outputs

    def _run(self, round_: Round, outputs: list[Output[R]]) -> None:
        """Run one round and put out what it sends."""
        self._digest_inputs(round_)
        self._confirm_senders(round_)
        self._view.rng = round_rng(self._root, round_, self._received)
        try:
            with self._step(round_.name):
                output = round_.run(self._view, self.keep, self.inbox)
        except CheckFailed as failed:
            self._started = True
            if not self.definition.knows_reason(failed.reason.name):
                own = type(failed.reason).__name__
                raise round_.broken(
                    f"it aborts for {failed.reason.name}, and the definition has no reasons={own}"
                ) from None
            outputs += self._abort(failed, round_.where)
            return
        self._started = True
        if not isinstance(output, RoundOutput):
            raise round_.broken(f"it returned {type(output).__name__}, not RoundOutput")
        self.keep = output.keep
        if output.pair_secrets:
            if wrong := wrong_secret(output.pair_secrets):
                raise round_.broken(wrong)
            self._secrets.in_force.update(output.pair_secrets)
            self.phase = Phase.SEALED
        if output.phase_one_over:
            self.phase = Phase.PREPARED
        if output.prepared is not None:
            outputs.append(Prepared(output.prepared))
        outputs += self._send(round_, output)
        is_last = self._position + 1 == len(self.definition.rounds)
        if is_last is (output.result is NO_RESULT):
            raise round_.broken(
                "it is the last round and says no result: result=None, if a party has none"
                if is_last
                else "it has a result, which the last round alone gives"
            )
        if is_last:
            self.phase, self.outcome = Phase.OVER, Done(output.result)
            outputs.append(self.outcome)
            self.listener(PartyDone(self.me, self.definition.name))
        else:
            self._position += 1

    def _digest_inputs(self, round_: Round) -> None:
        """Add what a round is given to the digest of all that rounds were given."""
        parts = [self._received]
        for kind in round_.needs:
            payloads = self.inbox.payloads.get(kind, {})
            for j in sorted(payloads):
                parts += [kind.__name__.encode(), u32(j), payloads[j]]
        self._received = tagged_hash(Tag.RECEIVED, *parts)

    def _confirm_senders(self, round_: Round) -> None:
        """Note which peers have sealed a message that a round is given, after their first one.

        Such a round first compares what its sender and this party take the first messages to be.
        """
        for kind in round_.needs:
            if kind not in self._first:
                self._secrets.unproven -= self._senders[kind]

    def _is_sealed(self, sends: Sends, peer: PartyId) -> bool:
        """Return whether messages of that kind to or from the peer are sealed."""
        return sends.sealed or peer in self._secrets.initial

    def _send(self, round_: Round, output: RoundOutput) -> list[Output[R]]:
        """Return the messages of a round.

        Raises:
            ContractError: they are not those that it declares.
        """
        outputs: list[Output[R]] = []
        is_declared, undeclared = False, {*output.direct}
        for number, (of, sends) in enumerate(self._kinds, start=1):
            if of is not round_ or self.me not in self._roles[sends.senders]:
                continue
            said: bytes | None = None
            kind = sends.kind
            if sends.delivery is Delivery.BROADCAST:
                if not isinstance(output.broadcast, sends.message):
                    raise round_.broken(f"party {self.me} did not broadcast the {kind} declared")
                is_declared = True
                self.inbox.own[sends.message] = (self.me, output.broadcast)
                said = output.broadcast.encode(self._view.wire)
            else:
                undeclared -= {*self._roles[sends.receivers]} - {self.me}
            for j in self._roles[sends.receivers]:
                if j == self.me:
                    continue
                payload = said
                if payload is None:
                    message = output.direct.get(j)
                    if not isinstance(message, sends.message):
                        raise round_.broken(
                            f"party {self.me} sent party {j} no {kind}, as declared"
                        )
                    payload = message.encode(self._view.wire)
                sealed = self._is_sealed(sends, j)
                if sealed and j not in self._secrets.in_force:
                    raise round_.broken(
                        f"{kind} is declared sealed, and there is no secret with party {j}: say "
                        "sealed=False, or have pair_secrets"
                    )
                data = self._pack(number, j, payload, sealed=sealed)
                outputs.append(Send(j, data, kind, round_.number))
                if self.listener is not silent:
                    self.listener(
                        MessageSent(
                            self.me, j, self.definition.name, round_.number, kind, len(data)
                        )
                    )
        if output.broadcast is not None and not is_declared:
            kind = type(output.broadcast).__name__
            raise round_.broken(
                f"party {self.me} broadcast {with_article(kind)}, and declares none"
            )
        if self.me in undeclared:
            raise round_.broken(f"party {self.me} sent itself a message: what it needs it keeps")
        if undeclared:
            to = ", ".join(map(str, sorted(undeclared)))
            raise round_.broken(
                f"party {self.me} sent messages of their own to {to}, and declares none"
            )
        return outputs

    def _pack(self, kind: int, to: PartyId, payload: bytes, *, sealed: bool) -> bytes:
        envelope = Envelope(
            self.definition.number, kind, sealed, self.me, to, self.session_id, payload
        )
        if sealed:
            envelope = seal(self._secrets.in_force[to], envelope, payload, self._view.rng)
        return envelope.encode()

    # ------------------------------------------------------------------ endings and events

    def _abort(self, failed: CheckFailed, where: Where) -> list[Output[R]]:
        received = (
            Evidence(sender, kind.__name__, payload)
            for kind, payloads in self.inbox.payloads.items()
            for sender, payload in payloads.items()
        )
        aborted = judge(
            failed,
            where,
            self.me,
            received,
            unproven=self._secrets.unproven,
            authenticated=self._secrets.authenticated,
            prepared=self.phase is Phase.PREPARED,
        )
        self.phase, self.outcome = Phase.OVER, aborted
        # First of all: the driver must act on the consequence before anything is sent.
        outputs: list[Output[R]] = [aborted]
        self._unopened.clear()
        notice = AbortNotice(failed.reason.name).encode(self._view.wire)
        self._view.rng = self._root.fork(f"abort {failed.reason.name}")
        for j in self._view.others():
            data = self._pack(ABORT_KIND, j, notice, sealed=j in self._secrets.in_force)
            outputs.append(Send(j, data, AbortNotice.__name__, 0))
        self.listener(PartyAborted(self.me, self.definition.name, aborted))
        return outputs

    def _ignore(self, sender: int, why: Ignored, data: bytes) -> list[Output[R]]:
        protocol, kind = self.definition.name, self.kind_of(data)
        self.listener(MessageIgnored(sender, self.me, protocol, kind, why, len(data)))
        return []

    def _step(self, name: str) -> AbstractContextManager[None]:
        number = self.definition.rounds[self._position].number
        return step(self.listener, self.me, self.definition.name, number, name)

    def __repr__(self) -> str:
        state = self.outcome or self.waiting_state() or "not started"
        return f"Party<{self.definition.name}, {self.me}, {state}>"
