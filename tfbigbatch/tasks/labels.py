"""A check that the labels of a task fit its loss and its network's outputs, before the first step, by an example."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfbigbatch.data.dataset import Dataset
from tfbigbatch.data.sources import splits
from tfbigbatch.errors import InputError

CLASSES, ONE_HOT, BINARY = "sparsecategoricalcrossentropy", "categoricalcrossentropy", "binarycrossentropy"
_KINDS = (CLASSES, ONE_HOT, BINARY)


def check(split: Dataset, loss: Any, labels: Any, outputs: Any) -> None:
    """Checks the labels that are in memory, or those of the first examples; for a network with one output.

    Args:
      split: of a task; its name begins the message.
      loss: as `compile` takes it, or the Keras 3 loss that it was made from.
      labels: tf.TensorSpec of one example; those of several are not checked.
      outputs: of the network, for one example.

    Raises:
      ValueError: a label does not fit; the message has the first such example.
    """
    if outputs is None or tf.nest.is_nested(outputs) or tf.nest.is_nested(labels):
        return
    kind, ignored = _kind(loss)
    _check_shapes(split.source, kind, labels, outputs)
    if kind or labels.dtype.is_floating:
        _check_values(split.source, kind, splits.known_labels(split), int(outputs.shape[-1] or 0), ignored)


def _kind(loss: Any) -> tuple[str, int | None]:
    """(which cross entropy a loss is, '' for another; the class number that it ignores)."""
    name = loss if isinstance(loss, str) else type(loss).__name__
    kind = name.replace("_", "").lower()
    if kind not in _KINDS:
        return "", None
    return kind, None if isinstance(loss, str) else loss.get_config().get("ignore_class")


def _check_shapes(source: str, kind: str, labels: Any, outputs: Any) -> None:
    shape, of_outputs = labels.shape.as_list(), outputs.shape[1:].as_list()
    given = f"{source}: labels {labels.dtype.name} {[None, *shape]} and outputs {[None, *of_outputs]}"
    if labels.dtype == tf.string:
        raise InputError(
            f"{source}: the labels are texts; expected numbers, as np.unique(labels, return_inverse=True)."
        )
    if kind == CLASSES:
        if not of_outputs or of_outputs[-1] == 1:
            raise InputError(
                f"{given}: the loss takes class numbers, and an output for each class. For labels 0 and 1 and one "
                "output give loss='binary_crossentropy' and metrics=['binary_accuracy']."
            )
        if shape not in (of_outputs[:-1], [*of_outputs[:-1], 1]):
            raise InputError(
                f"{given}: expected class numbers {[None, *of_outputs[:-1]]}. For one-hot labels give "
                "np.argmax(labels, axis=-1), or loss='categorical_crossentropy'."
            )
    if kind == ONE_HOT and shape != of_outputs:
        raise InputError(
            f"{given}: expected one-hot labels {[None, *of_outputs]}, or loss='sparse_categorical_crossentropy'."
        )


def _check_values(source: str, kind: str, labels: np.ndarray | None, classes: int, ignored: int | None) -> None:
    if labels is None or not len(labels):
        return
    expected = {
        CLASSES: f"class numbers from 0 to {classes - 1}, since the network has {classes} outputs",
        ONE_HOT: "0 to 1",
        BINARY: "0 to 1",
    }.get(kind, "finite numbers")
    wrong = ~np.isfinite(labels)
    if kind == CLASSES:
        wrong |= (labels < 0) | (labels >= classes) | (labels != np.floor(labels))
        wrong &= labels != ignored if ignored is not None else True
    elif kind:
        wrong |= (labels < 0) | (labels > 1)
    rows = np.flatnonzero(wrong.reshape(len(labels), -1).any(axis=1))
    if not rows.size:
        return
    raise InputError(
        f"{source}: example {rows[0]} has the label {labels[rows[0]].tolist()}; expected {expected}. {rows.size:,} of "
        f"{len(labels):,} do not fit."
    )
