"""A Keras model evaluated on a probe between two training steps, without side effects."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf


class ProbeModel:
    """The loss of a compiled model of Keras 2 or 3 on the micro-batches of a probe.

    The loss is the model's own (`compute_loss`), with its regularisers. Every replica computes the same, one
    micro-batch after the other, without reductions: it needs the memory of one micro-batch and of the averaged
    tensors, and no worker waits for another. Everything that a forward pass changes (statistics of batch
    normalisation, metrics, random generators) is restored exactly.

    The forward pass is in inference mode, unless the model has batch normalisation, whose moving averages lag behind
    weights that change fast.

    Args:
      model: compiled, and trained for at least one step.
    """

    def __init__(self, model: Any) -> None:
        kinds = (cls.__name__ for layer in model._flatten_layers() for cls in type(layer).__mro__)
        self._training = any("BatchNormalization" in kind for kind in kinds)
        self._model = model

    @property
    def variables(self) -> list[tf.Variable]:
        """The trainable variables, as tf.Variables."""
        return [tensor_variable(variable) for variable in self._model.trainable_variables]

    def loss(self, micro_batch: Any) -> tf.Tensor:
        """The mean loss over a micro-batch, a float32 scalar; call it in a replica."""
        x, y, sample_weight = (*micro_batch, None)[:3]
        y_pred = self._model(x, training=self._training)
        loss = self._model.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight)
        # Keras divides a mean loss by the replicas; this replica sees the whole probe.
        return tf.cast(loss, tf.float32) * self._model.distribute_strategy.num_replicas_in_sync

    def loss_and_gradients(self, micro_batch: Any) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """The loss and its gradients by `variables`, dense and float32; call it in a replica.

        Raises:
          ValueError: the loss depends on no variable.
        """
        variables = self.variables
        with tf.GradientTape() as tape:
            loss = self.loss(micro_batch)
        gradients = tape.gradient(loss, variables)
        if all(gradient is None for gradient in gradients):
            raise ValueError(
                "the model's compute_loss on the probe depends on none of its variables: compile the model with a "
                "loss, and pass the probe as (x, y)."
            )
        return loss, dense(gradients, variables)

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Compiles a function of nests of tensors that runs in every replica; call the result between steps.

        It returns the first replica's result, and leaves the model unchanged.
        """
        strategy = self._model.distribute_strategy

        @tf.function
        def on_all_replicas(*arguments: Any) -> Any:
            return strategy.run(function, args=arguments)

        def run(*arguments: Any) -> Any:
            with strategy.scope(), untouched(changeable(self._model)):
                results = on_all_replicas(*arguments)
                return tf.nest.map_structure(lambda each: strategy.experimental_local_results(each)[0], results)

        return run


def mean_over(micro_batches: Any, function: Callable[[Any], list[tf.Tensor]], shapes: Sequence[Any]) -> list[tf.Tensor]:
    """The mean of `function` over the micro-batches; call it in a replica.

    Args:
      micro_batches: nest of tensors, each [micro-batches, examples, ...].
      function: from one micro-batch to a list of float32 tensors.
      shapes: of these tensors.
    """
    count = tf.nest.flatten(micro_batches)[0].shape[0]

    def body(index: tf.Tensor, sums: list[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        values = function(tf.nest.map_structure(lambda tensor: tensor[index], micro_batches))
        return index + 1, [total + value for total, value in zip(sums, values)]

    start = (tf.constant(0), [tf.zeros(shape) for shape in shapes])
    # One at a time: micro-batches are there to limit memory.
    _, sums = tf.while_loop(lambda index, _: index < count, body, start, parallel_iterations=1)
    return [total / count for total in sums]


def dense(gradients: Sequence[Any], variables: Sequence[tf.Variable]) -> list[tf.Tensor]:
    """Gradients as dense float32 tensors, zero for a variable without one."""
    return [
        tf.zeros(variable.shape) if gradient is None else tf.cast(tf.convert_to_tensor(gradient), tf.float32)
        for gradient, variable in zip(gradients, variables)
    ]


def tensor_variable(variable: Any) -> tf.Variable:
    """The tf.Variable of a Keras 3 variable; a tf.Variable is returned unchanged."""
    return variable if isinstance(variable, tf.Variable) else variable.value


@contextlib.contextmanager
def untouched(variables: Sequence[tf.Variable]) -> Iterator[None]:
    """A context that restores the values of tf.Variables, for each replica; use it in the strategy's scope."""
    # Per replica: reading a variable that is summed or averaged would not give the values of its copies.
    strategy = tf.distribute.get_strategy()
    copies = [copy for variable in variables for copy in strategy.experimental_local_results(variable)]
    kept = [tf.identity(copy) for copy in copies]
    try:
        yield
    finally:
        for copy, value in zip(copies, kept):
            copy.assign(value)


def changeable(model: Any) -> list[tf.Variable]:
    """The variables of a compiled model that a forward pass and a loss may change, as tf.Variables."""
    found = [*model.non_trainable_variables]
    for metric in model.metrics:
        found += metric.variables
    # tf_keras does not count the generators of random layers as variables of a model.
    for module in getattr(model, "submodules", ()):
        generator = getattr(getattr(module, "_random_generator", None), "_generator", None)
        if generator is not None:
            found.append(generator._state_var)
    return [tensor_variable(variable) for variable in found]
