"""The stand-in for the data of `fit`: a `tf.data.Dataset` whose iterators begin where the training is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfbigbatch.callbacks.streams import IteratorStream, NumberedStream, ReadAgainStream, Stream, digest
from tfbigbatch.data.dataset import Dataset
from tfbigbatch.data.in_memory.arrays import Arrays, of_parts
from tfbigbatch.data.records import order
from tfbigbatch.data.sources import splits
from tfbigbatch.data.sources.by_index import ByIndex, nest_of
from tfbigbatch.errors import InputError
from tfbigbatch.utils import arguments

_OWNER = "ExactResume.data"
_SAMPLED = 16
_FORMS = (
    "an array, a dictionary or tuple of arrays, an object with len and indices, a tf.data.Dataset, a function of the "
    "epoch that returns one, or a dataset of tfbigbatch"
)


class FitData(tf.data.Dataset):
    """The batches of a stream as `fit` takes them: each iterator reads from the stream's position to its epoch's end.

    Args:
      stream: the batches.
      spec: nest of tf.TensorSpec of a batch.
      description: of the data, in values of JSON: a checkpoint of other data is refused.

    Raises:
      ValueError: a part of a batch is no dense tensor.
    """

    def __init__(self, stream: Stream, spec: Any, description: dict[str, Any]) -> None:
        self.stream = stream
        flat = tf.nest.flatten(spec)
        for each in flat:
            if not isinstance(each, tf.TensorSpec):
                raise InputError(f"{_OWNER}: batches of {type(each).__name__}; expected dense tensors.")
        shown = str(tf.nest.map_structure(lambda each: f"{each.dtype.name} {each.shape}", spec))
        self.description = {**description, "steps_per_epoch": stream.steps_per_epoch, "batches": shown}

        def batch(number: tf.Tensor) -> Any:
            tensors = tf.py_function(lambda number: stream.at(int(number)), [number], [each.dtype for each in flat])
            for tensor, each in zip(tensors, flat):
                tensor.set_shape(each.shape)
            return tf.nest.pack_sequence_as(spec, tensors)

        spans = tf.data.Dataset.range(1).map(lambda _: tf.py_function(stream.rest_of_epoch, [], (tf.int64, tf.int64)))
        self._batches = spans.flat_map(lambda first, last: tf.data.Dataset.range(first, last)).map(batch)
        super().__init__(self._batches._variant_tensor)

    def _inputs(self) -> list[tf.data.Dataset]:
        return [self._batches]

    @property
    def element_spec(self) -> Any:
        """Nest of tf.TensorSpec."""
        return self._batches.element_spec

    def cardinality(self) -> tf.Tensor:
        """Batches in an epoch, also where an iterator begins within one: Keras asks once for all epochs."""
        return tf.constant(self.stream.steps_per_epoch, tf.int64)


def _batches_by_index(
    examples: ByIndex, batch_size: int, steps_per_epoch: int, *, shuffle: bool, seed: int, parts: int | None
) -> Callable[..., tf.data.Dataset]:
    """Examples by index, in batches as `fit` makes them: the last one of an epoch may be smaller."""
    size = len(examples)

    def batch(number: tf.Tensor) -> Any:
        epoch, first = number // steps_per_epoch, number % steps_per_epoch * batch_size
        positions = tf.range(first, tf.minimum(first + batch_size, size))
        if steps_per_epoch * batch_size <= size:
            positions.set_shape([batch_size])
        if shuffle:
            positions = order.examples_at(epoch * size + positions, seed=seed, dataset_size=size)
        return examples._rows(positions)[:parts]

    def batches(first_step: int, last_step: int) -> tf.data.Dataset:
        numbers = tf.data.Dataset.range(first_step, last_step)
        return numbers.map(batch, num_parallel_calls=2, deterministic=True).prefetch(2)

    return batches


def of_pipeline(
    x: tf.data.Dataset | Callable[[int], tf.data.Dataset], steps_per_epoch: int | None, every: int | None
) -> FitData:
    """The batches of a `tf.data` pipeline, or of a function of the epoch that returns one; see `ExactResume.data`."""
    is_function = not isinstance(x, tf.data.Dataset)
    pipeline = x(0) if is_function else x
    if not isinstance(pipeline, tf.data.Dataset):
        raise InputError(f"{_OWNER}: x(0) returned {type(pipeline).__name__}; expected a tf.data.Dataset.")
    known = int(pipeline.cardinality())
    is_endless = known == tf.data.INFINITE_CARDINALITY
    if known == 0:
        raise InputError(f"{_OWNER}: this tf.data pipeline has no batches.")
    if known < 0 and steps_per_epoch is None:
        what = "has no end" if is_endless else "does not know its number of batches"
        raise InputError(f"{_OWNER}: this tf.data pipeline {what}; give steps_per_epoch=.")
    given = known if steps_per_epoch is None else steps_per_epoch
    steps = arguments.integer("steps_per_epoch", given, least=1, owner=_OWNER)
    if known > 0 and steps != known:
        raise InputError(
            f"{_OWNER}: steps_per_epoch={steps}, and this tf.data pipeline has {known} batches. Leave it out; for "
            "epochs of another size give the pipeline with .repeat()."
        )
    stream: Stream
    if is_function or is_endless:
        make = x if is_function else lambda epoch: pipeline
        stream = IteratorStream(make, steps, is_endless=not is_function, every=every or steps)
    else:
        stream = ReadAgainStream(pipeline, steps)
    description = {"kind": "tf.data pipeline", "is_function": is_function, "known_batches": known}
    return FitData(stream, pipeline.element_spec, description)


def of_examples(
    x: Any, y: Any, sample_weight: Any, *, batch_size: int | None, shuffle: bool, seed: int, drop_remainder: bool
) -> FitData:
    """The batches of arrays, of an indexable object or of a dataset of the trainer; see `ExactResume.data`."""
    batch_size = arguments.integer("batch_size", 32 if batch_size is None else batch_size, least=1, owner=_OWNER)
    seed = arguments.integer("seed", seed, least=0, owner=_OWNER)
    shuffle = arguments.flag("shuffle", shuffle, owner=_OWNER)
    drop_remainder = arguments.flag("drop_remainder", drop_remainder, owner=_OWNER)
    examples, parts = _examples(x, y, sample_weight)
    batches: Callable[..., tf.data.Dataset]
    description: dict[str, Any] = {"batch_size": batch_size, "seed": seed, "shuffle": shuffle}
    if isinstance(examples, ByIndex):
        size = len(examples)
        steps = size // batch_size if drop_remainder else -(-size // batch_size)
        if steps == 0:
            raise InputError(
                f"{_OWNER}: {size:,} examples are no whole batch of {batch_size:,}, and drop_remainder is True."
            )
        batches = _batches_by_index(examples, batch_size, steps, shuffle=shuffle, seed=seed, parts=parts)
        description.update(kind="examples by index", examples=size, drop_remainder=drop_remainder)
        if isinstance(examples, Arrays):
            description.update(kind="arrays", content=_sample_hash(examples))
    else:
        if not shuffle:
            raise InputError(f"{_OWNER}: shuffle=False, and {type(examples).__name__} has an order of its own.")
        size = examples.examples_in_epoch(batch_size)
        # An epoch of `fit` is as many whole batches as an epoch of the trainer has.
        steps = max(1, size // batch_size)
        context = tf.distribute.InputContext()
        batches = functools.partial(examples.training_batches, context, batch_size=batch_size, seed=seed)
        description.update(kind=type(examples).__name__, contents=examples.contents, examples=size)
    return FitData(NumberedStream(batches, steps), batches(first_step=0, last_step=1).element_spec, description)


def _examples(x: Any, y: Any, sample_weight: Any) -> tuple[Dataset, int | None]:
    """The examples, and how many parts of each `fit` gets, None for all."""
    if hasattr(x, "__next__") and not hasattr(x, "__getitem__"):
        raise InputError(
            f"{_OWNER}: x is a {type(x).__name__}, which begins at its first batch in each process. Give arrays, an "
            "object with len and indices, a tf.data.Dataset or a dataset of tfbigbatch."
        )
    if y is None and sample_weight is not None:
        raise InputError(f"{_OWNER}: sample_weight without y; expected both.")
    is_array = hasattr(x, "shape") or isinstance(x, (dict, list, str))
    is_indexable = hasattr(x, "__len__") and hasattr(x, "__getitem__") and not is_array
    if y is None and (isinstance(x, Dataset) or is_indexable):
        return splits.dataset_of(x, _OWNER), None
    if isinstance(x, Dataset):
        raise InputError(f"{_OWNER}: y beside {type(x).__name__}, which has labels itself; leave y out.")
    for name, part in (("x", x), ("y", y), ("sample_weight", sample_weight)):
        is_missing = (part is None and name == "x") or (isinstance(part, dict) and not part)
        if is_missing or isinstance(part, (str, bytes, int, float)):
            expected = _FORMS if name == "x" else "an array with an entry for each example"
            raise InputError(f"{_OWNER}: {name} is {type(part).__name__}; expected {expected}.")
    if y is None:
        features = nest_of(x, f"{_OWNER}: x")
        return of_parts((features, np.zeros(len(tf.nest.flatten(features)[0]), np.int32)), _OWNER), 1
    return of_parts((x, y) if sample_weight is None else (x, y, sample_weight), _OWNER), None


def _sample_hash(examples: Arrays) -> str:
    """A digest of some examples spread over all: other data of the same shape is told from it."""
    chosen = np.unique(np.linspace(0, len(examples) - 1, _SAMPLED).astype(np.int64))
    return digest(tf.nest.flatten(examples._rows(tf.constant(chosen))))
