"""The splits of a user's data, in any of its forms, as datasets of the trainer."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfbigbatch.data.dataset import Dataset
from tfbigbatch.data.in_memory.arrays import Arrays, of_keras_batches, of_parts
from tfbigbatch.data.sources.by_index import ByIndex, Indexable
from tfbigbatch.data.sources.image_folder import ImageFolder
from tfbigbatch.data.sources.tf_data import TfDataExamples
from tfbigbatch.errors import InputError
from tfbigbatch.utils.user_code import call

_SMOKE_EXAMPLES, _CHECKED_EXAMPLES = 64, 32
# Of an example that a run directory describes: a network is called with one of zeros.
_MOST_NUMBERS = 2**28
_DTYPES = {"bool", "string", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"}
_DTYPES |= {"float16", "bfloat16", "float32", "float64", "complex64", "complex128"}


def read(
    data: Any,
    *,
    fields: Mapping[str, Any],
    data_dir: str | None,
    owner: str,
    held_out: Sequence[str] = (),
    fraction: float = 0.1,
) -> dict[str, Dataset]:
    """The split 'train' and the held-out ones.

    Args:
      data: the splits by name, or a function that returns them.
      fields: arguments of the function.
      data_dir: its argument of this name, where it has one.
      owner: name of the task, for errors and the banner.
      held_out: names of the splits that are needed beside 'train'.
      fraction: of 'train', held out where there is no 'validation'.

    Raises:
      ValueError: a split is missing, or cannot be used.
    """
    given = _called(data, fields, data_dir, owner)
    if isinstance(given, tuple):
        given = {"train": given}
    if not isinstance(given, Mapping) or "train" not in given:
        what = f"splits {', '.join(map(str, given))}" if isinstance(given, Mapping) else type(given).__name__
        raise InputError(f"task {owner}: its data is {what}; expected {{'train': ..., 'validation': ...}}.")
    found = {str(name): dataset_of(split, f"{owner}, {name}") for name, split in given.items()}
    if "validation" in held_out and "validation" not in found:
        train = found["train"]
        if not isinstance(train, ByIndex):
            raise InputError(
                f"task {owner}: its data has no 'validation', and of {type(train).__name__} no part can be held out. "
                "Give one."
            )
        found["train"], found["validation"] = train.without(fraction, "validation")
    missing = [name for name in held_out if name not in found]
    if missing:
        raise InputError(f"task {owner}: its data has no {', '.join(missing)}; it has {', '.join(found)}.")
    return found


def _called(data: Any, fields: Mapping[str, Any], data_dir: str | None, owner: str) -> Any:
    if not inspect.isroutine(data):
        return data
    takes = inspect.signature(data).parameters
    given = dict(fields)
    if "data_dir" in takes and data_dir is not None:
        given["data_dir"] = data_dir
    elif "data_dir" in takes and takes["data_dir"].default is inspect.Parameter.empty:
        raise InputError("--data_dir is missing: the task's data function takes the folder of the data.")
    return call(data, f"task {owner}", **given)


def dataset_of(split: Any, source: str) -> Dataset:
    """A dataset of the trainer from one split of a user.

    Args:
      split: see `tasks.define`.
      source: name of it, for errors and the banner.

    Raises:
      ValueError: it is of none of the forms that are known.
    """
    if isinstance(split, Dataset):
        return split
    if isinstance(split, tf.data.Dataset):
        return TfDataExamples(lambda seed: split, source)
    if isinstance(split, tuple):
        return of_parts(split, source)
    if hasattr(split, "__len__") and hasattr(split, "__getitem__") and not isinstance(split, (dict, str, np.ndarray)):
        # Keras' PyDataset, and the Sequence that it was before, give whole batches. Keras is not imported to ask.
        return of_keras_batches(split, source) if hasattr(split, "on_epoch_end") else Indexable(split, source)
    raise InputError(
        f"{source} is {type(split).__name__}; expected (features, labels) of arrays, an object with len and indices, "
        "or a tf.data.Dataset."
    )


def example_of(train: Dataset) -> tuple[Any, ...]:
    """(features, labels) or (features, labels, weights) of one example: nests of tf.TensorSpec without the batch."""
    batches = train.training_batches(tf.distribute.InputContext(), batch_size=1, seed=0, first_step=0, last_step=1)
    return tf.nest.map_structure(lambda spec: tf.TensorSpec(spec.shape[1:], spec.dtype), batches.element_spec)


def shape_of(features: Any) -> Any:
    """The shape of one example's features: a tuple, or a nest of tuples."""
    return tf.nest.map_structure(lambda spec: tuple(spec.shape.as_list()), features)


def described(features: Any) -> Any:
    """One example's features as JSON: {'shape', 'dtype'}, or a nest of such under 'named' or 'several'."""
    if isinstance(features, Mapping):
        return {"named": {name: described(each) for name, each in features.items()}}
    if isinstance(features, (tuple, list)):
        return {"several": [described(each) for each in features]}
    return {"shape": None if features.shape.rank is None else features.shape.as_list(), "dtype": features.dtype.name}


def from_description(content: Any) -> Any:
    """The nest of tf.TensorSpec that `described` was given; a sequence comes back as a tuple.

    Raises:
      ValueError: it is something else, or of more than 2^28 numbers an example.
    """
    if isinstance(content, dict) and isinstance(content.get("named"), dict):
        return {name: from_description(each) for name, each in content["named"].items()}
    if isinstance(content, dict) and isinstance(content.get("several"), list):
        return tuple(from_description(each) for each in content["several"])
    shape, dtype = (content.get("shape"), content.get("dtype")) if isinstance(content, dict) else (None, None)
    whole = isinstance(shape, list) and all(type(size) is int and 0 <= size <= _MOST_NUMBERS for size in shape)
    if not whole or math.prod(shape or ()) > _MOST_NUMBERS or not isinstance(dtype, str) or dtype not in _DTYPES:
        raise InputError(f"network_facts.features holds {content!r:.80}; expected shapes and dtypes.")
    return tf.TensorSpec(shape, dtype)


def classes_of(train: Dataset) -> int | None:
    """The number of classes that a dataset knows, or None."""
    return train.classes if isinstance(train, (ByIndex, TfDataExamples)) else None


def known_labels(split: Dataset) -> Any:
    """The labels [n, ...] of all examples in memory, or of the first 32; None where the dataset made the numbers."""
    if isinstance(split, ImageFolder):
        return None
    return split.labels if isinstance(split, Arrays) else _first(split, _CHECKED_EXAMPLES)[1]


def first_examples(split: Dataset) -> Dataset:
    """The first 64 examples of a split, repeated where there are fewer: for smoke runs."""
    features, labels = tf.nest.map_structure(
        lambda array: np.resize(array, [_SMOKE_EXAMPLES, *array.shape[1:]]), _first(split, _SMOKE_EXAMPLES)
    )
    return Arrays(features, labels, classes_of(split), f"{split.source}, the first examples")


def _first(split: Dataset, count: int) -> tuple[Any, Any]:
    """(features, labels) of the first `count` examples, or of all where there are fewer: nests of arrays."""
    batches = split.evaluation_batches(tf.distribute.InputContext(), batch_size=count)
    features, labels, mask = next(iter(batches))
    known = np.asarray(tf.nest.flatten(mask)[0]).reshape(count, -1).any(axis=1)
    return tf.nest.map_structure(lambda each: each.numpy()[known], (features, labels))
