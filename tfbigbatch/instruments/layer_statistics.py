"""What each layer goes through: the norms of its weights, gradients and updates, and its trust ratio."""

import tensorflow as tf

from tfbigbatch.errors import InputError
from tfbigbatch.instruments.instrument import Instrument
from tfbigbatch.instruments.probe.gradients import ProbeGradients
from tfbigbatch.instruments.probe.micro_batches import micro_batches_of
from tfbigbatch.instruments.probe.model import probe_mode, tensor_variable


class LayerStatisticsMixin(Instrument):
    """Measures, for each trainable variable w, what one update does to it.

    - weight_norm: |w| before the update.
    - update_norm: |change of w|, and update_to_weight, its ratio to |w| (absent where |w| is 0).
    - gradient_norm, where its source is given: of the probe, or of the update's own gradient before clipping.
    - trust_ratio, where the optimizer is a LARS or LAMB with `layer_statistics=True`: as the optimizer had it,
      1 for what it leaves out.

    The change is between the weights before and after, whatever the optimizer; for that the weights
    are kept, once more in memory, from the update before a look. With `steps_per_execution` above 1 it
    is the change over the execution, divided by its updates.

    Args:
      when: updates between looks; or a list of the updates to look after.
      probe: None, or examples for the gradients' norms: a tuple (x, y) or (x, y, weight) of arrays, or
        an iterable of equal micro-batches (see `instruments.probe`). A pass forward and back at each look.
      micro_batches: what a tuple is cut in.
      step_gradients: None, or StepGradients, which costs no pass.
      histograms: also write histograms of each variable's values and of their change.
      training: bool, whether the probe runs in training mode; None is False, unless the model has batch normalisation.
      log: None; a folder for TensorBoard; or an object as `EventLog`.

    Attributes:
      history: list of dictionaries: step, and 'KIND/PATH OF THE VARIABLE' to float.

    Raises:
      ValueError: an argument is out of range, or both sources of gradients are given.
    """

    group = "layers"

    def __init__(
        self,
        *,
        when=100,
        probe=None,
        micro_batches=8,
        step_gradients=None,
        histograms=False,
        training=None,
        log=None,
    ):
        super().__init__(when=when, log=log)
        if probe is not None and step_gradients is not None:
            raise InputError("LayerStatistics: expected one source of gradients at most, probe or step_gradients.")
        self._probe = None if probe is None else micro_batches_of(probe, micro_batches)
        self._step_gradients = step_gradients
        self._histograms = histograms
        self._training = training
        self._gradients = None
        # (update, the weights after it), from shortly before a look.
        self._before = None
        self._norms = tf.function(_norms)

    # ---- The weights before the update ----------------------------------------------------------

    def _batches_until_due(self, step):
        left, notice = self._due - step, _updates_in_execution(self.model)
        if left > notice:
            return left - notice
        if self._before is None or self._before[0] != step:
            weights = [tf.identity(variable) for variable in self._variables()]
            self._before = (step, weights) if weights else None
        return left

    def _can_look(self, step):
        return self._before is not None and self._before[0] < step

    def _variables(self):
        try:
            return [tensor_variable(variable) for variable in self.model.trainable_variables]
        except ValueError:  # tf_keras: the model is built by its first batch.
            return []

    # ---- A look ---------------------------------------------------------------------------------

    def _look(self, step):
        (first, before), self._before = self._before, None
        variables = self._variables()
        paths = _paths(self.model.trainable_variables)
        weight_norms, update_norms = self._norms([tf.identity(variable) for variable in variables], before)
        weight_norms = weight_norms.numpy().tolist()
        update_norms = [norm / (step - first) for norm in update_norms.numpy().tolist()]
        kinds = {"weight_norm": weight_norms, "update_norm": update_norms}
        gradient_norms = self._gradient_norms()
        if gradient_norms is not None:
            kinds["gradient_norm"] = gradient_norms
        seen = {f"{kind}/{path}": norm for kind, norms in kinds.items() for path, norm in zip(paths, norms)}
        for path, weight, update in zip(paths, weight_norms, update_norms):
            if weight > 0.0:
                seen[f"update_to_weight/{path}"] = update / weight
        seen.update({f"trust_ratio/{path}": ratio for path, ratio in self._trust_ratios(paths)})
        histograms = {}
        if self._histograms and self._writes():
            for path, variable, old in zip(paths, variables, before):
                histograms[f"weights/{path}"] = tf.convert_to_tensor(variable)
                histograms[f"updates/{path}"] = variable - old
        self._tell(step, seen, histograms)

    def _gradient_norms(self):
        if self._step_gradients is not None:
            return self._step_gradients.layer_norms()
        if self._probe is None:
            return None
        if self._gradients is None:
            self._gradients = ProbeGradients(self.model, self._probe, probe_mode(self.model, self._training))
        return self._gradients.layer_norms()

    def _trust_ratios(self, paths):
        read = getattr(self._optimizer, "layer_statistics", None)
        try:
            rows = {} if read is None else read()
        except ValueError:  # It was made without layer_statistics=True.
            rows = {}
        return [(path, rows[path].trust_ratio) for path in paths if path in rows]


def _norms(after, before):
    """(|before|, |after - before|), each [variables]."""

    def norm(tensor):
        return tf.sqrt(tf.reduce_sum(tf.square(tf.cast(tensor, tf.float32))))

    return tf.stack([norm(old) for old in before]), tf.stack([norm(new - old) for new, old in zip(after, before)])


def _paths(variables):
    """The variables' paths, as the optimizers of this package have them; one that occurs again gets a number."""
    paths, seen = [], {}
    for variable in variables:
        path = getattr(variable, "path", None) or variable.name.split(":")[0]
        seen[path] = seen.get(path, 0) + 1
        paths.append(path if seen[path] == 1 else f"{path}_{seen[path] - 1}")
    return paths


def _updates_in_execution(model):
    """The model's steps_per_execution, in either Keras."""
    own = getattr(model, "steps_per_execution", None)
    own = getattr(model, "_steps_per_execution", None) if own is None else own
    # A variable in tf_keras, of all replicas under a strategy.
    return 1 if own is None else int(own.numpy() if hasattr(own, "numpy") else own)
