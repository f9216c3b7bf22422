"""Refusals of an MPC node arrive at the gateway as what they were."""

import json

import pytest

from mpcsim.ids import INSTITUTION, OPERATOR
from mpcsim.service import errors
from mpcsim.service.rpc.error_encoding import from_json, to_json
from mpcsim.service.rpc.grants import GrantRefused, StaleGrant

REFUSALS = [
    errors.Refused(409, "no"),
    errors.key_busy("generation", 3),
    errors.store_failed("full", OPERATOR),
    errors.key_not_merged(OPERATOR, INSTITUTION),
    GrantRefused("no grant"),
    StaleGrant("an old one"),
]


@pytest.mark.parametrize("refused", REFUSALS, ids=lambda refused: type(refused).__name__)
def test_it_arrives_as_what_it_was(refused):
    body = json.dumps(to_json(refused, OPERATOR)).encode()
    found = from_json(refused.status, body, OPERATOR)
    assert type(found) is type(refused)
    assert (found.status, str(found)) == (refused.status, str(refused))
    assert found.retry_after_s == refused.retry_after_s
    if isinstance(refused, errors.NodeFailed):
        assert found.party == refused.party
    assert isinstance(from_json(refused.status, body, INSTITUTION), errors.LinkFailed)


@pytest.mark.parametrize("status", [202, 204])
def test_a_status_without_the_answer_that_is_due_is_told(status):
    found = from_json(status, b"", OPERATOR)
    said = f"the operator's MPC node answered {status} where 200 is due"
    assert (type(found), found.status, str(found)) == (errors.LinkFailed, 502, said)
