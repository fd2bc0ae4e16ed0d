"""Callback that measures the gradient noise scale, an estimate of the critical batch size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tfbigbatch.errors import InputError
from tfbigbatch.instruments import noise_scale as noise
from tfbigbatch.instruments.instrument import Instrument
from tfbigbatch.instruments.probe.gradients import ProbeGradients
from tfbigbatch.instruments.probe.micro_batches import micro_batches_of, probe_sizes
from tfbigbatch.instruments.step_gradients import StepGradients
from tfbigbatch.utils import arguments


class GradientNoiseScale(Instrument):
    """Measures the "simple" noise scale tr(Sigma) / |G|^2, in examples, of McCandlish et al. 2018 (arXiv:1812.06162).

    It is their estimate of the critical batch size, at which training takes twice the minimum of steps and twice the
    minimum of examples. |G|^2 and tr(Sigma) are estimated without bias from the gradient norms at two batch sizes,
    averaged separately over the measurements, and then divided. Two sources of gradients:

    - `probe`: a forward and a backward pass over the probe at each measurement, in every replica. A function can give
      other examples each time; the sampling error of a fixed probe does not average out.
    - `step_gradients`: the gradients of the training steps, without a further pass. For a `train_step` that records
      them (see `StepGradients`), with at least two micro-batches or replicas per step. A measurement is then the mean
      over the steps since the last one.

    Args:
      probe: None; a tuple (x, y) or (x, y, weight) of arrays, or an iterable of equal micro-batches (see
        `instruments.probe`); or a function of the step that returns one of these, always of the same shapes.
      micro_batches: number of parts that a tuple is cut into.
      step_gradients: None, or StepGradients.
      when: steps between measurements, or a list of steps.
      smoothing: EMA decay applied at each measurement, in [0, 1).
      log: None, a folder for TensorBoard, or an object with the methods of `EventLog`.

    Attributes:
      history: list of dictionaries: step, squared_norm, trace, critical_batch_size, low and high (ends of the 95%
        interval, NaN at the first measurement; high may be infinite).
      average: NoiseAverage; put it in the run's checkpoint to resume it.

    Raises:
      ValueError: an argument is out of range, or not exactly one source is given; at a measurement: a step has only
        one micro-batch.
    """

    group = "noise_scale"

    def __init__(
        self,
        *,
        probe: Any = None,
        micro_batches: int = 8,
        step_gradients: StepGradients | None = None,
        when: int | Sequence[int] = 50,
        smoothing: float = 0.9,
        log: Any = None,
    ) -> None:
        super().__init__(when=when, log=log)
        if (probe is None) == (step_gradients is None):
            raise InputError("GradientNoiseScale: expected one source of gradients, probe or step_gradients.")
        self.average = noise.NoiseAverage(
            arguments.number("smoothing", smoothing, least=0, below=1, owner="GradientNoiseScale")
        )
        self._count = micro_batches
        self._fresh = probe if callable(probe) else None
        self._fixed = None if probe is None or self._fresh else micro_batches_of(probe, micro_batches)
        self._step_gradients = step_gradients
        self._gradients: ProbeGradients | None = None

    def _measure(self, step: int) -> None:
        moments = self._of_steps() if self._step_gradients else self._of_probe(step)
        # An infinite gradient has no information on the noise.
        if moments is None or not all(map(math.isfinite, moments)):
            return
        self.average.add(*moments)
        squared_norm, trace, scale, low, high = self.average.estimate()
        self._record(
            step,
            {"squared_norm": squared_norm, "trace": trace, "critical_batch_size": scale, "low": low, "high": high},
        )

    def _of_probe(self, step: int) -> tuple[float, float]:
        probe = self._fixed if self._fresh is None else micro_batches_of(self._fresh(step), self._count)
        if self._gradients is None:
            self._gradients = ProbeGradients(self.model)
        small, large = self._gradients(probe)
        count, examples = probe_sizes(probe)
        return noise.unbiased_moments(small, large, small_batch=examples, large_batch=count * examples)

    def _of_steps(self) -> tuple[float, float] | None:
        read = self._step_gradients.read() if self._step_gradients else None
        if read is None:
            return None
        small, large, small_batch, large_batch = read
        if not small_batch < large_batch:
            raise InputError(
                f"GradientNoiseScale: a step has one micro-batch of {small_batch:g} examples, and the noise is "
                "measured between two or more. Train on several replicas, accumulate (accumulation_steps=2), or pass "
                "a probe."
            )
        return noise.unbiased_moments(small, large, small_batch=small_batch, large_batch=large_batch)
