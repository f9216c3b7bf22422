"""Kinds of settings: what their texts may be, at their bounds and one beyond."""

import pytest

from mpcsim.service.process.settings import Kind, seconds, switch, whole


@pytest.mark.parametrize(
    ("kind", "taken", "refused"),
    [
        (whole(2, 5), {"2": 2, "5": 5}, ["1", "6", "2.5", "two", ""]),
        (seconds(3), {"0.001": 0.001, "3": 3.0}, ["0", "-1", "3.001", "nan", "inf", "soon"]),
        (switch(), {"on": True, "OFF": False}, ["1", "yes", ""]),
    ],
    ids=["whole", "seconds", "switch"],
)
def test_what_a_text_may_be(kind: Kind, taken, refused):
    assert {text: kind.parse(text) for text in taken} == taken
    for text in refused:
        with pytest.raises(ValueError):
            kind.parse(text)
