"""The number of steps in one call of the compiled steps."""

from __future__ import annotations

import time

# A call costs about a millisecond beside its steps; the loop's events, and a request to stop, wait for its end.
_SECONDS = 0.2
# Of a cluster: its workers exchange sums at the end of a call, so that all must make as many steps in it.
_OF_WORKERS = 10


class Pace:
    """Chooses as many steps as take about 0.2 seconds, from the speed of the call before; they do not change bits.

    Args:
      one: whether each call has one step, as for someone who wants to see every batch; the same on all workers.
      is_multi_worker: whether other processes take part in the steps.
    """

    def __init__(self, one: bool = False, is_multi_worker: bool = False) -> None:
        self._is_fixed = one or is_multi_worker
        self._most = _OF_WORKERS if is_multi_worker and not one else 1
        self._began = 0.0

    def steps(self, left: float) -> int:
        """The steps of the next call, which begins now.

        Args:
          left: steps to the next event, 1 or more.
        """
        self._began = time.perf_counter()
        return int(min(left, self._most))

    def made(self, steps: int) -> None:
        """Called at the end of a call of so many steps."""
        seconds = (time.perf_counter() - self._began) / steps
        if not self._is_fixed:
            # Growing slowly: the first calls have more to do than steps, and an accelerator returns before it is done.
            self._most = max(1, min(2 * self._most, int(_SECONDS / max(seconds, 1e-6))))
