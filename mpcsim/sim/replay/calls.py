"""The message graph of a REST call, inferred from recorded runs.

The service is a program, not a table of rounds, so its dependencies are inferred: a call is run
``RUNS`` times in virtual time, without computing time, over links of different random latencies. A
message is sent at the moment when the last message that it depends on arrives; it depends on every
message that was this last one in some run. A graph that does not reproduce the time of every
message in every run is refused. Links deliver in order during the runs: a graph does not know what
a call would do if one message overtook another. All times are milliseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mpcsim.errors import UsageError
from mpcsim.ids import CLIENT, ROLES, PartyId
from mpcsim.link_transport import Endpoint
from mpcsim.sim.network.latency import LogNormal
from mpcsim.sim.network.service_paths import DeliveredMessage
from mpcsim.sim.network.topology import Network
from mpcsim.sim.network.transport import Connection
from mpcsim.sim.replay.graph import MessageGraph
from mpcsim.sim.replay.steps import GATEWAY, NO_TIMEOUTS, GraphMessage, Step, Timeouts

RUNS: Final = 24
"""Runs of a call: each link is slow in some of them, alone and with each other link."""
AT_ONCE: Final = 1e-6
"""Times that differ by less are equal, but for rounding."""
NEAR_MS: Final = 5.0
FAR_MS: Final = 150.0
SPREAD: Final = 1.0
"""Spread of latencies: so large that the message that arrives last varies."""
SEGMENTS: Final = 400
"""Initial congestion window: so large that nothing waits for it."""
IN_ORDER: Final = "2"
"""HTTP/2: a link delivers in order."""


@dataclass(frozen=True)
class RecordedCall:
    """A call that was run: its messages, in milliseconds since its start."""

    ended_ms: float
    messages: Sequence[DeliveredMessage]


def recording_network(run: int) -> Network:
    """Return the network over which the call is made in run ``run``."""
    latencies = (LogNormal(FAR_MS if run >> bit & 1 else NEAR_MS, SPREAD) for bit in range(3))
    connection = Connection(initial_window=SEGMENTS, http=IN_ORDER)
    return Network.star(*latencies, mbit_per_s=1e9, connection=connection)


class _MessageName(NamedTuple):
    """Identity of a message, the same in every run."""

    asking: Endpoint
    asked: Endpoint
    nth: int
    """Index among the requests between these ends."""
    answer: bool


class _Times(NamedTuple):
    given: float
    arrived: float


def build_graph(
    name: str, runs: Sequence[RecordedCall], timeouts_s: Timeouts = NO_TIMEOUTS
) -> MessageGraph:
    """Return the graph that reproduces the time of every message in every run.

    Args:
        timeouts_s: the service's time-outs (``MessageGraph.timeouts_s``).

    Raises:
        UsageError: there is none: runs differ in their messages, or a message was not sent
            when another one arrived.
    """
    named = [_messages_by_name(name, run) for run in runs]
    first = named[0]
    if any(other.keys() != first.keys() for other in named):
        counts = sorted({len(other) for other in named})
        raise UsageError(
            f"{name}: it does not send the same messages every time ({counts[0]} to {counts[-1]}); "
            "record calls that are alike, one that nothing was left over for, say"
        )
    times = [
        {each: _Times(c.given_ms, c.arrived_ms) for each, c in other.items()} for other in named
    ]
    order = sorted(first, key=lambda each: times[0][each].given)
    numbers = {each: number for number, each in enumerate(order)}
    needs = {
        each: _needed_messages(
            f"{name}: {_display_name(each)}", [run[each].given for run in times], times
        )
        for each in order
    }
    last = _needed_messages(f"{name}: its end", [run.ended_ms for run in runs], times)
    groups: dict[tuple[PartyId, tuple[int, ...]], list[int]] = {}
    for each in order:
        waits_for = tuple(sorted(numbers[need] for need in needs[each]))
        groups.setdefault((_sender(each), waits_for), []).append(numbers[each])
    steps: list[Step] = []
    step_of: dict[int, int] = {}
    counts_of: Counter[PartyId] = Counter()
    for at, ((place, waits_for), sends) in enumerate(groups.items()):
        counts_of[place] += 1
        step_of |= dict.fromkeys(sends, at)
        label = f"{_place_name(place)} {counts_of[place]}"
        steps.append(Step(place, "rest", counts_of[place], label, waits_for, tuple(sends)))
    ends = tuple(sorted(numbers[need] for need in last))
    steps.append(Step(CLIENT, "rest", counts_of[CLIENT] + 1, "client done", ends, ()))
    exchanges: dict[tuple[Endpoint, Endpoint, int], int] = {}
    packets = tuple(
        GraphMessage(
            _display_name(each),
            _sender(each),
            _party_at(each.asking if each.answer else each.asked),
            first[each].size,
            step_of[numbers[each]],
            exchanges.setdefault(each[:3], len(exchanges)),
        )
        for each in order
    )
    return MessageGraph(name, tuple(steps), packets, "rest", timeouts_s)


def arrival_times(name: str, run: RecordedCall) -> dict[str, float]:
    """Return the arrival time of each message of a run, by its name in the graph.

    Raises:
        UsageError: a request has more than one answer.
    """
    return {_display_name(each): c.arrived_ms for each, c in _messages_by_name(name, run).items()}


def _messages_by_name(name: str, run: RecordedCall) -> dict[_MessageName, DeliveredMessage]:
    """Return the messages that were sent before the call's end, by name."""
    found: dict[_MessageName, DeliveredMessage] = {}
    nth: Counter[tuple[Endpoint, Endpoint]] = Counter()
    asking: dict[int, _MessageName] = {}
    for carried in sorted(run.messages, key=lambda c: (c.exchange, c.given_ms)):
        request = asking.get(carried.exchange)
        if request is None:
            ends = carried.source, carried.target
            request = asking[carried.exchange] = _MessageName(*ends, nth[ends], False)
            nth[ends] += 1
            found[request] = carried
        else:
            answer = request._replace(answer=True)
            if answer in found or carried.target != request.asking:
                raise UsageError(f"{name}: {_display_name(request)} has more than one answer")
            found[answer] = carried
    return {each: c for each, c in found.items() if c.given_ms < run.ended_ms - AT_ONCE}


