"""Decays after a warm-up, made of Keras' own schedules.

A decay takes Keras' module of schedules and the peak learning rate, then its own arguments; steps are optimizer
steps, counted from the end of the warm-up or of the hold after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfbigbatch.errors import InputError

_GNMT_HALVINGS = 4


def polynomial(keras_schedules: Any, peak: float, decay_steps: int, *, power: float = 1.0, end: float = 0.0) -> Any:
    """From `peak` to `end` over `decay_steps` steps, as (1 - t / decay_steps) ** power."""
    return keras_schedules.PolynomialDecay(peak, max(1, decay_steps), end_learning_rate=end, power=power)


def cosine(keras_schedules: Any, peak: float, decay_steps: int, *, end: float = 0.0) -> Any:
    """From `peak` to `end` over `decay_steps` steps, as half a cosine (Loshchilov & Hutter, arXiv:1608.03983)."""
    return keras_schedules.CosineDecay(peak, max(1, decay_steps), alpha=end / peak if peak else 0.0)


def exponential(keras_schedules: Any, peak: float, every_steps: int, *, factor: float, staircase: bool = False) -> Any:
    """`peak` times `factor` every `every_steps` steps; continuously unless `staircase`."""
    return keras_schedules.ExponentialDecay(peak, max(1, every_steps), factor, staircase=staircase)


def multi_step(keras_schedules: Any, peak: float, boundaries: Sequence[int], *, factor: float) -> Any:
    """`peak` times `factor` at each of the increasing `boundaries`."""
    if list(boundaries) != sorted(set(boundaries)):
        raise InputError(f"boundaries={list(boundaries)} of a multi_step decay: expected them increasing.")
    # Keras drops after the step at a boundary; ours at it, as the other decays count.
    return keras_schedules.PiecewiseConstantDecay(
        [float(boundary) - 0.5 for boundary in boundaries],
        [peak * factor**drops for drops in range(len(boundaries) + 1)],
    )


def mlperf_gnmt(
    keras_schedules: Any,
    peak: float,
    total_steps: int,
    warmup_steps: int,
    *,
    remain: float = 2 / 3,
    interval: float = 0.0,
) -> Any:
    """The decay of MLPerf's GNMT: halved at each of `gnmt_halvings`.

    Unlike the others it counts from the run's first step, `warmup_steps` earlier.
    """
    if not warmup_steps < int(remain * total_steps):
        raise InputError(
            f"remain={remain} of {total_steps} steps is step {int(remain * total_steps)}: expected the first halving "
            f"after the warm-up of {warmup_steps}."
        )
    halvings = gnmt_halvings(total_steps, remain=remain, interval=interval)
    return multi_step(keras_schedules, peak, [step - warmup_steps for step in halvings], factor=0.5)


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


def mlperf_lars(keras_schedules: Any, peak: float, decay_steps: int) -> Any:
    """The decay of MLPerf's LARS: power 2 to 1e-4, one step longer than the rest of the run."""
    return polynomial(keras_schedules, peak, decay_steps + 1, power=2.0, end=1e-4)
