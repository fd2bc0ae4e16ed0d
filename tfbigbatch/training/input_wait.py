"""The seconds in which training steps waited for their batches, measured within the traced training function."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

# One batch in so many is timed: a reading of the clock takes 0.1 ms of a step. A prime, since waits come in periods.
_EVERY = 13


class InputWait:
    """Takes the next batch of an iterator, and estimates the time that all batches took from one in 13.

    Create it outside of traced functions and of a strategy's scope. Python's clock is read: TensorFlow's own is refused
    where its operations are to be deterministic. Where a device works on earlier steps in the meantime, as a GPU does,
    the host's wait is an upper bound of the device's.

    Attributes:
      seconds: so far.
    """

    def __init__(self) -> None:
        self.seconds = self._began = 0.0
        with tf.device("CPU:0"):
            self._batches = tf.Variable(0, dtype=tf.int64, trainable=False)

    def next(self, iterator: Any) -> Any:
        """The next batch; called where the training function is traced."""
        with tf.device("CPU:0"):
            # Not the first one, which waits for the pipeline to start.
            is_timed = tf.equal(self._batches.assign_add(1) % _EVERY, 0)
            begun = _call_if(is_timed, self._begin)
        with tf.control_dependencies([begun]):
            batch = next(iterator)
        with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)), tf.device("CPU:0"):
            ended = _call_if(is_timed, self._end)
        # The step begins after the clock is read: a scheduler of one thread might run it in between, and count it.
        with tf.control_dependencies([ended]):
            return tf.nest.map_structure(_identity, batch, expand_composites=True)

    def _begin(self) -> np.bool_:
        self._began = time.perf_counter()
        return np.True_

    def _end(self) -> np.bool_:
        self.seconds += _EVERY * (time.perf_counter() - self._began)
        return np.True_


def _identity(x: tf.Tensor) -> tf.Tensor:
    with tf.device(x.device):
        return tf.identity(x)


def _call_if(is_timed: tf.Tensor, function: Callable[[], np.bool_]) -> tf.Tensor:
    return tf.cond(is_timed, lambda: tf.ensure_shape(tf.numpy_function(function, [], tf.bool), []), lambda: False)
