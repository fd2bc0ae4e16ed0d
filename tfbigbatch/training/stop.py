"""A stop on request: SIGTERM, Ctrl-C, SIGUSR1 or a preemption notice."""

from __future__ import annotations

from collections.abc import Callable

from tfbigbatch.errors import Preempted
from tfbigbatch.utils.signals import StopRequest


class Stop:
    """Ends a run between two steps or two batches of an evaluation, where the request says so.

    A second SIGTERM or Ctrl-C interrupts at once. SIGUSR1 (Slurm's early warning) and preemption notices do not count
    towards it. The workers of a cluster agree at the rows of the log whether one of them was asked to stop, and all
    stop after the same step.

    Args:
      request: whose context `handling` is around the training.
      save: called with the step, before the run ends.
      agree: None in one process; in a cluster, a function of whether this worker is to stop, that returns whether any
        worker is.
    """

    def __init__(
        self, request: StopRequest, save: Callable[[int], None], agree: Callable[[bool], bool] | None = None
    ) -> None:
        self._request = request
        self._save = save
        self._agree = agree

    def check(self, step: int, *, agrees: bool = True, saves: bool = True) -> None:
        """Saves, and raises Preempted, where the run is to stop.

        Args:
          step: steps done.
          agrees: whether the workers of a cluster agree on it here; they all call this at the same points.
          saves: False before the first step, where nothing is new.
        """
        is_asked = self._request.requested
        if self._agree is not None:
            is_asked = agrees and self._agree(is_asked)
        if is_asked:
            if saves:
                self._save(step)
            how = f"after step {step:,}, and saved" if saves else f"at step {step:,}, before a step was made"
            raise Preempted(f"stopped {self._request.reason} {how}; the same command resumes it.")
