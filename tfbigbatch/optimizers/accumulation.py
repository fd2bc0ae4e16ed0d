"""Gradient accumulation: a large batch as a loop over micro-batches, with one optimizer step at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfbigbatch.optimizers.tensorflow import arithmetic_dtype


def split_micro_batches(data: Any, accumulation_steps: int) -> Any:
    """Reshapes every tensor of a nest from [batch, ...] to [accumulation_steps, micro_batch, ...].

    Raises:
      ValueError: the batch does not divide into `accumulation_steps` equal parts.
    """

    def split(tensor: tf.Tensor) -> tf.Tensor:
        batch = tensor.shape[0]
        if batch is None or batch % accumulation_steps:
            raise ValueError(
                f"a replica's batch of {batch} does not divide into accumulation_steps={accumulation_steps} "
                "equal micro-batches; use a static batch that is a multiple of it."
            )
        return tf.reshape(tensor, [accumulation_steps, batch // accumulation_steps, *tensor.shape[1:]])

    return tf.nest.map_structure(split, data)


def accumulate_gradients(
    gradients_of: Callable[[Any], Sequence[Any]], data: Any, variables: Sequence[Any], accumulation_steps: int
) -> list[tf.Tensor]:
    """Mean gradient over the micro-batches of one batch, in a loop on the device.

    No reduction over replicas happens here: the caller applies the result once, and the optimizer reduces then.

    Args:
      gradients_of: maps one micro-batch (the nest of `data`, with a leading axis of batch / accumulation_steps) to the
        list of gradients of its mean loss, one for each of `variables`; None where a variable is unused.
      data: nest of tensors, each [batch, ...] with a static batch.
      variables: of either Keras.
      accumulation_steps: at least 1.

    Raises:
      ValueError: `variables` is empty, or the batch does not divide into equal parts.

    Returns:
      Dense float32 gradients (the variable's dtype where that is wider). For variables that Keras 3 overwrites with
      their gradients (float8's scales): the largest of the micro-batches', as Keras' own accumulation.
    """
    _check_variables(variables)
    micro_batches = split_micro_batches(data, accumulation_steps)

    def body(index: tf.Tensor, sums: list[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        gradients = gradients_of(tf.nest.map_structure(lambda tensor: tensor[index], micro_batches))
        for variable, gradient in zip(variables, gradients):
            if gradient is not None and not tf.TensorShape(variable.shape).is_compatible_with(gradient.shape):
                raise ValueError(
                    f"accumulate_gradients: the gradient of {variable.name!r} is of shape {tuple(gradient.shape)}, the "
                    f"variable of {tuple(variable.shape)}. Return one gradient for each of `variables`, in their order."
                )
        sums = [
            total if gradient is None else add(total, tf.cast(tf.convert_to_tensor(gradient), total.dtype))
            for add, total, gradient in zip(adds, sums, gradients)
        ]
        return index + 1, sums

    overwritten = [getattr(variable, "overwrite_with_gradient", False) for variable in variables]
    adds = [tf.maximum if each else tf.add for each in overwritten]
    zeros = [tf.zeros(variable.shape, arithmetic_dtype(variable)) for variable in variables]
    _, sums = tf.while_loop(
        lambda index, sums: index < accumulation_steps, body, (tf.constant(0), zeros), parallel_iterations=1
    )
    return [total if largest else total / accumulation_steps for largest, total in zip(overwritten, sums)]


def _check_variables(variables: Sequence[Any]) -> None:
    if not variables:
        raise ValueError(
            "accumulate_gradients was given no variables. Build the model first (an Input layer, or model.build): "
            "variables cannot be made inside the loop."
        )
    for variable in variables:
        if not tf.as_dtype(variable.dtype).is_floating:
            raise ValueError(
                f"accumulate_gradients: {variable.name!r} is of {tf.as_dtype(variable.dtype).name}, which has no "
                "gradient. Leave it out of `variables`."
            )
