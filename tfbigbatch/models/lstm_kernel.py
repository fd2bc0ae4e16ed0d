"""An LSTM over a whole sequence in TensorFlow: three large products, and a loop with the recurrent one only.

Keras' loop multiplies the inputs by the kernel at each time step, and accumulates the gradients of both matrices at
each. Here these are products over all time steps, as in cuDNN (Appleyard et al. 2016, arXiv:1604.01946, section 3.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

Tensors = tuple[tf.Tensor, ...]


def lstm_sequence(
    inputs: tf.Tensor,
    output: tf.Tensor,
    cell: tf.Tensor,
    kernel: tf.Tensor,
    recurrent_kernel: tf.Tensor,
    bias: tf.Tensor,
) -> Tensors:
    """The outputs of an LSTM, and its last cell.

    Args:
      inputs: [n, T, width]; all arguments but the cell have the same floating dtype.
      output, cell: the state before the first time step, [n, units], the cell in float32.
      kernel: [width, 4 * units]: input gate, forget gate, candidate, output gate.
      recurrent_kernel: [units, 4 * units].
      bias: [4 * units].

    Returns:
      [n, T, units], and the last cell, float32 [n, units].
    """
    arguments = inputs, output, cell, kernel, recurrent_kernel, bias
    rows, units = inputs.shape[0], recurrent_kernel.shape[0]
    # Measured on a CPU: of more rows the gates of all time steps outgrow its caches, and the matrices matter less.
    if rows is not None and 2 * rows > units:
        return _loop(*arguments)
    outputs, cell = _sequence(*arguments)
    return outputs, cell


def _loop(
    inputs: tf.Tensor,
    output: tf.Tensor,
    cell: tf.Tensor,
    kernel: tf.Tensor,
    recurrent_kernel: tf.Tensor,
    bias: tf.Tensor,
) -> Tensors:
    """`lstm_sequence` with both products in the loop, and TensorFlow's derivatives."""
    by_time = _swapped(inputs)
    steps = _shape(by_time)[0]
    # The derivative of an index into `by_time` would be as large as it, at each time step.
    each_input = tf.TensorArray(inputs.dtype, steps).unstack(by_time)

    def body(time: tf.Tensor, output: tf.Tensor, cell: tf.Tensor, outputs: tf.TensorArray) -> tuple[Any, ...]:
        output, cell, _ = step(tf.matmul(each_input.read(time), kernel) + bias, output, cell, recurrent_kernel)
        return time + 1, output, cell, outputs.write(time, output)

    outputs = tf.TensorArray(inputs.dtype, steps, element_shape=output.shape)
    _, _, cell, outputs = tf.while_loop(
        lambda time, *_: time < steps, body, (tf.constant(0), output, cell, outputs), maximum_iterations=steps
    )
    return _swapped(outputs.stack()), cell


@tf.custom_gradient
def _sequence(
    inputs: tf.Tensor,
    output: tf.Tensor,
    cell: tf.Tensor,
    kernel: tf.Tensor,
    recurrent_kernel: tf.Tensor,
    bias: tf.Tensor,
) -> tuple[Tensors, Callable[..., Tensors]]:
    """`lstm_sequence` with one product of the inputs, and derivatives of its own."""
    arguments = inputs, output, cell, kernel, recurrent_kernel, bias
    by_time = _swapped(inputs)
    steps, rows, _ = _shape(by_time)
    units = recurrent_kernel.shape[0]
    from_inputs = tf.reshape(tf.matmul(_flat(by_time), kernel) + bias, [steps, rows, 4 * units])

    def body(time: tf.Tensor, output: tf.Tensor, cell: tf.Tensor, *arrays: tf.TensorArray) -> tuple[Any, ...]:
        output, cell, gates = step(from_inputs[time], output, cell, recurrent_kernel)
        written = [array.write(time, value) for array, value in zip(arrays, (output, gates, cell))]
        return time + 1, output, cell, *written

    arrays = [
        tf.TensorArray(dtype, steps, element_shape=[by_time.shape[1], width])
        for dtype, width in ((inputs.dtype, units), (inputs.dtype, 4 * units), (tf.float32, units))
    ]
    _, _, _, *arrays = tf.while_loop(
        lambda time, *_: time < steps, body, (tf.constant(0), output, cell, *arrays), maximum_iterations=steps
    )
    # [T, n, units], [T, n, 4 * units] and float32 [T, n, units].
    outputs, gates, cells = (array.stack() for array in arrays)

    @tf.custom_gradient
    def derivatives(*given: tf.Tensor) -> tuple[Tensors, Callable[..., Any]]:
        """Of the arguments, from the arguments and the derivatives of both results."""

        def second(*upstream: tf.Tensor) -> Any:
            # Measurements of curvature are rare: TensorFlow's own derivatives of the loop.
            with tf.GradientTape() as outer:
                outer.watch(given)
                with tf.GradientTape() as inner:
                    inner.watch(given[:6])
                    results = _loop(*given[:6])
                first = inner.gradient(results, given[:6], output_gradients=given[6:])
            return outer.gradient(first, given, output_gradients=upstream)

        return _backward((outputs, gates, cells), *given), second

    def gradient(d_outputs: tf.Tensor, d_cell: tf.Tensor) -> Tensors:
        found: Tensors = derivatives(*arguments, d_outputs, d_cell)
        return found

    return (_swapped(outputs), cells[-1]), gradient


