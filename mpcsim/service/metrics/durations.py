"""Histograms of durations in plain lists."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Final

from prometheus_client.core import HistogramMetricFamily

BOUNDS_S: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, math.inf),
)
"""Upper bounds of the buckets: from a message that one process answers by itself to a node's
timeout."""
_EDGES: Final = (*map(str, BOUNDS_S[:-1]), "+Inf")


class Durations:
    """Histograms by label values. One thread counts at a time; any other may look meanwhile.

    Args:
        name: of the metric.
        labels: their names.
    """

    def __init__(self, name: str, text: str, *labels: str) -> None:
        self._name, self._text, self._labels = name, text, labels
        self.counts: defaultdict[tuple[str, ...], list[float]] = defaultdict(_empty_histogram)
        """Counts by label values: one for each bucket, and last the sum of all durations in
        seconds."""

    def add(self, seconds: float, *values: str) -> None:
        """Count one."""
        found, bucket = self.counts[values], 0
        while seconds > BOUNDS_S[bucket]:
            bucket += 1
        found[bucket] += 1
        found[-1] += seconds

    def to_family(self) -> HistogramMetricFamily:
        """Return the histograms as a Prometheus metric family."""
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for values, found in sorted(self.counts.copy().items()):
            *counts, total_s = found.copy()
            buckets, so_far = [], 0.0
            for edge, count in zip(_EDGES, counts, strict=True):
                so_far += count
                buckets.append((edge, so_far))
            family.add_metric(values, buckets, total_s)
        return family


def _empty_histogram() -> list[float]:
    return [0] * (len(BOUNDS_S) + 1)
