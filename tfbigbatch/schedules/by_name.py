"""The schedule of a whole run, from numbers: a warm-up, then a decay selected by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from tfbigbatch import keras_version
from tfbigbatch.errors import InputError
from tfbigbatch.utils import arguments

# Each decay: its required fields, and its optional ones with their defaults.
DECAYS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "constant": ((), {}),
    "linear": ((), {"end": 0.0, "start": 0}),
    "polynomial": ((), {"power": 2.0, "end": 0.0, "start": 0}),
    "cosine": ((), {"end": 0.0, "start": 0}),
    "exponential": (("factor", "every"), {"start": 0, "staircase": False}),
    "multi_step": (("factor", "boundaries"), {}),
    "mlperf_lars": ((), {}),
    "mlperf_gnmt": ((), {"remain": 2 / 3, "interval": 0.0}),
}

# The check of each field.
_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "power": functools.partial(arguments.number, above=0),
    "end": functools.partial(arguments.number, least=0),
    "start": functools.partial(arguments.integer, least=0),
    "factor": functools.partial(arguments.number, above=0),
    "every": functools.partial(arguments.integer, least=1),
    "staircase": arguments.flag,
    "boundaries": functools.partial(arguments.integers, least=1),
    "remain": functools.partial(arguments.number, above=0, most=1, expected="a fraction of the run, above 0"),
    "interval": functools.partial(
        arguments.number, least=0, most=1, expected="a fraction of the run, or 0 to spread the halvings evenly"
    ),
}


def check_decay(decay: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """All fields of a decay, numbers as Python's, with the defaults of `DECAYS` for those that are None or not given.

    Raises:
      ValueError: the decay is unknown, lacks a field or does not take one, or a number is out of range.
    """
    arguments.one_of("decay", decay, DECAYS)
    required, optional = DECAYS[decay]
    known = [*required, *optional]
    for name in fields:
        if name not in known:
            raise InputError(f"decay {decay!r} takes no field {name!r}; its fields: {', '.join(known) or 'none'}.")
    given = {name: _CHECKS[name](name, value) for name, value in fields.items() if value is not None}
    for name in required:
        if given.get(name, []) == []:
            raise InputError(f"decay {decay!r} needs {name}; got {fields.get(name)!r}.")
    return {**optional, **given}


def build(
    peak: float,
    *,
    warmup_steps: int,
    total_steps: int,
    decay: str = "constant",
    warmup_shape: str = "linear",
    keras: str | None = None,
    **fields: Any,
) -> Any:
    """The schedule of a whole run: warm-up to `peak`, then `decay` until `total_steps`.

    Durations are optimizer steps, counted from the first one of the run (see `to_steps`).

    Args:
      peak: the learning rate at the end of the warm-up, 0 or more.
      warmup_steps, total_steps: 0 or more.
      decay: a name of `DECAYS`: 'constant'; 'linear', 'polynomial' (with `power`) or 'cosine', which reach `end` at
        `total_steps`; 'exponential': times `factor` every `every` steps, continuously unless `staircase`; 'multi_step':
        times `factor` at each of `boundaries`; 'mlperf_lars': that of MLPerf's ResNet-50 with LARS, power 2 to 1e-4
        over total - warm-up + 1 steps; 'mlperf_gnmt': that of MLPerf's GNMT, halved after a fraction `remain` of the
        run, and three times more, a fraction `interval` apart, or spread evenly over the rest if `interval` is 0.
      warmup_shape: 'linear' from 0, or 'exponential' from 1% of the peak, as MLPerf's GNMT.
      keras: 'tf_keras', 'keras3', or None for the `tf.keras` in use.
      fields: of the decay, see `DECAYS`. All but 'constant', 'multi_step' and MLPerf's have `start`: the
        step at which the decay starts, if after the end of the warm-up. The peak is kept until then.

    Returns:
      `GradualWarmup`, a serialisable Keras LearningRateSchedule.

    Raises:
      ValueError: unknown decay or shape, missing field, a number out of range, warm-up longer than the run, or decay
        inside the warm-up.
    """
    peak = arguments.number("peak", peak, least=0)
    warmup_steps = arguments.integer("warmup_steps", warmup_steps, least=0)
    total_steps = arguments.integer("total_steps", total_steps, least=0)
    fields = check_decay(decay, fields)
    if warmup_steps > total_steps:
        raise InputError(
            f"the warm-up of {warmup_steps} steps is longer than the run of {total_steps}: "
            "lower schedule.warmup_epochs, train longer, or use a smaller batch."
        )
    start = max(warmup_steps, fields.get("start", 0))
    if start > total_steps:
        raise InputError(f"the decay starts at step {start}, past the run's end at {total_steps}. Start it earlier.")
    after = _decay(keras_version.keras_package(keras).optimizers.schedules, decay, fields, peak, start, total_steps)
    ours = keras_version.module_for("tfbigbatch.schedules", keras)
    return ours.GradualWarmup(peak, warmup_steps, after, start - warmup_steps, warmup_shape)


def _decay(schedules: Any, decay: str, fields: dict[str, Any], peak: float, start: int, total_steps: int) -> Any:
    """The schedule from step `start` on, the end of warm-up and hold, made of Keras' own; None for a constant one."""
    left, end = max(1, total_steps - start), fields.get("end", 0.0)
    if decay == "constant":
        return None
    if decay in ("linear", "polynomial"):
        return schedules.PolynomialDecay(peak, left, end_learning_rate=end, power=fields.get("power", 1.0))
    if decay == "mlperf_lars":
        return schedules.PolynomialDecay(peak, total_steps - start + 1, end_learning_rate=1e-4, power=2.0)
    if decay == "cosine":
        # Half a cosine: Loshchilov & Hutter, arXiv:1608.03983.
        return schedules.CosineDecay(peak, left, alpha=end / peak if peak else 0.0)
    if decay == "exponential":
        return schedules.ExponentialDecay(peak, fields["every"], fields["factor"], staircase=fields["staircase"])
    if decay == "mlperf_gnmt":
        boundaries, factor = gnmt_halvings(total_steps, **fields), 0.5
        if not start < boundaries[0]:
            raise InputError(
                f"remain={fields['remain']} of {total_steps} steps is step {boundaries[0]}: expected the first halving "
                f"after the warm-up of {start}."
            )
    else:
        boundaries, factor = fields["boundaries"], fields["factor"]
    if boundaries != sorted(set(boundaries)):
        raise InputError(f"boundaries={boundaries} of a multi_step decay: expected them increasing.")
    if boundaries[0] <= start:
        raise InputError(
            f"the boundary at step {boundaries[0]} lies inside the warm-up of {start} steps: warm up shorter, or move "
            "the boundary."
        )
    # Keras drops after the step at a boundary; ours at it, as the other decays count.
    at = [float(boundary - start) - 0.5 for boundary in boundaries]
    return schedules.PiecewiseConstantDecay(at, [peak * factor**drops for drops in range(len(at) + 1)])


def gnmt_halvings(total_steps: int, *, remain: float, interval: float) -> list[int]:
    """The four steps, counted from the run's first, at which MLPerf's GNMT halves its learning rate.

    `WarmupMultiStepLR` of NVIDIA/DeepLearningExamples, PyTorch/Translation/GNMT. The first comes after a fraction
    `remain` of the run (remain_steps there, 0.666 by default), the others a fraction `interval` apart (decay_interval),
    or spread evenly over the rest if that is 0. Where the run is longer, the last learning rate is kept.
    """
    first = int(remain * total_steps)
    distance = int(interval * total_steps) if interval else (total_steps - first) // 4
    return [first + halving * max(1, distance) for halving in range(4)]
