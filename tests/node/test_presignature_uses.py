"""Whatever is made, used, restored, restarted and lost: no presignature signs twice.

The MPC node that signs consumes nothing, and no process of the caller's node remembers anything.
"""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR, PartyId
from mpcsim.protocols.presign import Presignature
from mpcsim.protocols.presign.presignature import Use
from mpcsim.rpc.transport import Reply
from mpcsim.vault import SealedPresignature
from node.errors import ApiError
from node.timing import Timing
from tests.node.wallets import House, Pass, on, stored_share

PARTIES = st.sampled_from(MPC_NODES)


class Uses(RuleBasedStateMachine):
    """One caller with two replicas, and a database of which there are backups."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.released: Counter[bytes] = Counter()
        """How often all that a client needs for a signature was there, by presignature."""
        self.database: list[str] = []
        self.backups: list[list[str]] = []
        self.shelves: dict[PartyId, Any] = {}

    def teardown(self) -> None:
        for house in self.houses:
            self.loop.run_until_complete(house.wallet.close())
        self.houses[0].gateway.close()
        self.loop.close()

    @initialize()
    def begin(self) -> None:
        first = House()
        self.houses = [first, House(first.gateway)]
        for house in self.houses:
            self.watch(house)
        for party in MPC_NODES:
            self.corrupt(party)
        self.record = self.run(first.generate("secp256k1"))

    def watch(self, house: House) -> None:
        presigner: Any = house.wallet._presigner
        opened = presigner.part

        def part(sealed: SealedPresignature, *rest: Any) -> Presignature:
            found: Presignature = opened(sealed, *rest)
            self.released[found.id] += 1
            return replace(found, use=Use())

        presigner.part = part

    def corrupt(self, party: PartyId) -> None:
        parts: Any = self.node(party)._parts
        kept: dict[bytes, Presignature] = {}
        take = parts._shelf.take

        def again(key_id: str, name: bytes) -> Presignature:
            if name not in kept:
                kept[name] = take(key_id, name)
            return replace(kept[name], use=Use())

        parts.take = again

    def node(self, party: PartyId) -> Any:
        return self.houses[0].gateway.links[party].node

    def run(self, call: Any) -> Any:
        return self.loop.run_until_complete(call)

    async def signed(self, house: House, texts: list[str], message: bytes) -> list[str]:
        _, left = await house.wallet.sign(
            house.caller(),
            stored_share(self.record),
            message=message,
            signer=None,
            presignatures=texts,
            timing=Timing(),
        )
        return left

    @rule(count=st.integers(1, 2), signer=st.sampled_from(("operator", "institution")))
    def presign(self, count: int, signer: str) -> None:
        self.database += self.run(self.houses[0].presign(self.record, count, signer=signer))

    @rule(replica=st.integers(0, 1), message=st.binary(min_size=32, max_size=32))
    def sign(self, replica: int, message: bytes) -> None:
        self.database = self.run(self.signed(self.houses[replica], self.database, message))

    @rule()
    def sign_at_both_at_once(self) -> None:
        async def race() -> list[Any]:
            calls = [
                self.signed(house, list(self.database), bytes([n]) * 32)
                for n, house in enumerate(self.houses)
            ]
            return await asyncio.gather(*calls, return_exceptions=True)

        for left in self.run(race()):
            if isinstance(left, ApiError):  # one signing session a key
                continue
            self.database = left

    @rule(replica=st.integers(0, 1), before=st.booleans())
    def lose_an_answer(self, replica: int, before: bool) -> None:
        async def lost(name: str, go_on: Pass) -> Reply:
            if not before:
                await go_on()
            return Reply(504, b"{}")

        house = self.houses[replica]
        house.transport.hook = on("presigned", lost)
        try:
            self.run(self.signed(house, self.database, bytes(32)))
        except ApiError:
            pass
        finally:
            house.transport.hook = None

    @rule()
    def back_up(self) -> None:
        self.backups.append(list(self.database))

    @rule(which=st.integers(0, 3))
    def restore_the_database(self, which: int) -> None:
        if self.backups:
            self.database += self.backups[which % len(self.backups)]

    @rule(party=PARTIES)
    def take_a_snapshot(self, party: PartyId) -> None:
        node = self.node(party)
        self.shelves[party] = copy.deepcopy(node._allowances._shelf)

    @rule(party=PARTIES, restored=st.booleans())
    def restart(self, party: PartyId, restored: bool) -> None:
        node = self.node(party)
        node.restart()
        if restored and party in self.shelves:
            node._allowances._shelf = copy.deepcopy(self.shelves[party])

    @rule()
    def recover(self) -> None:
        self.record = self.run(self.houses[0].recover("secp256k1"))

    @invariant()
    def none_is_used_twice(self) -> None:
        assert all(times == 1 for times in self.released.values()), self.released


FEW = settings(max_examples=3, stateful_step_count=10, deadline=None)
MANY = settings(max_examples=60, stateful_step_count=30, deadline=None)


class TestUses(Uses.TestCase):  # type: ignore[name-defined, misc]
    settings = FEW


@pytest.mark.soak
class TestManyUses(Uses.TestCase):  # type: ignore[name-defined, misc]
    settings = MANY


def test_what_is_used_is_seen() -> None:
    """The machine notices a presignature that is used twice, where nobody keeps a list."""
    machine = Uses()
    machine.begin()
    for party in (OPERATOR, INSTITUTION):
        machine.node(party)._allowances.use = lambda *_: None
    machine.presign(1, "operator")
    machine.back_up()
    machine.sign(0, bytes(32))
    machine.none_is_used_twice()
    machine.restore_the_database(0)
    machine.sign(1, bytes(32))
    with pytest.raises(AssertionError):
        machine.none_is_used_twice()
    machine.teardown()
