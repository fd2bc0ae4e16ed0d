"""LSTMs: Keras' own, traced faster, and one over whole sequences with its large products outside the loop over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfbigbatch.errors import InputError


def uniform(initial_scale: float) -> tf_keras.initializers.Initializer:
    """Uniform in [-initial_scale, initial_scale]; each weight needs its own, which draws other numbers."""
    if initial_scale <= 0:
        raise InputError(f"model.initial_scale={initial_scale}: expected a number above 0.")
    return tf_keras.initializers.RandomUniform(-initial_scale, initial_scale)


def lstm(units: int, **options: Any) -> Any:
    """Keras' LSTM.

    Args:
      units, options: the arguments of `keras.layers.LSTM`.
    """
    import keras

    return keras.layers.LSTM(units, **options)


class SequenceLSTM(tf_keras.layers.LSTM):
    """tf_keras' LSTM from zero state, with the same weights, faster without cuDNN.

    Keras' loop multiplies the inputs by the kernel at each time step, and accumulates the gradients of both matrices
    at each. Here these are three products over all time steps, as in cuDNN (Appleyard et al. 2016, arXiv:1604.01946,
    section 3.3); the loop has the recurrent product only. Where a GPU is visible, Keras' own layer runs, with cuDNN's
    kernel. Padding is not masked: it must follow the real tokens, and then cannot affect their outputs.

    The cell state is float32 at every precision, except in Keras' own layer. Second derivatives are not defined.

    Args:
      units: of the output and of the cell.
      initial_scale: weights and biases are initialised uniformly in [-initial_scale, initial_scale].
      **kwargs: of the Keras layer: its name and dtype.
    """

    def __init__(self, units: int, *, initial_scale: float = 0.1, **kwargs: Any) -> None:
        super().__init__(
            units,
            return_sequences=True,
            unit_forget_bias=False,
            kernel_initializer=uniform(initial_scale),
            recurrent_initializer=uniform(initial_scale),
            bias_initializer=uniform(initial_scale),
            **kwargs,
        )
        self.initial_scale = initial_scale

    def get_config(self) -> dict[str, Any]:
        fields = {"units": self.units, "initial_scale": self.initial_scale}
        # Not Keras' LSTM's config: it has fields that are fixed here.
        return {**tf_keras.layers.Layer.get_config(self), **fields}

    def call(
        self, inputs: tf.Tensor, mask: Any = None, training: bool | None = None, initial_state: Any = None
    ) -> tf.Tensor:
        """From [n, T, width] to [n, T, units], both of the compute dtype."""
        if tf.config.list_logical_devices("GPU"):
            return super().call(inputs, training=training)
        return lstm_sequence(inputs, *self._compute_weights())

    def step(self, inputs: tf.Tensor, state: Sequence[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """One time step of `call`.

        Args:
          inputs: [rows, width] of the compute dtype.
          state: (output, cell) of the previous time step: [rows, units] of the compute dtype, and float32.

        Returns:
          (output, cell), the state after the step; its output is the layer's.
        """
        output, cell = state
        kernel, recurrent_kernel, bias = self._compute_weights()
        output, cell, _ = _step(tf.matmul(inputs, kernel) + bias, output, cell, recurrent_kernel)
        return output, cell

    def zero_state(self, rows: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """The state before the first time step."""
        return tf.zeros([rows, self.units], self.compute_dtype), tf.zeros([rows, self.units], tf.float32)

    def _compute_weights(self) -> list[tf.Tensor]:
        return [
            tf.cast(weight, self.compute_dtype)
            for weight in (self.cell.kernel, self.cell.recurrent_kernel, self.cell.bias)
        ]


@tf.custom_gradient
def lstm_sequence(
    inputs: tf.Tensor, kernel: tf.Tensor, recurrent_kernel: tf.Tensor, bias: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, ...]]]:
    """The outputs of an LSTM from zero state, with its gradient.

    Args:
      inputs: [n, T, width]; all arguments have the same floating dtype.
      kernel: [width, 4 * units]: input gate, forget gate, candidate, output gate.
      recurrent_kernel: [units, 4 * units].
      bias: [4 * units].

    Returns:
      [n, T, units].
    """
    by_time = tf.transpose(inputs, [1, 0, 2])
    outputs, gates, cells = _forward(by_time, kernel, recurrent_kernel, bias)

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
        d_gates = _backward(tf.transpose(upstream, [1, 0, 2]), gates, cells, recurrent_kernel)
        d_flat = _flat(d_gates)
        d_inputs = tf.matmul(d_flat, kernel, transpose_b=True)
        d_kernel = tf.matmul(_flat(by_time), d_flat, transpose_a=True)
        d_recurrent = tf.matmul(_flat(_one_step_before(outputs)), d_flat, transpose_a=True)
        # A long sum: in float32.
        d_bias = tf.cast(tf.reduce_sum(tf.cast(d_flat, tf.float32), axis=0), bias.dtype)
        return tf.transpose(tf.reshape(d_inputs, tf.shape(by_time)), [1, 0, 2]), d_kernel, d_recurrent, d_bias

    return tf.transpose(outputs, [1, 0, 2]), gradient


def _step(
    from_inputs: tf.Tensor, output: tf.Tensor, cell: tf.Tensor, recurrent_kernel: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """(output, cell, gates after their non-linearities), from the inputs' part of the gates, [n, 4 * units]."""
    gates = from_inputs + tf.matmul(output, recurrent_kernel)
    into, forget, candidate, out = tf.split(tf.cast(gates, tf.float32), 4, axis=-1)
    into, forget, candidate, out = tf.sigmoid(into), tf.sigmoid(forget), tf.tanh(candidate), tf.sigmoid(out)
    cell = forget * cell + into * candidate
    output = tf.cast(out * tf.tanh(cell), output.dtype)
    return output, cell, tf.cast(tf.concat([into, forget, candidate, out], axis=-1), output.dtype)


