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
from mpcsim.service.errors import LinkFailed, NodeFailed, Refused, unintelligible
from mpcsim.service.gateway.registry import RegisteredKey
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.grants import Scope
from mpcsim.service.rpc.standing import Ask, Drop, End, Ended, Standing
from mpcsim.service.rpc.statements import Abort, Held, RecordError, SignedRecord, signed_by


@dataclass(frozen=True)
class Request:
    """Something to be asked of an MPC node."""

    party: PartyId
    scope: Scope
    body: wire.Body


@dataclass
class _NodeState:
    """What an MPC node has said."""

    state: Standing | None = None
    votes: dict[bytes, SignedRecord] = field(default_factory=dict)
    """Its own, by epoch: each with its signature alone."""
    aborts: dict[bytes, bytes] = field(default_factory=dict)
    """Its signatures, by epoch."""
    claimed_votes: set[bytes] = field(default_factory=set)
    """Epochs that it says it has voted for, whether they are in force or not."""
    refused_aborts: set[bytes] = field(default_factory=set)
    """Epochs that it says it has nothing to do with: its word alone."""
    activated: set[bytes] = field(default_factory=set)
    """Epochs that it has put in force when told to."""

    @property
    def active(self) -> Held | None:
        return self.state.active if self.state else None

    @property
    def voted(self) -> Held | None:
        return self.state.voted if self.state else None

    def shares(self) -> list[Held]:
        return [held for held in (self.active, self.voted) if held]


