"""What was answered 502 or 504 may have happened: the kit looks, and blames nobody for it."""

from __future__ import annotations

import pytest

from mpcsim.testing import BrokenInvariant, Walk
from tests.testing import faulty
from tests.testing.own_node import OwnNode


class Service(faulty.AnswersTooLate):
    """One that a test can make late."""

    made: Service

    def __init__(self, app) -> None:
        super().__init__(app)
        Service.made = self


@pytest.mark.parametrize("curve", ["ed25519", "secp256k1"])
def test_a_key_made_or_recovered_without_an_answer_is_recovered(curve):
    with OwnNode(Service) as target:
        walk = Walk(target)
        walk.generate("alice", curve)
        walk.lose(1000)
        Service.made.late = True
        walk.recover("alice", curve)
        walk.generate("bob", curve)
        walk.generate_twice_at_once("carol", curve)
        taken = len(walk.story.steps)
        for user in ("alice", "bob", "carol"):  # what these would be answered, nobody knows
            walk.sign(user, curve)
            walk.recover(user, curve)
            walk.wallet(user)
        assert len(walk.story.steps) == taken
        walk.keys("alice")
        Service.made.late = False
        walk.lose_nothing()
        for user in ("alice", "bob", "carol"):
            walk.sign(user, curve)
            walk.keys(user)
        assert len(walk.model.users["alice"].keys[curve].shares) == 2
        walk.end()


def test_without_any_trouble_a_504_is_none_that_was_expected():
    with OwnNode(Service) as target:
        Service.made.late = True
        with pytest.raises(BrokenInvariant) as caught:
            Walk(target).generate("alice", "ed25519")
        assert caught.value.name == "answer_is_as_specified"


def test_a_key_that_is_gone_after_a_504_is_a_finding():
    class Forgets(Service):
        async def answer(self, asked):
            said = await super().answer(asked)
            if self.late and asked.operation == "key":
                return faulty.Said.of(200, said.document | {"keys": []})
            return said

    with OwnNode(Forgets) as target:
        walk = Walk(target)
        walk.generate("alice", "ed25519")
        walk.lose(1000)
        Service.made.late = True
        walk.recover("alice", "ed25519")
        with pytest.raises(BrokenInvariant) as caught:
            walk.lose_nothing()
        assert caught.value.name == "failed_request_changes_nothing"


def test_who_looks_what_came_of_a_504_and_gets_no_answer_says_so():
    """And does not take it for the answer that nothing has come of it."""

    class Hides(Service):
        async def answer(self, asked):
            said = await super().answer(asked)
            if asked.operation == "key":
                return faulty.Said.of(500, {"error": "cannot look"})
            return said

    with OwnNode(Hides) as target:
        walk = Walk(target)
        walk.lose(1000)
        Service.made.late = True
        walk.generate("alice", "ed25519")
        Service.made.late = False
        with pytest.raises(BrokenInvariant, match="cannot look") as caught:
            walk.lose_nothing()
        assert caught.value.name == "answer_is_as_specified"
        assert walk.exchanged[-1][1].status == 500
        assert sum(asked.path.endswith("/key") for asked, _ in walk.exchanged) == 1
