"""A user's network, loss and metrics, as `keras.Model.compile` takes them, and their checks before the first step.

`labels` and `features` are nests of tf.TensorSpec of one example, without the batch; `outputs` are the network's for
one example. Of several labels or outputs, labels and metrics are not checked. Each function raises ValueError.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from keras.src.losses import loss as keras_loss

from tfbigbatch.data.dataset import Dataset
from tfbigbatch.data.sources import splits
from tfbigbatch.errors import InputError, first_line
from tfbigbatch.models import own_model
from tfbigbatch.tasks import losses
from tfbigbatch.utils.user_code import call

# Keras chooses these by the shapes of labels and outputs.
_BY_SHAPE = ("crossentropy", "ce", "accuracy", "acc")
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


def loss_of(given: Any, network: keras.Model, *, is_weighted: bool = False) -> Any:
    """The argument `loss` of `tasks.define` as `compile` takes it; the default is for a `network` that gives logits.

    `is_weighted` where examples have weights.

    Raises:
      ValueError: it is unknown, or the default does not fit the network.
    """
    if given is None:
        _check_default(network)
        return losses.classification_loss()
    return _loss(given() if _is_factory(given) else given, is_weighted)


def _loss(given: Any, is_weighted: bool) -> Any:
    if isinstance(given, dict):
        return {name: _loss(each, is_weighted) for name, each in given.items()}
    if isinstance(given, (list, tuple)):
        return [_loss(each, is_weighted) for each in given]
    if isinstance(given, keras.losses.Loss) and given.reduction in (None, "none"):
        raise InputError(f"loss {given.name!r} has reduction={given.reduction!r}; expected one that gives a number.")
    # None: an output without a loss.
    if given is None or isinstance(given, keras.losses.Loss):
        return given
    if isinstance(given, str):
        return _known("loss", given, keras.losses.get)
    if callable(given):
        return _of_each_example("loss", given, is_weighted)
    raise InputError(f"loss={given!r}: expected a name, a Keras loss, or a function of (labels, outputs).")


def metrics_of(given: Any, *, is_default: bool, is_weighted: bool = False) -> Any:
    """The argument `metrics` of `tasks.define` as `compile` takes it; `is_default` for a classifier's loss by default.

    Call it in the strategy's scope. `is_weighted` where held-out examples have weights.

    Raises:
      ValueError: one is unknown, or cannot be made again.
    """
    if given is None:
        return losses.classification_metrics() if is_default else []
    return _metrics(given() if _is_factory(given) else given, is_weighted)


def _metrics(given: Any, is_weighted: bool) -> Any:
    if isinstance(given, dict):
        return {output: _metrics(each, is_weighted) for output, each in given.items()}
    # One metric, or those of each output: compile takes both.
    if isinstance(given, (list, tuple)):
        return [_metrics(each, is_weighted) for each in given]
    # None: an output without metrics.
    if given is None:
        return None
    if isinstance(given, str):
        return _known("metric", given, keras.metrics.get)
    if isinstance(given, keras.metrics.Metric):
        return _again(given)
    if callable(given):
        name = getattr(given, "__name__", "metric")
        return keras.metrics.MeanMetricWrapper(_of_each_example("metric", given, is_weighted), name)
    raise InputError(f"metric {given!r}: expected a name, a Keras metric, or a function of (labels, outputs).")


def _again(metric: keras.metrics.Metric) -> keras.metrics.Metric:
    """The metric as a new object: a run creates its variables in the strategy's scope."""
    try:
        return type(metric).from_config(metric.get_config())
    except Exception as error:
        raise InputError(
            f"metric {metric.name!r} cannot be made again from its get_config() ({error}). Give metrics=FUNCTION, a "
            "function without arguments that returns the list."
        ) from None


def _known(what: str, name: str, get: Callable[[str], Any]) -> str:
    """The name, which Keras also calls the metric by."""
    if name not in _BY_SHAPE:
        try:
            get(name)
        except ValueError as error:
            raise InputError(f"{what}={name!r} is no name of Keras: {first_line(error)}") from None
    return name


def _is_factory(given: Any) -> bool:
    """True for a function without arguments: it returns what is meant."""
    return inspect.isfunction(given) and not any(
        each.default is each.empty for each in inspect.signature(given).parameters.values()
    )


def _check_default(network: keras.Model) -> None:
    if network.compiled:
        raise InputError(
            f"model {network.name!r} is compiled, and the trainer compiles it with the loss and metrics of "
            "tasks.define. Give them there."
        )
    name = getattr(getattr(network.layers[-1], "activation", None), "__name__", "") if network.layers else ""
    if name in ("softmax", "sigmoid"):
        raise InputError(
            f"the network ends in {name}, and the default loss of tasks.define takes logits, one for each class. Leave "
            f"the {name} out, or give loss='sparse_categorical_crossentropy' or 'binary_crossentropy', and metrics."
        )


def _of_each_example(what: str, function: Callable[[Any, Any], Any], is_weighted: bool) -> Callable[[Any, Any], Any]:
    """A user's function for Keras' wrappers: its labels and outputs have one rank, and each example has a value."""

    @functools.wraps(function)
    def values(labels: Any, outputs: Any) -> Any:
        # Labels [n] less outputs [n, 1] would be [n, n].
        labels, outputs = ops.convert_to_tensor(labels), ops.convert_to_tensor(outputs)
        labels, outputs = keras_loss.squeeze_or_expand_to_same_rank(labels, outputs)
        if keras.backend.is_float_dtype(labels.dtype):
            labels = ops.cast(labels, outputs.dtype)
        found = ops.convert_to_tensor(function(labels, outputs))
        if len(found.shape):
            return found
        if is_weighted:
            raise InputError(
                f"{what} {values.__name__!r} returns one number for a batch, and the data has weights; expected a "
                "value for each example, [batch]."
            )
        # Keras leaves one number as it is, and then sums it over replicas.
        return ops.broadcast_to(found, ops.shape(outputs)[:1])

    return values


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
    """Checks metrics on two rows of made-up numbers; a mask excludes one. Call it outside of a strategy.

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
