"""A model's loss on a probe, where its weights are and elsewhere."""

from tfbigbatch.instruments.probe.model import ProbeModel, mean_over, untouched


class ProbeLoss:
    """The mean loss of a compiled Keras model, of either Keras, on the micro-batches of a probe; see `ProbeModel`.

    Args:
      model: compiled, and trained for at least one step.
      micro_batches: what `micro_batches_of` gives.
      training: bool, the mode of the forward pass.
    """

    def __init__(self, model, micro_batches, training):
        self._strategy = model.distribute_strategy
        self._micro_batches = micro_batches
        self._model = ProbeModel(model, training)
        self._measure = self._model.compiled(self._on_one_replica)

    def __call__(self):
        """The loss at the weights as they are, a float."""
        return self._measure(self._micro_batches).numpy().item()

    def at(self, variables, values):
        """The loss with other values in some tf.Variables of the model, which are put back bit by bit."""
        with self._strategy.scope(), untouched(variables):
            for variable, value in zip(variables, values):
                variable.assign(value)
            return self()

    def _on_one_replica(self, micro_batches):
        def of_one(micro_batch):
            return [self._model.loss(micro_batch)]

        return mean_over(micro_batches, of_one, [[]])[0]
