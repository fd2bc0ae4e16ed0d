"""The singular values of optimizer updates: in how many directions a step changes a layer.

For a matrix with the singular values s_1 >= s_2 >= ...:

    stable rank    = sum s_i^2 / s_1^2                       (Rudelson and Vershynin 2007)
    effective rank = exp(-sum p_i log p_i), p_i = s_i / sum s    (Roy and Vetterli 2007)

Both are 1 for an outer product of two vectors, and the length of the short side where all s_i are equal, as in the
polar factor that Muon steps along.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfbigbatch.errors import InputError
from tfbigbatch.instruments.probe.model import tensor_variable


@dataclasses.dataclass(frozen=True, eq=False)
class Spectrum:
    """The singular values of a matrix.

    Attributes:
      singular_values: float64 [short side], descending.
    """

    singular_values: np.ndarray

    @property
    def normalized(self) -> np.ndarray:
        """The singular values over the largest; zeros of a zero matrix."""
        largest = self.singular_values[0]
        return self.singular_values / largest if largest > 0.0 else self.singular_values

    @property
    def stable_rank(self) -> float:
        """Squared Frobenius norm over squared spectral norm, from 1 to the short side; 0 of a zero matrix."""
        return float(np.sum(self.normalized**2))

    @property
    def effective_rank(self) -> float:
        """exp of the entropy of the singular values over their sum; 0 of a zero matrix."""
        total = self.singular_values.sum()
        if not total > 0.0:
            return 0.0
        shares = self.singular_values[self.singular_values > 0.0] / total
        return float(np.exp(-np.sum(shares * np.log(shares))))


def update_spectrum(update: Any, row_axes: int | None = None) -> Spectrum:
    """The spectrum of a variable's update, or of any tensor read as a matrix.

    Computed in float64 from the Gram matrix of the short side: singular values are right to 1e-8 of the largest.

    Args:
      update: of two axes or more, such as a kernel [in, out] or a convolution [h, w, in, out].
      row_axes: how many of the first axes are the matrix' rows; None for all but the last. 1 reads an attention
        kernel [in, heads, size] as [in, heads size].

    Raises:
      ValueError: there are less than two axes, an entry is not finite, or `row_axes` leaves no column.
    """
    array = np.asarray(update, np.float64)
    if array.ndim < 2 or not array.size:
        raise InputError(f"update_spectrum: an array of shape {array.shape}; expected two axes or more, none empty.")
    rows = array.ndim - 1 if row_axes is None else row_axes
    if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows < array.ndim:
        raise InputError(f"update_spectrum: row_axes={row_axes!r}; expected 1 to {array.ndim - 1}, or None.")
    if not np.isfinite(array).all():
        raise InputError("update_spectrum: an entry is infinite or not a number; expected a finite update.")
    matrix = array.reshape(int(np.prod(array.shape[:rows])), -1)
    # Squares of entries below 1e-154 would be zero.
    scale = np.abs(matrix).max() or 1.0
    matrix = matrix / scale
    gram = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    return Spectrum(scale * np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[::-1], 0.0)))


class UpdateSpectra:
    """Compares the updates that several optimizers make of the same weights and gradients.

    Each optimizer steps copies of the chosen variables. Before each step the copies get the weights of the model, which
    one optimizer trains as always; momentum and second moments are of all gradients so far. Gradients are taken as
    they come: clip them first to compare clipped steps.

        spectra = UpdateSpectra(model.trainable_variables, {"SGD": SGD(0.1), "Muon": Muon(0.02)}, layers="kernel")
        for step, (x, y) in enumerate(batches):
            gradients = ...  # of the model's trainable variables
            found = spectra.step(gradients, measure=step in (1, 10, 100))
            model.optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    Args:
      variables: the model's trainable ones, of Keras 2 or 3.
      optimizers: of the same Keras, by name; they are built here.
      layers: regular expression for the paths of the variables to compare; those of less than two axes are left out.
      row_axes: as in `update_spectrum`, for all of them.

    Attributes:
      paths: of the variables that are compared.

    Raises:
      ValueError: no variable of two axes or more has such a path.
    """

    def __init__(
        self,
        variables: Sequence[Any],
        optimizers: Mapping[str, Any],
        *,
        layers: str = "",
        row_axes: int | None = None,
    ) -> None:
        paths = [_path(variable) for variable in variables]
        self._chosen = [
            index
            for index, (path, variable) in enumerate(zip(paths, variables))
            if len(variable.shape) > 1 and re.search(layers, path)
        ]
        if not self._chosen:
            raise InputError(f"UpdateSpectra: layers={layers!r} is found in no path of a matrix; paths are {paths}.")
        self.paths = [paths[index] for index in self._chosen]
        self._sources = [variables[index] for index in self._chosen]
        self._row_axes = row_axes
        self._copies = {name: [_copy(variable) for variable in self._sources] for name in optimizers}
        self._optimizers = dict(optimizers)
        for name, optimizer in self._optimizers.items():
            optimizer.build(self._copies[name])

    def step(self, gradients: Sequence[Any], measure: bool = True) -> dict[str, dict[str, Spectrum]]:
        """One step of each optimizer from the model's weights; call it before the model's own step.

        Args:
          gradients: of all variables that were given, in their order.
          measure: False follows the gradients only, without any spectrum.

        Returns:
          Spectra of the updates by optimizer and path; {} with measure=False.
        """
        own = [tf.convert_to_tensor(gradients[index]) for index in self._chosen]
        before = [tf.identity(tensor_variable(variable)) for variable in self._sources]
        found: dict[str, dict[str, Spectrum]] = {}
        for name, optimizer in self._optimizers.items():
            copies = self._copies[name]
            for copy, weight in zip(copies, before):
                tensor_variable(copy).assign(weight)
            optimizer.apply_gradients(list(zip(own, copies)))
            if measure:
                updates = [(tensor_variable(copy) - weight).numpy() for copy, weight in zip(copies, before)]
                found[name] = {
                    path: update_spectrum(update, self._row_axes) for path, update in zip(self.paths, updates)
                }
        return found


def _path(variable: Any) -> str:
    return getattr(variable, "path", None) or variable.name.split(":")[0]


def _copy(variable: Any) -> Any:
    """A variable of the same Keras with the same path: optimizers choose by it."""
    if isinstance(variable, tf.Variable):
        return tf.Variable(variable.read_value(), name=_path(variable))
    import keras

    *scopes, name = variable.path.split("/")
    with contextlib.ExitStack() as stack:
        for scope in scopes:
            stack.enter_context(keras.name_scope(scope))
        return keras.Variable(variable.numpy(), name=name)
