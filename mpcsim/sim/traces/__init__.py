"""What comes out of a run: its trace, what the trace says, and files of it.

``records`` and ``trace`` are the data; ``flight``, ``causes``, ``waits``, ``summary``,
``critical_path`` and ``frame`` evaluate them; ``jsonl`` and ``perfetto`` write files.
"""
