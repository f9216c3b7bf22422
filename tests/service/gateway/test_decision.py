"""Which shares are in force: every way in which requests and answers can be lost or late, and
either side stopped, while two nodes vote."""

import itertools
from contextlib import suppress
from dataclasses import replace

import pytest

from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR
from mpcsim.service.errors import Refused, node_timed_out
from mpcsim.service.gateway.activation.decision import Decision, Request
from mpcsim.service.gateway.registry import RegisteredKey
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.activation_messages import (
    AbortEpoch,
    AbortEpochReply,
    ActivationState,
    GetActivationState,
)
from mpcsim.service.rpc.grants import Scope
from mpcsim.service.rpc.statements import Abort, HeldShare
from tests.helpers.voting import (
    CURVE,
    FAULTS,
    FINE,
    IDENTITIES,
    PUBLIC,
    USER,
    Stopped,
    World,
    epoch,
    first_key,
    forged,
    vote_of,
)


def said(decision, name):
    if decision.record and decision.record.record.epoch == epoch(name):
        return "in force"
    return "unknown" if decision.is_open(epoch(name)) else "refused"


def with_faults(most, length, every=1):
    """Outcomes of the first requests: all ways in which fewer than `most` go wrong, and every
    `every`-th way in which `most` do. An odd `every` meets each fault at each place."""
    for many in range(most + 1):
        ways = itertools.product(
            itertools.combinations(range(length), many), itertools.product(FAULTS, repeat=many)
        )
        for places, faults in itertools.islice(ways, 0, None, every if many == most else 1):
            outcomes = [FINE] * length
            for place, fault in zip(places, faults, strict=True):
                outcomes[place] = fault
            yield outcomes


def sweep(every):
    """Parameters `every`: so many are tried in `make test`, and all of them in `make soak`."""
    return pytest.mark.parametrize("every", [every, pytest.param(1, marks=pytest.mark.soak)])


# ---------------------------------------------------------------------- one key is made


LOSSES = [
    (MPC_NODES, 2, 23),
    ((OPERATOR,), 1, 1),
    ((INSTITUTION,), 1, 1),
    *[
        pytest.param(parties, most, every, marks=pytest.mark.soak)
        for parties, most, every in [
            (MPC_NODES, 2, 1),
            ((OPERATOR,), 2, 1),
            ((INSTITUTION,), 2, 1),
            (MPC_NODES, 3, 5),
        ]
    ],
]


@pytest.mark.parametrize("recovery", [False, True])
@pytest.mark.parametrize(("parties", "most", "every"), LOSSES)
def test_whatever_is_lost_the_nodes_agree_and_what_was_said_is_true(recovery, parties, most, every):
    """Also where the second node has nothing to vote for."""
    told = set()
    for outcomes in with_faults(most, 8, every):
        with World() as world:
            old = first_key(world) if recovery else None
            world.prepare("new", old, parties)
            answer = said(world.decide("new", outcomes), "new")
            told.add(answer)
            in_force = world.settled()
            assert in_force in (epoch("new"), old and epoch(old))
            if answer != "unknown":
                assert (in_force == epoch("new")) == (answer == "in force"), outcomes
    expected = {"refused", "unknown"} | ({"in force"} if parties == MPC_NODES else set())
    assert told == expected


@sweep(7)
@pytest.mark.parametrize("recovery", [False, True])
def test_a_gateway_that_stops_at_any_step_goes_on_at_its_next_start(recovery, every):
    for at in range(8):
        for before in with_faults(1, at, every):
            with World() as world:
                old = first_key(world) if recovery else None
                world.prepare("new", old)
                remembered = world.registered
                with suppress(Stopped):
                    world.decide("new", [*before, "gateway stopped"])
                for registered in (world.registered, remembered):
                    world.registered = registered
                    assert world.settled() in (epoch("new"), old and epoch(old))


def test_a_registry_that_lags_behind_follows_even_one_node(party, world):
    remembered = world.registered
    world.prepare("new", "first")
    silent = [FINE, FINE, *(FINE if p == party else "request lost" for p in MPC_NODES)]
    assert said(world.decide("new", silent), "new") == "in force"
    assert world.stores[party].active_share(USER, CURVE).key_id == epoch("new").hex()
    for registered in (remembered, None):
        world.registered = registered
        assert world.settled() == epoch("new")
        assert world.registered.recoveries == 1


