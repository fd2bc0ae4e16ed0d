"""The search of a learning rate, of the same number of trials for every optimizer."""

import math

TRIALS, MOST_TRIALS, FACTOR = 6, 9, 4.0


def tried(middle, run):
    """The learning rates that were tried, the best first.

    Args:
      middle: of the first three.
      run: gives what a learning rate's run ends at: lower is better, infinity where it diverged.
    """
    found = {}
    while (rate := next_learning_rate(middle, found)) is not None:
        found[rate] = run(rate)
    return sorted(found, key=found.get)


def next_learning_rate(middle, found):
    """The learning rate to try next; None when the search has ended.

    Args:
      middle: of the first three.
      found: what each learning rate gave: lower is better, infinity where it diverged.
    """
    for rate in (middle, middle / FACTOR, middle * FACTOR):
        if _rounded(rate) not in found:
            return _rounded(rate)
    rates = sorted(found)
    number = rates.index(min(rates, key=found.get))
    best, lower, higher = rates[number], rates[:number][-1:], rates[number + 1 :][:1]
    is_inside = lower and higher
    if len(found) >= (TRIALS if is_inside else MOST_TRIALS):
        return None
    if not is_inside:
        return _rounded(best * FACTOR if lower else best / FACTOR)
    # The wider gap; of equal ones, that to the better neighbour.
    gaps = {rate: abs(math.log(rate / best)) for rate in lower + higher}
    neighbour = max(gaps, key=lambda rate: (round(gaps[rate], 2), -found[rate]))
    return _rounded(math.sqrt(best * neighbour))


def _rounded(rate):
    return float(f"{rate:.3g}")
