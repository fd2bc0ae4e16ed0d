"""metrics.jsonl and TensorBoard scalars: one row, written to both."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from tfbigbatch.instruments.event_log import at_step, write_scalars
from tfbigbatch.runs.metrics_log import read_rows
from tfbigbatch.runs.run_directory import RunDirectory, without_non_finite
from tfbigbatch.utils.files import atomic_write, itself, writing_errors


class MetricsLog:
    """Writes rows of scalars for the splits 'train' and 'eval'.

    Args:
      directory: the run directory; only the chief's writes.
    """

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._writers: dict[str, Any] = {}

    def resume(self, step: int) -> None:
        """Drops the rows after `step`, which the resumed run writes again, and a last line that a crash cut short."""
        path = self._directory.metrics
        if self._directory.is_chief and os.path.exists(path):
            kept = "".join(json.dumps(row) + "\n" for row in read_rows(path) if row["step"] <= step)
            with writing_errors(path):
                atomic_write(path, lambda file: file.write(kept.encode()))

    def write(self, split: str, step: int, scalars: Mapping[str, float]) -> None:
        """Appends a row."""
        if not self._directory.is_chief:
            return
        row = {"step": step, "split": split, **without_non_finite(scalars)}
        with writing_errors(self._directory.metrics):
            with open(self._directory.metrics, "a", encoding="utf-8", opener=itself) as file:
                file.write(json.dumps(row) + "\n")
        self.write_events(split, step, scalars)

    def write_events(self, split: str, step: int, scalars: Mapping[str, float]) -> None:
        """Writes scalars to TensorBoard only."""
        if not self._directory.is_chief:
            return
        with writing_errors(self._directory.path), at_step(self._writer(split), step):
            write_scalars({name: float(value) for name, value in scalars.items()})

    def has(self, split: str, step: int) -> bool:
        """True if a row of `split` and `step` was written, by this process or one before."""
        return any((row["split"], row["step"]) == (split, step) for row in read_rows(self._directory.metrics))

    def write_histograms(self, step: int, variables: Iterable[Any]) -> None:
        """Writes a histogram of each variable's values, to TensorBoard only."""
        if not self._directory.is_chief:
            return
        with writing_errors(self._directory.path), at_step(self._writer("train"), step):
            for variable in variables:
                tf.summary.histogram(variable.name.split(":")[0], variable)

    def _writer(self, split: str) -> Any:
        """The tf.summary writer of a split, created at its first use."""
        if split not in self._writers:
            self._writers[split] = tf.summary.create_file_writer(os.path.join(self._directory.path, split))
        return self._writers[split]

    def flush(self) -> None:
        """Writes what TensorBoard's files hold in memory."""
        with writing_errors(self._directory.path):
            for writer in self._writers.values():
                writer.flush()

    def close(self) -> None:
        """Closes TensorBoard's files."""
        writers, self._writers = self._writers, {}
        with writing_errors(self._directory.path):
            for writer in writers.values():
                writer.close()
