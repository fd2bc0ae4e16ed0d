"""The schedule of a whole run, from numbers: a warm-up, then a decay selected by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfbigbatch import keras_version
from tfbigbatch.errors import InputError, nearest
from tfbigbatch.schedules import decays

# Each decay: its required and its optional fields.
DECAYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "constant": ((), ()),
    "linear": ((), ("end", "start")),
    "polynomial": ((), ("power", "end", "start")),
    "cosine": ((), ("end", "start")),
    "exponential": (("factor", "every"), ("start", "staircase")),
    "multi_step": (("factor", "boundaries"), ()),
    "mlperf_lars": ((), ()),
    "mlperf_gnmt": ((), ("remain", "interval")),
}


def build(
    peak: float,
    *,
    warmup_steps: int,
    total_steps: int,
    decay: str = "constant",
    power: float = 2.0,
    end: float = 0.0,
    factor: Any = None,
    every: Any = None,
    start: int = 0,
    staircase: bool = False,
    boundaries: Sequence[int] = (),
    remain: float = 2 / 3,
    interval: float = 0.0,
    rise: str = "linear",
    keras: str | None = None,
) -> Any:
    """The schedule of a whole run: warm-up to `peak`, then `decay` until `total_steps`.

    Durations are optimizer steps, counted from the first one of the run (see `to_steps`).

    Args:
      decay: 'constant'; 'linear', 'polynomial' (with `power`) or 'cosine', which reach `end` at
        `total_steps`; 'exponential': times `factor` every `every` steps, continuously unless
        `staircase`; 'multi_step': times `factor` at each of `boundaries`; 'mlperf_lars': that of
        MLPerf's ResNet-50 with LARS, power 2 to 1e-4 over total - warm-up + 1 steps; 'mlperf_gnmt':
        that of MLPerf's GNMT, halved after a fraction `remain` of the run and three times more, a fraction
        `interval` apart, or spread evenly over the rest if `interval` is 0.
      start: the step at which the decay starts, if after the end of the warm-up; the peak is kept until then.
      rise: shape of the warm-up: 'linear' from 0, or 'exponential' from 1% of the peak, as MLPerf's GNMT.
      keras: 'tf_keras', 'keras3', or None for the `tf.keras` in use.

    Returns:
      `GradualWarmup`, a serialisable Keras LearningRateSchedule.

    Raises:
      ValueError: unknown decay or shape, missing field, warm-up longer than the run, or decay inside the warm-up.
    """
    _check_decay(decay, factor=factor, every=every, boundaries=boundaries)
    _check_warmup(warmup_steps, total_steps)
    if decay == "multi_step":
        _check_boundaries(boundaries, warmup_steps)
    if decay == "mlperf_gnmt":
        _check_halvings(warmup_steps, total_steps, remain, interval)
    hold_steps = _hold_steps(decay, start, warmup_steps, total_steps)
    left = total_steps - warmup_steps - hold_steps
    halvings, after_warmup = {"remain": remain, "interval": interval}, [each - warmup_steps for each in boundaries]
    make: dict[str, Callable[[Any], Any]] = {
        "constant": lambda keras: None,
        "linear": lambda keras: decays.polynomial(keras, peak, left, power=1.0, end=end),
        "polynomial": lambda keras: decays.polynomial(keras, peak, left, power=power, end=end),
        "cosine": lambda keras: decays.cosine(keras, peak, left, end=end),
        "exponential": lambda keras: decays.exponential(keras, peak, every, factor=factor, staircase=staircase),
        "multi_step": lambda keras: decays.multi_step(keras, peak, after_warmup, factor=factor),
        "mlperf_lars": lambda keras: decays.mlperf_lars(keras, peak, left),
        "mlperf_gnmt": lambda keras: decays.mlperf_gnmt(keras, peak, total_steps, warmup_steps, **halvings),
    }
    classes = keras_version.module_for("tfbigbatch.schedules", keras)
    return classes.GradualWarmup(peak, warmup_steps, make[decay](classes.keras_schedules), hold_steps, rise)


def _check_decay(decay: str, **given: Any) -> None:
    if decay not in DECAYS:
        raise InputError(f"decay {decay!r} is unknown. {nearest(decay, DECAYS)}")
    for field in DECAYS[decay][0]:
        if not given[field]:
            raise InputError(f"decay {decay!r} needs {field}; got {given[field]!r}.")


def _check_warmup(warmup_steps: int, total_steps: int) -> None:
    if warmup_steps > total_steps:
        raise InputError(
            f"the warm-up of {warmup_steps} steps is longer than the run of {total_steps}: "
            "lower schedule.warmup_epochs, train longer, or use a smaller batch."
        )


def _hold_steps(decay: str, start: int, warmup_steps: int, total_steps: int) -> int:
    """Steps at the peak, between the warm-up and the decay."""
    hold_steps = max(0, start - warmup_steps) if "start" in DECAYS[decay][1] else 0
    if warmup_steps + hold_steps > total_steps:
        raise InputError(f"the decay starts at step {start}, past the run's end at {total_steps}. Start it earlier.")
    return hold_steps


def _check_boundaries(boundaries: Sequence[int], warmup_steps: int) -> None:
    inside = [boundary for boundary in boundaries if boundary <= warmup_steps]
    if inside:
        raise InputError(
            f"the boundary at step {inside[0]} lies inside the warm-up of {warmup_steps} steps: warm up "
            "shorter, or move the boundary."
        )


def _check_halvings(warmup_steps: int, total_steps: int, remain: float, interval: float) -> None:
    if not 0 <= interval <= 1:
        raise InputError(f"interval={interval}: expected a fraction of the run, or 0 to spread the halvings evenly.")
    if not warmup_steps < int(remain * total_steps) <= total_steps:
        raise InputError(
            f"remain={remain} of {total_steps} steps is step {int(remain * total_steps)}: expected a fraction of at "
            f"most 1, and the first halving after the warm-up of {warmup_steps}."
        )
