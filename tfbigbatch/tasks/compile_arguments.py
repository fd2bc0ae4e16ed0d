"""Losses and metrics of a user's task, as `keras.Model.compile` takes them: by name, object or function."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from tfbigbatch.errors import InputError, nearest
from tfbigbatch.models.own_model import is_keras2
from tfbigbatch.tasks import losses
from tfbigbatch.utils.user_code import check_objects

# Keras chooses these by the shapes of labels and outputs.
_BY_SHAPE = {"loss": ("crossentropy", "ce"), "metric": ("accuracy", "acc")}
# Of `get` alone.
_SHORT = ("mse", "mae", "mape", "msle", "bce", "kld")


def compiled_with(model: keras.Model) -> dict[str, Any]:
    """The arguments `loss`, `loss_weights` and `metrics` that a user compiled a model with; {} for none.

    Its metrics are the weighted ones too: in a run, weights of examples apply to all of them.

    Raises:
      ValueError: it was compiled with `run_eagerly`, or with metrics of which only some are by output.
    """
    if not model.compiled:
        return {}
    if model.run_eagerly:
        raise InputError(
            f"model {model.name!r} is compiled with run_eagerly=True, and the trainer's steps are traced. Leave it "
            "out; to look into a step, call model.fit on a batch of the data."
        )
    given = model._compile_config.config
    metrics = [each for each in (given["metrics"], given["weighted_metrics"]) if each]
    if len(metrics) == 2 and any(isinstance(each, dict) for each in metrics):
        raise InputError(f"model {model.name!r} is compiled with metrics by output and weighted_metrics; give one.")
    joined = metrics[0] if len(metrics) == 1 else [each for some in metrics for each in some] or None
    return {"loss": given["loss"], "loss_weights": given["loss_weights"], "metrics": joined}


def loss_of(given: Any, network: keras.Model) -> Any:
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
    # An output without a loss.
    if given is None:
        return None
    if isinstance(given, str):
        return _by_name("loss", given, keras.losses)
    if isinstance(given, keras.losses.Loss):
        if given.reduction in (None, "none"):
            raise InputError(
                f"loss {given.name!r} has reduction={given.reduction!r}; expected one that gives a number."
            )
        return given
    _check("loss", given)
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
    # One metric, or those of each output: compile takes both.
    listed = given if isinstance(given, (list, tuple)) else [given]
    return [[_metric(one) for one in each] if isinstance(each, (list, tuple)) else _metric(each) for each in listed]


def _metric(given: Any) -> Any:
    # An output without metrics.
    if given is None:
        return None
    if isinstance(given, str):
        return _by_name("metric", given, keras.metrics)
    if isinstance(given, keras.metrics.Metric):
        return _again(given)
    _check("metric", given)
    if callable(given):
        return OwnMetric(given)
    raise InputError(f"metric {given!r}: expected a name, a Keras metric, or a function of (labels, outputs).")


def _again(metric: keras.metrics.Metric) -> keras.metrics.Metric:
    """The metric as a new object: a run creates its variables in the strategy's scope."""
    takes = inspect.signature(type(metric).update_state).parameters
    if "sample_weight" not in takes and not any(each.kind is each.VAR_KEYWORD for each in takes.values()):
        raise InputError(f"metric {metric.name!r}: update_state takes no sample_weight, which excludes padding.")
    try:
        return type(metric).from_config({**metric.get_config(), "dtype": "float32"})
    except Exception as error:
        raise InputError(
            f"metric {metric.name!r} cannot be made again from its get_config() ({error}). Give metrics=FUNCTION, a "
            "function without arguments that returns the list."
        ) from None


def _by_name(what: str, name: str, module: Any) -> str:
    """The name, which Keras also calls the metric by."""
    if name not in _BY_SHAPE[what]:
        try:
            module.get(name)
        except ValueError:
            known = {each for each in dir(module) if each.islower() and inspect.isfunction(getattr(module, each))}
            known = {*known, *_SHORT, *_BY_SHAPE[what]} - {"get", "serialize", "deserialize"}
            raise InputError(f"{what}={name!r} is no name of Keras. {nearest(name, sorted(known))}") from None
    return name


def _check(what: str, given: Any) -> None:
    check_objects(what, given)
    if is_keras2(given):
        raise InputError(
            f"{what} {getattr(given, 'name', given)!r} is {type(given).__name__} of tf_keras (Keras 2); expected one "
            f"of Keras 3. Write import keras, and keras.{'losses' if what == 'loss' else 'metrics'}, in its place."
        )


def _is_factory(given: Any) -> bool:
    """True for a function without arguments: it returns what is meant."""
    return inspect.isfunction(given) and not any(
        each.default is each.empty for each in inspect.signature(given).parameters.values()
    )


def _check_logits(network: keras.Model) -> None:
    name = getattr(getattr(network.layers[-1], "activation", None), "__name__", "") if network.layers else ""
    if name in ("softmax", "sigmoid"):
        raise InputError(
            f"the network ends in {name}, and the default loss of tasks.define takes logits, one for each class. Leave "
            f"the {name} out, or give loss='sparse_categorical_crossentropy' or 'binary_crossentropy', and metrics."
        )


class OwnLoss(keras.losses.Loss):
    """The mean of a user's function of (labels, outputs), with a value for each example or the mean of a batch."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        # TensorFlow makes a scope of it, and takes no '<lambda>'.
        super().__init__(name=re.sub(r"\W", "", getattr(function, "__name__", "loss")))
        self._function = function

    def values(self, y_true: Any, y_pred: Any) -> Any:
        """A value for each example, or their mean."""
        return self._function(*_same_rank(y_true, y_pred))

    def call(self, y_true: Any, y_pred: Any) -> Any:
        values = ops.convert_to_tensor(self.values(y_true, y_pred))
        # Keras leaves one number as it is, and then sums it over replicas.
        return values if len(values.shape) else ops.broadcast_to(values, ops.shape(y_pred)[:1])


class OwnMetric(keras.metrics.Mean):
    """The mean of a user's function of (labels, outputs) over all examples, with a value for each."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__(name=getattr(function, "__name__", "metric"))
        self._function = function

    def values(self, y_true: Any, y_pred: Any) -> Any:
        """A value for each example."""
        return self._function(*_same_rank(y_true, y_pred))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(self.values(y_true, y_pred), sample_weight)


def _same_rank(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Labels [n] and outputs [n, 1], or the other way round, in one shape: as they are, a difference is [n, n]."""
    y_true, y_pred = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)
    difference = len(y_pred.shape) - len(y_true.shape)
    if difference == 1 and y_pred.shape[-1] == 1:
        y_true = ops.expand_dims(y_true, -1)
    elif difference == -1 and y_true.shape[-1] == 1:
        y_true = ops.squeeze(y_true, -1)
    if keras.backend.is_float_dtype(y_true.dtype):
        y_true = ops.cast(y_true, y_pred.dtype)
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
