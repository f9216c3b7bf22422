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


def test_without_any_outage_a_504_is_none_that_was_expected():
    with OwnNode(Service) as target:
        Service.made.late = True
        with pytest.raises(BrokenInvariant) as caught:
            ApiRun(target).generate("alice", "ed25519")
        assert caught.value.name == "answer_is_as_specified"


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
