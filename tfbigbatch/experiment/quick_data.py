"""What a quick run has to know of the data: its size, and what a laptop has time for."""

from __future__ import annotations

import math
import os

import ml_collections

from tfbigbatch import tasks
from tfbigbatch.errors import InputError

EVALUATIONS = 3
# Of a task that does not say how many examples are quick: their number, where it follows from the values in one.
_EXAMPLES, _FEWEST_EXAMPLES, _MOST_EXAMPLES = 10_000, 200, 50_000
# Values that a small convolutional network reads in a minute; a token is a vector in a network, of more values.
_VALUES, _TOKEN = 60_000_000, 300


class Data:
    """The training examples: their number, and how many a quick run has time for."""

    def __init__(self, config: ml_collections.ConfigDict, data_dir: str | None) -> None:
        self._config, self._kind = config, tasks.get(config.task)
        self._task = None
        # Before TensorFlow is imported, which takes seconds.
        if data_dir is not None and "://" not in data_dir and not os.path.exists(data_dir):
            raise InputError(
                f"--data_dir={data_dir}: no such folder. Give the folder of the data of task {config.task}."
            )
        if self._kind.training_examples is None or data_dir is not None:
            self._kind.check_data(config.data.to_dict(), data_dir)
        if data_dir is not None or self._kind.training_examples is None:
            model, data = config.model.to_dict(), config.data.to_dict()
            self._task = self._kind(model=model, data=data, data_dir=data_dir, use_fake_data=False)

    def examples(self, batch_size: int) -> int:
        """In an epoch."""
        if self._task is not None:
            return self._task.train.examples_in_epoch(batch_size)
        assert self._kind.training_examples is not None
        return self._kind.training_examples

    def evaluations(self, split: str, trained: int) -> int:
        """Evaluations of a run that trains so many examples: one where several would take longer than the training."""
        if self._task is None:
            return EVALUATIONS
        held_out = self._task.held_out(split).evaluation_steps(1)
        return EVALUATIONS if EVALUATIONS * held_out <= trained else 1

    def affordable(self, batch_size: int) -> int:
        """Examples of a quick run."""
        known = self._kind.quick_examples(self._config.model.to_dict())
        if known is not None:
            return known
        # TensorFlow makes no simulated replicas after its first dataset.
        if self._task is None or self._config.simulated_replicas:
            return _EXAMPLES
        return int(min(_MOST_EXAMPLES, max(_FEWEST_EXAMPLES, _VALUES / self._values(self._task, batch_size))))

    def _values(self, task: tasks.Task, batch_size: int) -> int:
        """Values in the features of one example, a token counted as _TOKEN of them."""
        import tensorflow as tf

        batches = task.train.training_batches(
            tf.distribute.InputContext(), batch_size=batch_size, seed=0, first_step=0, last_step=1
        )
        values = 0
        for spec in tf.nest.flatten(batches.element_spec[0]):
            shape = getattr(spec, "shape", tf.TensorShape(None))
            size = math.prod(size or 1 for size in shape[1:]) if shape.rank else 1
            values += size * (_TOKEN if spec.dtype in (tf.int32, tf.int64) else 1)
        return max(1, values)
