"""Reports progress to a watchdog."""

from __future__ import annotations

from collections.abc import Callable

from tfbigbatch.training.callbacks.base import Logs, StepCallback


class Heartbeat(StepCallback):
    """Calls a function with what was done after every step, evaluated batch and evaluation.

    Args:
      heartbeat: callable(str), such as `cluster.watchdog.Watchdog.heartbeat`.
    """

    def __init__(self, heartbeat: Callable[[str], None]) -> None:
        super().__init__()
        self._heartbeat = heartbeat

    def on_train_begin(self, logs: Logs = None) -> None:
        super().on_train_begin(logs)
        self._heartbeat(f"step {self.step:,}")

    def on_steps(self, before: int, step: int, logs: Logs) -> None:
        self._heartbeat(f"step {step:,}")

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self._heartbeat(f"evaluation or checkpoint after step {self.step:,}")

    def on_test_batch_end(self, batch: int, logs: Logs = None) -> None:
        self._heartbeat(f"evaluated batch {batch + 1:,}")

    def on_predict_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.on_test_batch_end(batch, logs)
