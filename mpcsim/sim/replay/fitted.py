"""Approximate replay: a linear regression of each transfer's time, with bootstrapped residuals.

Model: some thousand samples are simulated. Without losses, each transfer's time is fitted by least
squares as a constant plus multiples of its latencies there and back. Latencies are drawn anew;
residuals, losses included, are drawn from the simulated samples, those of all transfers from the
same sample: a loss delays what follows on the connection.

Assumed: residuals do not depend on the latencies. Left out: events rarer than the simulated
samples. The error is measured on other samples; if it exceeds the tolerance, every transfer is
simulated. All times are milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from mpcsim.sim.network.topology import Network
from mpcsim.sim.replay.chunk import Chunk, simulate
from mpcsim.sim.replay.kernels.arrays import Drawn, Floats
from mpcsim.sim.replay.kernels.draws import ArraySource, DrawTable, SampledDraws
from mpcsim.sim.replay.plan import CHUNK, Plan
from mpcsim.sim.replay.results import Approximation
from mpcsim.sim.run.compute import Compute

SIMULATED: Final = 16 * CHUNK
"""Samples of the fit, at most."""
MOST_TIMES: Final = 1 << 22
"""Residuals kept, at most, of all transfers together."""
JUDGED: Final = 32 * CHUNK
"""Other samples, to measure the error: 33 of them are above p99.9."""
JUDGED_AT: Final = (50.0, 95.0, 99.0, 99.9)
"""Percentiles at which the error is measured."""
TOLERANCE: Final = 0.05
"""Largest accepted relative error at any of them, by default."""
NEGLIGIBLE: Final = 1e-9


class FittedTransfers:
    """Regressions of the transfers of a plan."""

    def __init__(self, plan: Plan, network: Network, compute: Compute, seed: int) -> None:
        hops = len(plan.hops)
        self.count = max(CHUNK, min(SIMULATED, MOST_TIMES // max(1, hops) // CHUNK * CHUNK))
        self._plan = plan
        draws = DrawTable(self.count, seed)
        took = _transfer_times(plan, draws, self.count)
        links = tuple(replace(link, loss=0.0, back_loss=None) for link in network.links)
        lossless = replace(network, links=links)
        clear = Plan(plan.steps, plan.messages, lossless, compute, plan.scope, plan.timeouts_s)
        lossy = any(hop.direction.is_lossy for hop in plan.hops)
        without = _transfer_times(clear, draws, self.count) if lossy else took
        self._factors = np.zeros((hops, 3))
        self._rest = np.empty((self.count, hops))
        for h, hop in enumerate(plan.hops):
            each = slice(0, self.count)
            there = self._per_sample(draws(hop.key, hop.direction, "forward", each))
            back = self._per_sample(draws(hop.key, hop.direction, "backward", each))
            self._factors[h] = _fit(there, back, without[h])
            fitted = self._factors[h] @ np.stack([there, back, np.ones(self.count)])
            self._rest[:, h] = took[h] - fitted
        self._needs_back = np.abs(self._factors[:, 1]) > NEGLIGIBLE

    def _per_sample(self, drawn: Drawn) -> Floats:
        """Return one value for each sample, even if all are the same."""
        return np.broadcast_to(drawn, self.count).astype(np.float64)

    def simulate(self, seed: int, number: int, count: int, purpose: str = "samples") -> Chunk:
        """Draw a chunk of ``count`` samples."""
        plan = self._plan
        source = SampledDraws(seed, number, purpose)
        each = slice(0, count)
        there = np.empty((len(plan.hops), count))
        back = np.zeros((len(plan.hops), count))
        for h, hop in enumerate(plan.hops):
            there[h] = source(hop.key, hop.direction, "forward", each)
            if self._needs_back[h]:
                back[h] = source(hop.key, hop.direction, "backward", each)
        which = source.choices(self.count, count)
        ends = np.empty((len(plan.parties), count))
        from mpcsim.sim.replay.kernels import fitted_loop  # here, like ``chunk``

        fitted_loop.run(
            plan.step_records,
            plan.sends,
            plan.needed_by,
            plan.message_records,
            plan.hop_records,
            plan.flow_records,
            there,
            back,
            self._factors,
            self._rest,
            which,
            plan.last_steps,
            ends,
        )
        return Chunk.of(plan, ends)

    def evaluate(self, seed: int, tolerance: float) -> Approximation:
        """Measure the error on simulated samples of other draws."""
        ours, theirs = np.empty(JUDGED), np.empty(JUDGED)
        for number in range(JUDGED // CHUNK):
            each = slice(number * CHUNK, (number + 1) * CHUNK)
            ours[each] = self.simulate(seed, number, CHUNK, "judged fit").finished
            draws = SampledDraws(seed, number, "judged exact")
            theirs[each] = simulate(self._plan, draws, each, False).finished
        failed = [np.count_nonzero(np.isinf(times)) / JUDGED for times in (ours, theirs)]
        levels = (np.arange(JUDGED) + 0.5) / JUDGED
        fitted, exact = (times[np.isfinite(times)] for times in (ours, theirs))
        if not (len(fitted) and len(exact)) or abs(failed[0] - failed[1]) > tolerance:
            none = dict.fromkeys(JUDGED_AT, math.inf)
            return Approximation(self.count, JUDGED, math.inf, none, math.inf, tolerance)
        mean = float(exact.mean())
        errors = {
            at: _relative_error(*(np.percentile(x, at) for x in (fitted, exact)))
            for at in JUDGED_AT
        }
        apart = float(np.abs(np.quantile(fitted, levels) - np.quantile(exact, levels)).mean())
        distance = apart / mean if mean else 0.0
        off = _relative_error(float(fitted.mean()), mean)
        return Approximation(self.count, JUDGED, off, errors, distance, tolerance)


def _relative_error(ours: float, theirs: float) -> float:
    """Return the relative difference of ``ours`` from ``theirs``."""
    return float(ours / theirs - 1) if theirs else 0.0


def chunks(
    plan: Plan,
    fitted: FittedTransfers | None,
    samples: range,
    *,
    seed: int,
    explain: bool = False,
    draws: ArraySource | None = None,
) -> Iterator[tuple[slice, Chunk]]:
    """Simulate samples chunk by chunk, each chunk with its own generator.

    Args:
        fitted: regressions, in place of simulation.
        samples: their numbers; the first begins a chunk.
        draws: draws in place of the generators'.
    """
    for first in samples[::CHUNK]:
        number, each = first // CHUNK, slice(first, min(first + CHUNK, samples.stop))
        if fitted is not None:
            yield each, fitted.simulate(seed, number, each.stop - first)
        else:
            yield each, simulate(plan, draws or SampledDraws(seed, number), each, explain)


def _transfer_times(plan: Plan, draws: DrawTable, count: int) -> Floats:
    """Return the time of each transfer in the samples of a table."""
    took = np.empty((len(plan.hops), count))
    for first in range(0, count, CHUNK):
        each = slice(first, min(first + CHUNK, count))
        took[:, each] = simulate(plan, draws, each, True).parts.sum(axis=1)
    return took


def _fit(there: Floats, back: Floats, took: Floats) -> Floats:
    """Fit ``took`` to multiples of ``there`` and ``back`` and a constant, by least squares.

    A constant latency has propagation's factor: 1 there, 0 back.
    """
    factors = np.array([1.0, 0.0, 0.0])
    rest = took - there
    varying = [k for k, each in enumerate((there, back)) if np.ptp(each) > NEGLIGIBLE]
    columns = [(there, back)[k] for k in varying]
    found, *_ = np.linalg.lstsq(np.stack([*columns, np.ones(len(took))], axis=1), rest)
    for k, factor in zip(varying, found, strict=False):
        factors[k] += factor
    factors[2] = found[-1]
    return factors
