"""Keras' LSTM with its large products outside the loop over time."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from tfbigbatch.errors import InputError


def uniform(initial_scale: float) -> keras.initializers.Initializer:
    """Uniform in [-initial_scale, initial_scale]; each weight needs its own, which draws other numbers."""
    if initial_scale <= 0:
        raise InputError(f"model.initial_scale={initial_scale}: expected a number above 0.")
    return keras.initializers.RandomUniform(-initial_scale, initial_scale)


def lstm(units: int, **options: Any) -> keras.layers.LSTM:
    """The layer that computes `keras.layers.LSTM(units, **options)` in the least time: its own where it is unrolled."""
    return (keras.layers.LSTM if options.get("unroll") else SequenceLSTM)(units, **options)


@keras.saving.register_keras_serializable(package="tfbigbatch")
class SequenceLSTM(keras.layers.LSTM):
    """Keras' LSTM: the same arguments, weights and results, faster on a CPU.

    On TensorFlow `lstm_kernel` runs, whose cell state is float32 at every precision. Keras' own loop runs on other
    backends, where the last output is asked for alone, and where the arguments ask for what the kernel has not: masks,
    dropout, other activations. Where a GPU is visible, cuDNN's kernel runs as in Keras' layer, unless XLA compiles the
    graph, which cuDNN's kernel cannot be part of.
    """

    def inner_loop(self, sequences: Any, initial_state: Any, mask: Any, training: bool = False) -> Any:
        if mask is not None or not self._has_own_kernel() or (training and self.dropout):
            return super().inner_loop(sequences, initial_state, mask, training)
        from tfbigbatch.models.lstm_kernel import lstm_sequence

        output, cell = initial_state
        outputs, cell = lstm_sequence(sequences, output, ops.cast(cell, "float32"), *self._compute_weights())
        return outputs[:, -1], outputs, [outputs[:, -1], cell]

    def step(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One time step of `call`, on TensorFlow.

        Args:
          inputs: [rows, width] of the compute dtype.
          state: (output, cell) of the previous time step: [rows, units] of the compute dtype, and float32.

        Returns:
          (output, cell), the state after the step; its output is the layer's.
        """
        from tfbigbatch.models import lstm_kernel

        kernel, recurrent_kernel, bias = self._compute_weights()
        output, cell, _ = lstm_kernel.step(ops.matmul(inputs, kernel) + bias, state[0], state[1], recurrent_kernel)
        return output, cell

    def zero_state(self, rows: Any) -> tuple[Any, Any]:
        """The state before the first time step, for `step`."""
        return ops.zeros((rows, self.units), self.compute_dtype), ops.zeros((rows, self.units), "float32")

    def _compute_weights(self) -> list[Any]:
        cell = self.cell
        return [ops.cast(weight, self.compute_dtype) for weight in (cell.kernel, cell.recurrent_kernel, cell.bias)]

    def _has_own_kernel(self) -> bool:
        is_standard = self.activation is keras.activations.tanh and self.use_bias
        is_standard &= self.recurrent_activation is keras.activations.sigmoid
        if not is_standard or self.recurrent_dropout or self.go_backwards or not self.return_sequences:
            return False
        return keras.backend.backend() == "tensorflow" and not _cudnn_runs()


def _cudnn_runs() -> bool:
    import tensorflow as tf
    from tensorflow.python.ops import control_flow_util

    is_xla = control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())
    return bool(tf.config.list_logical_devices("GPU")) and not is_xla
