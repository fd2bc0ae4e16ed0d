"""Examples of a `tf.data` pipeline that a function makes, for each epoch with a seed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from absl import logging

from tfbigbatch.data.dataset import Dataset
from tfbigbatch.data.sources.by_index import Nest, masked
from tfbigbatch.errors import InputError

_UNBATCHED = "expected single examples of one shape: leave .batch() out, and pad or crop in the function"
_ENDLESS = "expected one epoch of examples: leave .repeat() out"
# Transformations of which the elements are not those of their input.
_OTHER_ELEMENTS = ("Unbatch", "FlatMap", "Interleave", "Window", "Zip")


class TfDataExamples(Dataset):
    """Examples of a function that makes a tf.data.Dataset of single examples.

    Each epoch has the dataset of its own seed, a pure function of (run's seed, epoch), and whole batches of it: the
    examples beyond the last whole batch are left out of the epoch. On resume, the batches of the epoch before the step
    are read and skipped; the order is the same where the function's is a pure function of the seed. Every worker reads
    all examples and keeps its own.

    Args:
      make: function of a seed, an int, that returns the dataset.
      source: where the examples come from.
      examples: number of them; None to ask the dataset, and to count by reading it once where it does not know.
      classes: number of classes; None where the labels are none, or it is unknown.

    Raises:
      ValueError: the dataset has no end, no examples, batches, or elements other than (features, labels).
    """

    def __init__(
        self,
        make: Callable[[int], tf.data.Dataset],
        source: str,
        *,
        examples: int | None = None,
        classes: int | None = None,
    ) -> None:
        self.source = source
        self.classes = classes
        self._make = make
        first = self._made(0)
        self._spec = _checked(first.element_spec, source)
        _check_pipeline(first, source)
        self._size = _count(first, source) if examples is None else examples
        if self._size < 1:
            raise InputError(f"{source}: no examples.")
        # An iterator reads datasets that Python made: they live as long as it may.
        self._alive: list[tf.data.Dataset] = []

    @property
    def contents(self) -> str:
        return f"{self._size:,} examples of tf.data, in the order of its function; a resumed run reads up to its step"

    def examples_in_epoch(self, batch_size: int) -> int:
        return max(self._size // batch_size, 1) * batch_size if batch_size <= self._size else self._size

    def training_batches(
        self, context: tf.distribute.InputContext, *, batch_size: int, seed: int, first_step: int, last_step: int
    ) -> tf.data.Dataset:
        replicas = context.num_replicas_in_sync
        steps_in_epoch = max(self._size // batch_size, 1)
        first_epoch, first_turn = divmod(first_step, steps_in_epoch)
        per_replica = batch_size // replicas

        def of_epoch(epoch: int) -> tf.data.Dataset:
            made = self._counted(self._made(seed_of(seed, epoch))).batch(per_replica, drop_remainder=True)
            return made.take(steps_in_epoch * replicas).skip(first_turn * replicas if epoch == first_epoch else 0)

        batched = tf.nest.map_structure(lambda spec: tf.TensorSpec([per_replica, *spec.shape], spec.dtype), self._spec)
        epochs = tf.data.Dataset.range(first_epoch, max(first_epoch, -(-last_step // steps_in_epoch)))
        batches = self._made_when_read(epochs, of_epoch, batched).take((last_step - first_step) * replicas)
        return _own_replicas(batches, context).prefetch(2)

    def evaluation_steps(self, batch_size: int) -> int:
        return -(-self._size // batch_size)

    def evaluation_batches(self, context: tf.distribute.InputContext, *, batch_size: int) -> tf.data.Dataset:
        padding = self.evaluation_steps(batch_size) * batch_size - self._size
        nothing = tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), self._spec)
        # Made for each evaluation: a dataset that shuffles would have another order in the second.
        again = self._made_when_read(tf.data.Dataset.range(1), lambda _: self._counted(self._made(0)), self._spec)
        examples = again.map(lambda *example: (example, 1.0))
        padded = examples.concatenate(tf.data.Dataset.from_tensors((nothing, 0.0)).repeat(padding))
        batches = padded.batch(batch_size // context.num_replicas_in_sync, drop_remainder=True)

        with_mask = batches.map(lambda example, mask: (*example[:2], masked(mask, example[2:])))
        return _own_replicas(with_mask, context).prefetch(2)

    def _made(self, seed: int) -> tf.data.Dataset:
        made = self._make(seed)
        if not isinstance(made, tf.data.Dataset):
            raise InputError(f"{self.source}: the function returned {type(made).__name__}; expected a tf.data.Dataset.")
        return made

    def _made_when_read(
        self, numbers: tf.data.Dataset, make: Callable[[int], tf.data.Dataset], spec: Nest
    ) -> tf.data.Dataset:
        """The datasets of some numbers, one after the other, each made when its first element is read."""

        def variant_of(number: tf.Tensor) -> tf.Tensor:
            made = make(int(number))
            self._alive = [*self._alive[-3:], made]
            return tf.data.experimental.to_variant(made)

        return numbers.flat_map(
            lambda number: tf.data.experimental.from_variant(tf.py_function(variant_of, [number], tf.variant), spec)
        )

    def _counted(self, made: tf.data.Dataset) -> tf.data.Dataset:
        """Fails where the dataset ends before its number of examples, which the steps of a run follow."""
        return made.take(self._size).apply(tf.data.experimental.assert_cardinality(self._size))


def seed_of(seed: int, epoch: int) -> int:
    """The seed of an epoch: 31 bits, a pure function of the run's seed and the epoch."""
    digest = hashlib.sha256(f"{seed} {epoch}".encode()).digest()
    return int.from_bytes(digest[:4], "little") >> 1


def _own_replicas(batches: tf.data.Dataset, context: tf.distribute.InputContext) -> tf.data.Dataset:
    """The batches of this worker's replicas, of the batches of all replicas in turn."""
    if context.num_input_pipelines == 1:
        return batches
    replicas = context.num_replicas_in_sync // context.num_input_pipelines
    first = context.input_pipeline_id * replicas

    def is_own(turn: tf.Tensor, _: Any) -> tf.Tensor:
        replica = turn % context.num_replicas_in_sync
        return (replica >= first) & (replica < first + replicas)

    return batches.enumerate().filter(is_own).map(lambda _, batch: batch)


def _checked(spec: Any, source: str) -> tuple[Nest, ...]:
    if not isinstance(spec, tuple) or len(spec) not in (2, 3):
        raise InputError(f"{source} gives {spec}; expected elements (features, labels), perhaps with a weight.")
    for each in tf.nest.flatten(spec):
        if not isinstance(each, tf.TensorSpec):
            raise InputError(f"{source} gives {type(each).__name__}; expected dense tensors. Call .to_tensor(shape=).")
        if not each.shape.is_fully_defined():
            raise InputError(f"{source} gives {each.dtype.name} of shape {each.shape}; {_UNBATCHED}.")
    return spec


def _check_pipeline(dataset: tf.data.Dataset, source: str) -> None:
    """Raises ValueError for whole batches, whose shape does not tell them from examples, and for a hidden repeat."""
    waiting, ends = [dataset], False
    while waiting:
        each = waiting.pop()
        kind, inputs = type(each).__name__, each._inputs()
        ends = ends or "Take" in kind
        if not ends and int(each.cardinality()) == tf.data.INFINITE_CARDINALITY:
            raise InputError(f"{source} has no end; {_ENDLESS}.")
        # Of a text in one stream, `batch` makes the examples.
        are_examples = any(isinstance(one.element_spec, tuple) and len(one.element_spec) in (2, 3) for one in inputs)
        if "Batch" in kind and "Unbatch" not in kind and are_examples:
            raise InputError(f"{source} gives batches; {_UNBATCHED}.")
        if not any(part in kind for part in _OTHER_ELEMENTS):
            waiting += inputs


def _count(dataset: tf.data.Dataset, source: str) -> int:
    known = int(dataset.cardinality())
    if known == tf.data.UNKNOWN_CARDINALITY:
        logging.info("%s: its examples are counted by reading them", source)
        known = sum(len(count) for count in dataset.map(lambda *_: 1).batch(1024))
    return known
