"""How it is decided which shares of a user's key are in force; without any input or output.

Both MPC nodes *vote* for an epoch, and with both votes it is in force: nothing else decides, and
neither vote is ever taken back. A vote that stays alone is ended by an *abort*: the other node's
signature that it never votes for this epoch. Only on that signature does a node drop what it has
voted for, and only on both votes does it drop what is replaced. So whatever was lost on the way,
and whichever order things arrive in, the nodes do not part, and asking them again leads to an end.

One node that lies may vote for what it has signed the abort of, and show both votes when the other
has dropped its share. So what is new counts as in force only when both nodes have said themselves
that they have voted for it: neither is believed about the other.

``Decision`` holds what is known of both nodes, says what to ask them next, and what is in force.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mpcsim.errors import InvalidEncoding
from mpcsim.ids import MPC_NODES, PartyId
from mpcsim.service.errors import LinkFailed, NodeFailed, Refused, unintelligible_reply
from mpcsim.service.gateway.registry import RegisteredKey
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.activation_messages import (
    AbortEpoch,
    AbortEpochReply,
    ActivationState,
    DropShare,
    GetActivationState,
)
from mpcsim.service.rpc.grants import Scope
from mpcsim.service.rpc.statements import Abort, HeldShare, RecordError, SignedRecord, is_signed_by


@dataclass(frozen=True)
class Request:
    """Something to be asked of an MPC node."""

    party: PartyId
    scope: Scope
    body: wire.Body


@dataclass
class _Known:
    """What an MPC node has said."""

    standing: ActivationState | None = None
    votes: dict[bytes, SignedRecord] = field(default_factory=dict)
    """Its own, by epoch: each with its signature alone."""
    aborts: dict[bytes, bytes] = field(default_factory=dict)
    """Its signatures, by epoch."""
    holds: set[bytes] = field(default_factory=set)
    """Epochs that it says it has voted for, whether they are in force or not."""
    denied: set[bytes] = field(default_factory=set)
    """Epochs that it says it has nothing to do with: its word alone."""
    activated: set[bytes] = field(default_factory=set)
    """Epochs that it has put in force when told to."""

    @property
    def active(self) -> HeldShare | None:
        return self.standing.active if self.standing else None

    @property
    def voted(self) -> HeldShare | None:
        return self.standing.voted if self.standing else None

    def shares(self) -> list[HeldShare]:
        return [held for held in (self.active, self.voted) if held]


class Decision:
    """About one user's key on one curve.

    Ask what ``requests`` says, all at once, tell ``heard`` what came of each, and so on until there
    is nothing more to ask.
    """

    def __init__(
        self,
        user_id: str,
        curve: str,
        identities: Mapping[PartyId, bytes],
        registered: RegisteredKey | None,
        vote: wire.Activate | None = None,
        *,
        aborting: bool = True,
    ) -> None:
        """
        Args:
            identities: of the MPC nodes; what those that are missing sign is not believed.
            registered: what is in force as far as the registry knows.
            vote: what both nodes are to vote for; None: nothing new, only what is left to do.
            aborting: end votes that have stayed alone, too.
        """
        self._user_id = user_id
        self._curve = curve
        self._identities = identities
        self._registered = registered
        self.remembered = registered
        """What the registry says by now."""
        self._vote = vote
        self._aborting = aborting
        self._known = {party: _Known() for party in MPC_NODES}
        self._asked: set[tuple[PartyId, Scope]] = set()
        self.failures: list[Refused] = []
        """What the nodes have refused, and which have not answered, in the order of asking."""
        self.record: SignedRecord | None = None
        """What is in force; None: nothing."""
        if registered is not None and registered.record is not None:
            self._learn(SignedRecord.from_bytes(registered.record), None)

    # ------------------------------------------------------------------ asking

    def requests(self) -> list[Request]:
        """What to ask next; nothing twice."""
        steps = [self._votes, self._activations]
        if not self._made:
            steps = [self._votes, self._looks, self._aborts, self._drops, self._activations]
        for step in steps:
            todo = [r for r in step() if (r.party, r.scope) not in self._asked]
            if todo:
                self._asked |= {(r.party, r.scope) for r in todo}
                return todo
        return []

    def _votes(self) -> Iterator[Request]:
        if self._vote is not None:
            vote = self._vote
            scope = Scope("vote", self._user_id, vote.key_id, vote.session_id)
            for party in MPC_NODES:
                yield Request(party, scope, vote)

    def _looks(self) -> Iterator[Request]:
        for party in MPC_NODES:
            yield Request(
                party, self._scope("standing"), GetActivationState(self._user_id, self._curve)
            )

    def _activations(self) -> Iterator[Request]:
        if self.record is None:
            return
        epoch = self.record.record.epoch
        for party, known in self._known.items():
            done = known.active is not None and known.active.epoch == epoch
            if not done and (self._made or any(h.epoch == epoch for h in known.shares())):
                yield Request(party, self._scope("activate", epoch), self.record)

    def _aborts(self) -> Iterator[Request]:
        """Of votes that have stayed alone. A node is shown the other's, if that is known: it signs
        for nothing that neither of them holds."""
        if not self._aborting:
            return
        for epoch in self._open():
            just_made = self._vote is not None and self._vote.key_id == epoch
            votes = [k.votes[epoch] for k in self._known.values() if epoch in k.votes]
            body = AbortEpoch(Abort(self._user_id, self._curve, epoch), votes[0] if votes else None)
            for party, known in self._known.items():
                if known.standing and (votes or just_made) and epoch not in known.votes:
                    yield Request(party, self._scope("abort", epoch), body)

    def _drops(self) -> Iterator[Request]:
        for by, signer in self._known.items():
            for epoch, signature in signer.aborts.items():
                body = DropShare(Abort(self._user_id, self._curve, epoch), signature)
                for party, known in self._known.items():
                    if party != by and epoch in known.votes and known.standing is not None:
                        yield Request(party, self._scope("drop", epoch), body)

    def _scope(self, verb: str, epoch: bytes | None = None) -> Scope:
        return Scope(verb, self._user_id, epoch)

    # ------------------------------------------------------------------ hearing

    def heard(self, request: Request, answer: bytes | Refused) -> None:
        """What an MPC node has answered.

        Args:
            answer: ``LinkFailed``: it has not.
        """
        party = request.party
        if isinstance(answer, Refused):
            self.failures.append(answer)
            if isinstance(request.body, AbortEpoch) and not isinstance(answer, NodeFailed):
                self._known[party].denied.add(request.body.abort.epoch)
            return
        try:
            self._take_in(request, self._known[party], answer)
        except InvalidEncoding:
            self.failures.append(unintelligible_reply(party))

    def _take_in(self, request: Request, known: _Known, answer: bytes) -> None:
        party = request.party
        match request.body:
            case wire.Activate():
                self._learn(SignedRecord.from_bytes(answer), party)
            case GetActivationState():
                self.stands(party, ActivationState.from_bytes(answer))
            case AbortEpoch(abort=abort):
                ended = AbortEpochReply.from_bytes(answer)
                if ended.held is not None:
                    self._learn(ended.held.record, party)
                identity = self._identities.get(party, b"")
                genuine = ended.signature and is_signed_by(identity, abort, ended.signature)
                # A node signs one of the two: whichever is known first.
                if genuine and abort.epoch not in known.votes:
                    known.aborts[abort.epoch] = ended.signature or b""
            case SignedRecord() as signed:
                known.activated.add(signed.record.epoch)

    def stands(self, party: PartyId, standing: ActivationState) -> None:
        """What an MPC node says it holds; whoever only looks asks nothing else."""
        known = self._known[party]
        known.standing = standing
        for held in known.shares():
            self._learn(held.record, party)

    def _learn(self, signed: SignedRecord, by: PartyId | None) -> None:
        """A record, with whatever votes are genuine.

        Args:
            by: the node that says it holds it; None: the registry, to which both once did.
        """
        record = signed.record
        if (record.user_id, record.curve_name) != (self._user_id, self._curve):
            return
        for party, known in self._known.items():
            if record.epoch in known.aborts:
                continue
            if signed.has_vote_of(party, self._identities.get(party, b"")):
                known.votes.setdefault(record.epoch, signed.vote_of(party))
        if by is not None:
            if record.epoch in self._known[by].votes:
                self._known[by].holds.add(record.epoch)
            if any(record.epoch not in known.holds for known in self._known.values()):
                return
        one, other = (self._known[party].votes.get(record.epoch) for party in MPC_NODES)
        if one is None or other is None:
            return
        try:
            one.with_vote(other).check(self._identities)
        except (RecordError, KeyError):
            return
        if self._newer(record.public_key, record.number):
            self.record = one.with_vote(other)

    def _newer(self, public_key: bytes, number: int) -> bool:
        """Whether shares are newer than what is known to be in force, and of the same key."""
        known = self.record.record if self.record else None
        if known is not None:
            return public_key == known.public_key and number > known.number
        registered = self._registered
        return registered is None or (
            public_key == registered.public_key and number >= registered.recoveries
        )

    # ------------------------------------------------------------------ what it comes to

    @property
    def _made(self) -> bool:
        """Whether that which both were to vote for is in force."""
        return (
            self._vote is not None
            and self.record is not None
            and self.record.record.epoch == self._vote.key_id
        )

    def _open(self) -> list[bytes]:
        """Epochs that may come into force or not, in the order in which they are found."""
        found = [known.voted.epoch for known in self._known.values() if known.voted]
        if self._vote is not None:
            found.insert(0, self._vote.key_id)
        return [epoch for epoch in dict.fromkeys(found) if not self._decided(epoch)]

    def _decided(self, epoch: bytes) -> bool:
        if self.record is not None and self.record.record.epoch == epoch:
            return True
        known = self._known.values()
        # Only one of the two may lie.
        return any(epoch in k.aborts for k in known) or all(epoch in k.denied for k in known)

    @property
    def unanswered(self) -> LinkFailed | None:
        """The first request that was not answered."""
        return next((f for f in self.failures if isinstance(f, LinkFailed)), None)

    @property
    def to_remember(self) -> SignedRecord | None:
        """What is in force, if the registry does not know."""
        known = self.remembered.record if self.remembered else None
        if self.record is None or self.record.to_bytes() == known:
            return None
        return self.record

    def open(self, epoch: bytes) -> bool:
        """Whether an epoch may still come into force."""
        return epoch in self._open()

    @property
    def fits(self) -> bool:
        """Whether both nodes hold the shares that are in force."""
        if self.record is None:
            return self._registered is None and not any(k.active for k in self._known.values())
        epoch = self.record.record.epoch
        return all(
            epoch in known.activated or (known.active is not None and known.active.epoch == epoch)
            for known in self._known.values()
        )

    @property
    def alone(self) -> bool:
        """Whether a node has voted for what is neither in force nor aborted."""
        return any(k.voted and not self._decided(k.voted.epoch) for k in self._known.values())
