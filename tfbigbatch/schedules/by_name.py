"""The schedule of a whole run, from numbers: a warm-up, then a decay selected by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfbigbatch import keras_version
from tfbigbatch.errors import InputError
from tfbigbatch.utils import arguments

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

_GNMT_HALVINGS = 4

# The check of each field. Steps are checked by `build`; a Recipe has them as durations.
_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "power": functools.partial(arguments.number, above=0),
    "end": functools.partial(arguments.number, least=0),
    "factor": functools.partial(arguments.number, above=0),
    "staircase": arguments.flag,
    "remain": functools.partial(arguments.number, above=0, most=1, expected="a fraction of the run, above 0"),
    "interval": functools.partial(
        arguments.number, least=0, most=1, expected="a fraction of the run, or 0 to spread the halvings evenly"
    ),
}
_STEP_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "every": functools.partial(arguments.integer, least=1),
    "start": functools.partial(arguments.integer, least=0),
    "boundaries": functools.partial(arguments.integers, least=1),
}


def check_decay(decay: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a decay, with numbers as Python's.

    Args:
      decay: a name of `DECAYS`.
      fields: those that are given; None or an empty sequence counts as not given.

    Raises:
      ValueError: the decay is unknown, lacks a field or does not take one, or a number is out of range.
    """
    arguments.one_of("decay", decay, DECAYS)
    required, optional = DECAYS[decay]
    for name in fields:
        if name not in (*required, *optional):
            takes = ", ".join((*required, *optional)) or "none"
            raise InputError(f"decay {decay!r} takes no field {name!r}; its fields: {takes}.")
    for name in required:
        given = fields.get(name)
        if given is None or (isinstance(given, Sequence) and not given):
            raise InputError(f"decay {decay!r} needs {name}; got {given!r}.")
    return _checked(fields, _CHECKS)


