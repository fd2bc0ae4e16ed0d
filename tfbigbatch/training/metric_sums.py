"""The metrics of a network as sums: one vector that adds up over micro-batches, steps, replicas and calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbigbatch.errors import InputError

Tensors = Any
"""A tensor, or a nest of tensors."""
# Rows of the made-up batches that a metric is tried on.
_ROWS = 2


class MetricSums:
    """The variables of all metrics of a compiled network, as one vector of sums and counts; made by `build`.

    A call of a traced function begins with `clear` in each replica, updates the metrics as Keras' `fit` does, and
    ends with `total`. The vectors of several calls are added up; `results` gives the metrics of the sum.

    Args:
      network: keras.Model, compiled.
      strategy: of its replicas.
      carries_state: whether the first of the network's outputs is what loss and metrics take, and the rest its state.
    """

    def __init__(self, network: Any, strategy: tf.distribute.Strategy, carries_state: bool) -> None:
        self._network, self._strategy, self._carries_state = network, strategy, carries_state
        # Private in Keras, as are those of `build`: the mean of the loss that its own `fit` keeps.
        self._loss = network._loss_tracker
        self._variables: list[Any] = []

    def build(self, batch: Tensors) -> None:
        """Makes the variables, where they are not made yet: a traced function cannot.

        Args:
          batch: nest of tf.TensorSpec of a replica's batch (x, y) or (x, y, sample_weight).

        Raises:
          ValueError: the variables of a metric do not add up.
        """
        if self._variables:
            return
        network = self._network
        with self._strategy.scope():
            _build(network, batch, _output_spec(network, batch, self._carries_state))
        of_losses = [] if network._compile_loss is None else network._compile_loss.metrics
        self._names_of_losses = {self._loss.name, *(metric.name for metric in of_losses)}
        found = {id(variable): variable for variable in [*self._loss.variables, *network.metrics_variables]}
        self._variables = list(found.values())
        # Exact over any number of steps, so that a row has the same digits however they were divided into calls; a TPU
        # has no float64.
        dtype = tf.float32 if isinstance(self._strategy, tf.distribute.TPUStrategy) else tf.float64
        with self._strategy.scope():
            self._totals = tf.Variable(
                tf.zeros([sum(int(np.prod(variable.shape)) for variable in self._variables)], dtype),
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            )

    # ---- In a replica -------------------------------------------------------------------------------

    def clear(self) -> None:
        """Sets all sums to zero."""
        self._totals.assign(tf.zeros_like(self._totals))
        for variable in self._variables:
            variable.assign(tf.zeros(variable.shape, variable.dtype))

    def end_step(self) -> None:
        """Adds the metrics' variables to the totals, and sets them to zero."""
        own = [tf.reshape(tf.cast(variable.value, self._totals.dtype), [-1]) for variable in self._variables]
        self._totals.assign_add(tf.concat(own, axis=0))
        for variable in self._variables:
            variable.assign(tf.zeros(variable.shape, variable.dtype))

    def add_loss(self, loss: tf.Tensor, x: Tensors) -> None:
        """Adds a batch's loss, which Keras divides by the replicas, to the mean over all examples."""
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        self._loss.update_state(loss * tf.cast(replicas, loss.dtype), sample_weight=examples_of(x))

    def add_metrics(self, x: Tensors, y: Tensors, outputs: Tensors, sample_weight: Tensors) -> None:
        """Updates the metrics with a batch, as Keras' `fit` does; outputs of half precision are float32 to them."""
        self._network.compute_metrics(x, y, tf.nest.map_structure(_widened, outputs), sample_weight=sample_weight)

    def total(self) -> tf.Tensor:
        """float64 [k], on a TPU float32: the sums over all replicas."""
        return tf.distribute.get_replica_context().all_reduce("SUM", tf.identity(self._totals))

    # ---- Between calls ------------------------------------------------------------------------------

    def results(self, totals: np.ndarray, *, losses: bool, metrics: bool) -> dict[str, float]:
        """The metrics of summed vectors, by name.

        Args:
          totals: float64 [k], the sum of what `total` returned.
          losses: whether to return those of the losses: 'loss' and, of several outputs, the mean of each.
          metrics: whether to return the others.
        """
        sizes = [int(np.prod(variable.shape)) for variable in self._variables]
        parts = np.split(totals, np.cumsum(sizes)[:-1])
        mapping = [
            (variable, tf.constant(part.reshape(variable.shape), variable.dtype))
            for variable, part in zip(self._variables, parts)
        ]
        wanted = {True: losses, False: metrics}
        with keras.StatelessScope(state_mapping=mapping):
            found = {self._loss.name: self._loss.result(), **self._network.get_metrics_result()}
            # Here: a result may be the variable itself, which has these values in the scope alone.
            return {name: float(value) for name, value in found.items() if wanted[name in self._names_of_losses]}


