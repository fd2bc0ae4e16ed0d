"""The gradient noise scale at the beginning and in the middle of a run, in the rest of it, and what it allows."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence

from tfbigbatch.errors import InputError
from tfbigbatch.instruments import noise_scale as noise
from tfbigbatch.scaling.recipe import Recipe
from tfbigbatch.tuning import sources

FEWEST = 6
"""Measurements of a noise scale, at least: fewer have no useful interval."""


@dataclasses.dataclass(frozen=True)
class Range:
    """An estimate with its ends; the upper end may be infinite."""

    value: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class NoisePoint:
    """The noise scale tr(Sigma) / |G|^2 of the steps of some measurements.

    Attributes:
      first_step, last_step: of the measurements.
      scale: in examples, with its interval; the value is the lower end where |G|^2 cannot be told from 0.
    """

    first_step: int
    last_step: int
    scale: Range

    @property
    def middle(self) -> float:
        """The middle of its steps."""
        return (self.first_step + self.last_step) / 2


def points(history: Sequence[Mapping[str, float]]) -> list[NoisePoint]:
    """The noise scale in the first quarter of the measured steps, if that has 12 measurements, and in the last half.

    Args:
      history: of a GradientNoiseScale: step, and unbiased estimates of |G|^2 and tr(Sigma), which can be negative. They
        are averaged before they are divided; the interval is Fieller's, see `instruments.noise_scale`.

    Raises:
      ValueError: there are too few measurements, or the interval is unbounded on both sides.
    """
    if len(history) < FEWEST:
        raise InputError(
            f"not measurable: {len(history)} measurements of the gradient are finite, expected {FEWEST} or more. The "
            "recipe diverges, or the time is too short: lower the learning rate, or give more seconds."
        )
    end = history[-1]["step"]
    early = [each for each in history if each["step"] <= end / 4]
    late = [each for each in history if each["step"] > end / 2]
    last = _point(late if len(late) >= FEWEST else history)
    if last.scale.value == 0.0 and math.isinf(last.scale.high):
        raise InputError(
            f"not measurable: in the steps {last.first_step} to {last.last_step} the mean gradient cannot be told from "
            "its noise at any batch size. Measure for longer, or at a larger tuned batch."
        )
    return [_point(early), last] if len(early) >= 2 * FEWEST else [last]


def _point(window: Sequence[Mapping[str, float]]) -> NoisePoint:
    norms, traces = [each["squared_norm"] for each in window], [each["trace"] for each in window]
    norm, trace = statistics.fmean(norms), statistics.fmean(traces)
    spreads = (statistics.variance(traces), statistics.covariance(traces, norms), statistics.variance(norms))
    of_trace, of_both, of_norm = (each / len(window) for each in spreads)
    z = statistics.NormalDist().inv_cdf(0.5 + sources.CONFIDENCE / 2)
    low, high = noise.ratio_interval(trace, norm, (of_trace, of_both, of_norm), z)
    scale = noise.noise_scale(norm, trace)
    value = scale if math.isfinite(scale) else low
    first, last = int(window[0]["step"]), int(window[-1]["step"])
    return NoisePoint(first, last, Range(value, min(low, value), max(high, scale)))


def growth(measured: Sequence[NoisePoint]) -> float:
    """The power p in [0, 1] of noise scale = c step^p through both points; UNKNOWN_GROWTH of one point."""
    first, last = measured[0], measured[-1]
    if first is last or first.scale.value <= 0.0:
        return sources.UNKNOWN_GROWTH
    power = math.log(max(last.scale.value, 1e-12) / first.scale.value) / math.log(last.middle / first.middle)
    return min(max(power, 0.0), sources.END_GROWTH)


def over_the_run(measured: Sequence[NoisePoint], total_steps: int, batch_size: int) -> Range:
    """The critical batch of the whole run, E_min / S_min, from the noise scale N(s) = N (s / middle)^p at each step s.

    N is the last point's; its lower end is taken without growth, its upper end with growth in proportion to the steps.
    A run at `batch_size` makes 1 / (1 + N / batch_size) of a noiseless step at each step (McCandlish et al. 2018,
    equation 2.7 and appendix D): S_min is the sum of that, and E_min the sum of N / (1 + N / batch_size). A run at
    batch B then takes S_min + E_min / B steps.
    """
    last = measured[-1]

    def critical(scale: float, power: float) -> float:
        if math.isinf(scale):
            return math.inf
        fewest = most = before = 0.0
        pieces = 60  # as many on each power of ten of the steps
        for piece in range(1, pieces + 1):
            step = total_steps ** (piece / pieces)
            at = scale * (step / last.middle) ** power
            fewest += (step - before) / (1.0 + at / batch_size)
            most += (step - before) * at / (1.0 + at / batch_size)
            before = step
        return most / fewest

    value = critical(last.scale.value, growth(measured))
    low, high = critical(last.scale.low, 0.0), critical(last.scale.high, sources.END_GROWTH)
    return Range(value, min(low, value), max(high, value))


def rate_growth(noise_scale: float, *, tuned_batch: float, batch: float) -> float:
    """The ratio of the best learning rate at `batch` to the tuned one.

    McCandlish et al. 2018 (arXiv:1812.06162), equation 2.6: the best learning rate at batch B is
    e_max / (1 + N / B) with the noise scale N. The ratio for two batches:

        (1 + N / tuned_batch) / (1 + N / batch)

    With much noise this is the linear rule, without noise it is 1.

    Args:
      noise_scale: N, in examples, 0 or more; may be infinite.
      tuned_batch, batch: in examples.
    """
    if math.isinf(noise_scale):
        return batch / tuned_batch
    return (1.0 + noise_scale / tuned_batch) / (1.0 + noise_scale / batch)


def noise_gain(noise_scale: float, recipe: Recipe, *, batch_size: float, peak: float, highest: float = 1.0) -> float:
    """The factor from the planned `peak` learning rate to the one that the noise allows, at most `highest`.

    A peak by the square-root rule (LEGW's) is kept if the noise scale is at least the geometric mean of the two batch
    sizes: the tuned recipe's and `batch_size`, of the run, in examples.
    """
    allowed = recipe.learning_rate * rate_growth(noise_scale, tuned_batch=recipe.batch_size, batch=batch_size)
    return min(highest, allowed / peak)
