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

    Keras makes more iterators than it trains on, and devices read ahead of the training: batches are held until
    `forget`, so that none is lost.

    Args:
      steps_per_epoch: batches in an epoch.
    """

    def __init__(self, steps_per_epoch: int) -> None:
        self.steps_per_epoch = steps_per_epoch
        self._position = self._next = 0
        self._held: dict[int, list[tf.Tensor]] = {}
        self._lock = threading.Lock()

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
            if saved is None and position == self._position == 0:
                # Keras looks at the first batch before it begins.
                return
            self._position = self._next = position
            self._held = {}
            self._open(saved)

    def save(self, position: int, prefix: str) -> None:
        """Writes what is needed to read from batch `position` on, beside the position, into files of this prefix.

        Raises:
          ValueError: it cannot be saved.
        """
        return  # Most need nothing.

    @abc.abstractmethod
    def _open(self, saved: str | None) -> None:
        """Prepares to read batch `self._next`."""

    @abc.abstractmethod
    def _read(self, number: int) -> list[tf.Tensor]:
        """Reads the next batch, whose number is `number`."""


class NumberedStream(Stream):
    """Batches that are a pure function of their number.

    Args:
      batches: function that gives the batches of the steps [first, last), all of one epoch.
      steps_per_epoch: batches in an epoch.
    """

    def __init__(self, batches: Callable[[int, int], tf.data.Dataset], steps_per_epoch: int) -> None:
        super().__init__(steps_per_epoch)
        self._batches = batches
        self._iterator: Any = None

    def _open(self, saved: str | None) -> None:
        self._iterator = None

    def _read(self, number: int) -> list[tf.Tensor]:
        if self._iterator is None or number % self.steps_per_epoch == 0:
            end = (number // self.steps_per_epoch + 1) * self.steps_per_epoch
            with tf.device("CPU:0"):
                self._iterator = iter(self._batches(number, end))
        return list(tf.nest.flatten(next(self._iterator)))


class ReadAgainStream(Stream):
    """Batches of a `tf.data` pipeline that repeats its order: a resumed training reads the epoch up to its step again.

    The state of an iterator would be faster to restore, but TensorFlow's loses the count of epochs that a shuffle goes
    by where the shuffle has read its last example. A digest of the next batch tells a pipeline that does not repeat its
    order.

    Args:
      pipeline: the batches of an epoch.
      steps_per_epoch: their number.
    """

    def __init__(self, pipeline: tf.data.Dataset, steps_per_epoch: int) -> None:
        super().__init__(steps_per_epoch)
        self._pipeline = pipeline
        self._iterator: Any = None
        # Iterators so far, and the batches that the latest has given.
        self._made = self._given = 0

    def save(self, position: int, prefix: str) -> None:
        files.write_json(f"{prefix}.json", {"next": digest(self.at(position))})

    def begin(self, position: int, saved: str | None) -> None:
        looked_at = self._held
        super().begin(position, saved)
        if self._made == 1 and self._given > position and position in looked_at:
            # Keras has looked beyond the position before it began; what the iterator has given comes once.
            self._held, self._next = {each: looked_at[each] for each in range(position, self._given)}, self._given
        if saved is None or not position:
            return
        if files.read_json_dictionary(f"{saved}.json").get("next") != digest(self.at(position)):
            raise InputError(
                f"ExactResume: the tf.data pipeline gives another batch {position} than it gave to the training. Give "
                "seed= to its shuffles and random operations, or give ExactResume.data a function of the epoch, from "
                "0, that returns the epoch's pipeline."
            )

    def _open(self, saved: str | None) -> None:
        epoch, step = divmod(self._next, self.steps_per_epoch)
        # Shuffles count the iterators of a pipeline; the first is there already where Keras looks at a batch before it
        # begins.
        for _ in range(self._made, epoch):
            self._next_epoch()
            next(self._iterator)
        if self._made != epoch + 1:
            self._iterator = None
            if not step:
                return
            self._next_epoch()
        for _ in range(self._given, step):
            next(self._iterator)
        self._given = max(self._given, step)

    def _next_epoch(self) -> None:
        with tf.device("CPU:0"):
            self._iterator = iter(self._pipeline)
        self._made, self._given = self._made + 1, 0

    def _read(self, number: int) -> list[tf.Tensor]:
        if self._iterator is None or number % self.steps_per_epoch == 0:
            self._next_epoch()
        self._given += 1
        return _next_of(self._iterator, number, self.steps_per_epoch)


class IteratorStream(Stream):
    """Batches of `tf.data` iterators whose state is saved.

    They are ahead of the training: their state is kept before each batch at which the training may be saved.

    Args:
      make: function of an epoch, from 0, that returns its pipeline.
      steps_per_epoch: batches in an epoch.
      is_endless: whether the pipeline of the first epoch is that of all.
      is_saved_at: whether the training may be saved before a batch, by its number.
    """

    def __init__(
        self,
        make: Callable[[int], tf.data.Dataset],
        steps_per_epoch: int,
        *,
        is_endless: bool,
        is_saved_at: Callable[[int], bool],
    ) -> None:
        super().__init__(steps_per_epoch)
        self._make = make
        self._is_endless = is_endless
        self._is_saved_at = is_saved_at
        # By batch; they share the tensors of shuffle buffers.
        self._states: dict[int, tf.Tensor] = {}
        self._iterator: Any = None
        self._epoch = 0

    def save(self, position: int, prefix: str) -> None:
        with self._lock:
            # Beyond what was read: a callback has ended the epoch, and the next one follows.
            if position >= self._next and position not in self._states:
                self._open_epoch_of(position)
                self._keep_state(position)
            if position not in self._states:
                raise InputError(f"ExactResume: the pipeline's state at batch {position} was not kept.")
            tf.raw_ops.SaveV2(prefix=prefix, tensors=[self._states[position]], **_IN_FILE)

    def forget(self, position: int) -> None:
        super().forget(position)
        with self._lock:
            self._states = {number: state for number, state in self._states.items() if number >= position}

    def _open(self, saved: str | None) -> None:
        self._states, self._iterator = {}, None
        self._open_epoch_of(self._next)
        if saved is not None:
            [state] = tf.raw_ops.RestoreV2(prefix=literal_path(saved), dtypes=[tf.variant], **_IN_FILE)
            tf.raw_ops.DeserializeIterator(resource_handle=self._iterator._iterator_resource, serialized=state)

    def _open_epoch_of(self, number: int) -> None:
        """Makes the iterator of a batch's epoch, unless there is one."""
        epoch = 0 if self._is_endless else number // self.steps_per_epoch
        if self._iterator is not None and epoch == self._epoch:
            return
        self._epoch = epoch
        with tf.device("CPU:0"):
            self._iterator = iter(self._make(epoch))

    def _read(self, number: int) -> list[tf.Tensor]:
        self._open_epoch_of(number)
        if self._is_saved_at(number) and number not in self._states:
            self._keep_state(number)
        return _next_of(self._iterator, number, self.steps_per_epoch)

    def _keep_state(self, number: int) -> None:
        try:
            self._states[number] = tf.raw_ops.SerializeIterator(
                resource_handle=self._iterator._iterator_resource, external_state_policy=_FAIL
            )
        except (tf.errors.OpError, NotImplementedError) as error:
            raise InputError(
                f"ExactResume: the state of this tf.data pipeline cannot be saved: {_reason(error)}. Python functions "
                "(from_generator, py_function, numpy_function) and random operations keep state that no checkpoint "
                "holds. Leave .repeat() out, so that the epoch is read again; or give ExactResume.data arrays, or an "
                "object with len and indices."
            ) from None


def _next_of(iterator: Any, number: int, steps_per_epoch: int) -> list[tf.Tensor]:
    batch = next(iterator, None)
    if batch is None:
        raise InputError(
            f"ExactResume: the tf.data pipeline ended before batch {number % steps_per_epoch + 1} of an epoch; "
            f"expected {steps_per_epoch}. Give its number as steps_per_epoch."
        )
    return list(tf.nest.flatten(batch))


def digest(tensors: list[tf.Tensor]) -> str:
    """A digest of the values of tensors, texts too."""
    found = hashlib.sha256()
    for tensor in tensors:
        array = tensor.numpy()
        found.update(repr(array.tolist()).encode() if tensor.dtype == tf.string else array.tobytes())
    return found.hexdigest()


def _reason(error: Exception) -> str:
    text = str(getattr(error, "message", error)).strip()
    found = re.search(r"[^\n]*?((\w+ is stateful|\S+ is not checkpointable|\w*[Uu]nimplemented)[^\n\[]*)", text)
    return (found[1] if found else text.splitlines()[0]).strip().rstrip(".")
