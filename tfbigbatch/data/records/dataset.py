"""A split of a prepared dataset as a Dataset: records are read, shuffled, made into examples and batched, in order."""

from __future__ import annotations

import functools
import math
import os
from typing import Any, ClassVar

import tensorflow as tf

from tfbigbatch.data.dataset import Dataset
from tfbigbatch.data.records import reader
from tfbigbatch.data.records.manifest import Split
from tfbigbatch.data.records.order import HostSlice, RecordOrder
from tfbigbatch.data.records.skip_bad import BadRecords, map_records


class SplitDataset(Dataset):
    """One split of a prepared dataset.

    A damaged record becomes an example with weight 0 in the same position: no other example, and no later batch,
    changes.

    Args:
      split: of the manifest.
      max_bad_fraction: the largest fraction of the split's records that may be bad.
      threads: of the private pool that makes examples; None for as many as the machine has cores.

    Attributes:
      bad: BadRecords of the split.
    """

    def __init__(self, split: Split, *, max_bad_fraction: float = 0.0001, threads: int | None = None) -> None:
        self._split, self._threads = split, threads or os.cpu_count()
        self.bad = BadRecords(split, max_fraction=max_bad_fraction)
        self.source = f"{os.path.dirname(split.files[0])}, {split.name}"
        self._options = tf.data.Options()
        self._options.threading.private_threadpool_size = self._threads
        # Calls run in parallel, not the parts of one.
        self._options.threading.max_intra_op_parallelism = 1
        self._options.deterministic = True

    def __len__(self) -> int:
        return self._split.examples

    def examples_in_epoch(self, batch_size: int) -> int:
        return len(self)


class RecordDataset(SplitDataset):
    """A split shuffled in chunks and windows. A subclass defines `examples` and `contents`.

    Args:
      split, **options: see `SplitDataset`.
      shuffle_window: records that are shuffled together, and held in memory.
    """

    most_at_once: ClassVar[int | None] = None
    """The most records of a call of `examples`; None for whole batches."""

    def __init__(self, split: Split, *, shuffle_window: int, **options: Any) -> None:
        super().__init__(split, **options)
        self._shuffle_window = shuffle_window
        self._reader = reader.RecordReader(split)

    def examples(self, records: tf.Tensor, numbers: tf.Tensor, epochs: tf.Tensor, seed: int | None) -> Any:
        """(features, labels, weights) of some records.

        Args:
          records: string [n]; an empty one stands for no example.
          numbers, epochs: int64 [n].
          seed: the run's; None in evaluation.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no examples().")

    def training_batches(
        self, context: tf.distribute.InputContext, *, batch_size: int, seed: int, first_step: int, last_step: int
    ) -> tf.data.Dataset:
        own = HostSlice(batch_size, context.num_input_pipelines, context.input_pipeline_id)
        order = RecordOrder(self._reader.chunks, own, seed, self._shuffle_window)
        records = reader.shuffled_records(self._reader, order, first_step)
        return self._batches(records, batch_size // context.num_replicas_in_sync, own, seed, last_step - first_step)

    def evaluation_batches(self, context: tf.distribute.InputContext, *, batch_size: int) -> tf.data.Dataset:
        own = HostSlice(batch_size, context.num_input_pipelines, context.input_pipeline_id)
        records = reader.records_in_order(self._reader, own)
        return self._batches(records, batch_size // context.num_replicas_in_sync, own, None, own.steps(len(self)))

    def _batches(
        self, records: tf.data.Dataset, size: int, own: HostSlice, seed: int | None, steps: int
    ) -> tf.data.Dataset:
        """Batches of `size` examples, from runs of (records, numbers, epochs), made in parallel a group at a time."""
        group = math.gcd(size, self.most_at_once or size)
        examples, report = functools.partial(self.examples, seed=seed), self.bad.reporter()
        return (
            records.rebatch(group, drop_remainder=True)
            .take(steps * own.per_host // group)
            .map(
                lambda *elements: map_records(examples, elements, report),
                num_parallel_calls=self._threads,
                deterministic=True,
            )
            .rebatch(size, drop_remainder=True)
            .prefetch(2)
            .with_options(self._options)
        )
