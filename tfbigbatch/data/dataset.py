"""The interface of every dataset that the trainer reads: batches as a pure function of (seed, step)."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import tensorflow as tf


@runtime_checkable
class Dataset(Protocol):
    """One split of a dataset.

    A class that is one names this as its base, so that a type checker holds it to the signatures.
    """

    source: str
    """Where the examples come from, for errors and the run's banner."""

    @property
    def contents(self) -> str:
        """The size of the split, for the run's banner: '1,437 examples'."""
        ...

    @property
    def tokens_per_example(self) -> float | None:
        """Tokens in one example of a text, for throughput; None where an example is not a text."""
        return None

    def examples_in_epoch(self, batch_size: int) -> int:
        """Examples in one epoch at a global batch of `batch_size`; an epoch need not be whole batches."""
        ...

    def training_batches(
        self, context: tf.distribute.InputContext, *, batch_size: int, seed: int, first_step: int, last_step: int
    ) -> tf.data.Dataset:
        """The per-replica batches of the steps [first_step, last_step), for this worker's replicas in turn.

        Args:
          context: this worker's part in the input: number of workers, its index, and replicas in sync.
          batch_size: global batch, in examples; a multiple of the number of replicas.
          seed: of the order and of any augmentation; the batches are a pure function of (seed, step).
          first_step: step of the first batch, from 0.
          last_step: step after the last batch.

        Returns:
          (features, labels) or (features, labels, sample_weights), each [batch_size / replicas, ...], with static
          shapes.
        """
        ...

    def evaluation_steps(self, batch_size: int) -> int:
        """Batches that hold every example once, the last one padded."""
        return -(-self.examples_in_epoch(batch_size) // batch_size)

    def evaluation_batches(self, context: tf.distribute.InputContext, *, batch_size: int) -> tf.data.Dataset:
        """Every example once, in order, padded to `evaluation_steps(batch_size)` whole batches.

        Returns:
          (features, labels, mask): float32 mask [batch_size / replicas, ...], 1 for an example and 0 for padding.
        """
        ...
