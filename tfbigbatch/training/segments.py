"""From the updates of a run to calls of `fit`."""


def fit_segments(first_step, last_step, periods):
    """Calls of `fit` whose epochs end at every multiple of each period, and at the last update.

    An 'epoch' of `fit` is the interval between two evaluations or checkpoints. Neighbouring
    intervals of equal length share one call.

    Args:
      first_step, last_step: the updates [first_step, last_step) that are left.
      periods: updates between evaluations, between checkpoints, ...; 0 means only at the end.

    Returns:
      List of (first step, steps_per_epoch, epochs).
    """
    ends = {last_step} if last_step > first_step else set()
    for period in periods:
        if period > 0:
            ends.update(range((first_step // period + 1) * period, last_step, period))
    segments = []
    start = first_step
    for end in sorted(ends):
        length = end - start
        if segments and segments[-1][1] == length:
            segments[-1] = (*segments[-1][:2], segments[-1][2] + 1)
        else:
            segments.append((start, length, 1))
        start = end
    return segments
