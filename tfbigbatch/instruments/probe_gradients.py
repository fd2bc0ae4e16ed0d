"""A model's loss and gradients on a probe, measured between two updates without a trace."""

import contextlib
import typing

import tensorflow as tf


class Measured(typing.NamedTuple):
    """The mean loss over the probe, the micro-batches' mean |G_b|^2, and |G_B|^2 of the whole probe."""

    loss: float
    small_squared_norm: float
    large_squared_norm: float


class ProbeGradients:
    """Measures a compiled Keras model, of either Keras, on the micro-batches of a probe.

    The loss is the model's own (`compute_loss`), with its regularisers. Each replica of each worker
    computes the same, one micro-batch after the other, and nothing is reduced over them: memory is
    that of one micro-batch and one more copy of the gradients, and no worker waits for another.
    Whatever a forward pass changes (statistics of batch normalisation, metrics, random generators)
    is put back bit by bit.

    Args:
      model: compiled, and trained for at least one step.
      micro_batches: what `micro_batches_of` gives.
      training: bool, the mode of the forward pass.
    """

    def __init__(self, model, micro_batches, training):
        self._model = model
        self._micro_batches = micro_batches
        self._training = training
        self._measure = tf.function(self._on_all_replicas)

    def __call__(self):
        """Returns Measured."""
        strategy = self._model.distribute_strategy
        with strategy.scope(), _untouched(_changeable(self._model)):
            values = strategy.experimental_local_results(self._measure())[0].numpy().tolist()
        return Measured(*values)

    def _on_all_replicas(self):
        return self._model.distribute_strategy.run(self._on_one_replica)

    def _on_one_replica(self):
        variables = [_tensor_variable(variable) for variable in self._model.trainable_variables]
        count = tf.nest.flatten(self._micro_batches)[0].shape[0]
        # Keras divides a mean loss by the replicas; this replica sees the whole probe.
        replicas = self._model.distribute_strategy.num_replicas_in_sync

        def body(index, loss_sum, squares_sum, sums):
            loss, gradients = self._loss_and_gradients(index, variables)
            squares = tf.add_n([tf.reduce_sum(tf.square(gradient)) for gradient in gradients])
            return (
                index + 1,
                loss_sum + loss * replicas,
                squares_sum + squares * replicas**2,
                [total + gradient * replicas for total, gradient in zip(sums, gradients)],
            )

        zero = tf.constant(0.0)
        start = (tf.constant(0), zero, zero, [tf.zeros(variable.shape) for variable in variables])
        # One at a time: the memory of several micro-batches is what the probe is cut for.
        _, loss, squares, sums = tf.while_loop(lambda index, *_: index < count, body, start, parallel_iterations=1)
        large = tf.add_n([tf.reduce_sum(tf.square(total / count)) for total in sums])
        return tf.stack([loss / count, squares / count, large])

    def _loss_and_gradients(self, index, variables):
        x, y, sample_weight = _unpacked(tf.nest.map_structure(lambda tensor: tensor[index], self._micro_batches))
        with tf.GradientTape() as tape:
            y_pred = self._model(x, training=self._training)
            loss = self._model.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight)
        gradients = tape.gradient(loss, variables)
        if all(gradient is None for gradient in gradients):
            raise ValueError(
                "the model's compute_loss on the probe depends on none of its variables: compile the model with a "
                "loss, and give the probe as (x, y)."
            )
        dense = [
            tf.zeros(variable.shape) if gradient is None else tf.cast(tf.convert_to_tensor(gradient), tf.float32)
            for gradient, variable in zip(gradients, variables)
        ]
        return tf.cast(loss, tf.float32), dense


def _unpacked(micro_batch):
    x, y, sample_weight = (*micro_batch, None)[:3]
    return x, y, sample_weight


def _tensor_variable(variable):
    """The tf.Variable within a Keras 3 variable; a tf.Variable as it is."""
    return variable if isinstance(variable, tf.Variable) else variable.value


def _changeable(model):
    """The variables that a forward pass and a loss may change, as tf.Variables."""
    found = [*model.non_trainable_variables]
    for metric in model.metrics:
        found += metric.variables
    # tf_keras leaves the generators of its random layers out of a model's variables.
    for module in getattr(model, "submodules", ()):
        generator = getattr(getattr(module, "_random_generator", None), "_generator", None)
        if generator is not None:
            found.append(generator._state_var)
    return [_tensor_variable(variable) for variable in found]


@contextlib.contextmanager
def _untouched(variables):
    """Puts the variables' values back at the end, each replica's own."""
    # Replica by replica: a variable that is summed or averaged on reading is not its copies' values.
    strategy = tf.distribute.get_strategy()
    copies = [copy for variable in variables for copy in strategy.experimental_local_results(variable)]
    kept = [tf.identity(copy) for copy in copies]
    try:
        yield
    finally:
        for copy, value in zip(copies, kept):
            copy.assign(value)