def _forward(
    by_time: tf.Tensor, kernel: tf.Tensor, recurrent_kernel: tf.Tensor, bias: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Outputs [T, n, units], gates [T, n, 4 * units] and float32 cells [T, n, units]."""
    steps, rows, _ = _shape(by_time)
    units = recurrent_kernel.shape[0]
    from_inputs = tf.reshape(tf.matmul(_flat(by_time), kernel) + bias, [steps, rows, 4 * units])
    dtype = from_inputs.dtype

    def body(
        time: tf.Tensor,
        output: tf.Tensor,
        cell: tf.Tensor,
        outputs: tf.TensorArray,
        gates: tf.TensorArray,
        cells: tf.TensorArray,
    ) -> tuple[Any, ...]:
        output, cell, gate = _step(from_inputs[time], output, cell, recurrent_kernel)
        return time + 1, output, cell, outputs.write(time, output), gates.write(time, gate), cells.write(time, cell)

    arrays = [
        tf.TensorArray(kind, steps, element_shape=[by_time.shape[1], width])
        for kind, width in ((dtype, units), (dtype, 4 * units), (tf.float32, units))
    ]
    initial = tf.zeros([rows, units], dtype), tf.zeros([rows, units], tf.float32)
    *_, outputs, gates, cells = tf.while_loop(
        lambda time, *_: time < steps, body, (tf.constant(0), *initial, *arrays), maximum_iterations=steps
    )
    return outputs.stack(), gates.stack(), cells.stack()


def _backward(upstream: tf.Tensor, gates: tf.Tensor, cells: tf.Tensor, recurrent_kernel: tf.Tensor) -> tf.Tensor:
    """The gradient of the gates before their non-linearities, [T, n, 4 * units]."""
    steps, rows, _ = _shape(upstream)
    units = recurrent_kernel.shape[0]
    earlier_cells = _one_step_before(cells)

    def body(time: tf.Tensor, d_output: tf.Tensor, d_cell: tf.Tensor, d_gates: tf.TensorArray) -> tuple[Any, ...]:
        into, forget, candidate, out = tf.split(tf.cast(gates[time], tf.float32), 4, axis=-1)
        d_output += tf.cast(upstream[time], tf.float32)
        squashed = tf.tanh(cells[time])
        d_cell += d_output * out * (1.0 - squashed * squashed)
        d_gate = tf.concat(
            [
                d_cell * candidate * into * (1.0 - into),
                d_cell * earlier_cells[time] * forget * (1.0 - forget),
                d_cell * into * (1.0 - candidate * candidate),
                d_output * squashed * out * (1.0 - out),
            ],
            axis=-1,
        )
        d_gate = tf.cast(d_gate, gates.dtype)
        d_output = tf.cast(tf.matmul(d_gate, recurrent_kernel, transpose_b=True), tf.float32)
        return time - 1, d_output, d_cell * forget, d_gates.write(time, d_gate)

    zeros = tf.zeros([rows, units], tf.float32)
    d_gates = tf.TensorArray(gates.dtype, steps, element_shape=[upstream.shape[1], 4 * units])
    *_, d_gates = tf.while_loop(
        lambda time, *_: time >= 0, body, (tf.constant(steps) - 1, zeros, zeros, d_gates), maximum_iterations=steps
    )
    return d_gates.stack()


def _one_step_before(by_time: tf.Tensor) -> tf.Tensor:
    return tf.concat([tf.zeros_like(by_time[:1]), by_time[:-1]], axis=0)


def _flat(by_time: tf.Tensor) -> tf.Tensor:
    return tf.reshape(by_time, [-1, by_time.shape[-1]])


def _shape(tensor: tf.Tensor) -> list[Any]:
    """The sizes of the axes: integers where they are static, else tensors."""
    return [known or tf.shape(tensor)[axis] for axis, known in enumerate(tensor.shape)]
