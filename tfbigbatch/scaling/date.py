"""DATE's dynamic part: measures during the warm-up, and adjusts the peak learning rate and the warm-up's end."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfbigbatch.errors import InputError
from tfbigbatch.instruments import noise_scale as noise
from tfbigbatch.instruments.instrument import AtSteps, innermost, layer_rows
from tfbigbatch.instruments.probe.gradients import Measured, ProbeGradients
from tfbigbatch.instruments.probe.micro_batches import micro_batches_of, probe_sizes
from tfbigbatch.scaling.recipe import Recipe
from tfbigbatch.schedules.classes import AdjustableWarmup, GradualWarmup
from tfbigbatch.utils import arguments

_MEASUREMENTS = 10  # over the planned warm-up
_SMOOTHING = 0.5  # EMA decay at each measurement: the gradient changes fast during a warm-up
_NOISE_AT = (0.5, 1.0)  # of the planned warm-up
_WATCH = 2.0  # warm-ups, to include the first steps at the peak

# A factor is meaningless near zero: the best loss counts as at least this fraction of the first.
_FLOOR = 0.01

_number = functools.partial(arguments.number, owner="DATE")
_integer = functools.partial(arguments.integer, owner="DATE")


class DATEState(tf.Module):
    """Put it in the run's checkpoint: `tf.train.Checkpoint(..., date=callback.state)`.

    Scalars, float32 unless noted. The names of the attributes are in checkpoints.

    Attributes:
      last_look: int64, the step of the last measurement; 0 before the first.
      measurements: int64, number of measurements in the two averages.
      squared_norm, trace: exponential averages of |G|^2 and tr(Sigma), biased to 0.
      first_loss, best_loss: on the probe; 0 and infinity before the first measurement. After a loss that is not finite
        the best is NaN until the next finite one.
      gain: of the schedule.
      ended: bool, True once a blow-up has ended the warm-up.
    """

    def __init__(self) -> None:
        super().__init__(name="date")

        def scalar(name: str, value: Any, dtype: tf.DType) -> tf.Variable:
            return tf.Variable(value, dtype=dtype, trainable=False, name=name)

        self.last_look = scalar("last_look", 0, tf.int64)
        self.measurements = scalar("measurements", 0, tf.int64)
        self.squared_norm = scalar("squared_norm", 0.0, tf.float32)
        self.trace = scalar("trace", 0.0, tf.float32)
        self.first_loss = scalar("first_loss", 0.0, tf.float32)
        self.best_loss = scalar("best_loss", float("inf"), tf.float32)
        self.gain = scalar("gain", 1.0, tf.float32)
        self.ended = scalar("ended", False, tf.bool)

    def value(self, name: str) -> Any:
        """The value of an attribute, as a Python number."""
        return getattr(self, name).numpy().item()


class DATE(AtSteps):
    """Measures during the warm-up, and lowers the peak learning rate if the measurements require it.

    The optimizer's schedule is that of `Recipe.schedule` or `schedules.build`, with a linear warm-up; DATE makes it
    adjustable at the beginning of `fit`, as `scaling.date.make_adjustable` does. At steps that depend on the step
    number only, DATE measures the loss and the gradient norms on a fixed probe:

    - Noise: after half and after all of the planned warm-up, the peak becomes at most what the gradient noise scale N
      allows, given a recipe tuned at batch B0: `recipe.learning_rate * (1 + N / B0) / (1 + N / batch_size)`.
    - Stability: if the loss exceeds `blow_up` times the best so far or is not finite, or if a layer changes by more
      than `largest_update` of its norm in one step, the warm-up ends at once and the learning rate is multiplied by
      `safety`; nothing raises it again. This is checked until twice the planned warm-up.

    A lower peak ends the warm-up earlier by the same factor and scales the decay. The paper (You et al. 2019,
    arXiv:1901.08256) has the plan that DATE starts from: LEGW's peak and warm-up, with layer-wise adaptation. The
    measurements and the rule here are this package's own.

    Put it before the callback that saves checkpoints, and `callback.state` into the checkpoint: a resumed run then
    makes the same decisions. Each of the twenty measurements costs about as much as training on the probe's examples.

    Args:
      probe: fixed examples of the training set, drawn at random: a tuple (x, y) or (x, y, weight) of arrays, or an
        iterable of equal micro-batches (see `instruments.probe`).
      micro_batches: number of parts that a tuple is cut into.
      recipe: the tuned `Recipe`; None disables the decisions by noise.
      batch_size: examples in one step (the global batch); required with a recipe.
      measure_every: steps between measurements; None is a tenth of the planned warm-up.
      blow_up: factor of the best loss on the probe (the loss must be positive).
      largest_update: limit of |change of w| / |w| of an adapted layer in one step, for a LARS or LAMB with
        `layer_statistics=True`. None: no limit.
      safety: factor of the learning rate at a blow-up, in (0, 1).
      highest_gain: above 1 lets the noise raise the planned peak up to this factor, during the warm-up only; at most 2.
      log: None, or a function of (step, dictionary of name to float), called at each measurement in the chief.
      verbose: whether the chief prints the decisions.

    Attributes:
      state: DATEState.
      decisions: list of dictionaries, those of this process: step, reason, rate (learning rate of the last step), loss,
        noise_scale, largest_update (None if not measured), gain (after the decision).

    Raises:
      ValueError: an argument is out of range; at the beginning of `fit`: Keras 3 runs on another backend than
        TensorFlow; the optimizer's schedule cannot be adjusted, has no warm-up, or was made adjustable outside the
        model's strategy; the state is of another run.
    """

    def __init__(
        self,
        *,
        probe: Any,
        micro_batches: int = 8,
        recipe: Recipe | None = None,
        batch_size: int | None = None,
        measure_every: int | None = None,
        blow_up: float = 1.5,
        largest_update: float | None = 1.0,
        safety: float = 0.5,
        highest_gain: float = 1.0,
        log: Callable[[int, dict[str, float]], object] | None = None,
        verbose: bool = True,
    ) -> None:
        super().__init__()
        if recipe is not None and (not isinstance(recipe, Recipe) or batch_size is None):
            raise InputError(
                f"DATE: recipe={recipe!r}, batch_size={batch_size!r}; expected the tuned tfbigbatch.Recipe and the "
                "run's global batch, to which it is scaled, or neither."
            )
        self._recipe = recipe
        self._batch_size = None if batch_size is None else _integer("batch_size", batch_size, least=1)
        self._measure_every = None if measure_every is None else _integer("measure_every", measure_every, least=1)
        self._blow_up = _number("blow_up", blow_up, above=1, expected="a factor above 1")
        self._largest_update = None if largest_update is None else _number("largest_update", largest_update, above=0)
        self._safety = _number("safety", safety, above=0, below=1, expected="a factor between 0 and 1")
        self._highest_gain = _number(
            "highest_gain", highest_gain, least=1, most=2, expected="1 (never raise the peak) to 2"
        )
        if log is not None and not callable(log):
            raise InputError(f"DATE: log={log!r} is not a function of (step, values); expected one, or None.")
        self._log = log
        self._verbose = arguments.flag("verbose", verbose, owner="DATE")
        self._probe = micro_batches_of(probe, _integer("micro_batches", micro_batches, least=2))
        self.state = DATEState()
        self.decisions: list[dict[str, Any]] = []
        self._gradients: ProbeGradients | None = None
        self._measured_model: Any = None

    # ---- When to measure ----------------------------------------------------------------------

    def on_train_begin(self, logs: Any = None) -> None:
        self._schedule = adjustable_schedule(self.model)
        self._every = self._measure_every or max(1, self._schedule.warmup_steps // _MEASUREMENTS)
        if not self._next_measurement(0) < math.inf:
            raise InputError(
                f"DATE: measure_every={self._every} is past the steps that are watched, twice the warm-up of "
                f"{self._schedule.warmup_steps}: expected at most {int(_WATCH * self._schedule.warmup_steps)}."
            )
        super().on_train_begin(logs)
        step, last = self._current_step(), self.state.value("last_look")
        if self._measured_model not in (None, self.model) or step < last:
            raise InputError(
                f"this DATE has the state of another run, at step {last}; the optimizer is at step {step}. Make a new "
                "DATE for each run, or restore its state and the optimizer from the same checkpoint."
            )
        if last:
            self._schedule.gain.assign(self.state.gain)
        else:
            self.state.gain.assign(self._schedule.gain)
        if self._gradients is None:
            self._gradients = ProbeGradients(self.model, self._probe)
            self._measured_model = self.model

    def _next_measurement(self, step: int) -> float:
        due = (step // self._every + 1) * self._every
        return due if due <= _WATCH * self._schedule.warmup_steps else math.inf

    # ---- Measurements and decisions -----------------------------------------------------------

    def _measure(self, step: int) -> None:
        state = self.state
        before = state.value("last_look")
        assert self._gradients is not None  # made at the beginning of fit
        measured = self._gradients()
        if not before and math.isfinite(measured.loss):
            state.first_loss.assign(measured.loss)
        update = largest_relative_update(self._optimizer)
        reason = self._stability_reason(measured.loss, update)
        if not reason and all(map(math.isfinite, measured)):
            # An infinite gradient has no information on the noise.
            self._average(measured)
        best = best_loss(measured.loss, best=state.value("best_loss"), blew_up=bool(reason))
        state.best_loss.assign(best)
        seen = {
            "rate": float(self._schedule(tf.constant(step - 1))),
            "loss": measured.loss,
            "noise_scale": self._noise_scale(),
            "largest_update": update,
        }
        if reason:
            # During the warm-up or later.
            gain = self._safety * min(state.value("gain"), step / self._schedule.warmup_steps)
            state.ended.assign(True)
        else:
            gain, reason = self._noise_decision(before, step, seen)
        state.last_look.assign(step)
        if reason:
            state.gain.assign(gain)
            self._schedule.gain.assign(state.gain)
        self._record(step, reason, {**seen, "gain": state.value("gain")})

    def _average(self, measured: Measured) -> None:
        state, (count, examples) = self.state, probe_sizes(self._probe)
        moments = noise.unbiased_moments(
            measured.small_squared_norm,
            measured.large_squared_norm,
            small_batch=examples,
            large_batch=count * examples,
        )
        for name, value in zip(("squared_norm", "trace"), moments):
            getattr(state, name).assign(noise.smoothed(state.value(name), value, _SMOOTHING))
        state.measurements.assign_add(1)

    def _noise_scale(self) -> float:
        count = self.state.value("measurements")
        if not count:
            return math.nan
        averages = (noise.corrected(self.state.value(name), count, _SMOOTHING) for name in ("squared_norm", "trace"))
        return noise.noise_scale(*averages)

    def _stability_reason(self, loss: float, update: float | None) -> str | None:
        best = self.state.value("best_loss")
        if loss_blew_up(loss, best=best, first=self.state.value("first_loss"), factor=self._blow_up):
            return f"the loss on the probe is {loss:.4g}, the best before was {best:.4g}"
        # NaN is too large as well.
        if update is not None and self._largest_update is not None and not update <= self._largest_update:
            return f"a layer changed by {update:.3g} of its norm in one step"
        return None

    def _noise_decision(self, before: int, step: int, seen: dict[str, Any]) -> tuple[float, str | None]:
        """(gain, reason), or (the current gain, None) between decisions."""
        gain, warmup_steps = self.state.value("gain"), self._schedule.warmup_steps
        due = any(before < part * warmup_steps <= step for part in _NOISE_AT)
        noise_scale = seen["noise_scale"]
        known = not math.isnan(noise_scale) and math.isfinite(seen["loss"])
        if self._recipe is None or self._batch_size is None or not due or not known:
            return gain, None
        allowed = noise_gain(
            noise_scale,
            self._recipe,
            batch_size=self._batch_size,
            peak=self._schedule.peak,
            highest=self._highest_gain,
        )
        # After the warm-up a higher gain would make the learning rate jump.
        may_rise = not self.state.value("ended") and step <= gain * warmup_steps
        after = allowed if may_rise else min(gain, allowed)
        verb = "stays at" if after == gain else "becomes"
        return after, f"at a noise scale of {noise_scale:.4g} examples the peak {verb} {after:.3g} of the plan"

    def _record(self, step: int, reason: str | None, seen: dict[str, Any]) -> None:
        if reason:
            self.decisions.append({"step": step, "reason": reason, **seen})
        # Every worker decides the same; the chief reports it.
        if not self.model.distribute_strategy.extended.should_save_summary:
            return
        if self._log is not None:
            finite = {name: value for name, value in seen.items() if value is not None and math.isfinite(value)}
            self._log(step, {f"date/{name}": float(value) for name, value in finite.items()})
        if reason and self._verbose:
            peak = seen["gain"] * self._schedule.peak
            print(f"DATE at step {step}: {reason}; learning rate {seen['rate']:.4g}, peak {peak:.4g}", flush=True)


def adjustable_schedule(model: Any) -> AdjustableWarmup:
    """The adjustable schedule of the optimizer of a compiled model of Keras 2 or 3.

    A `GradualWarmup` is replaced by the adjustable one of the same plan, made in the scope of the model's strategy; the
    training step is traced again, as a trace holds the schedule that it was made with.

    Raises:
      ValueError: the optimizer has another schedule or none, or accumulates by Keras' own means; the schedule has no
        linear warm-up or a peak of 0, or was made adjustable outside the model's strategy.
    """
    optimizer, strategy = innermost(model.optimizer), model.distribute_strategy
    schedule = getattr(optimizer, "_learning_rate", None)
    if not isinstance(schedule, GradualWarmup):
        raise InputError(
            f"DATE cannot change the learning rate of this {type(optimizer).__name__}: it is a "
            f"{type(schedule).__name__}. Give it a schedule with a linear warm-up, such as "
            "learning_rate=recipe.schedule(dataset_size) or tfbigbatch.schedules.build(...)."
        )
    if getattr(optimizer, "gradient_accumulation_steps", None):
        raise InputError(
            f"DATE: with gradient_accumulation_steps={optimizer.gradient_accumulation_steps}, Keras' own, the schedule "
            "counts micro-batches. Take LARS or LAMB of tfbigbatch.optimizers with accumulation_steps."
        )
    if schedule.warmup_steps < 1 or not schedule.peak:
        raise InputError(
            f"DATE measures during a warm-up to a peak; the schedule has warmup_steps={schedule.warmup_steps} and "
            f"peak={schedule.peak:g}: expected both above 0."
        )
    if not isinstance(schedule, AdjustableWarmup):
        with strategy.scope():
            schedule = make_adjustable(schedule)
        optimizer._learning_rate = schedule
        model.make_train_function(force=True)
    if not strategy.extended.variable_created_in_scope(schedule.gain):
        raise InputError(
            "DATE: the adjustable schedule was made outside the model's strategy. Call make_adjustable(schedule) "
            "within `with strategy.scope():`, where the optimizer is made."
        )
    return schedule


def make_adjustable(schedule: Any) -> Any:
    """The same warm-up and decay, with a gain that `DATE` can change.

    Args:
      schedule: a `GradualWarmup` of either Keras, as `schedules.build` returns. An adjustable one is returned as it is.

    Raises:
      ValueError: it is another schedule, or its warm-up is not linear.
    """
    if isinstance(schedule, AdjustableWarmup):
        return schedule
    if not isinstance(schedule, GradualWarmup):
        raise InputError(
            f"{schedule!r} cannot be adjusted: expected a GradualWarmup of tf_keras or Keras 3, as "
            "tfbigbatch.schedules.build returns."
        )
    if schedule.warmup_shape != "linear":
        raise InputError(
            f"a warm-up with warmup_shape={schedule.warmup_shape!r} cannot be adjusted: use warmup_shape='linear'."
        )
    classes = sys.modules[type(schedule).__module__]
    return classes.AdjustableWarmup(schedule.peak, schedule.warmup_steps, schedule.after, schedule.hold_steps)


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


def loss_blew_up(loss: float, *, best: float, first: float, factor: float) -> bool:
    """True if a positive loss exceeds `factor` times the best so far, or is no longer finite.

    Args:
      best: the lowest loss so far; infinity before the first, NaN if the loss was not finite before.
      first: the first loss; the best counts as at least a hundredth of it.
    """
    if math.isnan(best):
        return False
    return not math.isfinite(loss) or loss > factor * max(best, _FLOOR * first)


def best_loss(loss: float, *, best: float, blew_up: bool) -> float:
    """The `best` for the next measurement. After a blow-up only later losses count."""
    if not math.isfinite(loss):
        return math.nan
    return loss if blew_up or math.isnan(best) else min(best, loss)


def largest_relative_update(optimizer: Any) -> float | None:
    """The largest |change of w| / |w| over the adapted layers in the last step.

    None if the optimizer has no `layer_statistics`, or adapts no layer.
    """
    # A ratio of exactly 1 marks a layer that is excluded, or has a norm of zero.
    ratios = [
        row.update_norm / row.weight_norm
        for row in layer_rows(optimizer).values()
        if row.trust_ratio != 1.0 and row.weight_norm > 0.0
    ]
    return max(ratios, default=None)
