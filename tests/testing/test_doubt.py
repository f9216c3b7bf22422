"""What was answered 502 or 504 may have happened: the kit looks, and blames nobody for it."""

from __future__ import annotations

import pytest

from mpcsim.testing import ApiRun, BrokenInvariant
from tests.testing import faulty
from tests.testing.own_node import OwnNode


class Service(faulty.AnswersTooLate):
    """One that a test can make late."""

    made: Service

    def __init__(self, app) -> None:
        super().__init__(app)
        Service.made = self


def test_a_key_made_or_recovered_without_an_answer_is_recovered():
    at = ("alice", "ed25519")
    with OwnNode(Service) as target:
        api = ApiRun(target)
        api.generate(*at)
        api.lose(1000)
        Service.made.late = True
        api.recover(*at)
        api.generate("bob", "ed25519")
        api.generate_twice_at_once("carol", "ed25519")
        taken = len(api.sequence.steps)
        for user in ("alice", "bob", "carol"):  # what these would be answered, nobody knows
            api.sign(user, "ed25519")
            api.recover(user, "ed25519")
            api.wallet(user)
        assert len(api.sequence.steps) == taken
        Service.made.late = False
        api.lose_nothing()
        for user in ("alice", "bob", "carol"):
            api.sign(user, "ed25519")
            api.keys(user)
        assert len(api.model.users["alice"].keys["ed25519"].shares) == 2
        api.end()


def test_a_life_with_outages_and_several_requests_at_once():
    """Steps that drawn runs reach rarely; a model that is wrong about one finds fault."""
    at = ("alice", "ed25519")
    with OwnNode() as target:
        api = ApiRun(target)
        api.generate_twice_at_once("bob", "ed25519")
        api.generate(*at)
        api.stop("operator")
        api.recover(*at, password="while the operator is down")
        api.sign(*at, signer="institution")
        api.start("operator")
        api.sign_while_recovering(*at)
        api.recover(*at)
        api.restart("gateway")
        api.sign_twice_at_once(*at, 2)
        api.all_sign_at_once()
        api.presign(*at, 1)
        api.wallet("alice")
        for share in (0, -1):
            api.sign(*at, share=share)
            api.sign_with_child(*at, "m/1", share=share)
            api.child_key(*at, "m/1", share=share)
        api.end()
    said = api.sequence.sentences()
    assert {"the operator went down", "bob sent 2 requests at once to generate an ed25519 key"} <= {
        *said
    }


def test_a_key_that_is_gone_after_a_504_is_a_finding():
    class Forgets(Service):
        def says(self, asked, said):
            if self.late and asked.operation == "key":
                return faulty.Said.of(200, said.document | {"keys": []})
            return super().says(asked, said)

    with OwnNode(Forgets) as target:
        api = ApiRun(target)
        api.generate("alice", "ed25519")
        api.lose(1000)
        Service.made.late = True
        api.recover("alice", "ed25519")
        with pytest.raises(BrokenInvariant) as caught:
            api.lose_nothing()
        assert caught.value.name == "failed_request_changes_nothing"


def test_who_looks_what_came_of_a_504_and_gets_no_answer_says_so():
    """And does not take it for the answer that nothing has come of it."""

    class Hides(Service):
        def says(self, asked, said):
            if asked.operation == "key":
                return faulty.Said.of(500, {"error": "cannot look"})
            return super().says(asked, said)

    with OwnNode(Hides) as target:
        api = ApiRun(target)
        api.lose(1000)
        Service.made.late = True
        api.generate("alice", "ed25519")
        Service.made.late = False
        with pytest.raises(BrokenInvariant, match="cannot look") as caught:
            api.lose_nothing()
        assert caught.value.name == "answer_is_as_specified"
        assert api.exchanged[-1][1].status == 500
        assert sum(asked.path.endswith("/key") for asked, _ in api.exchanged) == 1