def _needed_messages(
    what: str, at: Sequence[float], times: Sequence[dict[_MessageName, _Times]]
) -> frozenset[_MessageName]:
    """Return messages of which the last arrived at time ``at``, in every run."""
    if all(moment <= AT_ONCE for moment in at):
        return frozenset()
    # Messages that arrive together may do so by head-of-line blocking alone.
    never_late = {
        each
        for each in times[0]
        if all(run[each].arrived <= moment + AT_ONCE for moment, run in zip(at, times, strict=True))
    }
    needs: set[_MessageName] = set()
    for moment, run in zip(at, times, strict=True):
        last = {each for each in never_late if moment - run[each].arrived <= AT_ONCE}
        if not last:
            raise UsageError(
                f"{what} waits for something else than the call's messages, or now for these, "
                "now for others"
            )
        needs |= last
    return frozenset(needs)


def _sender(each: _MessageName) -> PartyId:
    return _party_at(each.asked if each.answer else each.asking)


def _party_at(end: Endpoint) -> PartyId:
    return GATEWAY if end is None else end


def _place_name(place: PartyId) -> str:
    return "gateway" if place == GATEWAY else ROLES[place]


def message_name(asking: Endpoint, asked: Endpoint, nth: int, *, answer: bool) -> str:
    """Return the name of a message of a call.

    Args:
        asking: sender of the request, which is the message or is answered by it.
        asked: receiver of the request.
        nth: index among the call's requests between these ends, in order of time.
    """
    ends = f"{_place_name(_party_at(asking))} → {_place_name(_party_at(asked))}"
    return f"{'answer to ' if answer else ''}request {nth + 1} {ends}"


def _display_name(each: _MessageName) -> str:
    return message_name(each.asking, each.asked, each.nth, answer=each.answer)
