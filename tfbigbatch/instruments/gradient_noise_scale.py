"""The gradient noise scale in the course of a run, and the batch size up to which a larger batch pays."""

import math

from tfbigbatch.errors import InputError
from tfbigbatch.instruments import noise_scale as noise
from tfbigbatch.instruments.instrument import Instrument
from tfbigbatch.instruments.noise_average import NoiseAverage
from tfbigbatch.instruments.probe.gradients import ProbeGradients
from tfbigbatch.instruments.probe.micro_batches import micro_batches_of, probe_sizes
from tfbigbatch.instruments.probe.model import probe_mode


class GradientNoiseScaleMixin(Instrument):
    """Measures the "simple" noise scale tr(Sigma) / |G|^2, in examples, of McCandlish et al. 2018 (arXiv:1812.06162).

    It is their estimate of the critical batch size, at which training takes twice the updates and
    twice the examples of the least possible of each. |G|^2 and tr(Sigma) are estimated without bias from the
    norms at two batch sizes, averaged over the looks each by itself, and then divided. Two sources:

    - `probe`: a forward and a backward pass over the probe at each look, in every replica. Where the
      probe is a function, every look is at other examples; a fixed probe's own error does not average out.
    - `step_gradients`: the gradients of the training steps themselves; no pass more. For a `train_step` that hands
      them over (see `StepGradients`), with at least two micro-batches or replicas to an update. A
      look is then the mean over the updates since the last.

    Args:
      probe: None; a tuple (x, y) or (x, y, weight) of arrays, or an iterable of equal micro-batches (see
        `instruments.probe`); or a function of the update that gives one or the other, always of the same shapes.
      micro_batches: what a tuple is cut in.
      step_gradients: None, or StepGradients.
      when: updates between looks; or a list of the updates to look after.
      smoothing: in [0, 1), the decay of the averages at a look.
      confidence: in (0, 1), of the interval; see `NoiseAverage` for how it is made.
      training: bool, whether the probe runs in training mode; None is False, unless the model has batch normalisation.
      log: None; a folder for TensorBoard; or an object as `EventLog`.

    Attributes:
      history: list of dictionaries: step, squared_norm, trace, critical_batch_size, low and high (the
        interval's; NaN at the first look, high may be infinite).
      average: NoiseAverage; in the run's checkpoint, a resumed run goes on with it.

    Raises:
      ValueError: an argument is out of range, or not one source is given; at a look, an update has one micro-batch.
    """

    group = "noise_scale"

    def __init__(
        self,
        *,
        probe=None,
        micro_batches=8,
        step_gradients=None,
        when=50,
        smoothing=0.9,
        confidence=0.95,
        training=None,
        log=None,
    ):
        super().__init__(when=when, log=log)
        if (probe is None) == (step_gradients is None):
            raise InputError("GradientNoiseScale: expected one source of gradients, probe or step_gradients.")
        for name, value, fits, expected in (
            ("smoothing", smoothing, 0.0 <= smoothing < 1.0, "0 or more and below 1"),
            ("confidence", confidence, 0.0 < confidence < 1.0, "between 0 and 1"),
        ):
            if not fits:
                raise InputError(f"GradientNoiseScale: {name}={value} is out of range; expected {expected}.")
        self.average = NoiseAverage(smoothing, confidence)
        self._count = micro_batches
        self._fresh = probe if callable(probe) else None
        self._fixed = None if probe is None or self._fresh else micro_batches_of(probe, micro_batches)
        self._step_gradients = step_gradients
        self._training = training
        self._gradients = None

    def _look(self, step):
        moments = self._of_steps() if self._step_gradients else self._of_probe(step)
        # An exploding gradient says nothing of the noise.
        if moments is None or not all(map(math.isfinite, moments)):
            return
        self.average.add(*moments)
        squared_norm, trace, scale, low, high = self.average.estimate()
        self._tell(
            step,
            {"squared_norm": squared_norm, "trace": trace, "critical_batch_size": scale, "low": low, "high": high},
        )

    def _of_probe(self, step):
        probe = self._fixed if self._fresh is None else micro_batches_of(self._fresh(step), self._count)
        if self._gradients is None:
            self._gradients = ProbeGradients(self.model, probe, probe_mode(self.model, self._training))
        measured = self._gradients(probe)
        count, examples = probe_sizes(probe)
        return noise.unbiased_moments(
            measured.small_squared_norm,
            measured.large_squared_norm,
            small_batch=examples,
            large_batch=count * examples,
        )

    def _of_steps(self):
        read = self._step_gradients.read()
        if read is None:
            return None
        small, large, small_batch, large_batch = read
        if not small_batch < large_batch:
            raise InputError(
                f"GradientNoiseScale: an update is of one micro-batch of {small_batch:g} examples, and the noise is "
                "seen between two or more. Train on several replicas, accumulate (accumulation_steps=2), or give a "
                "probe."
            )
        return noise.unbiased_moments(small, large, small_batch=small_batch, large_batch=large_batch)
