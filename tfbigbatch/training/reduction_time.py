"""The time of a step's reduction: between a replica's own gradients and their sum over all replicas."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf


class ReductionTime:
    """The time that each replica spends between its own gradients and their sum over all replicas.

    Create it inside the strategy's scope.
    """

    def __init__(self) -> None:
        self._strategy = tf.distribute.get_strategy()
        self._seconds = tf.Variable(
            tf.zeros([], tf.float64),
            trainable=False,
            # Each replica has its own, and the workers exchange them at the rows of the log.
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            name="reduction_seconds",
        )

    def now(self, after: Sequence[tf.Tensor | None]) -> tf.Tensor:
        """The host's clock in seconds, float64 [], read once the tensors are computed; called in the replica.

        A number of each is copied to the host first: an accelerator's operations count as done once they are queued.
        """
        with tf.device("CPU:0"):
            read = [tf.identity(tf.reshape(each, [-1])[:1]) for each in (after[0], after[-1]) if each is not None]
            with tf.control_dependencies([*read, *(each for each in after if each is not None)]):
                # Not tf.timestamp, which TensorFlow refuses in a deterministic run.
                return tf.ensure_shape(tf.numpy_function(_clock, read, tf.float64), [])

    def add(self, begin: tf.Tensor, end: tf.Tensor) -> None:
        """Adds a step's seconds, from `now` before and after the reduction; called in the replica."""
        self._seconds.assign_add(end - begin)

    def take(self) -> float:
        """The seconds of this worker's slowest replica since the last call; called between steps."""
        own = self._strategy.experimental_local_results(self._seconds)
        seconds = min(float(each.numpy()) for each in own)
        for each in own:
            each.assign(0.0)
        return seconds


def _clock(*unused: Any) -> np.float64:
    return np.float64(time.perf_counter())
