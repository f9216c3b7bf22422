"""How an abort reads."""

import pytest

from mpcsim.errors import Aborted, Consequence, InRound, OnReceipt, Reason, UsageError


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


def test_a_usage_error_is_one_line_in_a_notebook() -> None:
    """IPython asks the exception itself how it is shown."""
    with pytest.raises(UsageError) as caught:
        exec(compile("\n\nraise UsageError('seed: expected int')", "cell", "exec"), globals())
    caught.value.__traceback__ = caught.tb.tb_next  # without this test's own frame
    shown = ["UsageError: seed: expected int (line 3 of the cell)"]
    assert caught.value._render_traceback_() == shown
