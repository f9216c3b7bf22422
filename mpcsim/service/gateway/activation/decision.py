"""Atomic activation of a key: two-phase commit with signed votes and an untrusted coordinator.

Participants
    O, I   the MPC nodes of operator and institution: each has a durable store and an identity key
    G      the gateway: coordinates; may crash, replay, drop or lie, and is never believed

Messages in order; [...] is durable at the sender before the message leaves
    1   G -> O, I    [the call's Idempotency-Key] vote(session, epoch), when the client says that
                     it holds its share
    2   O, I -> G    [VOTED] signature over the key record (user, curve, public key, epoch,
                     predecessor, number, public shares, identities), the head of the node's log of
                     key events and the number of its seal key
    3   G -> O, I    [the record in the registry] activate(record with both signatures)
    4   O, I         [ACTIVE; the predecessor's share deleted, and all prepared ones]
  if a vote is missing, or to resume what was interrupted
    2'  G <-> O, I   standing(user, curve): the node's active and voted shares, each with the
                     signatures that it knows. With both signatures go on at 3
    3'  G -> other   abort(epoch), with the vote that exists
    4'  other -> G   [never votes for this epoch; a prepared share of it deleted] abort signature.
                     If it has voted: that vote, and go on at 3
    5'  G -> voter   drop(abort signature)
    6'  voter        [the voted share deleted]

Invariants
    A1  A node signs either a vote or an abort for an epoch, never both.
    A2  A node has at most one outstanding vote for a (user, curve), and votes only for a share that
        replaces the one that is active there (or none, if none is).
    A3  A share that was voted for is deleted only on the peer's signature: the predecessor's on
        both votes, a voted one on an abort.
    A4  G takes an epoch to be in force when both nodes have said themselves that they voted for it:
        a node that lies may sign an abort first and show both votes once the peer has dropped.
    Hence O and I never activate different epochs, and no share that is needed is lost.
    Any message may be repeated: asking both nodes again leads to an end.

Crashes
    before 2              prepared shares are deleted when their session ends (``sessions``)
    between 2 and 4       G resumes at 2': at its start, before the next key of this user and curve
                          is made, and when a node does not know a registered key. Only before the
                          next key does it go on to 3': a lone vote may be all that is left of a
                          newer state, if files were restored
    G loses its registry  both signatures are the record: the registry follows the nodes
    a store is restored   ``mpc_node.agreement.restore_reconciliation``

Where: ``Decision`` below chooses G's messages, without I/O; ``activation`` sends them;
``mpc_node.agreement.voting`` and ``mpc_node.store`` are the nodes' side (A1-A3).

Checked by: every loss, delay and stop of G or a node in ``test_decision``; a node against whatever
a gateway may send in ``test_promises_gateway``; killed processes in ``tests/campaign/test_kills``.
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
    """Request to an MPC node: its verb and scope, and its body."""

    party: PartyId
    scope: Scope
    body: wire.Body


@dataclass
class _NodeState:
    """Statements of one MPC node so far."""

    state: ActivationState | None = None
    votes: dict[bytes, SignedRecord] = field(default_factory=dict)
    """Votes of this node by epoch, each record with its signature alone."""
    aborts: dict[bytes, bytes] = field(default_factory=dict)
    """Abort signatures of this node, by epoch."""
    claimed_votes: set[bytes] = field(default_factory=set)
    """Epochs that the node itself says it has voted for, in force or not (A4)."""
    refused_aborts: set[bytes] = field(default_factory=set)
    """Epochs for which it refused to sign an abort: neither node holds such a share, it says."""
    activated: set[bytes] = field(default_factory=set)
    """Epochs that it has acknowledged as activated (4)."""

    @property
    def active(self) -> HeldShare | None:
        return self.state.active if self.state else None

    @property
    def voted(self) -> HeldShare | None:
        return self.state.voted if self.state else None

    def shares(self) -> list[HeldShare]:
        return [held for held in (self.active, self.voted) if held]


class Decision:
    """Coordinator's side of one activation, for one user's key on one curve. No I/O.

    Send all of ``requests()``, pass each answer to ``take_answer``; repeat until there are none.
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
            identities: of the MPC nodes; signatures of a node that is missing here do not count.
            registered: the key in force as far as the registry knows.
            vote: step 1, for a key that was just made; None: only resume what was interrupted.
            aborting: end votes that have stayed alone, too (3' to 6').
        """
        self._user_id = user_id
        self._curve = curve
        self._identities = identities
        self._registered = registered
        self.stored_key = registered
        """Key as the registry has stored it by now."""
        self._vote = vote
        self._aborting = aborting
        self._nodes = {party: _NodeState() for party in MPC_NODES}
        self._asked: set[tuple[PartyId, Scope]] = set()
        self.failures: list[Refused] = []
        """Refusals and unanswered requests, in the order of asking."""
        self.record: SignedRecord | None = None
        """Record in force, with both votes; None: none is."""
        if registered is not None and registered.record is not None:
            self._learn(SignedRecord.from_bytes(registered.record), None)

    # ------------------------------------------------------------------ requests

    def requests(self) -> list[Request]:
        """Return the requests to send next; none is sent twice."""
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
        """Step 1."""
        if self._vote is not None:
            vote = self._vote
            scope = Scope("vote", self._user_id, vote.key_id, vote.session_id)
            for party in MPC_NODES:
                yield Request(party, scope, vote)

    def _state_requests(self) -> Iterator[Request]:
        """Step 2'."""
        for party in MPC_NODES:
            yield Request(
                party, self._scope("standing"), GetActivationState(self._user_id, self._curve)
            )

    def _activation_requests(self) -> Iterator[Request]:
        """Step 3, to nodes that do not say that they have done it."""
        if self.record is None:
            return
        epoch = self.record.record.epoch
        for party, known in self._nodes.items():
            done = known.active is not None and known.active.epoch == epoch
            if not done and (self._is_made or any(h.epoch == epoch for h in known.shares())):
                yield Request(party, self._scope("activate", epoch), self.record)

    def _abort_requests(self) -> Iterator[Request]:
        """Step 3', for votes that stayed alone. A node is shown the other's vote if that is known:
        it signs no abort of an epoch that neither of them holds."""
        if not self._aborting:
            return
        for epoch in self._open_epochs():
            just_made = self._vote is not None and self._vote.key_id == epoch
            known_votes = (k.votes.get(epoch) for k in self._nodes.values())
            vote = next(filter(None, known_votes), None)
            body = AbortEpoch(Abort(self._user_id, self._curve, epoch), vote)
            for party, known in self._nodes.items():
                if known.state and (vote or just_made) and epoch not in known.votes:
                    yield Request(party, self._scope("abort", epoch), body)

    def _drop_requests(self) -> Iterator[Request]:
        """Step 5'."""
        for by, signer in self._nodes.items():
            for epoch, signature in signer.aborts.items():
                body = DropShare(Abort(self._user_id, self._curve, epoch), signature)
                for party, known in self._nodes.items():
                    if party != by and epoch in known.votes and known.state is not None:
                        yield Request(party, self._scope("drop", epoch), body)

    def _scope(self, verb: str, epoch: bytes | None = None) -> Scope:
        return Scope(verb, self._user_id, epoch)

    # ------------------------------------------------------------------ answers

    def take_answer(self, request: Request, answer: bytes | Refused) -> None:
        """Take an MPC node's answer to a request.

        Args:
            answer: the body, or a refusal; ``LinkFailed``: the node has not answered.
        """
        party = request.party
        if isinstance(answer, Refused):
            self.failures.append(answer)
            if isinstance(request.body, AbortEpoch) and not isinstance(answer, NodeFailed):
                self._nodes[party].refused_aborts.add(request.body.abort.epoch)
            return
        try:
            self._apply_answer(request, self._nodes[party], answer)
        except InvalidEncoding:
            self.failures.append(unintelligible_reply(party))

    def _apply_answer(self, request: Request, known: _NodeState, answer: bytes) -> None:
        party = request.party
        match request.body:
            case wire.Activate():
                self._learn(SignedRecord.from_bytes(answer), party)
            case GetActivationState():
                self.take_state(party, ActivationState.from_bytes(answer))
            case AbortEpoch(abort=abort):
                ended = AbortEpochReply.from_bytes(answer)
                if ended.held is not None:
                    self._learn(ended.held.record, party)
                identity = self._identities.get(party, b"")
                genuine = ended.signature and is_signed_by(identity, abort, ended.signature)
                # An honest node signs one of the two (A1): the first that is known counts.
                if genuine and abort.epoch not in known.votes:
                    known.aborts[abort.epoch] = ended.signature or b""
            case SignedRecord() as signed:
                known.activated.add(signed.record.epoch)

    def take_state(self, party: PartyId, state: ActivationState) -> None:
        """Take the shares that an MPC node says it holds (2')."""
        known = self._nodes[party]
        known.state = state
        for held in known.shares():
            self._learn(held.record, party)

    def _learn(self, signed: SignedRecord, by: PartyId | None) -> None:
        """Take the authentic votes of a record, and see whether it is in force by them (A4).

        Args:
            by: the node that says it holds the share; None: the registry, to which both once did.
        """
        record = signed.record
        if (record.user_id, record.curve_name) != (self._user_id, self._curve):
            return
        for party, known in self._nodes.items():
            if record.epoch in known.aborts:
                continue
            if signed.has_vote_of(party, self._identities.get(party, b"")):
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
        except RecordError:
            return
        if self._is_newer(record.public_key, record.number):
            self.record = one.with_vote(other)

    def _is_newer(self, public_key: bytes, number: int) -> bool:
        """Return whether shares are of the same key and newer than those known to be in force."""
        known = self.record.record if self.record else None
        if known is not None:
            return public_key == known.public_key and number > known.number
        registered = self._registered
        return registered is None or (
            public_key == registered.public_key and number >= registered.recoveries
        )

    # ------------------------------------------------------------------ outcome

    @property
    def _is_made(self) -> bool:
        """Whether the epoch of ``vote`` is in force."""
        return (
            self._vote is not None
            and self.record is not None
            and self.record.record.epoch == self._vote.key_id
        )

    def _open_epochs(self) -> list[bytes]:
        """Return epochs of which it is not decided whether they come into force."""
        found = [known.voted.epoch for known in self._nodes.values() if known.voted]
        if self._vote is not None:
            found.insert(0, self._vote.key_id)
        return [epoch for epoch in dict.fromkeys(found) if not self._is_decided(epoch)]

    def _is_decided(self, epoch: bytes) -> bool:
        if self.record is not None and self.record.record.epoch == epoch:
            return True
        known = self._nodes.values()
        # A refusal is a node's word alone, and only one of the two may lie.
        return any(epoch in k.aborts for k in known) or all(
            epoch in k.refused_aborts for k in known
        )

    @property
    def first_link_failure(self) -> LinkFailed | None:
        """The first request that was not answered; None: all were."""
        return next((f for f in self.failures if isinstance(f, LinkFailed)), None)

    @property
    def record_to_store(self) -> SignedRecord | None:
        """Record in force that the registry does not have yet."""
        known = self.stored_key.record if self.stored_key else None
        if self.record is None or self.record.to_bytes() == known:
            return None
        return self.record

    def is_open(self, epoch: bytes) -> bool:
        """Return whether an epoch may still come into force."""
        return epoch in self._open_epochs()

    @property
    def is_consistent(self) -> bool:
        """Whether both nodes hold the shares that are in force, active."""
        if self.record is None:
            return self._registered is None and not any(k.active for k in self._nodes.values())
        epoch = self.record.record.epoch
        return all(
            epoch in known.activated or (known.active is not None and known.active.epoch == epoch)
            for known in self._nodes.values()
        )

    @property
    def has_lone_vote(self) -> bool:
        """Whether a node has voted for an epoch that is neither in force nor aborted."""
        return any(k.voted and not self._is_decided(k.voted.epoch) for k in self._nodes.values())
