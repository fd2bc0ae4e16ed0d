"""Recomputation (activation checkpointing), Chen et al. 2016 (arXiv:1604.06174): memory for time.

Own code: `tf.recompute_grad` draws other dropout masks in the second pass, updates the statistics of batch
normalisation twice, and cannot be differentiated again, as the measurements of curvature do.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
import tf_keras
from tensorflow.compiler.tf2xla.python import xla
from tensorflow.python.ops import control_flow_util
from tf_keras.src.engine import functional


class _Draws:
    """The random draws of one pass: recorded in the first, repeated in the second.

    Args:
      states: key and counter of each draw of the first pass; None in the first.
    """

    def __init__(self, states: Sequence[tuple[tf.Tensor, tf.Tensor]] | None = None) -> None:
        self._left = None if states is None else list(states)
        self.states: list[tuple[tf.Tensor, tf.Tensor]] = []

    def uniform(self, generator: tf.random.Generator | None, shape: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        """The draws of `generator.uniform(shape, dtype=dtype)`; None for Keras' default, the state of an operation."""
        self.states.append(_draw(generator, shape) if self._left is None else self._left.pop(0))
        key, counter = self.states[-1]
        algorithm = generator.algorithm if generator else tf.random.Algorithm.PHILOX.value
        return tf.raw_ops.StatelessRandomUniformV2(shape=shape, key=key, counter=counter, alg=algorithm, dtype=dtype)


