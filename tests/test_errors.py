"""How an abort reads."""

import pytest

from mpcsim.errors import Aborted, Consequence, InRound, OnReceipt, Reason


@pytest.mark.parametrize(
    ("aborted", "text"),
    [
        (
            Aborted(Reason.OT_EXTENSION_CHECK, InRound(3, "respond"), frozenset({2})),
            "aborted in round 3 (respond): OT-extension correlation check fails; party 2; "
            "ban and discard OT",
        ),
        (
            Aborted(Reason.MALFORMED_MESSAGE, OnReceipt(2, "Deal"), detail="Deal: empty"),
            "aborted while receiving from party 2: message does not decode (Deal: empty); "
            "nobody can be named; retry",
        ),
        (
            Aborted(Reason.ECHO_MISMATCH, InRound(3, "deal"), suspects=frozenset({8, 1})),
            f"aborted in round 3 (deal): {Reason.ECHO_MISMATCH.text}; one of parties 1, 8; retry",
        ),
    ],
)
def test_text(aborted: Aborted, text: str) -> None:
    assert str(aborted) == text


def test_consequences_in_a_few_words() -> None:
    assert [each.label for each in Consequence] == ["retry", "ban", "ban and discard OT"]
