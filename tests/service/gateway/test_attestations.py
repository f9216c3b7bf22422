"""Statements of suspended keys that are carried between the MPC nodes: when, and what if one of
them does not do its part."""

import asyncio

import pytest

from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR
from mpcsim.service.errors import (
    CONFLICT,
    FAILED_DEPENDENCY,
    LinkFailed,
    Refused,
    Unmerged,
    node_unreachable,
)
from mpcsim.service.gateway.activation.attestations import PROMPT_S, Attestations
from mpcsim.service.rpc.statements import SignedAttestation, SuspensionAttestation
from tests.helpers.virtual import in_virtual_time

NOT_NOW = Refused(CONFLICT, "not now")
TOLD_OPERATOR = [(INSTITUTION, "attest"), (OPERATOR, "hear")]
TOLD_INSTITUTION = [(OPERATOR, "attest"), (INSTITUTION, "hear")]


class Side:
    """A link to an MPC node, which notes what that is asked; it fails as it is told to."""

    def __init__(self, party, log):
        self.party, self.log = party, log
        self.fails, self.suspended, self.heard = {}, (), []

    async def call(self, scope, body, times=None):
        self.log.append((self.party, scope.verb))
        await asyncio.sleep(0.01)
        if scope.verb in self.fails:
            raise self.fails[scope.verb]
        if scope.verb == "hear":
            self.heard.append(body.statement.suspended)
            return b""
        statement = SuspensionAttestation(self.party, 0, self.suspended)
        return SignedAttestation(statement, bytes(64)).to_bytes()

    ask = call


def between_two_sides(test):
    """A test that is given attestations, both sides by party, and what these are asked."""

    @in_virtual_time
    async def run():
        log, loop = [], asyncio.get_running_loop()
        sides = {party: Side(party, log) for party in MPC_NODES}
        attestations = Attestations(sides, loop.time)
        await test(attestations, sides, log)
        await attestations.stop()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    return run


async def yes():
    return "yes"


# ---------------------------------------------------------------------- at the gateway's start


@between_two_sides
async def test_at_the_start_each_hears_what_is_suspended_at_the_other(attestations, sides, log):
    sides[OPERATOR].suspended = (bytes(32),)
    await attestations.exchange_at_start()
    assert log == [(INSTITUTION, "attest"), *TOLD_INSTITUTION]
    assert sides[INSTITUTION].heard == [(bytes(32),)]


@pytest.mark.parametrize("verb", ["attest", "hear"])
def test_a_node_that_refuses_at_the_start_is_logged_and_stops_nobody(verb, caplog):
    @between_two_sides
    async def test(attestations, sides, log):
        for side in sides.values():
            side.suspended = (bytes(32),)
        sides[OPERATOR].fails[verb] = NOT_NOW
        await attestations.exchange_at_start()
        assert len(sides[INSTITUTION].heard) == (verb == "hear")
        assert len(sides[OPERATOR].heard) == (verb == "attest")
        sides[OPERATOR].fails[verb] = node_unreachable(OPERATOR)
        with pytest.raises(LinkFailed):
            await attestations.exchange_at_start()

    test()
    (said,) = caplog.messages
    one, other = ("operator", "institution")[:: 1 if verb == "hear" else -1]
    assert said == f"the {one} has not accepted the {other}'s list of suspended keys: not now"


# ---------------------------------------------------------------------- while vaults are opened


@between_two_sides
async def test_statements_are_exchanged_once_a_minute(attestations, sides, log):
    sides[OPERATOR].fails["hear"] = NOT_NOW  # until then it has none
    for pause_s, exchanges in ((0, 2), (30, 3), (30, 4), (29.9, 4), (0.1, 5)):
        await asyncio.sleep(pause_s)
        assert await attestations.ask_with_attestation(OPERATOR, yes) == "yes"
        await asyncio.sleep(0.02)
        assert len(log) == 2 * exchanges
        if exchanges == 3:
            del sides[OPERATOR].fails["hear"]


