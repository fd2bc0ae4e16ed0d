"""Learning-rate schedules in optimizer updates: a warm-up, then a decay by name."""

from tfbigbatch.errors import InputError, nearest
from tfbigbatch.schedules.durations import to_steps
from tfbigbatch.schedules.polynomial import polynomial
from tfbigbatch.schedules.warmup import GradualWarmup

__all__ = ["DECAYS", "GradualWarmup", "build", "polynomial", "to_steps"]

DECAYS = ("constant", "linear", "polynomial")


def build(peak, *, warmup_steps, total_steps, decay="constant", power=2.0, end=0.0):
    """The schedule of a whole run: warm-up to `peak`, then `decay` until `total_steps`.

    Args:
      decay: 'constant', 'linear' (to `end`) or 'polynomial' (to `end`, with `power`).

    Raises:
      ValueError: the decay is unknown, or the warm-up is longer than the run.
    """
    if decay not in DECAYS:
        raise InputError(f"decay {decay!r} is unknown. {nearest(decay, DECAYS)}")
    if warmup_steps > total_steps:
        raise InputError(
            f"the warm-up of {warmup_steps} updates is longer than the run of {total_steps}: "
            "lower schedule.warmup_epochs, train longer, or use a smaller batch."
        )
    after = None
    if decay != "constant":
        after = polynomial(peak, total_steps - warmup_steps, power=1.0 if decay == "linear" else power, end=end)
    return GradualWarmup(peak, warmup_steps, after)
