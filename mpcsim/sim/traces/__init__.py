"""Traces: the record of a run, its analysis, and its files.

Model: a directed acyclic graph of work and messages, each with its last cause; the critical path is
the chain of causes from the run's end to its start. Assumed: a piece of work waits for one cause
last. Left out: what would happen without a segment of the path (``replay`` says that).

``records`` is the data; ``message_segments``, ``causes``, ``waits``, ``summary``, ``critical_path``
and ``frame`` evaluate it; ``jsonl``, ``perfetto`` and ``mermaid`` write files. ``mpcsim.sim.trace``
has all of them as methods.
"""

from mpcsim.sim.traces.causes import sequential_delays

__all__ = [
    "sequential_delays",
]