def examples_of(x: Tensors) -> tf.Tensor:
    """The number of examples of a batch's features."""
    return tf.shape(tf.nest.flatten(x)[0])[0]


def _output_spec(network: Any, batch: Tensors, carries_state: bool) -> Tensors:
    """Specifications, with shape and dtype, of the outputs that loss and metrics take, for a replica's batch."""
    try:
        outputs = network.output
    except AttributeError:  # Of a subclass, the shapes of its features tell.
        x = keras.utils.unpack_x_y_sample_weight(batch)[0]
        as_keras = keras.tree.map_structure(lambda spec: keras.KerasTensor(spec.shape, spec.dtype.name), x)
        return network.compute_output_spec(as_keras)
    return outputs[0] if carries_state else outputs


def _widened(output: Any) -> Any:
    # Some metrics, as top-k accuracies, have no kernel for bfloat16.
    return tf.cast(output, tf.float32) if output.dtype in (tf.bfloat16, tf.float16) else output


def _build(network: Any, batch: Tensors, outputs: Tensors) -> None:
    """Makes the variables of a network's losses and metrics, on made-up batches; checks that they add up."""
    _, y, weights = keras.utils.unpack_x_y_sample_weight(batch)
    if y is None:
        return
    draw = np.random.default_rng(0)
    batches = [_made_up(y, weights, outputs, draw) for _ in range(2)]
    # Variables that are made in the scope are initialised at its end.
    with keras.StatelessScope():
        if network._compile_loss is not None and not network._compile_loss.built:
            network._compile_loss(*batches[0])
        if network._compile_metrics is not None:
            labels, predicted, of_labels = batches[0]
            # F1Score makes its variables in its first update, not in `build`.
            network._compile_metrics.update_state(labels, predicted, sample_weight=of_labels)
    if network._compile_metrics is not None:
        _check_sums(network._compile_metrics, batches)


def _made_up(y: Tensors, weights: Tensors, outputs: Tensors, draw: np.random.Generator) -> tuple[Any, Any, Any]:
    """Zeros as labels, random outputs, and ones as weights."""
    labels, of_labels = keras.tree.flatten(y), keras.tree.flatten(outputs)

    def shape_of(spec: Any, like: Sequence[int] = ()) -> list[int]:
        sizes = list(spec.shape)[1:]
        # Axes of any length, as of time, are as long as those of the labels.
        like = [*list(like)[1:], *[_ROWS] * len(sizes)]
        return [_ROWS, *(size or other or _ROWS for size, other in zip(sizes, like))]

    shapes = [label.shape for label in labels] if len(labels) == len(of_labels) else [()] * len(of_labels)
    predicted = [
        _widened(tf.cast(draw.uniform(0.1, 0.9, shape_of(spec, shape)), spec.dtype))
        for spec, shape in zip(of_labels, shapes)
    ]
    return (
        keras.tree.map_structure(lambda spec: tf.zeros(shape_of(spec), spec.dtype), y),
        keras.tree.pack_sequence_as(outputs, predicted),
        None if weights is None else keras.tree.map_structure(lambda s: tf.ones(shape_of(s), s.dtype), weights),
    )


def _check_sums(compiled: Any, batches: Sequence[tuple[Any, Any, Any]]) -> None:
    def after(*numbers: int) -> list[np.ndarray]:
        zeros = [(variable, tf.zeros(variable.shape, variable.dtype)) for variable in compiled.variables]
        with keras.StatelessScope(state_mapping=zeros) as scope:
            for number in numbers:
                y, outputs, weights = batches[number]
                compiled.update_state(y, outputs, sample_weight=weights)
            return [np.asarray(scope.get_current_value(variable), np.float64) for variable in compiled.variables]

    together = dict(zip(map(id, compiled.variables), zip(after(0), after(1), after(0, 1))))
    for metric in compiled.metrics:
        for first, second, both in (together[id(variable)] for variable in metric.variables):
            if not np.allclose(first + second, both, rtol=1e-3, atol=1e-5):
                raise InputError(
                    f"metric {metric.name!r}: the variables of two batches together are {both}, and those of each "
                    f"{first} and {second}. Expected their sum: replicas and steps are added up. Take a metric of "
                    "sums and counts, such as a keras.metrics.Mean of values."
                )
