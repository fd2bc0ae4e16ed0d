"""Checkpoints written by a thread from a copy of the state, while training goes on.

The thread writes a checkpoint with TensorFlow's own manager, in the same format: what differs from a save in the
foreground is when. As Orbax' continuous checkpoints, the next save begins when the last one is written; here also no
earlier than its cost allows.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

_COST = 0.04
"""The part of a run's time that continuous saves may take at most, by what the last one took."""
_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
# The thread competes with the steps where these keep all cores busy, as on a small machine.
_COMPETES = min(1.0, 2.0 / _CORES)


class StateCopy:
    """A second set of the variables of a checkpoint, in the host's memory.

    Create it outside of a strategy's scope: its variables are this process's own.

    Args:
      checkpoint: all that is saved.
      keeps: whether this process writes; the others of a cluster take part in reading what is of all replicas, and
        keep nothing.
      finite: variables that must be finite.

    Attributes:
      checkpoint: of the copies, with the names that `checkpoint` has.
    """

    def __init__(self, checkpoint: tf.train.Checkpoint, keeps: bool, finite: Sequence[tf.Variable]) -> None:
        # Created by the first save otherwise; the copy has its own.
        _ = checkpoint.save_counter
        self._finite = [variable for variable in finite if variable.dtype.is_floating]
        self._pairs: list[tuple[tf.Variable, tf.Variable | None]] = []
        self._texts: list[_Text] = []
        self._keeps = keeps
        self.checkpoint = self._copied(checkpoint)
        self._traced = tf.function(self._assign)

    def _copied(self, root: tf.train.Checkpoint) -> tf.train.Checkpoint:
        """The copy of an object graph: the same names in the same order, with nodes for what has no value."""
        view = tf.train.TrackableView(root)
        copies: dict[int, Any] = {}
        # Objects are kept until the end, so that no id is used twice.
        waiting: list[tuple[Any, Any]] = []

        def copy_of(trackable: Any) -> Any:
            if id(trackable) not in copies:
                if isinstance(trackable, tf.Variable):
                    copies[id(trackable)] = self._variable_like(trackable)
                elif isinstance(trackable, tf.train.experimental.PythonState):
                    copies[id(trackable)] = _Text(trackable)
                    self._texts.append(copies[id(trackable)])
                else:
                    copies[id(trackable)] = tf.train.Checkpoint()
                    waiting.append((trackable, copies[id(trackable)]))
            return copies[id(trackable)]

        copied = copy_of(root)
        done = 0
        while done < len(waiting):
            trackable, copy = waiting[done]
            done += 1
            for name, child in view.children(trackable).items():
                if not (trackable is root and name == "save_counter"):
                    setattr(copy, name, copy_of(child))
        _ = copied.save_counter
        return copied

    def _variable_like(self, variable: tf.Variable) -> tf.Variable:
        on_read = getattr(variable, "synchronization", None) == tf.VariableSynchronization.ON_READ
        if not self._keeps:
            self._pairs += [(variable, None)] if on_read else []
            return tf.train.Checkpoint()
        with tf.device("CPU:0"):
            # What is of all replicas is read by all workers at once, in `take`; a shape that is open, here alone.
            value = tf.zeros(variable.shape, variable.dtype) if on_read else tf.identity(variable.read_value())
            # The name is what the weights of another run are matched by.
            copy = tf.Variable(value, trainable=False, name=variable.name.split(":")[0])
        self._pairs.append((variable, copy))
        return copy

    def take(self) -> bool:
        """Copies the values as they are now, on every worker; returns whether they are finite."""
        for text in self._texts:
            text.take()
        return bool(self._traced().numpy())

    def _assign(self) -> tf.Tensor:
        for variable, copy in self._pairs:
            value = variable.read_value()
            if copy is not None:
                copy.assign(value)
        finite = [tf.reduce_all(tf.math.is_finite(variable)) for variable in self._finite]
        return tf.reduce_all(tf.stack(finite)) if finite else tf.constant(True)


class _Text(tf.train.experimental.PythonState):
    """A copy of what a Python object saves of itself."""

    def __init__(self, original: tf.train.experimental.PythonState) -> None:
        self._original = original
        self.take()

    def take(self) -> None:
        self._text = self._original.serialize()

    def serialize(self) -> Any:
        return self._text

    def deserialize(self, string_value: Any) -> None:
        raise NotImplementedError("a copy is written only")


class BackgroundWriter:
    """Calls a function in a thread, one call at a time.

    Attributes:
      seconds: of the processor, that the last call took.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    @property
    def is_free(self) -> bool:
        """Whether no call is in progress."""
        return self._thread is None or not self._thread.is_alive()

    def begin(self, write: Callable[[], None]) -> None:
        """Begins a call; the last one has ended."""

        def run() -> None:
            began = time.thread_time()
            try:
                write()
            # Whatever it is: the training thread raises it.
            except BaseException as error:
                self._error = error
            self.seconds = time.thread_time() - began

        self._thread = threading.Thread(target=run, daemon=True, name="checkpoint")
        self._thread.start()

    def wait(self) -> None:
        """Waits for the call in progress, and raises what it raised."""
        self.join()
        self.check()

    def join(self) -> None:
        """Waits for the call in progress, whatever comes of it."""
        if self._thread is not None:
            self._thread.join()

    def check(self) -> None:
        """Raises what the last call raised, once."""
        error, self._error = self._error, None
        if error is not None and self.is_free:
            raise error


class Pace:
    """When the next continuous save may begin.

    A save costs what training waited for it, and the processor's time of the thread where that competes with the
    steps. The next one begins when the last one's cost is 4% of the time since it began, so that a target of 5% holds.
    """

    def __init__(self) -> None:
        self._began: float | None = None
        self._waited = 0.0

    def is_due(self, thread_seconds: float) -> bool:
        """Whether the next save may begin, by the processor's seconds of the last one's thread."""
        if self._began is None:
            return True
        return _COST * (time.perf_counter() - self._began) >= self._waited + _COMPETES * thread_seconds

    def save_began(self, waited: float) -> None:
        """A save began now, after training had waited for it."""
        self._began, self._waited = time.perf_counter(), waited


def differences(written: str, expected: str) -> list[str]:
    """The names that only one of two checkpoints has, or in other shapes; the count of saves does not count."""

    def listed(path: str) -> Mapping[str, Any]:
        shapes = dict(tf.train.list_variables(path))
        return {
            name: shape for name, shape in shapes.items() if not name.startswith(("_CHECKPOINTABLE", "save_counter"))
        }

    one, other = listed(written), listed(expected)
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
