"""Runs of one protocol: scenarios, deviations, checks."""

from mpcsim.testing.runs.protocol_run import fault_sentence

__all__ = [
    "fault_sentence",
]
