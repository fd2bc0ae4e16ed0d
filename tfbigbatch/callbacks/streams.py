"""Batches by their number in the training: computed from it, read again up to it, or of an iterator that is saved."""

from __future__ import annotations

import abc
import hashlib
import re
import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfbigbatch.errors import InputError
from tfbigbatch.utils import files
from tfbigbatch.utils.tensorflow_paths import literal_path

# Of tf.data: a pipeline with state that its iterators do not hold is an error.
_FAIL = tf.data.experimental.ExternalStatePolicy.FAIL.value
_IN_FILE = {"tensor_names": ["iterator"], "shape_and_slices": [""]}


class Stream(abc.ABC):
    """The batches of a training, each read once, whoever asks for it.

    Keras makes more iterators than it trains on, looks at batches before it begins, and devices read ahead of the
    training: batches are held until `forget`, so that none is lost.

    Args:
      steps_per_epoch: batches in an epoch.
    """

    def __init__(self, steps_per_epoch: int) -> None:
        self.steps_per_epoch = steps_per_epoch
        self._position = self._next = 0
        self._held: dict[int, list[tf.Tensor]] = {}
        self._lock = threading.RLock()
        # Of tf.data, and the number of the batch that it gives next.
        self._iterator: Any = None
        self._reached = -1

    def rest_of_epoch(self) -> tuple[int, int]:
        """The numbers [first, last) of the batches from the position to the end of its epoch."""
        first = self._position
        return first, (first // self.steps_per_epoch + 1) * self.steps_per_epoch

    def at(self, number: int) -> list[tf.Tensor]:
        """The tensors of a batch."""
        with self._lock:
            if number < self._position:
                raise ValueError(f"Batch {number} was asked for after it was trained on.")
            while self._next <= number:
                self._held[self._next] = self._read(self._next)
                self._next += 1
            return self._held[number]

    def has_read(self, number: int) -> bool:
        """True if the batches before `number` were read."""
        return self._next >= number

    def forget(self, position: int) -> None:
        """Drops the batches before `position`, from which new iterators begin."""
        with self._lock:
            self._position = position
            self._held = {number: batch for number, batch in self._held.items() if number >= position}

    def begin(self, position: int, saved: str | None) -> None:
        """Begins again at `position`.

        Args:
          saved: None, or the prefix of the files that `save` wrote there.
        """
        with self._lock:
            if not self._position <= position <= self._next:
                self._next, self._held = position, {}
            self.forget(position)

    def save(self, position: int, prefix: str) -> None:
        """Writes what is needed to read from batch `position` on, beside the position, into files of this prefix.

        Raises:
          ValueError: it cannot be saved.
        """
        return  # Most need nothing.

    def _read(self, number: int) -> list[tf.Tensor]:
        if number != self._reached or number % self.steps_per_epoch == 0:
            with tf.device("CPU:0"):
                self._open(number)
        batch = next(self._iterator, None)
        if batch is None:
            raise InputError(
                f"ExactResume: the tf.data pipeline ended before batch {number % self.steps_per_epoch + 1} of an "
                f"epoch; expected {self.steps_per_epoch}. Give its number as steps_per_epoch."
            )
        self._reached = number + 1
        return list(tf.nest.flatten(batch))

    @abc.abstractmethod
    def _open(self, number: int) -> None:
        """Makes the iterator give batch `number`, of an epoch that begins or a position that was set."""


class NumberedStream(Stream):
    """Batches that are a pure function of their number.

    Args:
      batches: function that gives the batches of the steps [first_step, last_step), all of one epoch.
    """

    def __init__(self, batches: Callable[..., tf.data.Dataset], steps_per_epoch: int) -> None:
        super().__init__(steps_per_epoch)
        self._batches = batches

    def _open(self, number: int) -> None:
        last = (number // self.steps_per_epoch + 1) * self.steps_per_epoch
        self._iterator = iter(self._batches(first_step=number, last_step=last))


class ReadAgainStream(Stream):
    """Batches of a `tf.data` pipeline that repeats its order: a resumed training reads the epoch up to its step again.

    The state of an iterator would be faster to restore, but TensorFlow's loses the count of epochs that a shuffle goes
    by where the shuffle has read its last example. A digest of the next batch tells a pipeline that does not repeat its
    order.

    Args:
      pipeline: the batches of an epoch.
    """

    def __init__(self, pipeline: tf.data.Dataset, steps_per_epoch: int) -> None:
        super().__init__(steps_per_epoch)
        self._pipeline = pipeline
        self._made = 0

    def save(self, position: int, prefix: str) -> None:
        files.write_json(f"{prefix}.json", {"next": digest(self.at(position))})

    def begin(self, position: int, saved: str | None) -> None:
        super().begin(position, saved)
        if saved is None or not position:
            return
        if files.read_json_dictionary(f"{saved}.json").get("next") != digest(self.at(position)):
            raise InputError(
                f"ExactResume: the tf.data pipeline gives another batch {position} than it gave to the training. Give "
                "seed= to its shuffles and random operations, or give ExactResume.data a function of the epoch, from "
                "0, that returns the epoch's pipeline."
            )

    def _open(self, number: int) -> None:
        epoch = number // self.steps_per_epoch
        first = epoch * self.steps_per_epoch
        if self._made != epoch + 1 or not first <= self._reached <= number or number == first:
            # Shuffles count the iterators of a pipeline that were read from.
            for each in range(self._made, epoch + 1) or [epoch]:
                self._iterator = iter(self._pipeline)
                self._made += 1
                if each < epoch:
                    next(self._iterator)
            self._reached = first
        for _ in range(self._reached, number):
            next(self._iterator)


class IteratorStream(Stream):
    """Batches of `tf.data` iterators whose state is saved.

    They are ahead of the training: their state is kept before each batch at which the training may be saved.

    Args:
      make: function of an epoch, from 0, that returns its pipeline.
      is_endless: whether the pipeline of the first epoch is that of all.
      every: steps of an epoch between two saves.
    """

    def __init__(
        self, make: Callable[[int], tf.data.Dataset], steps_per_epoch: int, *, is_endless: bool, every: int
    ) -> None:
        super().__init__(steps_per_epoch)
        self._make = make
        self._is_endless = is_endless
        self._every = every
        # By batch; they share the tensors of shuffle buffers.
        self._states: dict[int, tf.Tensor] = {}
        self._epoch = 0

    def save(self, position: int, prefix: str) -> None:
        with self._lock:
            # Beyond what was read: a callback has ended the epoch, and the next one follows.
            if position >= self._next and position not in self._states:
                self._keep_state(position)
            tf.raw_ops.SaveV2(prefix=prefix, tensors=[self._states[position]], **_IN_FILE)

    def forget(self, position: int) -> None:
        super().forget(position)
        with self._lock:
            self._states = {number: state for number, state in self._states.items() if number >= position}

    def begin(self, position: int, saved: str | None) -> None:
        if saved is None and position == self._position == 0:
            return
        with self._lock:
            self._position = self._next = self._reached = position
            self._held, self._states, self._iterator = {}, {}, None
            self._open(position)
            if saved is not None:
                [state] = tf.raw_ops.RestoreV2(prefix=literal_path(saved), dtypes=[tf.variant], **_IN_FILE)
                tf.raw_ops.DeserializeIterator(resource_handle=self._iterator._iterator_resource, serialized=state)

    def _open(self, number: int) -> None:
        epoch = 0 if self._is_endless else number // self.steps_per_epoch
        if self._iterator is None or epoch != self._epoch:
            with tf.device("CPU:0"):
                self._epoch, self._iterator = epoch, iter(self._make(epoch))

    def _read(self, number: int) -> list[tf.Tensor]:
        if number % self.steps_per_epoch % self._every == 0 and number not in self._states:
            self._keep_state(number)
        return super()._read(number)

    def _keep_state(self, number: int) -> None:
        self._open(number)
        try:
            self._states[number] = tf.raw_ops.SerializeIterator(
                resource_handle=self._iterator._iterator_resource, external_state_policy=_FAIL
            )
        except (tf.errors.OpError, NotImplementedError) as error:
            text = str(getattr(error, "message", error)).strip()
            found = re.search(r"[^\n]*?((\w+ is stateful|\S+ is not checkpointable|\w*[Uu]nimplemented)[^\n\[]*)", text)
            reason = (found[1] if found else text.splitlines()[0]).strip().rstrip(".")
            raise InputError(
                f"ExactResume: the state of this tf.data pipeline cannot be saved: {reason}. Python functions "
                "(from_generator, py_function, numpy_function) and random operations keep state that no checkpoint "
                "holds. Leave .repeat() out, so that the epoch is read again; or give ExactResume.data arrays, or an "
                "object with len and indices."
            ) from None


def digest(tensors: list[tf.Tensor]) -> str:
    """A digest of the values of tensors, texts too."""
    found = hashlib.sha256()
    for tensor in tensors:
        array = tensor.numpy()
        found.update(repr(array.tolist()).encode() if tensor.dtype == tf.string else array.tobytes())
    return found.hexdigest()
