"""The large layers that are updated at the same time: as many as the largest layer has room for.

One after the other, each layer would wait for the last thread of the one before, five kernels and a dozen scalars long.
All at once, a temporary of each would be alive.
"""

from __future__ import annotations

import collections

import tensorflow as tf


class LayersInFlight:
    """Orders the in-place steps of one device's layers in a graph, so that few temporaries are alive at a time.

    Args:
      room: number of elements that the layers in flight may have together; a larger layer is alone.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._running: collections.deque[tuple[int, tf.Operation]] = collections.deque()
        self._elements = 0
        # Runs when all layers that are no longer in flight have ended.
        self._ended: tf.Operation | None = None

    def before(self, elements: int) -> list[tf.Operation]:
        """The control dependencies of a layer of that many elements."""
        ended = []
        while self._running and self._elements + elements > self._room:
            count, operation = self._running.popleft()
            self._elements -= count
            ended.append(operation)
        if ended:
            with tf.control_dependencies(ended if self._ended is None else [self._ended, *ended]):
                self._ended = tf.no_op()
        return [] if self._ended is None else [self._ended]

    def add(self, elements: int, last_operation: tf.Operation) -> None:
        """Counts a layer as in flight until its last operation."""
        self._running.append((elements, last_operation))
        self._elements += elements
