"""The Server-Timing header adds up, whatever happens inside a span."""

import pytest

from node.process.timing import Timing
from tests.helpers.gateway import Clock


def test_spans_add_up_also_where_they_fail_or_overlap():
    clock = Clock()
    timing = Timing(clock)
    for name, seconds in (("vault", 0.0012), ("round1", 0.003), ("vault", 0.001)):
        with timing.span(name):
            clock.now += seconds
    with pytest.raises(KeyError), timing.span("round2"):
        clock.now += 0.5
        raise KeyError
    with timing.span("argon2"):
        clock.now += 0.1
        with timing.span("round3"):
            clock.now += 0.2
    clock.now += 0.01
    assert timing.header() == (
        "vault;dur=2.2, round1;dur=3.0, round2;dur=500.0, round3;dur=200.0, argon2;dur=300.0, "
        "total;dur=815.2"
    )