class Decision:
    """About one user's key on one curve.

    Ask what ``requests`` says, all at once, tell ``take_answer`` what came of each, and so on until
    there is nothing more to ask.
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
        self.stored_key = registered
        """What the registry says by now."""
        self._vote = vote
        self._aborting = aborting
        self._nodes = {party: _NodeState() for party in MPC_NODES}
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
        steps = [self._vote_requests, self._activation_requests]
        if not self._is_made:
            steps = [
                self._vote_requests,
                self._state_requests,
                self._abort_requests,
                self._drop_requests,
                self._activation_requests,
            ]
        for step in steps:
            todo = [r for r in step() if (r.party, r.scope) not in self._asked]
            if todo:
                self._asked |= {(r.party, r.scope) for r in todo}
                return todo
        return []

    def _vote_requests(self) -> Iterator[Request]:
        if self._vote is not None:
            vote = self._vote
            scope = Scope("vote", self._user_id, vote.key_id, vote.session_id)
            for party in MPC_NODES:
                yield Request(party, scope, vote)

    def _state_requests(self) -> Iterator[Request]:
        for party in MPC_NODES:
            yield Request(party, self._scope("standing"), Ask(self._user_id, self._curve))

    def _activation_requests(self) -> Iterator[Request]:
        if self.record is None:
            return
        epoch = self.record.record.epoch
        for party, known in self._nodes.items():
            done = known.active is not None and known.active.epoch == epoch
            if not done and (self._is_made or any(h.epoch == epoch for h in known.shares())):
                yield Request(party, self._scope("activate", epoch), self.record)

    def _abort_requests(self) -> Iterator[Request]:
        """Of votes that have stayed alone. A node is shown the other's, if that is known: it signs
        for nothing that neither of them holds."""
        if not self._aborting:
            return
        for epoch in self._open_epochs():
            just_made = self._vote is not None and self._vote.key_id == epoch
            votes = [k.votes[epoch] for k in self._nodes.values() if epoch in k.votes]
            body = End(Abort(self._user_id, self._curve, epoch), votes[0] if votes else None)
            for party, known in self._nodes.items():
                if known.state and (votes or just_made) and epoch not in known.votes:
                    yield Request(party, self._scope("abort", epoch), body)

    def _drop_requests(self) -> Iterator[Request]:
        for by, signer in self._nodes.items():
            for epoch, signature in signer.aborts.items():
                body = Drop(Abort(self._user_id, self._curve, epoch), signature)
                for party, known in self._nodes.items():
                    if party != by and epoch in known.votes and known.state is not None:
                        yield Request(party, self._scope("drop", epoch), body)

    def _scope(self, verb: str, epoch: bytes | None = None) -> Scope:
        return Scope(verb, self._user_id, epoch)

    # ------------------------------------------------------------------ hearing

    def take_answer(self, request: Request, answer: bytes | Refused) -> None:
        """What an MPC node has answered.

        Args:
            answer: ``LinkFailed``: it has not.
        """
        party = request.party
        if isinstance(answer, Refused):
            self.failures.append(answer)
            if isinstance(request.body, End) and not isinstance(answer, NodeFailed):
                self._nodes[party].refused_aborts.add(request.body.abort.epoch)
            return
        try:
            self._apply_answer(request, self._nodes[party], answer)
        except InvalidEncoding:
            self.failures.append(unintelligible(party))

    def _apply_answer(self, request: Request, known: _NodeState, answer: bytes) -> None:
        party = request.party
        match request.body:
            case wire.Activate():
                self._learn(SignedRecord.from_bytes(answer), party)
            case Ask():
                self.take_state(party, Standing.from_bytes(answer))
            case End(abort=abort):
                ended = Ended.from_bytes(answer)
                if ended.held is not None:
                    self._learn(ended.held.record, party)
                identity = self._identities.get(party, b"")
                genuine = ended.signature and signed_by(identity, abort, ended.signature)
                # A node signs one of the two: whichever is known first.
                if genuine and abort.epoch not in known.votes:
                    known.aborts[abort.epoch] = ended.signature or b""
            case SignedRecord() as signed:
                known.activated.add(signed.record.epoch)

    def take_state(self, party: PartyId, state: Standing) -> None:
        """What an MPC node says it holds; whoever only looks asks nothing else."""
        known = self._nodes[party]
        known.state = state
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
        for party, known in self._nodes.items():
            if record.epoch in known.aborts:
                continue
            if signed.voted(party, self._identities.get(party, b"")):
                known.votes.setdefault(record.epoch, signed.vote_of(party))
        if by is not None:
            if record.epoch in self._nodes[by].votes:
                self._nodes[by].claimed_votes.add(record.epoch)
            if any(record.epoch not in known.claimed_votes for known in self._nodes.values()):
                return
        one, other = (self._nodes[party].votes.get(record.epoch) for party in MPC_NODES)
        if one is None or other is None:
            return
        try:
            one.with_vote(other).check(self._identities)
        except (RecordError, KeyError):
            return
        if self._is_newer(record.public_key, record.number):
            self.record = one.with_vote(other)

    def _is_newer(self, public_key: bytes, number: int) -> bool:
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
    def _is_made(self) -> bool:
        """Whether that which both were to vote for is in force."""
        return (
            self._vote is not None
            and self.record is not None
            and self.record.record.epoch == self._vote.key_id
        )

    def _open_epochs(self) -> list[bytes]:
        """Epochs that may come into force or not, in the order in which they are found."""
        found = [known.voted.epoch for known in self._nodes.values() if known.voted]
        if self._vote is not None:
            found.insert(0, self._vote.key_id)
        return [epoch for epoch in dict.fromkeys(found) if not self._is_decided(epoch)]

    def _is_decided(self, epoch: bytes) -> bool:
        if self.record is not None and self.record.record.epoch == epoch:
            return True
        known = self._nodes.values()
        # Only one of the two may lie.
        return any(epoch in k.aborts for k in known) or all(
            epoch in k.refused_aborts for k in known
        )

    @property
    def first_link_failure(self) -> LinkFailed | None:
        """The first request that was not answered."""
        return next((f for f in self.failures if isinstance(f, LinkFailed)), None)

    @property
    def record_to_store(self) -> SignedRecord | None:
        """What is in force, if the registry does not know."""
        known = self.stored_key.record if self.stored_key else None
        if self.record is None or self.record.to_bytes() == known:
            return None
        return self.record

    def is_open(self, epoch: bytes) -> bool:
        """Whether an epoch may still come into force."""
        return epoch in self._open_epochs()

    @property
    def is_consistent(self) -> bool:
        """Whether both nodes hold the shares that are in force."""
        if self.record is None:
            return self._registered is None and not any(k.active for k in self._nodes.values())
        epoch = self.record.record.epoch
        return all(
            epoch in known.activated or (known.active is not None and known.active.epoch == epoch)
            for known in self._nodes.values()
        )

    @property
    def has_lone_vote(self) -> bool:
        """Whether a node has voted for what is neither in force nor aborted."""
        return any(k.voted and not self._is_decided(k.voted.epoch) for k in self._nodes.values())
