"""Kinds of settings: what their texts may be, at their bounds and one beyond."""

import pytest

from mpcsim.service.process.settings import on_off, seconds, whole_number

TEXTS = [
    (whole_number(2, 5), {"2": 2, "5": 5}, ["1", "6", "2.5", "two", ""]),
    (seconds(3), {"0.001": 0.001, "3": 3.0}, ["0", "-1", "3.001", "nan", "inf", "soon"]),
    (on_off(), {"on": True, "OFF": False}, ["1", "yes", ""]),
]


@pytest.mark.parametrize(("kind", "taken", "refused"), TEXTS, ids=["whole", "seconds", "switch"])
def test_what_a_text_may_be(kind, taken, refused):
    assert {text: kind.parse(text) for text in taken} == taken
    for text in refused:
        with pytest.raises(ValueError):
            kind.parse(text)
