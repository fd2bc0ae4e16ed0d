"""metrics.jsonl and TensorBoard scalars: one row, written to both."""

import json
import math
import os

from tfbigbatch.utils.files import writing_errors


class MetricsLog:
    """Writes rows of scalars for the splits 'train' and 'eval'.

    Args:
      directory: RunDirectory.
      resume_step: rows past it are of updates that a resumed run makes again, and are dropped;
        so is a last line that a crash cut short.
    """

    def __init__(self, directory, resume_step=0):
        # Not at the top: `read_rows` serves commands that do without TensorFlow.
        import tensorflow as tf

        from tfbigbatch.instruments.event_log import at_step, write_scalars

        self._summary, self._at_step, self._write_scalars = tf.summary, at_step, write_scalars
        self._directory = directory
        self._writers = {}
        if directory.is_chief and os.path.exists(directory.metrics):
            self._drop_after(resume_step)

    def write(self, split, step, scalars):
        """Appends a row; `scalars` maps names to numbers."""
        if not self._directory.is_chief:
            return
        # JSON has no NaN or infinity: null stands for both.
        values = {name: float(value) if math.isfinite(value) else None for name, value in scalars.items()}
        row = {"step": step, "split": split, **values}
        with writing_errors(self._directory.metrics):
            with open(self._directory.metrics, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        with writing_errors(self._directory.path), self._at_step(self._writer(split), step):
            self._write_scalars({name: float(value) for name, value in scalars.items()})

    def has(self, split, step):
        """Whether a row of `split` and `step` was written, by this process or one before."""
        return any((row["split"], row["step"]) == (split, step) for row in read_rows(self._directory.metrics))

    def write_histograms(self, step, variables):
        """Writes a histogram of each variable's values, to TensorBoard only."""
        if not self._directory.is_chief:
            return
        with writing_errors(self._directory.path), self._at_step(self._writer("train"), step):
            for variable in variables:
                self._summary.histogram(variable.name.split(":")[0], variable)

    def _writer(self, split):
        """The tf.summary writer of a split, made at its first use."""
        if split not in self._writers:
            self._writers[split] = self._summary.create_file_writer(os.path.join(self._directory.path, split))
        return self._writers[split]

    def flush(self):
        with writing_errors(self._directory.path):
            for writer in self._writers.values():
                writer.flush()

    def close(self):
        writers, self._writers = self._writers, {}
        with writing_errors(self._directory.path):
            for writer in writers.values():
                writer.close()

    def _drop_after(self, step):
        kept = [row for row in read_rows(self._directory.metrics) if row["step"] <= step]
        part = f"{self._directory.metrics}.part"
        with writing_errors(part):
            with open(part, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in kept)
            os.replace(part, self._directory.metrics)


def read_rows(path):
    """The rows of a metrics.jsonl; a line that a crash cut short, or that is no row, is left out."""
    rows = []
    if not os.path.exists(path):
        return rows
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict) and type(row.get("step")) is int and isinstance(row.get("split"), str):
                rows.append(row)
    return rows