def _draw(generator: tf.random.Generator | None, shape: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The key and counter of a draw, uint64 [1] and [2]; advances the generator."""
    if generator is not None:
        # Private in TensorFlow: a generator gives no other access to the key of a replica.
        key, counter = generator._prepare_key_counter(shape)
        return key, counter
    state = tf.bitcast(tf.random.uniform([3], tf.int64.min, tf.int64.max, tf.int64), tf.uint64)
    return state[:1], state[1:]


class _Current(threading.local):
    """The pass that this thread traces: each replica of a MirroredStrategy has a thread."""

    draws: _Draws | None = None
    recomputes: bool = False


_current = _Current()


class Block:
    """A part of a network whose activations are not kept in training: the backward pass computes them again.

    The gradients are those of the function itself: the second pass has the same dropout masks, and does not update the
    statistics of batch normalisation. The input and the output are kept.

    Args:
      function: of one or more tensors and `training`; returns a tensor. Its only random layers are Dropout.
      layers: the layers that it calls, other than those inside them.
    """

    def __init__(self, function: Callable[..., tf.Tensor], layers: Sequence[tf_keras.layers.Layer]) -> None:
        self._function = function
        self._layers = layers

    def __call__(self, *tensors: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        # A layer makes its variables in its first call, which may not happen in a custom gradient.
        if not training or not all(layer.built for layer in self._layers):
            return self._function(*tensors, training=training)
        for layer in self._layers:
            _prepare(layer)

        @tf.custom_gradient
        def block(*tensors: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
            draws = _Draws()
            with _pass(draws, recomputes=False):
                output = self._function(*tensors, training=training)

            def gradient(upstream: tf.Tensor, variables: Sequence[tf.Variable] = ()) -> Any:
                gradients = self._gradients(tensors, draws, upstream, list(variables))
                of_tensors, of_variables = gradients[: len(tensors)], gradients[len(tensors) :]
                return (of_tensors, of_variables) if variables else of_tensors

            return output, gradient

        return block(*tensors)

    def _gradients(
        self, tensors: Sequence[tf.Tensor], draws: _Draws, upstream: tf.Tensor, variables: list[tf.Variable]
    ) -> list[tf.Tensor | None]:
        with contextlib.ExitStack() as contexts:
            upstream, inputs, states = _after(contexts, (upstream, list(tensors), draws.states))
            tape = contexts.enter_context(tf.GradientTape())
            tape.watch([each for each in inputs if each.dtype.is_floating])
            contexts.enter_context(_pass(_Draws(states), recomputes=True))
            output = self._function(*inputs, training=True)
        found: list[tf.Tensor | None] = tape.gradient(output, [*inputs, *variables], output_gradients=upstream)
        return found


def in_turn(layers: Sequence[tf_keras.layers.Layer], recompute: bool) -> Callable[..., tf.Tensor]:
    """A function of a tensor and `training` that calls the layers one after the other; a `Block` for `recompute`."""

    def function(values: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        for layer in layers:
            values = layer(values, training=training)
        return values

    return Block(function, layers) if recompute else function


@tf_keras.saving.register_keras_serializable(package="tfbigbatch")
class RecomputedModel(tf_keras.Model):
    """A functional model of which some parts are a `Block` each; its layers and variables are the functional model's.

    Keras serializes it as the functional model: recomputation is a way to train, and no part of the model.

    Args:
      inputs, outputs: of the functional model.
      ends: tensors of the model in their order; what is between two of them is a block, and before the first and after
        the last there is none. Each path from the inputs to the outputs leads through all of them.
      name: of the model.
    """

    def __init__(self, inputs: tf.Tensor, outputs: tf.Tensor, *, ends: Sequence[tf.Tensor], name: str) -> None:
        super().__init__(inputs, outputs, name=name)
        first, *blocks, last = [tf_keras.Model(*each) for each in zip([inputs, *ends], [*ends, outputs])]
        parts = [first, *(Block(block, block.layers) for block in blocks), last]
        # In a function: Keras would track them, and the checkpoint hold each layer twice.
        self._parts = lambda: parts

    def call(self, inputs: tf.Tensor, training: bool | None = None, mask: Any = None) -> tf.Tensor:
        values = inputs
        for part in self._parts():
            values = part(values, training=training)
        return values

    def get_config(self) -> dict[str, Any]:
        config: dict[str, Any] = functional.get_network_config(self, config={"name": self.name, "trainable": True})
        return config

    @classmethod
    def from_config(cls, config: Any, custom_objects: Any = None) -> tf_keras.Model:
        return tf_keras.Model.from_config(config, custom_objects)


def _after(contexts: contextlib.ExitStack, tensors: Any) -> Any:
    """A nest of tensors, such that what is computed of them waits for its first, the gradient of a block's output.

    Without it the second pass is a common subexpression of the first: XLA and TensorFlow's own optimizer would compute
    it once, and keep all its activations. The states of random draws are among them, as a mask depends on nothing else.
    """
    flat = tf.nest.flatten(tensors)
    # The compiler for TPUs keeps the barrier until it has merged what it can. That for CPUs drops it before.
    if control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()):
        # Not control dependencies, which XLA ignores.
        return tf.nest.pack_sequence_as(tensors, _barrier(*flat))
    contexts.enter_context(tf.control_dependencies(flat[:1]))
    return tf.nest.map_structure(tf.identity, tensors)


@tf.custom_gradient
def _barrier(*tensors: tf.Tensor) -> tuple[list[tf.Tensor], Callable[..., Any]]:
    return xla.optimization_barrier(*tensors), lambda *upstream: upstream


@contextlib.contextmanager
def _pass(draws: _Draws, *, recomputes: bool) -> Iterator[None]:
    before = _current.draws, _current.recomputes
    _current.draws, _current.recomputes = draws, recomputes
    try:
        yield
    finally:
        _current.draws, _current.recomputes = before


def _prepare(layer: tf_keras.layers.Layer) -> None:
    """Lets the layers inside a layer follow the pass that this thread traces; outside of a block they are unchanged."""
    for each in layer._flatten_layers():
        if isinstance(each, tf_keras.layers.Dropout):
            _repeat_draws(each._random_generator)
        elif isinstance(each, tf_keras.layers.BatchNormalization):
            _update_in_first_pass(each)


def _repeat_draws(generator: Any) -> None:
    # Private in tf_keras, and the only access to a layer's generator.
    if "dropout" in vars(generator):
        return
    usual = generator.dropout

    def dropout(inputs: tf.Tensor, rate: float, noise_shape: Any = None) -> tf.Tensor:
        draws = _current.draws
        if draws is None:
            return usual(inputs, rate, noise_shape)
        generator._maybe_init()
        return tf.nn.experimental.general_dropout(
            inputs,
            rate=rate,
            noise_shape=noise_shape,
            uniform_sampler=lambda shape, dtype: draws.uniform(generator._generator, shape, dtype),
        )

    generator.dropout = dropout


def _update_in_first_pass(layer: tf_keras.layers.Layer) -> None:
    if "add_update" in vars(layer):
        return
    usual = layer.add_update

    def add_update(updates: Any) -> None:
        if not _current.recomputes:
            usual(updates)

    layer.add_update = add_update
