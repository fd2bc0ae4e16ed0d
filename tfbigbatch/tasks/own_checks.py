"""Checks of a user's network, labels and metrics against each other, before the first step.

`labels` and `features` are nests of tf.TensorSpec of one example, without the batch; `outputs` are the network's for
one example. Of several labels or outputs, labels and metrics are not checked. Each function raises ValueError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbigbatch.data.dataset import Dataset
from tfbigbatch.data.sources import splits
from tfbigbatch.errors import InputError
from tfbigbatch.models import own_model
from tfbigbatch.utils.user_code import call

# What Keras' fit and evaluate call of a model, and the trainer does not.
_STEPS = ("train_step", "test_step", "predict_step", "compute_loss", "compute_metrics")


def built(
    function: Callable[..., Any], arguments: Mapping[str, Any], features: Any, name: str
) -> tuple[keras.Model, Any]:
    """The built network of a task's model function, and its outputs. Call it in the strategy's scope."""
    here = f"task {name}: {getattr(function, '__name__', 'network')}()"
    own_model.fresh_names()
    model = own_model.checked(call(function, f"task {name}", **arguments), here)
    # KerasHub's PipelineModel only preprocesses.
    theirs = [cls for cls in type(model).__mro__ if cls.__module__.partition(".")[0] != "keras"]
    steps = [name for cls in theirs if cls.__name__ != "PipelineModel" for name in _STEPS if name in vars(cls)]
    if steps:
        raise InputError(
            f"{here} returned a model with a {steps[0]} of its own, and the trainer makes its own steps. Write it as "
            "layers, a loss and metrics, or as a subclass of tasks.Task; or train with your own fit: "
            "docs/exact_resume.md."
        )
    example = tf.nest.map_structure(lambda spec: tf.zeros([1, *spec.shape], spec.dtype), features)
    # A first call builds a model without Input, and any other model tells whether it takes the data.
    try:
        # A Sequential model without Input would take the batch size of its first call for that of all.
        if isinstance(model, keras.Sequential) and not model.built and not tf.nest.is_nested(features):
            model(keras.Input(tuple(features.shape), dtype=features.dtype.name))
        outputs = model(example, training=False)
    except Exception as error:
        shapes = tf.nest.map_structure(lambda spec: f"{spec.dtype.name} {[None, *spec.shape]}", features)
        raise InputError(
            f"{here} does not take the data's features, {shapes}: {type(error).__name__}: {error}"
        ) from None
    if not model.trainable_variables:
        raise InputError(f"{here} returned a model without trainable weights.")
    return model, outputs


def check_labels(split: Dataset, loss: Any, labels: Any, outputs: Any) -> None:
    """Checks a split's labels that are in memory, or those of its first examples; the message has the first wrong one.

    Keras itself checks the shapes, in the first step. `loss` is as `compile` takes it.
    """
    if outputs is None or tf.nest.is_nested(outputs) or tf.nest.is_nested(labels):
        return
    if labels.dtype == tf.string:
        raise InputError(
            f"{split.source}: the labels are texts; expected numbers, as np.unique(labels, return_inverse=True)."
        )
    name = loss if isinstance(loss, str) else type(loss).__name__
    kind = name.replace("_", "").lower()
    values, classes = splits.known_labels(split), int(outputs.shape[-1] or 0)
    if values is None or not len(values):
        return
    wrong, expected = ~np.isfinite(values), "finite numbers"
    if kind == "sparsecategoricalcrossentropy":
        expected = f"class numbers from 0 to {classes - 1}, since the network has {classes} outputs"
        wrong |= (values < 0) | (values >= classes) | (values != np.floor(values))
        ignored = None if isinstance(loss, str) else loss.get_config().get("ignore_class")
        wrong &= values != ignored if ignored is not None else True
    elif kind in ("categoricalcrossentropy", "binarycrossentropy"):
        expected = "0 to 1"
        wrong |= (values < 0) | (values > 1)
    rows = np.flatnonzero(wrong.reshape(len(values), -1).any(axis=1))
    if rows.size:
        raise InputError(
            f"{split.source}: example {rows[0]} has the label {values[rows[0]].tolist()}; expected {expected}. "
            f"{rows.size:,} of {len(values):,} do not fit."
        )


def check_masked(metrics: Any, labels: Any, outputs: Any, owner: str, *, is_static: bool) -> None:
    """Checks metrics on two rows of made-up numbers, of which a mask excludes one. Call it outside of a strategy.

    Args:
      metrics: list of them as `compile` takes them, of the task `owner`.
      is_static: whether a batch keeps its shape on the devices, so that a mask excludes its padding.
    """
    if not isinstance(metrics, Sequence) or tf.nest.is_nested(labels) or tf.nest.is_nested(outputs):
        return
    draw = np.random.default_rng(0)
    true = tf.cast(draw.integers(0, 2, [2, *labels.shape]), labels.dtype)
    made = tf.cast(draw.uniform(size=[2, *outputs.shape[1:]]), outputs.dtype)
    mask = tf.constant([1.0, 0.0])
    for metric in metrics:
        if not isinstance(metric, keras.metrics.Metric):
            continue
        what = f"task {owner}: metric {metric.name!r}"
        expected = _result(metric, true[:1], made[:1], None)
        if expected is not None and expected.size != 1:
            raise InputError(f"{what} is {list(expected.shape)} numbers; expected one, such as their mean.")
        found = _result(metric, true, made, mask) if is_static else expected
        if is_static and (expected is None or found is None or not np.allclose(expected, found, equal_nan=True)):
            raise InputError(
                f"{what} is wrong under a mask, which excludes the padding of an evaluation on a TPU and with "
                "jit_compile. Expected a weighted mean; or train on CPUs or GPUs without jit_compile."
            )


def _result(metric: keras.metrics.Metric, labels: tf.Tensor, outputs: tf.Tensor, mask: Any) -> np.ndarray | None:
    """The metric of some examples; None where it fails, as one that takes no weights of examples."""
    try:
        metric.reset_state()
        metric.update_state(labels, outputs, sample_weight=mask)
        return np.asarray(metric.result())
    except Exception:
        return None


# An evaluation's last batch is padded. Under a mask a metric is right that is a sum and a count of weighted examples.
# Others are not: Keras' F1 multiplies the weights of different examples, and a user's metric may take none. They see
# the real examples alone, where shapes may vary.


def weighted_examples(labels: Any, outputs: Any, weights: Any) -> tuple[Any, Any, Any]:
    """The rows of an evaluation batch that have a weight, with it: one of weight 0 counts no more than padding.

    All are [n, ...]; the weights are of examples or of their parts, perhaps for each output.
    """
    flat = [tf.reshape(each, [tf.shape(each)[0], -1]) for each in tf.nest.flatten(weights)]
    chosen = tf.reduce_any(tf.concat(flat, axis=1) != 0, axis=1)
    rows: tuple[Any, Any, Any] = tf.nest.map_structure(
        lambda each: tf.boolean_mask(each, chosen), (labels, outputs, weights)
    )
    return rows
