"""What follows a warm-up: each decay by name, made of Keras' own schedules.

A decay takes Keras' module of schedules and the peak rate, then what it needs; steps are optimizer
updates, counted from the end of the warm-up or of the hold after it.
"""

from tfbigbatch.errors import InputError

_GNMT_HALVINGS = 4


def polynomial(keras_schedules, peak, decay_steps, *, power=1.0, end=0.0):
    """From `peak` to `end` over `decay_steps` updates, as (1 - t / decay_steps) ** power."""
    return keras_schedules.PolynomialDecay(peak, max(1, decay_steps), end_learning_rate=end, power=power)


def cosine(keras_schedules, peak, decay_steps, *, end=0.0):
    """From `peak` to `end` over `decay_steps` updates, as half a cosine (Loshchilov & Hutter, arXiv:1608.03983)."""
    return keras_schedules.CosineDecay(peak, max(1, decay_steps), alpha=end / peak if peak else 0.0)


def exponential(keras_schedules, peak, every_steps, *, factor, staircase=False):
    """`peak` times `factor` for each `every_steps` updates; in whole steps where it is a staircase."""
    return keras_schedules.ExponentialDecay(peak, max(1, every_steps), factor, staircase=staircase)


def multi_step(keras_schedules, peak, boundaries, *, factor):
    """`peak` times `factor` at each of the increasing `boundaries`."""
    if list(boundaries) != sorted(set(boundaries)):
        raise InputError(f"boundaries={list(boundaries)} of a multi_step decay: expected them increasing.")
    # Keras drops after a boundary's update; ours begins with it, as the other decays count.
    return keras_schedules.PiecewiseConstantDecay(
        [float(boundary) - 0.5 for boundary in boundaries],
        [peak * factor**drops for drops in range(len(boundaries) + 1)],
    )


def mlperf_gnmt(keras_schedules, peak, total_steps, warmup_steps, *, remain, interval):
    """The decay of MLPerf's GNMT: halved at each of `gnmt_halvings`.

    Unlike the others it counts from the run's first update: `warmup_steps` says where that is.
    """
    halvings = gnmt_halvings(total_steps, remain=remain, interval=interval)
    return multi_step(keras_schedules, peak, [step - warmup_steps for step in halvings], factor=0.5)


def gnmt_halvings(total_steps, *, remain, interval):
    """The updates, counted from the run's first, at which MLPerf's GNMT halves its rate: four of them.

    NVIDIA/DeepLearningExamples, PyTorch/Translation/GNMT, `WarmupMultiStepLR`: its options are remain_steps, 0.666
    by default, decay_interval, decay_steps of 4 and decay_factor of 0.5. Where the run's length does not fit, the
    last rate goes on.

    Args:
      total_steps: updates in the run.
      remain: the share of the run after which the first one comes.
      interval: the share of the run from one to the next; 0 to spread them over what is left.
    """
    first = int(remain * total_steps)
    distance = int(interval * total_steps) if interval else (total_steps - first) // _GNMT_HALVINGS
    return [first + halving * max(1, distance) for halving in range(_GNMT_HALVINGS)]


def mlperf_lars(keras_schedules, peak, decay_steps):
    """The decay of MLPerf's LARS: power 2 to 1e-4, one update longer than what is left of the run."""
    return polynomial(keras_schedules, peak, decay_steps + 1, power=2.0, end=1e-4)
