"""A stop on request: SIGTERM, Ctrl-C, SIGUSR1 or a preemption notice."""

from __future__ import annotations

from collections.abc import Callable

from tfbigbatch.errors import Preempted
from tfbigbatch.utils.signals import StopRequest

# How often the workers of a cluster agree on stopping while they evaluate.
_EVALUATED_BATCHES = 10


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

    def is_agreed(self, is_row: bool = True) -> bool:
        """True if the run is to stop; all workers of a cluster call it at the same steps, and agree where `is_row`."""
        if self._agree is None:
            return self._request.requested
        return is_row and self._agree(self._request.requested)

    def now(self, step: int) -> None:
        """Saves, and raises Preempted."""
        self._save(step)
        raise Preempted(f"stopped {self._request.reason} after step {step:,}, and saved; the same command resumes it.")

    def in_evaluation(self, step: int, batch: int) -> None:
        """Raises Preempted between two batches of an evaluation, which is left unfinished, and saves before.

        Args:
          step: steps done.
          batch: evaluated batches so far.
        """
        if self.is_agreed(batch % _EVALUATED_BATCHES == 0):
            self.now(step)

    def before_first_step(self, step: int) -> None:
        """Raises Preempted where a stop was requested while the run of a cluster was set up; nothing is saved.

        Args:
          step: steps done before.
        """
        if self._agree is not None and self._agree(self._request.requested):
            raise Preempted(
                f"stopped {self._request.reason} at step {step:,}, before a step was made, with nothing new to save; "
                "the same command resumes it."
            )