def test_what_is_in_force_at_a_node_is_not_brought_there_again(world):
    world.nodes[INSTITUTION].activate = lambda record: pytest.fail("it is in force there")
    assert world.settled() == epoch("first")


def test_a_key_that_both_vote_for_is_brought_into_force_at_once(world):
    world.prepare("new", "first")
    asked, ask = [], world.ask
    world.ask = lambda request, outcome: asked.append(request.scope.verb) or ask(request, outcome)
    assert world.decide("new").is_consistent
    assert asked == ["vote"] * 2 + ["activate"] * 2


@pytest.mark.parametrize("claiming", [(), (OPERATOR,), (INSTITUTION,), MPC_NODES])
def test_where_no_record_is_in_force_no_node_says_that_it_has_an_active_share(claiming):
    decision = Decision(USER, CURVE, PUBLIC, None)
    for party in MPC_NODES:
        held = HeldShare(epoch("new"), b"public key", 0, vote_of(party, "new", number=party))
        decision.take_state(party, ActivationState(held if party in claiming else None, None))
    assert decision.is_consistent == (not claiming)


def test_a_node_that_lags_behind_is_said_to_and_nothing_is_dropped(party, world):
    """Its store was put back as it was before it had the new share."""
    world.prepare("new", "first")
    world.decide("new")
    with world.stores[party]._database.transaction() as cursor:
        cursor.execute("UPDATE shares SET key_id = ?, recoveries = 0", (epoch("first").hex(),))
    world.was_active[party] = [epoch("first").hex()]
    held = [store.share_inventory("", 9) for store in world.stores.values()]
    decision = world.decide()
    assert not decision.is_consistent
    assert decision.first_link_failure is None
    assert [store.share_inventory("", 9) for store in world.stores.values()] == held


# ---------------------------------------------------------------------- two at once


@pytest.mark.parametrize("recovery", [False, True])
@pytest.mark.parametrize(
    ("most", "every"), [(1, 15), *[pytest.param(n, n, marks=pytest.mark.soak) for n in (1, 2)]]
)
def test_two_from_one_predecessor_never_both_come_into_force(recovery, most, every):
    """A gateway that believes itself alone, and another beside it, or that was started anew."""
    # Of two faults with one of the other's, every other pair: all faults meet everywhere.
    pairs = itertools.product(with_faults(most, 4), with_faults(1, 6))
    for one, other in itertools.islice(pairs, 0, None, every):
        with World() as world:
            old = first_key(world) if recovery else None
            world.prepare("one", old)
            world.prepare("other", old)
            registered = world.registered
            first = said(world.decide("one", one), "one")
            world.registered = registered
            second = said(world.decide("other", other), "other")
            in_force = world.settled()
            for name, answer in [("one", first), ("other", second)]:
                if answer != "unknown":
                    assert (in_force == epoch(name)) == (answer == "in force")


def test_each_settled_at_one_node_comes_to_nothing(world):
    """Two recoveries from one epoch; each node has voted for another one."""
    world.prepare("one", "first")
    world.prepare("other", "first")
    for party, name in [(OPERATOR, "one"), (INSTITUTION, "other")]:
        world.handle(party, "vote", wire.Activate(bytes(32), epoch(name)))
    assert world.settled() == epoch("first")


def test_an_epoch_aborted_first_is_never_voted_for(empty_world):
    empty_world.prepare("new")
    empty_world.handle(OPERATOR, "abort", AbortEpoch(Abort(USER, CURVE, epoch("new")), None))
    assert said(empty_world.decide("new"), "new") == "refused"
    assert empty_world.settled() is None


def test_an_epoch_that_neither_node_has_made_is_refused_and_nothing_is_signed_for_it():
    """A caller may name any. The word of one node alone is not enough for that."""
    for outcomes, answer in [
        ([], "refused"),
        ([FINE, FINE, FINE, FINE, FINE, "request lost"], "unknown"),
        ([FINE, "request lost", FINE, "request lost"], "unknown"),
    ]:
        with World() as world:
            assert said(world.decide("new", outcomes), "new") == answer
            for store in world.stores.values():
                assert store._database.rows("SELECT * FROM signed") == []
            assert world.settled() is None


