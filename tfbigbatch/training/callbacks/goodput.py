"""Counts the seconds of steps in the goodput of a run."""

from __future__ import annotations

from tfbigbatch.runs.goodput import Goodput
from tfbigbatch.training.callbacks.base import Logs, StepCallback


class CountGoodput(StepCallback):
    """Tells a Goodput of every step.

    Args:
      goodput: of this process, started by the first step.
    """

    def __init__(self, goodput: Goodput) -> None:
        super().__init__()
        self._goodput = goodput

    def on_steps(self, before: int, step: int, logs: Logs) -> None:
        self._goodput.advance(step)
