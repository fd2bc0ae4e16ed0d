"""Losses and metrics of a user's task, as the trainer compiles them: by name, object or function, of Keras 2 or 3."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras

from tfbigbatch.errors import InputError, nearest
from tfbigbatch.models import keras3_network
from tfbigbatch.tasks import losses
from tfbigbatch.utils.user_code import check_objects

# Keras chooses these by the shapes of labels and outputs.
_BY_SHAPE = ("accuracy", "acc", "crossentropy", "ce")


def loss_of(given: Any, network: tf_keras.Model) -> Any:
    """The argument `loss` of `tasks.define` as `compile` takes it; the default is for a `network` that gives logits.

    Raises:
      ValueError: it is unknown, or the default does not fit the network.
    """
    if given is None:
        _check_logits(network)
        return losses.classification_loss()
    return _loss(given)


def _loss(given: Any) -> Any:
    if isinstance(given, dict):
        return {name: _loss(each) for name, each in given.items()}
    if isinstance(given, (list, tuple)):
        return [_loss(each) for each in given]
    if isinstance(given, str):
        return _by_name("loss", given, tf_keras.losses)
    if isinstance(given, tf_keras.losses.Loss):
        return given
    if keras3_network.is_keras3(given, "Loss"):
        return OwnLoss(given.call, given)
    check_objects("loss", given)
    if _is_factory(given):
        return _loss(given())
    if callable(given):
        return OwnLoss(given)
    raise InputError(f"loss={given!r}: expected a name, a Keras loss, or a function of (labels, outputs).")


def metrics_of(given: Any, *, is_default: bool) -> Any:
    """The argument `metrics` of `tasks.define` as `compile` takes it; `is_default` for a classifier's loss by default.

    Call it in the strategy's scope.

    Raises:
      ValueError: one is unknown, or takes no weights.
    """
    if given is None:
        return losses.classification_metrics() if is_default else []
    if _is_factory(given):
        given = given()
    if isinstance(given, dict):
        return {output: metrics_of(each, is_default=False) for output, each in given.items()}
    return [_metric(each) for each in (given if isinstance(given, (list, tuple)) else [given])]


def _metric(given: Any) -> Any:
    if isinstance(given, str):
        return given if given in _BY_SHAPE else _by_name("metric", given, tf_keras.metrics)
    if isinstance(given, tf_keras.metrics.Metric):
        return _again(given, type(given))
    if keras3_network.is_keras3(given, "Metric"):
        same = getattr(tf_keras.metrics, type(given).__name__, None)
        if same is None:
            raise InputError(f"metric {given.name!r} is of Keras 3, and tf_keras.metrics has none of its class.")
        return _again(given, same)
    check_objects("metric", given)
    if callable(given):
        return OwnMetric(given)
    raise InputError(f"metric {given!r}: expected a name, a Keras metric, or a function of (labels, outputs).")


def _again(metric: Any, cls: type[tf_keras.metrics.Metric]) -> tf_keras.metrics.Metric:
    """The metric as a new object: a run creates its variables in the strategy's scope."""
    # Of the class: Keras replaces an object's method by one that takes anything.
    takes = inspect.signature(type(metric).update_state).parameters
    if "sample_weight" not in takes and not any(each.kind is each.VAR_KEYWORD for each in takes.values()):
        raise InputError(f"metric {metric.name!r}: update_state takes no sample_weight, which excludes padding.")
    try:
        return cls.from_config({**metric.get_config(), "dtype": "float32"})
    except Exception as error:
        raise InputError(
            f"metric {metric.name!r} cannot be made again from its get_config() ({error}). Give metrics=FUNCTION, a "
            "function without arguments that returns the list."
        ) from None


def _by_name(what: str, name: str, module: Any) -> Any:
    try:
        found = module.get(name)
    except ValueError:
        known = [each for each in dir(module) if each.islower() and callable(getattr(module, each))]
        raise InputError(f"{what}={name!r} is no name of Keras. {nearest(name, known)}") from None
    # A class by its name gives an object; a function's own name may differ from the one that the user gave.
    return found if isinstance(found, (tf_keras.losses.Loss, tf_keras.metrics.Metric)) else name


def _is_factory(given: Any) -> bool:
    """True for a function without arguments: it returns what is meant."""
    return inspect.isfunction(given) and not any(
        each.default is each.empty for each in inspect.signature(given).parameters.values()
    )


def _check_logits(network: tf_keras.Model) -> None:
    layers = getattr(getattr(network, "keras3_model", network), "layers", ())
    name = getattr(getattr(layers[-1], "activation", None), "__name__", "") if layers else ""
    if name in ("softmax", "sigmoid"):
        raise InputError(
            f"the network ends in {name}, and the default loss of tasks.define takes logits, one for each class. Leave "
            f"the {name} out, or give loss='sparse_categorical_crossentropy' or 'binary_crossentropy', and metrics."
        )


class OwnLoss(tf_keras.losses.Loss):
    """A function of (labels, outputs), with a value for each example or the mean of a batch.

    Args:
      function: of the user, or of the Keras 3 loss `given`, whose values Keras 2 weights and averages.
    """

    def __init__(self, function: Callable[[Any, Any], Any], given: Any = None) -> None:
        reduction = getattr(given, "reduction", None)
        if given is not None and reduction not in ("sum_over_batch_size", "sum"):
            raise InputError(
                f"loss {given.name!r} has reduction={reduction!r}; expected 'sum' or 'sum_over_batch_size'."
            )
        name = getattr(function, "__name__", "loss") if given is None else given.name
        super().__init__(reduction="sum" if reduction == "sum" else "auto", name=name)
        self._function = function
        self.given = self if given is None else given

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        return self._function(*_same_rank(y_true, y_pred))


class OwnMetric(tf_keras.metrics.Mean):
    """The mean of a user's function of (labels, outputs) over all examples, with a value for each."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__(name=getattr(function, "__name__", "metric"))
        self._function = function

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        """A value for each example."""
        return self._function(*_same_rank(y_true, y_pred))

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None) -> Any:
        return super().update_state(self.call(y_true, y_pred), sample_weight)


def _same_rank(y_true: tf.Tensor, y_pred: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Labels [n] and outputs [n, 1], or the other way round, in one shape: as they are, a difference is [n, n]."""
    y_true, y_pred = tf.convert_to_tensor(y_true), tf.convert_to_tensor(y_pred)
    difference = y_pred.shape.rank - y_true.shape.rank
    if difference == 1 and y_pred.shape[-1] == 1:
        y_true = y_true[..., tf.newaxis]
    elif difference == -1 and y_true.shape[-1] == 1:
        y_true = tf.squeeze(y_true, -1)
    if y_true.dtype != y_pred.dtype and y_true.dtype.is_floating:
        y_true = tf.cast(y_true, y_pred.dtype)
    return y_true, y_pred


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


def real_examples(labels: Any, outputs: Any, mask: tf.Tensor) -> tuple[Any, Any, None]:
    """`weighted_examples` where the weights are a mask alone: without them."""
    return (*weighted_examples(labels, outputs, mask)[:2], None)