# ---------------------------------------------------------------------- what is not believed


def test_what_a_node_says_of_other_users_and_curves_is_not_taken_in(world):
    for user, curve in [("another", CURVE), (USER, "secp256k1")]:
        decision = Decision(user, curve, PUBLIC, None)
        while requests := decision.requests():
            for request in requests:
                if request.scope.verb == "standing":
                    request = replace(request, body=GetActivationState(USER, CURVE))
                decision.take_answer(request, world.ask(request, FINE))
        assert decision.record is None
        assert not decision.is_consistent


def test_a_node_that_talks_nonsense_is_one_that_refuses():
    decision = Decision(USER, CURVE, PUBLIC, None)
    for request in decision.requests():
        decision.take_answer(request, b"nonsense")
    assert decision.requests() == []
    assert "answers something else than it was asked" in str(decision.failures[0])
    assert decision.first_link_failure is decision.failures[0]


# ---------------------------------------------------------------------- a node that lies


def lying(world, **outcomes):
    """What the operator says in place of the truth, by verb; it does nothing."""

    def ask(request, outcome, honest=world.ask):
        lie = outcomes.get(request.scope.verb) if request.party == OPERATOR else None
        return honest(request, outcome) if lie is None else lie(request)

    world.ask = ask


@pytest.mark.parametrize("vote_first", [False, True])
def test_a_node_that_signs_a_vote_and_an_abort_has_signed_whichever_came_first(world, vote_first):
    """Else the registry would follow what the other node drops, and no key would be left."""
    world.prepare("new", "first")
    own = world.nodes[OPERATOR].vote(epoch("new").hex())
    signature = IDENTITIES[OPERATOR].sign(Abort(USER, CURVE, epoch("new")))
    held = HeldShare(epoch("new"), b"public key", 1, own)
    before = world.nodes[OPERATOR].activation_state(GetActivationState(USER, CURVE)).active
    lying(
        world,
        vote=lambda _: node_timed_out(OPERATOR),
        standing=lambda _: ActivationState(before, held if vote_first else None).to_bytes(),
        abort=lambda _: AbortEpochReply(signature, held).to_bytes(),
    )
    assert said(world.decide("new"), "new") == "in force"
    assert world.stores[INSTITUTION].active_share(USER, CURVE).key_id == epoch("new").hex()
    assert world.registered.key_id == epoch("new").hex()


def test_an_abort_that_was_signed_first_stands_against_a_later_vote(world):
    world.prepare("new", "first")
    own = world.nodes[OPERATOR].vote(epoch("new").hex())
    signature = IDENTITIES[OPERATOR].sign(Abort(USER, CURVE, epoch("new")))
    nothing = world.nodes[OPERATOR].activation_state(GetActivationState(USER, "secp256k1"))
    lying(
        world,
        vote=lambda _: node_timed_out(OPERATOR),
        standing=lambda _: nothing.to_bytes(),
        abort=lambda _: AbortEpochReply(signature, None).to_bytes(),
    )
    decision = world.decide("new")
    assert said(decision, "new") == "refused"
    assert world.stores[INSTITUTION].voted_share(USER, CURVE) is None
    decision._learn(own, OPERATOR)
    assert decision.record.record.epoch == epoch("first")


@pytest.mark.parametrize(("by", "name"), [(INSTITUTION, "new"), (OPERATOR, "first")])
def test_an_abort_that_a_node_has_not_signed_settles_nothing(world, by, name):
    world.prepare("new", "first")
    ended = AbortEpochReply(IDENTITIES[by].sign(Abort(USER, CURVE, epoch(name))), None).to_bytes()
    lying(world, vote=lambda _: node_timed_out(OPERATOR), abort=lambda _: ended)
    assert said(world.decide("new"), "new") == "unknown"


