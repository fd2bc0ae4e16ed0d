"""The gradient noise scale over a short run, and what it may be in the rest of the run."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence

from tfbigbatch.advice import sources
from tfbigbatch.errors import InputError
from tfbigbatch.instruments import noise_scale as noise

FEWEST = 6
"""Measurements in a window, at least: fewer have no useful interval."""
# Stands for infinity in sums.
_HUGE = 1e12


@dataclasses.dataclass(frozen=True)
class Moments:
    """One measurement: unbiased estimates of |G|^2 and tr(Sigma) at a step, which can be negative."""

    step: int
    squared_norm: float
    trace: float


@dataclasses.dataclass(frozen=True)
class NoisePoint:
    """The noise scale of some steps.

    Attributes:
      first_step, last_step: of the measurements.
      noise_scale: tr(Sigma) / |G|^2, in examples; infinity where |G|^2 cannot be told from 0.
      low, high: ends of its interval; high may be infinity.
    """

    first_step: int
    last_step: int
    noise_scale: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Range:
    """An estimate with its ends, in examples; the ends may be infinite."""

    value: float
    low: float
    high: float


def points(moments: Sequence[Moments]) -> list[NoisePoint]:
    """The noise scale in windows of steps: the last half, the quarter before it, the eighth before that, ...

    A window's moments are averaged before they are divided; the interval is Fieller's, see `instruments.noise_scale`.

    Raises:
      ValueError: the noise scale is not measurable: too few measurements are finite, or even the whole run's interval
        is unbounded on both sides.
    """
    finite = [each for each in moments if math.isfinite(each.squared_norm) and math.isfinite(each.trace)]
    if len(finite) < FEWEST:
        raise InputError(
            f"not measurable: {len(finite)} of {len(moments)} measurements of the gradient are finite, expected "
            f"{FEWEST} or more. The recipe diverges, or the time is too short: lower the learning rate, or give more "
            "seconds."
        )
    found: list[NoisePoint] = []
    end = finite[-1].step
    while len(found) < 5:
        window = [each for each in finite if end / 2 < each.step <= end]
        if len(window) < FEWEST:
            break
        found.insert(0, _point(window))
        end //= 2
    if not found:
        found = [_point(finite)]
    if math.isinf(found[-1].noise_scale) and found[-1].low == 0.0:
        raise InputError(
            f"not measurable: in the steps {found[-1].first_step} to {found[-1].last_step} the mean gradient cannot be "
            "told from its noise at any batch size. Measure for longer, or at a larger tuned batch."
        )
    return found


def _point(window: Sequence[Moments]) -> NoisePoint:
    norms, traces = [each.squared_norm for each in window], [each.trace for each in window]
    norm, trace = statistics.fmean(norms), statistics.fmean(traces)
    spreads = (statistics.variance(traces), statistics.covariance(traces, norms), statistics.variance(norms))
    of_trace, of_both, of_norm = (each / len(window) for each in spreads)
    z = statistics.NormalDist().inv_cdf(0.5 + sources.CONFIDENCE / 2)
    low, high = noise.ratio_interval(trace, norm, (of_trace, of_both, of_norm), z)
    return NoisePoint(window[0].step, window[-1].step, noise.noise_scale(norm, trace), low, high)


def growth(measured: Sequence[NoisePoint]) -> float | None:
    """The power p of noise scale = c step^p in [0, END_GROWTH], by least squares; None for fewer than three windows."""
    usable = [each for each in measured if 0.0 < each.noise_scale < math.inf]
    if len(usable) < 3:
        return None
    # At the geometric middles of the windows' steps.
    x = [0.5 * math.log(max(1, each.first_step) * max(1, each.last_step)) for each in usable]
    y = [math.log(each.noise_scale) for each in usable]
    slope = statistics.linear_regression(x, y).slope
    return min(max(slope, 0.0), sources.END_GROWTH)


def now(measured: Sequence[NoisePoint]) -> Range:
    """The last window's noise scale; its lower end where |G|^2 cannot be told from 0."""
    last = measured[-1]
    value = last.noise_scale if math.isfinite(last.noise_scale) else last.low
    return Range(value, min(last.low, value), max(last.high, value))


def over_the_run(measured: Sequence[NoisePoint], total_steps: int, batch_size: int) -> Range:
    """The critical batch of the whole run, E_min / S_min, from the noise scale N(s) along it.

    A run at `batch_size` makes 1 / (1 + N / batch_size) of a noiseless step at each step (McCandlish et al. 2018,
    equation 2.7 and appendix D): S_min is the sum of that, and E_min the sum of N / (1 + N / batch_size). A run at
    batch B then takes S_min + E_min / B steps.
    """
    power = growth(measured)
    here = now(measured)
    middle = sources.UNKNOWN_GROWTH if power is None else power
    cases = (
        (here.value, [each.noise_scale for each in measured], middle),
        (here.low, [each.low for each in measured], 0.0),
        (here.high, [each.high for each in measured], sources.END_GROWTH),
    )
    value, low, high = (_critical(measured, *case, total_steps, batch_size) for case in cases)
    return Range(value, min(low, value), max(high, value))


def _critical(
    measured: Sequence[NoisePoint], last: float, scales: Sequence[float], power: float, total: int, batch: int
) -> float:
    if math.isinf(last):
        return math.inf
    fewest = most = 0.0
    steps, before = 60, 0.0
    for number in range(1, steps + 1):
        step = total ** (number / steps)
        scale = min(_at(step, measured, last, scales, power), _HUGE)
        fewest += (step - before) / (1.0 + scale / batch)
        most += (step - before) * scale / (1.0 + scale / batch)
        before = step
    return most / fewest


def _at(step: float, measured: Sequence[NoisePoint], last: float, scales: Sequence[float], power: float) -> float:
    for point, scale in zip(measured[:-1], scales):
        if step <= point.last_step and math.isfinite(scale):
            return scale
    return last * max(1.0, step / measured[-1].last_step) ** power
