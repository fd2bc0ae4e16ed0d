"""The schedule of a whole run, from numbers: a warm-up, then a decay by name."""

from tfbigbatch import keras_version
from tfbigbatch.errors import InputError, nearest
from tfbigbatch.schedules import decays

# Each decay: the fields that it needs, and those that it may have.
DECAYS = {
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
    peak,
    *,
    warmup_steps,
    total_steps,
    decay="constant",
    power=2.0,
    end=0.0,
    factor=None,
    every=None,
    start=0,
    staircase=False,
    boundaries=(),
    remain=2 / 3,
    interval=0.0,
    rise="linear",
    keras=None,
):
    """The schedule of a whole run: warm-up to `peak`, then `decay` until `total_steps`.

    All durations are optimizer updates counted from the first one of the run (see `to_steps`).

    Args:
      decay: 'constant'; 'linear', 'polynomial' (with `power`) or 'cosine', which reach `end` at
        `total_steps`; 'exponential': times `factor` for each `every` updates, in whole steps where
        `staircase`; 'multi_step': times `factor` at each of `boundaries`; 'mlperf_lars': that of
        MLPerf's ResNet-50 with LARS, power 2 to 1e-4 over total - warm-up + 1 updates; 'mlperf_gnmt':
        that of MLPerf's GNMT, halved at a share `remain` of the run and three times more, a share
        `interval` apart, or evenly over what is left where that is 0.
      start: the update at which the decay starts, where that is after the warm-up's end; the peak is
        kept until then.
      rise: of the warm-up: 'linear' from 0, or 'exponential' from 1% of the peak, as of MLPerf's GNMT.
      keras: 'tf_keras', 'keras3', or None for the `tf.keras` in use.

    Returns:
      A serialisable Keras LearningRateSchedule: `GradualWarmup`.

    Raises:
      ValueError: the decay or the rise is unknown or the decay lacks a field, the warm-up is longer than
        the run, or the rate falls inside the warm-up.
    """
    if decay not in DECAYS:
        raise InputError(f"decay {decay!r} is unknown. {nearest(decay, DECAYS)}")
    if warmup_steps > total_steps:
        raise InputError(
            f"the warm-up of {warmup_steps} updates is longer than the run of {total_steps}: "
            "lower schedule.warmup_epochs, train longer, or use a smaller batch."
        )
    given = {"factor": factor, "every": every, "boundaries": boundaries}
    for field in DECAYS[decay][0]:
        if not given[field]:
            raise InputError(f"decay {decay!r} needs {field}; got {given[field]!r}.")
    inside = [boundary for boundary in boundaries if boundary <= warmup_steps]
    if decay == "multi_step" and inside:
        raise InputError(
            f"the boundary at update {inside[0]} lies inside the warm-up of {warmup_steps} updates: warm up "
            "shorter, or move the boundary."
        )
    if decay == "mlperf_gnmt" and not 0 <= interval <= 1:
        raise InputError(f"interval={interval}: expected a share of the run, or 0 to spread the halvings evenly.")
    if decay == "mlperf_gnmt" and not warmup_steps < int(remain * total_steps) <= total_steps:
        raise InputError(
            f"remain={remain} of {total_steps} updates is update {int(remain * total_steps)}: expected a share of at "
            f"most 1, and the first halving after the warm-up of {warmup_steps}."
        )
    face = keras_version.module_for("tfbigbatch.schedules", keras)
    hold_steps = max(0, start - warmup_steps) if "start" in DECAYS[decay][1] else 0
    left = total_steps - warmup_steps - hold_steps
    if left < 0:
        raise InputError(f"the decay starts at update {start}, past the run's end at {total_steps}. Start it earlier.")
    make = {
        "constant": lambda keras: None,
        "linear": lambda keras: decays.polynomial(keras, peak, left, power=1.0, end=end),
        "polynomial": lambda keras: decays.polynomial(keras, peak, left, power=power, end=end),
        "cosine": lambda keras: decays.cosine(keras, peak, left, end=end),
        "exponential": lambda keras: decays.exponential(keras, peak, every, factor=factor, staircase=staircase),
        "multi_step": lambda keras: decays.multi_step(
            keras, peak, [boundary - warmup_steps for boundary in boundaries], factor=factor
        ),
        "mlperf_lars": lambda keras: decays.mlperf_lars(keras, peak, left),
        "mlperf_gnmt": lambda keras: decays.mlperf_gnmt(
            keras, peak, total_steps, warmup_steps, remain=remain, interval=interval
        ),
    }
    return face.GradualWarmup(peak, warmup_steps, make[decay](face.keras_schedules), hold_steps, rise)
