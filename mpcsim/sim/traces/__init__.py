"""What comes out of a run: its record, what the record says, and files of it.

``records`` is the data; ``flight``, ``causes``, ``waits``, ``summary``, ``critical_path`` and
``frame`` evaluate it; ``jsonl`` and ``perfetto`` write files. ``mpcsim.sim.trace`` has all of them
as methods.
"""

from mpcsim.sim.traces.causes import sequential_delays

__all__ = [
    "sequential_delays",
]
