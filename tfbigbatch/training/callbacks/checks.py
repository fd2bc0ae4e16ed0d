"""Stops a run when a check of its task fails, as where too many records are bad."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfbigbatch.training.callbacks.base import Logs, StepCallback


class Checks(StepCallback):
    """Calls each of `checks` after every loop of steps; one that fails raises."""

    def __init__(self, checks: Sequence[Callable[[], None]]) -> None:
        super().__init__()
        self._checks = checks

    def on_steps(self, before: int, step: int, logs: Logs) -> None:
        for check in self._checks:
            check()
