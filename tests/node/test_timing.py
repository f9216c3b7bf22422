"""The Server-Timing header adds up, whatever happens inside a span."""

import pytest

from node.process.timing import Timing
from tests.helpers.gateway import Clock


def test_header():
    clock = Clock()
    timing = Timing(clock)
    for name, seconds in (("vault", 0.0012), ("round1", 0.003), ("vault", 0.001)):
        with timing.span(name):
            clock.now += seconds
    clock.now += 0.01
    assert timing.header() == "vault;dur=2.2, round1;dur=3.0, total;dur=15.2"


def test_a_span_that_fails_counts():
    clock = Clock()
    timing = Timing(clock)
    with pytest.raises(KeyError), timing.span("round1"):
        clock.now += 0.5
        raise KeyError
    assert timing.header() == "round1;dur=500.0, total;dur=500.0"


def test_spans_may_overlap():
    clock = Clock()
    timing = Timing(clock)
    with timing.span("argon2"):
        clock.now += 0.1
        with timing.span("round1"):
            clock.now += 0.2
    assert timing.header() == "round1;dur=200.0, argon2;dur=300.0, total;dur=300.0"
