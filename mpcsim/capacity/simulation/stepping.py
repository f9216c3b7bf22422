"""The same calls, jobs and draws for whoever drives them from Python, a step at a time.

Messages are not the kernel's then: who drives it says when a call's job is there, and how the call
ends. All else is, and what is to happen later is on its heap.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mpcsim.capacity.kernel import cores, course, draws, ending, heap, jobs, messages
from mpcsim.capacity.kernel.records import (
    AGAIN,
    NONE,
    Calls,
    Service,
)
from mpcsim.capacity.simulation.shape import NODE
from mpcsim.sim.network.tcp.compiled import entry
from mpcsim.sim.network.tcp.state import Records

# What may be done.
COME: Final = 0
"""The next arrival: a call begins."""
CHOOSE: Final = 1
"""Choose a process for a call (``of``) in a role (``number``)."""
HAND: Final = 2
"""A job (``of``) comes to its process."""
ADVANCE: Final = 3
"""Whoever is through first is through now: a job may be over."""
END: Final = 4
"""A call (``of``) ends with an outcome (``number``)."""
FORGET: Final = 5
"""A call (``of``) is worked at no longer."""
HAPPEN: Final = 6
"""The next event: a call may begin."""


@entry
def step(
    w: Calls, n: Records, s: Service, what: int, of: int, number: int, now: float
) -> tuple[int, int]:
    """Do one thing.

    Returns:
        The job that is over by that, or the call that begins, or NONE; and what kept it from being
        done (``course.lacking``; 0: nothing).
    """
    lacks = course.lacking(w, n)
    if lacks:
        return NONE, lacks
    w.state[0].now = now
    found = NONE
    order = NONE
    if what == COME:
        order = course.next_order(w, now)
    elif what == CHOOSE:
        messages.choose(w, s, of, number)
    elif what == HAND:
        jobs.hand(s, of, now)
    elif what == ADVANCE:
        found = jobs.advance(s, cores.soonest(s.places), now)
    elif what == END:
        ending.end(w, of, number, now)
    elif what == FORGET:
        w.calls[of].open -= 1
        ending.forget(w, s, of, now)
    elif what == HAPPEN:
        heap.pop(w.events, w.state[0])
        event = w.events[w.state[0].events]
        if event.kind == AGAIN:
            order = event.of
        else:
            course.befall(w, n, s, event.kind, event.of, event.number, now)
    if order != NONE:
        found = course.next_call(w, order, now)
        w.calls[found].open = 1
        messages.choose(w, s, found, NODE)
    return found, 0


@entry
def soonest(s: Service) -> float:
    """When somebody is through next."""
    place = cores.soonest(s.places)
    return s.places[place].next if place != NONE else math.inf


@entry
def waker(s: Service, p: int, source: int) -> int:
    """The core of a process that sends something to another; NONE: it is elsewhere."""
    return messages.waker(s, p, source)


@entry
def mixed(key: np.uint64, number: int) -> np.uint64:
    """Another key."""
    return draws.mixed(key, number)


@entry
def latency(w: Calls, way: int, back: int) -> float:
    """Draw the latency of one direction of a link: there, or of what comes back for it."""
    return messages.latency(w, way, back)