def step(from_inputs: tf.Tensor, output: tf.Tensor, cell: tf.Tensor, recurrent_kernel: tf.Tensor) -> Tensors:
    """One time step.

    Args:
      from_inputs: the inputs' part of the gates with the bias, [n, 4 * units].
      output, cell, recurrent_kernel: as in `lstm_sequence`.

    Returns:
      The next output and cell, and the gates after their non-linearities, [n, 4 * units].
    """
    gates = from_inputs + tf.matmul(output, recurrent_kernel)
    into, forget, candidate, out = tf.split(tf.cast(gates, tf.float32), 4, axis=-1)
    into, forget, candidate, out = tf.sigmoid(into), tf.sigmoid(forget), tf.tanh(candidate), tf.sigmoid(out)
    cell = forget * cell + into * candidate
    output = tf.cast(out * tf.tanh(cell), output.dtype)
    return output, cell, tf.cast(tf.concat([into, forget, candidate, out], axis=-1), output.dtype)


def _backward(
    saved: Sequence[tf.Tensor],
    inputs: tf.Tensor,
    output: tf.Tensor,
    cell: tf.Tensor,
    kernel: tf.Tensor,
    recurrent_kernel: tf.Tensor,
    bias: tf.Tensor,
    d_outputs: tf.Tensor,
    d_cell: tf.Tensor,
) -> Tensors:
    """The derivatives of the arguments of `lstm_sequence`; `saved`: outputs, gates and cells of all time steps."""
    outputs, gates, cells = saved
    by_time, upstream = _swapped(inputs), _swapped(d_outputs)
    earlier_cells = tf.concat([cell[tf.newaxis], cells[:-1]], axis=0)
    steps, rows, _ = _shape(upstream)
    units = recurrent_kernel.shape[0]

    def body(time: tf.Tensor, d_output: tf.Tensor, d_cell: tf.Tensor, d_gates: tf.TensorArray) -> tuple[Any, ...]:
        into, forget, candidate, out = tf.split(tf.cast(gates[time], tf.float32), 4, axis=-1)
        d_output += tf.cast(upstream[time], tf.float32)
        squashed = tf.tanh(cells[time])
        d_cell += d_output * out * (1.0 - squashed * squashed)
        # Of the gates before their non-linearities.
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

    nothing = tf.zeros([rows, units], tf.float32)
    d_gates = tf.TensorArray(gates.dtype, steps, element_shape=[upstream.shape[1], 4 * units])
    _, d_output, d_cell, d_gates = tf.while_loop(
        lambda time, *_: time >= 0, body, (tf.constant(steps) - 1, nothing, d_cell, d_gates), maximum_iterations=steps
    )
    d_flat = _flat(d_gates.stack())
    d_inputs = tf.reshape(tf.matmul(d_flat, kernel, transpose_b=True), tf.shape(by_time))
    d_kernel = tf.matmul(_flat(by_time), d_flat, transpose_a=True)
    earlier_outputs = tf.concat([output[tf.newaxis], outputs[:-1]], axis=0)
    d_recurrent = tf.matmul(_flat(earlier_outputs), d_flat, transpose_a=True)
    # A long sum: in float32.
    d_bias = tf.cast(tf.reduce_sum(tf.cast(d_flat, tf.float32), axis=0), bias.dtype)
    return _swapped(d_inputs), tf.cast(d_output, output.dtype), d_cell, d_kernel, d_recurrent, d_bias


def _swapped(sequences: tf.Tensor) -> tf.Tensor:
    """Rows and time steps in the other order."""
    return tf.transpose(sequences, [1, 0, 2])


def _flat(by_time: tf.Tensor) -> tf.Tensor:
    return tf.reshape(by_time, [-1, by_time.shape[-1]])


def _shape(tensor: tf.Tensor) -> list[Any]:
    """The sizes of the axes: integers where they are static, else tensors."""
    return [known or tf.shape(tensor)[axis] for axis, known in enumerate(tensor.shape)]