@between_two_sides
async def test_what_is_under_way_is_not_begun_again(attestations, sides, log):
    await asyncio.gather(*[attestations.ask_with_attestation(OPERATOR, yes) for _ in range(3)])
    await asyncio.sleep(0.02)
    assert sorted(log) == sorted(TOLD_OPERATOR + TOLD_INSTITUTION)


@between_two_sides
async def test_who_demands_a_statement_is_brought_one_and_asked_once_more(attestations, sides, log):
    await attestations.exchange_now()
    assert sorted(log) == sorted(TOLD_OPERATOR + TOLD_INSTITUTION)
    for status, heard, kind in [
        (FAILED_DEPENDENCY, 1, Refused),
        (CONFLICT, 0, Refused),
        (FAILED_DEPENDENCY, 0, lambda *why: Unmerged(*why, OPERATOR)),
    ]:
        log.clear()
        failure = kind(status, "no")

        async def ask(failure=failure):
            log.append("asked")
            raise failure

        with pytest.raises(Refused) as refused:
            await attestations.ask_with_attestation(OPERATOR, ask)
        assert refused.value is failure
        assert log == ["asked", *heard * [*TOLD_OPERATOR, "asked"]]


# ---------------------------------------------------------------------- after an abort


@pytest.mark.parametrize("fails", [1, 2])
def test_after_an_abort_the_other_hears_until_it_has_accepted(fails):
    once = TOLD_INSTITUTION[:fails]
    by, verb = once[-1]

    @between_two_sides
    async def test(attestations, sides, log):
        now = asyncio.get_running_loop().time
        sides[by].fails[verb] = NOT_NOW
        await attestations.deliver_after_abort(OPERATOR)
        assert now() == PROMPT_S  # nobody waits longer
        assert log == 3 * once  # at once, 0.5 s and 1 s later
        await attestations.deliver_after_abort(OPERATOR)
        assert log == 4 * once  # the one delivery goes on
        await asyncio.sleep(1000)
        assert len(log) == len(once) * (4 + 4 + 15)  # after 4, 8, 16 and 32 s, then each minute
        del sides[by].fails[verb]
        await asyncio.sleep(61)
        many = len(log)
        await asyncio.sleep(1000)
        assert (len(log), len(sides[INSTITUTION].heard)) == (many, 1)

    test()


@between_two_sides
async def test_an_abort_during_a_delivery_is_delivered_too(attestations, sides, log):
    one = asyncio.create_task(attestations.deliver_after_abort(OPERATOR))
    await asyncio.sleep(0.005)
    await asyncio.gather(one, attestations.deliver_after_abort(OPERATOR))
    assert log == 2 * TOLD_INSTITUTION


@between_two_sides
async def test_the_last_statement_is_brought_again_and_is_no_new_one(attestations, sides, log):
    """Of a node that is down now; after an abort it may have suspended more."""
    sides[OPERATOR].fails["attest"] = node_unreachable(OPERATOR)
    await attestations.exchange_now()
    assert sides[INSTITUTION].heard == []  # it has said nothing yet
    del sides[OPERATOR].fails["attest"]
    await attestations.exchange_now()
    sides[OPERATOR].fails["attest"] = node_unreachable(OPERATOR)
    await attestations.deliver_after_abort(OPERATOR)
    assert len(sides[INSTITUTION].heard) == 4
    sides[OPERATOR].suspended = (bytes(32),)
    del sides[OPERATOR].fails["attest"]
    await asyncio.sleep(5)
    assert sides[INSTITUTION].heard[4:] == [(bytes(32),)]


@between_two_sides
async def test_what_is_under_way_ends_when_the_gateway_stops(attestations, sides, log):
    sides[INSTITUTION].fails["hear"] = NOT_NOW
    await attestations.deliver_after_abort(OPERATOR)
    await attestations.ask_with_attestation(OPERATOR, yes)
    assert len(asyncio.all_tasks()) == 4
