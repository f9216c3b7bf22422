"""Slow call as a trace: for figures, the critical path, and Perfetto."""

from __future__ import annotations

import numpy as np

from mpcsim.capacity.kernel import records as kernel
from mpcsim.capacity.results.record import RunRecord
from mpcsim.capacity.simulation.call_graph import CALLER, ROLES
from mpcsim.errors import UsageError
from mpcsim.ids import PartyId
from mpcsim.sim.network.transport import Transfer
from mpcsim.sim.trace import Trace
from mpcsim.sim.traces.records import PARTY_OF, Ending, Hop, MessageRecord, Verdict, WorkRecord


def slow_call(run: RunRecord, nth: int = 1) -> Trace:
    """Return one of the slowest calls as a trace.

    Args:
        nth: 1 is the slowest of those that succeeded.

    Raises:
        UsageError: not so many are kept.
    """
    calls = run.slow_calls.rows
    if not 1 <= nth <= len(calls):
        raise UsageError(f"slow call {nth}: the slowest {len(calls)} are kept, counted from 1")
    took = calls[:, kernel.KEPT_ENDED] - calls[:, kernel.KEPT_DUE]
    number = int(np.argsort(-took, kind="stable")[nth - 1])
    return _KeptCall(run, number).trace()


class _KeptCall:
    """Slow call that was kept with all its moments."""

    def __init__(self, run: RunRecord, number: int) -> None:
        row = run.slow_calls.rows[number]
        self._run = run
        self._row = row
        self._shape = run.layout.shapes[int(row[kernel.KEPT_OPERATION])]
        self._due = float(row[kernel.KEPT_DUE])
        self._at = run.slow_calls.moments[number, : len(self._shape.messages)]
        self._sent = [n for n, at in enumerate(self._at) if at[kernel.SENT] >= 0]
        self._work_of = {n: k for k, n in enumerate(self._sent)}

    def trace(self) -> Trace:
        """Return the trace of the call."""
        works = tuple(self._work(n) for n in self._sent)
        ended: dict[PartyId, float] = {}
        for work in works:
            ended[work.party] = max(ended.get(work.party, 0.0), work.end_ms)
        row = self._row
        return Trace(
            f"{self._shape.operation.name}, call {int(row[kernel.KEPT_NUMBER]) + 1:,} of the run",
            self._run.deployment.network.name,
            self._run.seed,
            "recorded costs",
            "virtual",
            Verdict.VALID,
            tuple(self._message(n) for n in self._sent),
            works,
            tuple(Ending(party, "done", at) for party, at in sorted(ended.items())),
            float(row[kernel.KEPT_ENDED]) - self._due,
        )

    def _moment(self, n: int, moment: int) -> float:
        return float(self._at[n, moment]) - self._due

    def _place(self, role: int) -> str:
        process = int(self._row[kernel.KEPT_FIRST_ROLE + role])
        if role == CALLER or process == kernel.NONE:
            return ROLES[role]
        return str(self._run.layout.processes[process])

    def _cause(self, n: int) -> int | None:
        """Return the work after which a message was sent."""
        step = next(step for step in self._shape.steps if n in step.sends)
        needs = [m for m in step.needs if m in self._work_of]
        if not needs:
            return None
        return self._work_of[max(needs, key=lambda m: self._moment(m, kernel.COMPLETED))]

    def _message(self, n: int) -> MessageRecord:
        message = self._shape.messages[n]
        sent, carried, there = (
            self._moment(n, moment) for moment in (kernel.SENT, kernel.CONNECTED, kernel.ARRIVED)
        )
        carried = max(sent, carried)
        transfer = Transfer(sent, there, carried - sent, 0.0, 0.0, 0.0, there - carried, 0.0)
        source, target = self._place(message.source), self._place(message.target)
        return MessageRecord(
            self._work_of[n],
            "",
            "call",
            0,
            message.name,
            PARTY_OF[ROLES[message.source]],
            PARTY_OF[ROLES[message.target]],
            message.size,
            sent,
            there,
            (Hop(source, target, transfer),),
            self._cause(n),
        )

    def _work(self, n: int) -> WorkRecord:
        message = self._shape.messages[n]
        there, handled = self._moment(n, kernel.ARRIVED), self._moment(n, kernel.HANDLED)
        worked = min(float(self._at[n, kernel.SERVICE_MS]), handled - there)
        return WorkRecord(
            self._work_of[n],
            PARTY_OF[ROLES[message.target]],
            self._place(message.target),
            "call",
            0,
            message.name,
            handled - worked,
            handled,
            ("message", self._work_of[n]),
        )
