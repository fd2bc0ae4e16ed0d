"""Losses and metrics of a user's task, as `keras.Model.compile` takes them: by name, object or function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import keras
from keras import ops
from keras.src.losses.loss import squeeze_or_expand_to_same_rank

from tfbigbatch.errors import InputError, first_line
from tfbigbatch.tasks import losses

# Keras chooses these by the shapes of labels and outputs.
_BY_SHAPE = ("crossentropy", "ce", "accuracy", "acc")


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
        labels, outputs = squeeze_or_expand_to_same_rank(ops.convert_to_tensor(labels), ops.convert_to_tensor(outputs))
        if keras.backend.is_float_dtype(labels.dtype):
            labels = ops.cast(labels, outputs.dtype)
        found = ops.convert_to_tensor(function(labels, outputs))
        if len(found.shape):
            return found
        if is_weighted:
            raise InputError(
                f"{what} {function.__name__!r} returns one number for a batch, and the data has weights; expected a "
                "value for each example, [batch]."
            )
        # Keras leaves one number as it is, and then sums it over replicas.
        return ops.broadcast_to(found, ops.shape(outputs)[:1])

    return values
