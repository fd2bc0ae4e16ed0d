"""Evaluations without the padding of their last batch: for metrics of any kind, where shapes may vary.

Under a mask a metric is right that is a sum and a count of weighted examples. Others are not: Keras' F1 multiplies the
weights of different examples, and a user's metric may take none. They see the real examples alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from tfbigbatch.errors import InputError

Tensors = Any
"""A tensor, or a nest of tensors."""


def real_examples(labels: Tensors, outputs: Tensors, mask: tf.Tensor) -> tuple[Tensors, Tensors, None]:
    """The rows of an evaluation batch that are examples, without weights.

    Args:
      labels, outputs: [n, ...].
      mask: [n], 0 for padding.
    """
    return (*_rows((labels, outputs), mask > 0), None)


def weighted_examples(labels: Tensors, outputs: Tensors, weights: Tensors) -> tuple[Tensors, Tensors, Tensors]:
    """The rows that have a weight, with it: one of weight 0 counts no more than padding.

    Args:
      labels, outputs: [n, ...].
      weights: [n, ...], of examples or of their parts, perhaps for each output; all 0 for padding.
    """
    flat = [tf.reshape(each, [tf.shape(each)[0], -1]) for each in tf.nest.flatten(weights)]
    return _rows((labels, outputs, weights), tf.reduce_any(tf.concat(flat, axis=1) != 0, axis=1))


def _rows(nest: Tensors, chosen: tf.Tensor) -> Tensors:
    return tf.nest.map_structure(lambda each: tf.boolean_mask(each, chosen), nest)


def check(metrics: Any, labels: Any, outputs: Any, owner: str, *, is_static: bool, weighted: bool) -> None:
    """Checks metrics on two rows of made-up numbers, of which a mask excludes one. Call it outside of a strategy.

    Args:
      metrics: list of them as `compile` takes them; those of several outputs are not checked.
      labels: nest of tf.TensorSpec of one example.
      outputs: of the network, for one example.
      owner: name of the task.
      is_static: whether a batch keeps its shape on the devices, so that a mask excludes its padding.
      weighted: whether the examples have weights.

    Raises:
      ValueError: one is no single number; is wrong under a mask, and `is_static`; or takes no weights, and there are
        some.
    """
    if not isinstance(metrics, Sequence) or tf.nest.is_nested(labels) or tf.nest.is_nested(outputs):
        return
    draw = np.random.default_rng(0)
    true = tf.cast(draw.integers(0, 2, [2, *labels.shape]), labels.dtype)
    made = tf.cast(draw.uniform(size=[2, *outputs.shape[1:]]), outputs.dtype)
    # As compile gives it.
    mask = tf.constant([1.0, 0.0])[:, tf.newaxis] if made.shape.rank == 2 else tf.constant([1.0, 0.0])
    for metric in metrics:
        if not isinstance(metric, tf_keras.metrics.Metric):
            continue
        expected = _result(metric, true[:1], made[:1], None)
        if expected is not None and expected.size != 1:
            raise InputError(
                f"task {owner}: metric {metric.name!r} is {list(expected.shape)} numbers; expected one, such as their "
                "mean (of Keras' F1Score, average='macro')."
            )
        if weighted and isinstance(metric, tf_keras.metrics.FBetaScore):
            raise InputError(
                f"task {owner}: metric {metric.name!r}: Keras' {type(metric).__name__} multiplies the weights of "
                "different examples, and the data has weights. Leave one of the two out, or give a metric of your own."
            )
        if not is_static:
            continue
        found = _result(metric, true, made, mask)
        if expected is None or found is None or not np.allclose(expected, found, equal_nan=True):
            raise InputError(
                f"task {owner}: metric {metric.name!r} is wrong under a mask: an example of weight 0 counts. On a TPU, "
                "and with jit_compile, an evaluation's last batch keeps its shape and is padded under a mask. Expected "
                "a weighted mean; or train on CPUs or GPUs without jit_compile."
            )


def _result(metric: tf_keras.metrics.Metric, labels: tf.Tensor, outputs: tf.Tensor, mask: Any) -> np.ndarray | None:
    """The metric of some examples; None where it fails, as F1's macro average with weights of this shape."""
    try:
        metric.update_state(labels, outputs, sample_weight=mask)
        found = np.asarray(metric.result())
        metric.reset_state()
    except Exception:
        return None
    return found
