"""Recomputation (activation checkpointing), Chen et al. 2016 (arXiv:1604.06174): memory for time.

Own code: on TensorFlow `keras.remat` and `tf.recompute_grad` draw other dropout masks in the second pass and update the
statistics of batch normalisation twice, and their gradients cannot be differentiated again, as the measurements of
curvature do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras.src import backend


class Block:
    """A part of a network whose activations are not kept in training: the backward pass computes them again.

    The gradients are those of the function itself: the second pass has the same dropout masks, and does not update the
    statistics of batch normalisation. The inputs and the output are kept. On another backend than TensorFlow, and
    outside of training, the function is called as it is.

    Args:
      function: of one or more tensors and `training`; returns a tensor. It may add no losses.
      layers: the layers that it calls, other than those inside them. It reads the variables of no other layer.
    """

    def __init__(self, function: Callable[..., Any], layers: Sequence[keras.layers.Layer]) -> None:
        self._function = function
        self._layers = layers

    def __call__(self, *tensors: Any, training: bool | None = None) -> Any:
        # A layer makes its variables in its first call, which may not happen in a second pass.
        is_built = all(layer.built for layer in self._layers)
        if not training or not is_built or keras.backend.backend() != "tensorflow":
            return self._function(*tensors, training=training)
        import tensorflow as tf

        variables = {id(each): each for layer in self._layers for each in layer.variables}.values()
        # Statistics, and the seeds of random draws.
        state = [each for each in variables if not each.trainable]

        def function(values: Sequence[Any], *tensors: Any) -> tuple[Any, list[Any]]:
            """The output, and the values of the state that change, else None; assigns nothing."""
            # Without the weights: held from the first pass on, they would be copied where the optimizer updates them.
            with keras.StatelessScope(state_mapping=zip(state, values), initialize_variables=False) as scope:
                before = [scope.get_current_value(each) for each in state]
                output = self._function(*tensors, training=True)
                after = [scope.get_current_value(each) for each in state]
            return output, [None if new is old else new for new, old in zip(after, before)]

        # As stored: inside of a layer under mixed precision a value would be rounded. And not the variables themselves:
        # the second pass needs the seeds that the first had.
        with backend.AutocastScope(None):
            values = [tf.convert_to_tensor(keras.ops.convert_to_tensor(each)) for each in state]
        output, after = _checkpoint(function, values, *tensors)
        for variable, value in zip(state, after):
            if value is not None:
                variable.assign(value)
        return output


def in_turn(layers: Sequence[keras.layers.Layer], recompute: bool) -> Callable[..., Any]:
    """A function of a tensor and `training` that calls the layers one after the other; a `Block` for `recompute`."""

    def function(values: Any, training: bool | None = None) -> Any:
        for layer in layers:
            values = layer(values, training=training)
        return values

    return Block(function, layers) if recompute else function


def recomputed(model: keras.Model, ends: Sequence[keras.KerasTensor]) -> keras.Model:
    """The functional model itself, of which some parts are now a `Block` each.

    Its layers, variables, config and saved file stay: recomputation is a way to train, and no part of the model.

    Args:
      model: of one input and one output.
      ends: tensors of the model in their order; what is between two of them is a block, and before the first and after
        the last there is none. Each path from the input to the output leads through all of them.
    """
    first, *blocks, last = [keras.Model(*each) for each in zip([model.input, *ends], [*ends, model.output])]
    parts = [first, *(Block(block, block.layers) for block in blocks), last]

    def call(inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        for part in parts:
            inputs = part(inputs, training=training)
        return inputs

    model.call = call
    return model


def _checkpoint(function: Callable[..., Any], state: Sequence[Any], *tensors: Any) -> Any:
    import tensorflow as tf

    after: list[Any] = []

    @tf.custom_gradient
    def block(*inputs: Any) -> tuple[Any, Callable[..., Any]]:
        output, after[:] = function(state, *inputs)

        def gradient(upstream: Any, variables: Sequence[Any] = ()) -> Any:
            with contextlib.ExitStack() as contexts:
                upstream, again, seeds = _after(contexts, (upstream, list(inputs), state))
                tape = contexts.enter_context(tf.GradientTape())
                tape.watch([each for each in again if each.dtype.is_floating])
                output, _ = function(seeds, *again)
            found = tape.gradient(output, [*again, *variables], output_gradients=upstream)
            of_tensors, of_variables = found[: len(again)], found[len(again) :]
            # The second pass of the block before would else run beside the products for the gradients of these weights,
            # which hold the activations of this block.
            with tf.control_dependencies([each for each in of_variables if each is not None]):
                of_tensors = [None if each is None else tf.identity(each) for each in of_tensors]
            return (of_tensors, of_variables) if variables else of_tensors

        return output, gradient

    return block(*tensors), after


def _after(contexts: contextlib.ExitStack, tensors: Any) -> Any:
    """A nest of tensors, such that what is computed of them waits for its first, the gradient of a block's output.

    Without it the second pass is a common subexpression of the first: XLA and TensorFlow's own optimizer would compute
    it once, and keep all its activations. The seeds are among them, as a mask depends on nothing else.
    """
    import tensorflow as tf
    from tensorflow.python.ops import control_flow_util

    flat = tf.nest.flatten(tensors)
    # The compiler for TPUs keeps the barrier until it has merged what it can. That for CPUs drops it before.
    if control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()):
        # Not control dependencies, which XLA ignores.
        return tf.nest.pack_sequence_as(tensors, _barrier(*flat))
    # What is computed of weights and constants alone waits too.
    contexts.enter_context(tf.control_dependencies(flat[:1]))
    return tf.nest.map_structure(tf.identity, tensors)


def _barrier(*tensors: Any) -> Any:
    import tensorflow as tf
    from tensorflow.compiler.tf2xla.python import xla

    @tf.custom_gradient
    def barrier(*tensors: Any) -> tuple[Any, Callable[..., Any]]:
        return xla.optimization_barrier(*tensors), lambda *upstream: upstream

    return barrier(*tensors)
