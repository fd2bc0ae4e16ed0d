"""Callback that measures, for each layer, the norms of weights, gradients and updates, and the trust ratio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfbigbatch.instruments.instrument import Instrument
from tfbigbatch.instruments.probe.model import tensor_variable
from tfbigbatch.instruments.spectrum import update_spectrum
from tfbigbatch.instruments.step_gradients import StepGradients


class LayerStatistics(Instrument):
    """Measures, for each trainable variable w, the effect of one optimizer step.

    - weight_norm: |w| before the step.
    - update_norm: |change of w|, and update_to_weight, its ratio to |w| (absent if |w| is 0).
    - gradient_norm, with `step_gradients`: of the step's own gradient before clipping.
    - trust_ratio, of a LARS, LAMB or Muon with `layer_statistics=True`; 1 for excluded variables.
    - update_stable_rank and update_effective_rank, with `spectrum`, of variables with two axes or more: in how many
      directions the change is; see `instruments.update_spectrum`.

    The change is between the weights before and after, for any optimizer: a copy of the weights is kept from the step
    before a measurement. With `steps_per_execution` above 1 it is the change over the execution, divided by its steps.

    Args:
      when: steps between measurements, or a list of steps.
      step_gradients: None, or StepGradients.
      histograms: whether to write histograms of each variable's values and their change.
      spectrum: whether to measure the ranks of the changes: in NumPy, the eigenvalues of the Gram matrix of each short
        side.
      log: None, a folder for TensorBoard, or an object with the methods of `EventLog`.

    Attributes:
      history: list of dictionaries: step, and 'KIND/PATH OF THE VARIABLE' to float.

    Raises:
      ValueError: `when` is no such number or list.
    """

    group = "layers"

    def __init__(
        self,
        *,
        when: int | Sequence[int] = 100,
        step_gradients: StepGradients | None = None,
        histograms: bool = False,
        spectrum: bool = False,
        log: Any = None,
    ) -> None:
        super().__init__(when=when, log=log)
        self._step_gradients = step_gradients
        self._histograms = histograms
        self._spectrum = spectrum
        # (step, the weights after it), from shortly before a measurement.
        self._before: tuple[int, list[tf.Tensor]] | None = None
        self._norms = tf.function(_norms)

    # ---- The weights before the step ----------------------------------------------------------

    def _batches_until_due(self, step: int) -> float:
        left, notice = self._due - step, _steps_per_execution(self.model)
        if left > notice:
            return left - notice
        if self._before is None or self._before[0] != step:
            weights = [tf.identity(variable) for variable in self._variables()]
            self._before = (step, weights) if weights else None
        return left

    def _can_measure(self, step: int) -> bool:
        return self._before is not None and self._before[0] < step

    def _variables(self) -> list[tf.Variable]:
        try:
            return [tensor_variable(variable) for variable in self.model.trainable_variables]
        except ValueError:  # tf_keras: the model is built by its first batch.
            return []

    # ---- A measurement --------------------------------------------------------------------------

    def _measure(self, step: int) -> None:
        assert self._before is not None  # see `_can_measure`
        (first, before), self._before = self._before, None
        variables = self._variables()
        paths = _paths(self.model.trainable_variables)
        weight_norms, update_norms = self._norms([tf.identity(variable) for variable in variables], before)
        weight_norms = weight_norms.numpy().tolist()
        update_norms = [norm / (step - first) for norm in update_norms.numpy().tolist()]
        kinds = {"weight_norm": weight_norms, "update_norm": update_norms}
        if self._step_gradients is not None:
            kinds["gradient_norm"] = self._step_gradients.layer_norms()
        seen = {f"{kind}/{path}": norm for kind, norms in kinds.items() for path, norm in zip(paths, norms)}
        for path, weight, update in zip(paths, weight_norms, update_norms):
            if weight > 0.0:
                seen[f"update_to_weight/{path}"] = update / weight
        rows = _rows_of(self._optimizer)
        seen.update({f"trust_ratio/{path}": rows[path].trust_ratio for path in paths if path in rows})
        if self._spectrum:
            seen.update(_ranks(paths, variables, before))
        histograms = {}
        if self._histograms and self._writes():
            for path, variable, old in zip(paths, variables, before):
                histograms[f"weights/{path}"] = tf.convert_to_tensor(variable)
                histograms[f"updates/{path}"] = variable - old
        self._record(step, seen, histograms)


def _rows_of(optimizer: Any) -> Mapping[str, Any]:
    """The rows of an optimizer's `layer_statistics` by variable; none if it keeps none."""
    read = getattr(optimizer, "layer_statistics", None)
    try:
        return {} if read is None else read()
    except ValueError:  # It was made without layer_statistics=True.
        return {}


def _norms(after: list[tf.Tensor], before: list[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    """(|before|, |after - before|), each [variables]."""

    def norm(tensor: tf.Tensor) -> tf.Tensor:
        return tf.sqrt(tf.reduce_sum(tf.square(tf.cast(tensor, tf.float32))))

    return tf.stack([norm(old) for old in before]), tf.stack([norm(new - old) for new, old in zip(after, before)])


def _ranks(paths: Sequence[str], after: list[tf.Variable], before: list[tf.Tensor]) -> dict[str, float]:
    """Stable and effective rank of the change of each matrix; none of a change that is not finite."""
    found = {}
    for path, new, old in zip(paths, after, before):
        change = (new - old).numpy()
        if change.ndim > 1 and np.isfinite(change).all():
            spectrum = update_spectrum(change)
            found[f"update_stable_rank/{path}"] = spectrum.stable_rank
            found[f"update_effective_rank/{path}"] = spectrum.effective_rank
    return found


def _paths(variables: Sequence[Any]) -> list[str]:
    """The variables' paths, as in this package's optimizers; repeated ones get a number."""
    paths: list[str] = []
    seen: dict[str, int] = {}
    for variable in variables:
        path = getattr(variable, "path", None) or variable.name.split(":")[0]
        seen[path] = seen.get(path, 0) + 1
        paths.append(path if seen[path] == 1 else f"{path}_{seen[path] - 1}")
    return paths


def _steps_per_execution(model: Any) -> int:
    """The model's steps_per_execution, in Keras 2 or 3."""
    own = getattr(model, "steps_per_execution", None)
    own = getattr(model, "_steps_per_execution", None) if own is None else own
    # A variable in tf_keras, of all replicas under a strategy.
    return 1 if own is None else int(own.numpy() if hasattr(own, "numpy") else own)
