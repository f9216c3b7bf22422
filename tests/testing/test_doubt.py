"""What was answered 502 or 504 may have happened: the kit looks, and blames nobody for it."""

from __future__ import annotations

from mpcsim.testing import ApiRun
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
