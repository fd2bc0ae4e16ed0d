"""Examples in arrays: features and labels, or several of each by name, and perhaps a weight for each example."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfbigbatch.data.records.manifest import check_minival
from tfbigbatch.data.sources.by_index import ByIndex, Nest, parts_of
from tfbigbatch.errors import InputError


class Arrays(ByIndex):
    """Examples in memory.

    Args:
      features, labels, weights: array [examples, ...] each, or a dictionary or tuple of arrays; no weights for None.
      classes: of labels, which are in [0, classes), or -1 where an example has none; None for other labels, where NaN
        is none.
      source: where the examples come from.

    Raises:
      ValueError: the lengths differ, there is no example, or a label is out of range.
    """

    def __init__(self, features: Nest, labels: Nest, classes: int | None, source: str, weights: Nest = None) -> None:
        self.features, self.labels = features, labels
        self._parts = (features, labels) if weights is None else (features, labels, weights)
        named = list(zip(("features", "labels", "weights"), self._parts))
        lengths = {(len(array), name): None for name, part in named for array in tf.nest.flatten(part)}
        if len({length for length, _ in lengths}) != 1:
            shown = ", ".join(f"{length:,} {name}" for length, name in lengths)
            raise InputError(
                f"{source}: arrays of different lengths: {shown}; expected one for each example. A list is one array: "
                "give several arrays as a tuple or a dictionary."
            )
        super().__init__(next(iter(lengths))[0], source, classes=classes)
        for array in tf.nest.flatten(labels):
            if classes is None:
                continue
            wrong = np.flatnonzero((array < -1) | (array >= classes))
            if wrong.size:
                raise InputError(
                    f"{source}: label {int(array.flat[wrong[0]])} of example {wrong[0]} is out of range; expected 0 to "
                    f"{classes - 1}, or -1 where there is no label ({wrong.size} such labels)."
                )
        # Shared by the parts of a cut.
        self._constants: list[tuple[Nest, ...]] = []

    @property
    def tokens_per_example(self) -> int | None:
        ids = self.features.get("input_word_ids") if isinstance(self.features, dict) else None
        return None if ids is None else int(np.prod(ids.shape[1:]))

    @property
    def unlabelled(self) -> int:
        """Number of examples without a label."""
        first = tf.nest.flatten(self.labels)[0]
        if self.classes is not None:
            return int(np.count_nonzero(first == -1))
        return int(np.count_nonzero(np.isnan(first))) if first.dtype.kind == "f" else 0

    def fetch(self, indices: tf.Tensor) -> tuple[Nest, ...]:
        if not self._constants:
            # Made once for all pipelines and parts.
            with tf.init_scope(), tf.device("CPU:0"):
                self._constants.append(tf.nest.map_structure(tf.constant, self._parts))
        rows: tuple[Nest, ...] = tf.nest.map_structure(lambda array: tf.gather(array, indices), self._constants[0])
        return rows

    def training_batches(self, context: tf.distribute.InputContext, **steps: Any) -> tf.data.Dataset:
        """The batches of `Dataset`; raises a ValueError if an example has no label."""
        if self.unlabelled:
            raise InputError(
                f"{self.source}: {self.unlabelled:,} of {len(self):,} examples have no label, so they cannot be "
                "trained on. Use the training set, or leave them out."
            )
        return super().training_batches(context, **steps)

    def split_off(self, examples: int) -> tuple[Arrays, Arrays]:
        """(the rest, the last `examples`).

        Raises:
          ValueError: `examples` is not in [1, all).
        """
        check_minival(examples, len(self), self.source)

        def part(rows: slice, words: str) -> Arrays:
            features, labels, *weights = tf.nest.map_structure(lambda array: array[rows], self._parts)
            return Arrays(features, labels, self.classes, self.source + words, *weights)

        return part(slice(None, -examples), ", the rest"), part(slice(-examples, None), f", the last {examples:,}")


def of_parts(parts: tuple[Any, ...], source: str) -> Arrays:
    """A user's examples in arrays.

    Args:
      parts: (features, labels) or (features, labels, weights), as of `Arrays`. Numbers of 64 bits become float32, as
        Keras makes them; texts become tf.string.
      source: where they come from.

    Raises:
      ValueError: as Arrays; or an array is ragged or of objects, or holds NaN or infinity.
    """
    features, labels, *weights = parts_of(parts, source)
    return Arrays(features, labels, _classes(labels), source, *weights)


def _classes(labels: Nest) -> int | None:
    """The number of classes, where the labels are one array of whole numbers, a number for each example."""
    if not isinstance(labels, np.ndarray) or labels.dtype.kind not in "iu" or labels.ndim > 2:
        return None
    if labels.ndim == 2 and labels.shape[1] != 1:
        return None
    return int(labels.max()) + 1 if labels.size and labels.min() >= 0 else None


def of_keras_batches(batches: Any, source: str) -> Arrays:
    """The examples of a Keras Sequence or PyDataset, which gives whole batches: read once, into memory.

    Raises:
      ValueError: a batch is not (features, labels), or their shapes differ.
    """
    found = [parts_of(batches[index], f"{source}, batch {index}") for index in range(len(batches))]
    try:
        together = tf.nest.map_structure(lambda *arrays: np.concatenate(arrays), *found)
    except (ValueError, TypeError) as error:
        raise InputError(f"{source}: {len(found)} batches, that do not fit together: {error}") from None
    return of_parts(together, f"{source} (read into memory)")
