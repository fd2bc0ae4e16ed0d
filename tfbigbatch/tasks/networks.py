"""The network of a user's model function: built, checked against the data, and of Keras 2 for the trainer."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfbigbatch.errors import InputError
from tfbigbatch.models import keras3_network
from tfbigbatch.utils.user_code import call

# What Keras' fit and evaluate call of a model, and the trainer does not.
_STEPS = (
    *("train_step", "test_step", "predict_step", "compute_loss", "compute_metrics"),
    *("make_train_function", "make_test_function", "fit", "evaluate"),
)


def built(
    function: Callable[..., Any], arguments: Mapping[str, Any], features: Any, name: str
) -> tuple[tf_keras.Model, Any]:
    """The built network of a model function, and its outputs for one example. Call it in the strategy's scope.

    Args:
      function: returns a model of Keras 2 or 3.
      arguments: of the function.
      features: nest of tf.TensorSpec, of one example's features, without the batch.
      name: of the task, for errors.

    Raises:
      ValueError: it returns no model, or the model does not take the features.
    """
    here = f"task {name}: {getattr(function, '__name__', 'network')}()"
    keras3_network.set_policy(tf_keras.mixed_precision.global_policy().name)
    model = call(function, f"task {name}", **arguments)
    if not keras3_network.is_keras3(model, "Model"):
        keras3_network.of_keras2(model, here)
    _check_own_steps(model, here)
    example = tf.nest.map_structure(lambda spec: tf.zeros([1, *spec.shape], spec.dtype), features)
    # A first call builds a model without Input, and any other model tells whether it takes the data.
    try:
        _take_any_batch(model, features)
        outputs = model(example, training=False)
    except Exception as error:
        shapes = tf.nest.map_structure(lambda spec: f"{spec.dtype.name} {[None, *spec.shape]}", features)
        raise InputError(
            f"{here} does not take the data's features, {shapes}: {type(error).__name__}: {error}"
        ) from None
    if not model.trainable_variables:
        raise InputError(f"{here} returned a model without trainable weights.")
    return keras3_network.of_keras2(model, here), outputs


def _take_any_batch(model: Any, features: Any) -> None:
    """Builds a Sequential model without Input, which would take the batch size of its first call for that of all."""
    keras = importlib.import_module("keras") if keras3_network.is_keras3(model, "Model") else tf_keras
    if isinstance(model, keras.Sequential) and not model.built and not tf.nest.is_nested(features):
        model(keras.Input(tuple(features.shape), dtype=features.dtype.name))


def _check_own_steps(model: Any, here: str) -> None:
    """Raises ValueError for a model with a training or evaluation of its own, which the trainer would not call."""
    for name in _STEPS:
        definer = next((cls for cls in type(model).__mro__ if name in vars(cls)), None)
        # KerasHub's PipelineModel only preprocesses.
        if definer is not None and definer.__name__ != "PipelineModel":
            if definer.__module__.partition(".")[0] not in ("keras", "tf_keras"):
                raise InputError(
                    f"{here} returned a model with a {name} of its own, and the trainer calls the model alone. Write "
                    "it as layers, a loss and metrics, or as a subclass of tasks.Task; or train with your own fit: "
                    "docs/exact_resume.md."
                )
