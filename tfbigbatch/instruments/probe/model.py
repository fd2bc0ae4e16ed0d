"""A Keras model as a function of a probe, measured between two updates without a trace."""

import contextlib

import tensorflow as tf


class ProbeModel:
    """A compiled Keras model, of either Keras, whose loss is measured on the micro-batches of a probe.

    The loss is the model's own (`compute_loss`), with its regularisers. Each replica of each worker
    computes the same, one micro-batch after the other, and nothing is reduced over them: memory is
    that of one micro-batch and of what is averaged, and no worker waits for another. Whatever a
    forward pass changes (statistics of batch normalisation, metrics, random generators) is put back
    bit by bit.

    Args:
      model: compiled, and trained for at least one step.
      training: bool, the mode of the forward pass.
    """

    def __init__(self, model, training):
        self._model = model
        self._training = training

    @property
    def variables(self):
        """The trainable variables, as tf.Variables."""
        return [tensor_variable(variable) for variable in self._model.trainable_variables]

    def loss(self, micro_batch):
        """In a replica: the mean loss over a micro-batch, a float32 scalar."""
        x, y, sample_weight = (*micro_batch, None)[:3]
        y_pred = self._model(x, training=self._training)
        loss = self._model.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight)
        # Keras divides a mean loss by the replicas; this replica sees the whole probe.
        return tf.cast(loss, tf.float32) * self._model.distribute_strategy.num_replicas_in_sync

    def loss_and_gradients(self, micro_batch):
        """In a replica: the loss, and its gradients by `variables`, dense and float32.

        Raises:
          ValueError: the loss depends on none of them.
        """
        variables = self.variables
        with tf.GradientTape() as tape:
            loss = self.loss(micro_batch)
        gradients = tape.gradient(loss, variables)
        if all(gradient is None for gradient in gradients):
            raise ValueError(
                "the model's compute_loss on the probe depends on none of its variables: compile the model with a "
                "loss, and give the probe as (x, y)."
            )
        return loss, dense(gradients, variables)

    def compiled(self, function):
        """`function`, of nests of tensors, to be called between updates: it runs in every replica, and is traced once.

        What it returns is the first replica's; nothing of the model changes.
        """
        strategy = self._model.distribute_strategy

        @tf.function
        def on_all_replicas(*arguments):
            return strategy.run(function, args=arguments)

        def run(*arguments):
            with strategy.scope(), untouched(_changeable(self._model)):
                results = on_all_replicas(*arguments)
                return tf.nest.map_structure(lambda each: strategy.experimental_local_results(each)[0], results)

        return run


def probe_mode(model, training=None):
    """The mode that a probe runs in: `training`, or for None inference, unless the model normalises batches.

    The moving averages of batch normalisation lag behind weights that move fast.
    """
    if training is not None:
        return training
    return any("BatchNormalization" in cls.__name__ for layer in model._flatten_layers() for cls in type(layer).__mro__)


def mean_over(micro_batches, function, shapes):
    """In a replica: the mean over the micro-batches of what `function` gives of each.

    Args:
      micro_batches: nest of tensors, each [micro-batches, examples, ...].
      function: from one micro-batch to a list of float32 tensors.
      shapes: theirs.
    """
    count = tf.nest.flatten(micro_batches)[0].shape[0]

    def body(index, sums):
        values = function(tf.nest.map_structure(lambda tensor: tensor[index], micro_batches))
        return index + 1, [total + value for total, value in zip(sums, values)]

    start = (tf.constant(0), [tf.zeros(shape) for shape in shapes])
    # One at a time: the memory of several micro-batches is what the probe is cut for.
    _, sums = tf.while_loop(lambda index, _: index < count, body, start, parallel_iterations=1)
    return [total / count for total in sums]


def dense(gradients, variables):
    """Gradients as dense float32 tensors, zero where a variable has none."""
    return [
        tf.zeros(variable.shape) if gradient is None else tf.cast(tf.convert_to_tensor(gradient), tf.float32)
        for gradient, variable in zip(gradients, variables)
    ]


def tensor_variable(variable):
    """The tf.Variable within a Keras 3 variable; a tf.Variable as it is."""
    return variable if isinstance(variable, tf.Variable) else variable.value


@contextlib.contextmanager
def untouched(variables):
    """Puts the values of tf.Variables back at the end, each replica's own. Within the strategy's scope."""
    # Replica by replica: a variable that is summed or averaged on reading is not its copies' values.
    strategy = tf.distribute.get_strategy()
    copies = [copy for variable in variables for copy in strategy.experimental_local_results(variable)]
    kept = [tf.identity(copy) for copy in copies]
    try:
        yield
    finally:
        for copy, value in zip(copies, kept):
            copy.assign(value)


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
    return [tensor_variable(variable) for variable in found]
