"""Two MPC nodes that vote for shares, their stores, and a gateway's registry beside them."""

import itertools
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

from mpcsim.ids import MPC_NODES
from mpcsim.service.errors import Refused, node_timed_out
from mpcsim.service.gateway.activation.decision import Decision
from mpcsim.service.gateway.registry import RegisteredKey
from mpcsim.service.mpc_node.agreement.voting import Voting
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.mpc_node.store import ShareStore, StoredShare
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.activation_messages import (
    ACTIVE,
    PREPARED,
    VOTED,
    AbortEpoch,
    DropShare,
    GetActivationState,
)
from mpcsim.service.rpc.statements import KeyRecord, LogHead, SignedRecord, Vote

USER, CURVE = "user", "ed25519"
IDENTITIES = {party: Identity(bytes([party]) * 32) for party in MPC_NODES}
PUBLIC = {party: identity.public for party, identity in IDENTITIES.items()}
FINE = "fine"
FAULTS = ("request lost", "answer lost", "late", "node stopped")


def epoch(name):
    return name.encode().ljust(32, b"\0")


class Stopped(Exception):
    """The gateway is gone."""


def public_record(share):
    """What a vote takes of a share's public record."""
    return SimpleNamespace(to_bytes=share.key_id.encode, chain_code=None)


@dataclass
class World:
    """Two MPC nodes' stores and a registry. Nothing is ever in two epochs for good."""

    stores: dict = field(default_factory=lambda: {party: ShareStore() for party in MPC_NODES})
    registered: RegisteredKey | None = None
    late: list = field(default_factory=list)
    """Requests that arrive after others."""
    follows: dict = field(default_factory=dict)
    """Each epoch that was made, and what it replaces."""
    was_active: dict = field(default_factory=lambda: {party: [] for party in MPC_NODES})

    def __enter__(self):
        self.nodes = {
            party: Voting(
                party, store, IDENTITIES[party], lambda other=other: PUBLIC[other], public_record
            )
            for (party, store), other in zip(self.stores.items(), reversed(MPC_NODES), strict=True)
        }
        self._open = ExitStack()
        for store in self.stores.values():
            self._open.enter_context(closing(store))
        return self

    def __exit__(self, *exc):
        self._open.close()

    def prepare(self, name, predecessor=None, parties=MPC_NODES):
        """A session has made shares; at some nodes only, if it broke off."""
        follows = self.follows[epoch(name)] = predecessor and epoch(predecessor)
        share = StoredShare(epoch(name).hex(), USER, CURVE, b"public key", b"share", PREPARED)
        for party in parties:
            old = self.stores[party].active_share(USER, CURVE)
            self.stores[party].prepare(
                replace(
                    share,
                    recoveries=old.recoveries + 1 if old else 0,
                    predecessor=follows and follows.hex(),
                )
            )

    def handle(self, party, verb, body):
        """As the MPC node does it, with its sessions left out."""
        node, store = self.nodes[party], self.stores[party]
        match verb, body:
            case "vote", wire.Activate():
                found = store.find(body.key_id.hex())
                if found is None:
                    raise Refused(410, "no such session")
                return node.vote(found.key_id).to_bytes()
            case "activate", SignedRecord():
                node.activate(body)
            case "standing", GetActivationState():
                return node.activation_state(body).to_bytes()
            case "abort", AbortEpoch():
                return node.abort(body).to_bytes()
            case "drop", DropShare():
                node.drop(body)
            case _:
                raise AssertionError(verb)
        return b""

    def ask(self, request, outcome):
        """An answer, or why there is none."""
        body = type(request.body).from_bytes(request.body.to_bytes())
        asked = request.party, request.scope.verb, body
        if outcome == "node stopped":
            self.stores[request.party].drop_orphans()
        if outcome == "late":
            self.late.append(asked)
        if outcome in ("request lost", "late", "node stopped"):
            return node_timed_out(request.party)
        try:
            answer = self.handle(*asked)
        except Refused as refused:
            answer = refused
        self.look()
        return node_timed_out(request.party) if outcome == "answer lost" else answer

    def arrive(self):
        """What was late arrives."""
        while self.late:
            with suppress(Refused):
                self.handle(*self.late.pop(0))
            self.look()

    def look(self):
        """What must be true at every moment."""
        for party, store in self.stores.items():
            active = store.active_share(USER, CURVE)
            seen = self.was_active[party]
            if active is None:
                assert not seen, "a share in force is never dropped but for its successor"
            elif not seen or seen[-1] != active.key_id:
                now = bytes.fromhex(active.key_id)
                before = self.follows[now]
                if seen:
                    assert before == bytes.fromhex(seen[-1])
                seen.append(active.key_id)
        for one, other in itertools.combinations(self.voted_by_both(), 2):
            assert self.follows[one] != self.follows[other], "two epochs in force"

    def voted_by_both(self):
        signed = [
            {k for (k,) in s._database.rows("SELECT key_id FROM signed WHERE what = 'vote'")}
            for s in self.stores.values()
        ]
        return {bytes.fromhex(key_id) for key_id in set.intersection(*signed)}

    def decide(self, vote=None, outcomes=()):
        """Until nothing is left to ask; what the gateway would say."""
        body = vote and wire.Activate(bytes(32), epoch(vote))
        decision = Decision(USER, CURVE, PUBLIC, self.registered, body)
        outcomes = iter(outcomes)
        for _ in range(20):
            requests = decision.requests()
            if not requests:
                break
            for request in requests:
                outcome = next(outcomes, FINE)
                if outcome == "gateway stopped":
                    raise Stopped
                decision.take_answer(request, self.ask(request, outcome))
            if decision.record:
                self.register(decision.record)
        assert not decision.requests()
        return decision

    def register(self, signed):
        record = signed.record
        about = record.key_id, record.public_key, "", record.number, signed.to_bytes()
        self.registered = RegisteredKey(USER, CURVE, *about)

    def settled(self):
        """Resolve with both nodes in reach; the epoch that is in force."""
        self.arrive()
        decision = self.decide()
        assert decision.is_consistent
        assert not decision.has_lone_vote
        assert not decision.failures
        states = [
            {h.key_id: h.state for h in s.share_inventory("", 9)} for s in self.stores.values()
        ]
        assert all(VOTED not in held.values() for held in states)
        active = {key for held in states for key, state in held.items() if state == ACTIVE}
        assert len(active) <= 1
        assert [ACTIVE in held.values() for held in states] in ([True] * 2, [False] * 2)
        found = bytes.fromhex(active.pop()) if active else None
        assert found == (decision.record.record.epoch if decision.record else None)
        return found


def first_key(world):
    world.prepare("first")
    assert world.decide("first").record
    return "first"


def vote_of(party, name, **changed):
    """A node's vote, as the gateway hears it; for something that an honest one would not sign."""
    record = KeyRecord(USER, CURVE, b"public key", epoch(name), None, 0, bytes(32), PUBLIC)
    record, head = replace(record, **changed), LogHead(0, bytes(32))
    signature = IDENTITIES[party].sign(Vote(record, head, 0))
    return SignedRecord(record, {party: head}, {party: signature}, {party: 0})


def forged(world, name):
    """The votes of both nodes for a record, by node."""
    world.prepare(name, "first")
    return {
        party: SignedRecord.from_bytes(
            world.handle(party, "vote", wire.Activate(bytes(32), epoch(name)))
        )
        for party in MPC_NODES
    }
