"""Notices that a key is to be suspended."""

from dataclasses import replace

from mpcsim.crypto.rng import SeededRng
from mpcsim.ids import INSTITUTION, OPERATOR
from mpcsim.service.rpc import suspension_notices
from mpcsim.service.rpc.wire import AbortedSession


def test_a_notice_opens_for_what_it_was_sealed_for():
    at, secret = AbortedSession("alice", b"E" * 32, b"S" * 32), bytes(32)
    notice = suspension_notices.seal_notice(secret, at, OPERATOR, INSTITUTION, SeededRng("notice"))
    assert suspension_notices.open_notice(secret, at, OPERATOR, notice) == INSTITUTION
    for wrong in (
        (bytes(31) + b"1", at, OPERATOR, notice),
        (secret, replace(at, user_id="bob"), OPERATOR, notice),
        (secret, replace(at, key_id=b"F" * 32), OPERATOR, notice),
        (secret, replace(at, session_id=b"T" * 32), OPERATOR, notice),
        (secret, at, INSTITUTION, notice),
        (secret, at, OPERATOR, notice[:-1]),
        (secret, at, OPERATOR, b""),
    ):
        assert suspension_notices.open_notice(*wrong) is None
