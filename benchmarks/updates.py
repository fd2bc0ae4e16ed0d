"""An optimizer's compiled update of a network's variables, as the benchmarks time it and walk through it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import harness
import variables


@dataclasses.dataclass(frozen=True)
class Update:
    """A built optimizer with its compiled update, which the first call traces.

    Attributes:
      run: does one update, and returns when it is done.
      values: gives the weights.
      memory: gives the bytes that the process held at its highest, slots and all, above those before `build`.
    """

    run: Callable[[], object]
    values: Callable[[], list[Any]]
    memory: Callable[[], int]

    def timed(self, count: int = 1) -> harness.Figures:
        """The figures of an update, the mean of some in a row."""
        found = harness.timed(lambda: [self.run() for _ in range(count)])
        return {name: value / count for name, value in found.items()}


def of(make: Callable[[], Any], model: str, keras: str, replicas: int = 1) -> Update:
    """The update of an optimizer.

    Args:
      make: gives the optimizer, of this package or of a peer.
      model: of `variables.MODELS`.
      keras: 'tf_keras' or 'keras3', whose variables it takes on TensorFlow; 'jax' for Keras 3 or optax on JAX.
      replicas: of a MirroredStrategy, where there are several; TensorFlow must not have begun then.
    """
    return _on_jax(make, model) if keras == "jax" else _on_tensorflow(make, model, keras, replicas)


def _on_tensorflow(make: Callable[[], Any], model: str, keras: str, replicas: int) -> Update:
    """By tf.function; each replica is a logical CPU and has the same gradients."""
    import tensorflow as tf

    strategy = tf.distribute.get_strategy()
    if replicas > 1:
        [cpu] = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
        strategy = tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(replicas)])
    with strategy.scope():
        made = variables.make(model, keras)
        gradients = [
            strategy.experimental_distribute_values_from_function(lambda context, value=value: tf.constant(value))
            for value in variables.gradients(model)
        ]
        optimizer, memory = make(), harness.memory()
        if hasattr(optimizer, "_create_all_weights"):  # tf_keras' legacy base class
            optimizer._create_all_weights(made)
        else:
            optimizer.build(made)

    # Gradients are arguments, so that nothing folds them away. Without AutoGraph, as the steps of Keras' `fit`.
    @tf.function(autograph=False)
    def update(gradients: Any) -> Any:
        strategy.run(lambda each: optimizer.apply_gradients(zip(each, made)), args=(gradients,))
        return tf.convert_to_tensor(optimizer.iterations)

    # On the CPU the call returns when all operations have run; the count says that they did.
    return Update(lambda: int(update(gradients)), lambda: [tf.convert_to_tensor(each) for each in made], memory)


def _on_jax(make: Callable[[], Any], model: str) -> Update:
    """By jax.jit; weights and state are donated, as in training."""
    import jax

    made = variables.make(model, "keras3")
    gradients = [jax.numpy.asarray(each) for each in variables.gradients(model)]
    optimizer, memory = make(), harness.memory()
    values = [each.value for each in made]
    if hasattr(optimizer, "stateless_apply"):
        optimizer.build(made)
        state = [each.value for each in optimizer.variables]

        def step(values: Any, state: Any, gradients: Any) -> Any:
            return optimizer.stateless_apply(state, gradients, values)

    else:
        state = optimizer.init(values)

        def step(values: Any, state: Any, gradients: Any) -> Any:
            changes, state = optimizer.update(gradients, state, values)
            return jax.tree.map(jax.numpy.add, values, changes), state

    compiled = jax.jit(step, donate_argnums=(0, 1))
    # Keras' variables keep theirs.
    held = jax.tree.map(jax.numpy.array, [values, state])

    def run() -> None:
        held[:] = compiled(*held, gradients)
        jax.block_until_ready(held)

    return Update(run, lambda: held[0], memory)