def test_both_votes_that_one_node_shows_put_nothing_in_force_that_the_other_has_dropped(world):
    """It has signed the abort first, which the other has dropped its share for, and voted then."""
    votes = forged(world, "new")
    both = votes[OPERATOR].with_vote(votes[INSTITUTION])
    world.stores[INSTITUTION].drop(USER, CURVE, epoch("new").hex())
    shown = ActivationState(HeldShare(epoch("new"), b"public key", 1, both), None).to_bytes()
    lying(world, standing=lambda _: shown, activate=lambda _: b"")
    assert not world.decide().is_consistent
    assert world.registered.key_id == epoch("first").hex()


def test_a_nodes_word_that_an_epoch_is_in_force_settles_nothing_that_the_other_has_signed(world):
    """Else the caller would be told that it came to nothing, and it comes into force later."""
    world.prepare("new", "first")
    claimed = HeldShare(epoch("new"), b"public key", 1, vote_of(OPERATOR, "new", number=1))
    shown = ActivationState(claimed, None).to_bytes()
    refuse = dict.fromkeys(("vote", "abort"), lambda _: Refused(409, "no"))
    lying(world, **refuse, standing=lambda _: shown)
    assert said(world.decide("new"), "new") == "unknown"


@pytest.mark.parametrize("registered", [{"public_key": b"other"}, {"recoveries": 1}])
def test_a_record_of_another_key_or_older_than_the_registered_is_not_followed(world, registered):
    world.registered = replace(world.registered, record=None, **registered)
    decision = world.decide()
    assert decision.record is None
    assert not decision.is_consistent


def hear(decision, party, vote):
    body = wire.Activate(bytes(32), vote.record.epoch)
    decision.take_answer(Request(party, Scope("vote"), body), vote.to_bytes())


PAIRS_OF_VOTES = [
    ((), True),
    (({"number": 1},), False),
    (({"shares": b"S" * 32},), False),
    (({"predecessor": epoch("first")},), False),
    (({"identities": {**PUBLIC, OPERATOR: PUBLIC[INSTITUTION]}},) * 2, False),
    (({"user_id": "another"},) * 2, False),
    (({"curve_name": "secp256k1"},) * 2, False),
]


@pytest.mark.parametrize(("changed", "in_force"), PAIRS_OF_VOTES)
def test_two_votes_are_for_one_record_of_this_key_and_these_nodes(changed, in_force):
    decision = Decision(USER, CURVE, PUBLIC, None)
    for party, change in itertools.zip_longest(MPC_NODES, changed, fillvalue={}):
        hear(decision, party, vote_of(party, "new", **change))
        assert party != OPERATOR or decision.record is None
    assert (decision.record is not None) == in_force


LATER_RECORDS = [
    ({"number": 2}, True),
    ({"number": 1}, False),
    ({"number": 0}, False),
    ({"number": 2, "public_key": b"another"}, False),
]


@pytest.mark.parametrize(("changed", "followed"), LATER_RECORDS)
def test_of_two_records_the_one_of_more_recoveries_of_the_same_key_is_in_force(changed, followed):
    decision = Decision(USER, CURVE, PUBLIC, None)
    for name, change in [("first", {"number": 1}), ("new", changed)]:
        for party in MPC_NODES:
            hear(decision, party, vote_of(party, name, **change))
    assert decision.record.record.epoch == epoch("new" if followed else "first")


@pytest.mark.parametrize("changed", MPC_NODES)
def test_a_registered_record_counts_only_under_the_identities_of_both_nodes(changed):
    record = vote_of(OPERATOR, "new").with_vote(vote_of(INSTITUTION, "new"))
    registered = RegisteredKey(
        USER, CURVE, epoch("new").hex(), b"public key", "then", record=record.to_bytes()
    )
    assert Decision(USER, CURVE, PUBLIC, registered).record == record
    others = {**PUBLIC, changed: Identity(bytes(32)).public}
    assert Decision(USER, CURVE, others, registered).record is None


@pytest.mark.parametrize("aborting", [True, False])
def test_only_who_may_abort_asks_for_aborts_of_votes_that_stayed_alone(aborting):
    decision = Decision(USER, CURVE, PUBLIC, None, aborting=aborting)
    one, other = (decision._nodes[party] for party in MPC_NODES)
    one.state = other.state = object()
    one.votes[epoch("alone")] = "a vote"
    decision._open_epochs = lambda: [epoch("alone")]
    assert [request.party for request in decision._abort_requests()] == aborting * [INSTITUTION]