def _checked(fields: Mapping[str, Any], checks: Mapping[str, Callable[[str, Any], Any]]) -> dict[str, Any]:
    return {
        name: value if value is None or name not in checks else checks[name](name, value)
        for name, value in fields.items()
    }


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
      decay: 'constant'; 'linear', 'polynomial' (with `power`, 2 by default) or 'cosine', which reach `end`, 0 by
        default, at `total_steps`; 'exponential': times `factor` every `every` steps, continuously unless `staircase`;
        'multi_step': times `factor` at each of `boundaries`; 'mlperf_lars': that of MLPerf's ResNet-50 with LARS, power
        2 to 1e-4 over total - warm-up + 1 steps; 'mlperf_gnmt': that of MLPerf's GNMT, halved after a fraction `remain`
        of the run, 2/3 by default, and three times more, a fraction `interval` apart, or spread evenly over the rest if
        `interval` is 0, the default.
      warmup_shape: 'linear' from 0, or 'exponential' from 1% of the peak, as MLPerf's GNMT.
      keras: 'tf_keras', 'keras3', or None for the `tf.keras` in use.
      fields: of the decay, as above; and for all but 'constant', 'multi_step' and MLPerf's, `start`: the step at which
        the decay starts, if after the end of the warm-up. The peak is kept until then.

    Returns:
      `GradualWarmup`, a serialisable Keras LearningRateSchedule.

    Raises:
      ValueError: unknown decay or shape, missing field, a number out of range, warm-up longer than the run, or decay
        inside the warm-up.
    """
    peak = arguments.number("peak", peak, least=0)
    warmup_steps = arguments.integer("warmup_steps", warmup_steps, least=0)
    total_steps = arguments.integer("total_steps", total_steps, least=0)
    fields = check_decay(decay, _checked(fields, _STEP_CHECKS))
    fields = {name: value for name, value in fields.items() if value is not None}
    classes = keras_version.module_for("tfbigbatch.schedules", keras)
    if warmup_steps > total_steps:
        raise InputError(
            f"the warm-up of {warmup_steps} steps is longer than the run of {total_steps}: "
            "lower schedule.warmup_epochs, train longer, or use a smaller batch."
        )
    start = fields.get("start", 0)
    hold_steps = max(0, start - warmup_steps)
    if warmup_steps + hold_steps > total_steps:
        raise InputError(f"the decay starts at step {start}, past the run's end at {total_steps}. Start it earlier.")
    after = _decay(classes.keras_schedules, decay, fields, peak, warmup_steps, hold_steps, total_steps)
    return classes.GradualWarmup(peak, warmup_steps, after, hold_steps, warmup_shape)


def _decay(
    keras_schedules: Any,
    decay: str,
    fields: dict[str, Any],
    peak: float,
    warmup_steps: int,
    hold_steps: int,
    total_steps: int,
) -> Any:
    """The schedule after the warm-up and the hold, made of Keras' own; None for a constant learning rate."""
    left, end = max(1, total_steps - warmup_steps - hold_steps), fields.get("end", 0.0)
    if decay == "constant":
        return None
    if decay in ("linear", "polynomial"):
        power = fields.get("power", 2.0) if decay == "polynomial" else 1.0
        return keras_schedules.PolynomialDecay(peak, left, end_learning_rate=end, power=power)
    if decay == "mlperf_lars":
        steps = max(1, total_steps - warmup_steps - hold_steps + 1)
        return keras_schedules.PolynomialDecay(peak, steps, end_learning_rate=1e-4, power=2.0)
    if decay == "cosine":
        # Half a cosine: Loshchilov & Hutter, arXiv:1608.03983.
        return keras_schedules.CosineDecay(peak, left, alpha=end / peak if peak else 0.0)
    if decay == "exponential":
        staircase = fields.get("staircase", False)
        return keras_schedules.ExponentialDecay(peak, fields["every"], fields["factor"], staircase=staircase)
    factor, boundaries = fields.get("factor", 0.5), list(fields.get("boundaries", ()))
    if decay == "mlperf_gnmt":
        remain = fields.get("remain", 2 / 3)
        boundaries = gnmt_halvings(total_steps, remain=remain, interval=fields.get("interval", 0.0))
        if not warmup_steps < boundaries[0]:
            raise InputError(
                f"remain={remain} of {total_steps} steps is step {boundaries[0]}: expected the first halving after the "
                f"warm-up of {warmup_steps}."
            )
    inside = [boundary for boundary in boundaries if boundary <= warmup_steps]
    if inside:
        raise InputError(
            f"the boundary at step {inside[0]} lies inside the warm-up of {warmup_steps} steps: warm up "
            "shorter, or move the boundary."
        )
    if boundaries != sorted(set(boundaries)):
        raise InputError(f"boundaries={boundaries} of a multi_step decay: expected them increasing.")
    # Keras drops after the step at a boundary; ours at it, as the other decays count.
    return keras_schedules.PiecewiseConstantDecay(
        [float(boundary - warmup_steps) - 0.5 for boundary in boundaries],
        [peak * factor**drops for drops in range(len(boundaries) + 1)],
    )


def gnmt_halvings(total_steps: int, *, remain: float, interval: float) -> list[int]:
    """The four steps, counted from the run's first, at which MLPerf's GNMT halves its learning rate.

    NVIDIA/DeepLearningExamples, PyTorch/Translation/GNMT, `WarmupMultiStepLR`: its options are remain_steps, 0.666
    by default, decay_interval, decay_steps of 4 and decay_factor of 0.5. Where the run is longer,
    the last learning rate is kept.

    Args:
      total_steps: steps in the run.
      remain: fraction of the run before the first halving.
      interval: fraction of the run between halvings; 0 to spread them evenly over the rest.
    """
    first = int(remain * total_steps)
    distance = int(interval * total_steps) if interval else (total_steps - first) // _GNMT_HALVINGS
    return [first + halving * max(1, distance) for halving in range(_GNMT_HALVINGS)]
