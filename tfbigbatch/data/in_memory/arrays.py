"""Datasets in memory: per-replica batches as a pure function of (seed, step), and padded evaluation."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfbigbatch.data.dataset import Dataset
from tfbigbatch.data.records import order
from tfbigbatch.data.records.manifest import check_minival
from tfbigbatch.errors import InputError


@dataclasses.dataclass(frozen=True)
class Arrays(Dataset):
    """Labelled examples in memory.

    Attributes:
      features: [examples, ...].
      labels: integer [examples].
      classes: labels are in [0, classes).
      source: where the examples come from.

    Raises:
      ValueError: the lengths differ, there is no example, or a label is out of range.
    """

    features: Any
    labels: Any
    classes: int | None
    source: str

    def __post_init__(self) -> None:
        if len(self.features) != len(self.labels):
            raise InputError(
                f"{self.source}: {len(self.features)} examples but {len(self.labels)} labels; "
                "the two files do not belong together."
            )
        if len(self.labels) == 0:
            raise InputError(f"{self.source}: no examples.")
        self._check_range("label", self.labels, least=0)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def contents(self) -> str:
        return f"{len(self):,} examples"

    @property
    def tokens_per_example(self) -> int | None:
        return None

    def examples_in_epoch(self, batch_size: int) -> int:
        return len(self)

    def split_off(self, examples: int) -> tuple[Arrays, Arrays]:
        """(the rest, the last `examples`).

        Raises:
          ValueError: `examples` is not in [1, all).
        """
        check_minival(examples, len(self), self.source)
        parts = ((slice(None, -examples), ", the rest"), (slice(-examples, None), f", the last {examples:,}"))
        rest, last = (
            dataclasses.replace(
                self,
                features=self.features[rows],
                labels=self.labels[rows],
                source=self.source + words,
            )
            for rows, words in parts
        )
        return rest, last

    def training_batches(
        self, context: tf.distribute.InputContext, *, batch_size: int, seed: int, first_step: int, last_step: int
    ) -> tf.data.Dataset:
        arrays = self._constants

        @tf.autograph.experimental.do_not_convert
        def batch_of(positions: tf.Tensor) -> Any:
            return _rows(arrays, order.examples_at(positions, seed=seed, dataset_size=len(self)))

        return replica_batches(batch_of, context, batch_size=batch_size, first_step=first_step, last_step=last_step)

    def evaluation_batches(self, context: tf.distribute.InputContext, *, batch_size: int) -> tf.data.Dataset:
        arrays = self._constants

        @tf.autograph.experimental.do_not_convert
        def batch_of(positions: tf.Tensor) -> Any:
            mask = tf.cast(positions < len(self), tf.float32)
            return (*_rows(arrays, tf.minimum(positions, len(self) - 1)), mask)

        return replica_batches(
            batch_of, context, batch_size=batch_size, first_step=0, last_step=self.evaluation_steps(batch_size)
        )

    def evaluation_steps(self, batch_size: int) -> int:
        return -(-len(self) // batch_size)

    def _check_range(self, name: str, labels: np.ndarray, *, least: int) -> None:
        """Raises if labels are outside [least, classes); -1 stands for no label."""
        if self.classes is None:
            return
        wrong = np.flatnonzero((labels < least) | (labels >= self.classes))
        if wrong.size:
            first = int(wrong[0])
            raise InputError(
                f"{self.source}: {name} {int(labels[first])} of example {first} is out of range; "
                f"expected 0 to {self.classes - 1}{', or -1 where there is no label' if least < 0 else ''} "
                f"({wrong.size} such labels)."
            )

    @functools.cached_property
    def _constants(self) -> Any:
        """(features, labels) as tensors, made once for all pipelines."""
        with tf.init_scope(), tf.device("CPU:0"):
            return tf.nest.map_structure(tf.constant, (self.features, self.labels))


def _rows(arrays: Any, indices: tf.Tensor) -> Any:
    return tf.nest.map_structure(lambda array: tf.gather(array, indices), arrays)


def replica_batches(
    batch_of: Callable[[tf.Tensor], Any],
    context: tf.distribute.InputContext,
    *,
    batch_size: int,
    first_step: int,
    last_step: int,
) -> tf.data.Dataset:
    """`batch_of(positions)` for each step and each replica of this worker in turn.

    Args:
      batch_of: function of positions, int64 [batch_size / replicas]. A global batch is `batch_size` consecutive
        positions, divided among the replicas of all workers in order.
      context: this worker's part in the input.
      batch_size: positions in a global batch; a multiple of the number of replicas.
      first_step, last_step: the steps [first_step, last_step).
    """
    replicas = context.num_replicas_in_sync // context.num_input_pipelines
    first_replica = context.input_pipeline_id * replicas
    per_replica = batch_size // context.num_replicas_in_sync

    def batch(turn: tf.Tensor) -> Any:
        step, replica = turn // replicas, turn % replicas + first_replica
        return batch_of(step * batch_size + replica * per_replica + tf.range(per_replica, dtype=tf.int64))

    turns = tf.data.Dataset.range(first_step * replicas, last_step * replicas)
    return turns.map(batch, num_parallel_calls=2, deterministic=True).prefetch(2)
