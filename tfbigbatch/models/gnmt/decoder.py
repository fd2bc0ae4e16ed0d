"""GNMT's decoder: an LSTM that attends to the source, then LSTMs that also read the context."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras

from tfbigbatch.models.gnmt.attention import Memory, NormedBahdanau
from tfbigbatch.models.gnmt.encoder import FIRST_RESIDUAL
from tfbigbatch.models.sequence_lstm import SequenceLSTM


class Decoder(tf_keras.layers.Layer):
    """The decoder; see `network.gnmt` for the architecture, and why attention needs no loop over time.

    Args:
      units: of each LSTM and of attention.
      layers: number of LSTMs.
      dropout: dropout rate of each LSTM's input.
      initial_scale: all weights are initialised uniformly in [-initial_scale, initial_scale].
    """

    def __init__(self, units: int, *, layers: int, dropout: float, initial_scale: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lstms = [SequenceLSTM(units, initial_scale=initial_scale, name=f"lstm_{layer}") for layer in range(layers)]
        self.dropouts = [tf_keras.layers.Dropout(dropout, name=f"dropout_{layer}") for layer in range(layers)]
        self.attention = NormedBahdanau(units, initial_scale=initial_scale, name="attention")

    def call(
        self, embedded: tf.Tensor, encoded: tf.Tensor, lengths: tf.Tensor, training: bool | None = None
    ) -> tf.Tensor:
        """All time steps of known targets.

        Args:
          embedded: [n, T, width], the tokens before those to predict.
          encoded: [n, S, any], the encoder's output.
          lengths: int32 [n], real tokens of each source.

        Returns:
          [n, T, units].
        """
        memory = self.attention.memory(encoded, lengths)
        return self._layers(
            embedded,
            memory,
            lambda layer, inputs: self.lstms[layer](self.dropouts[layer](inputs, training=training)),
        )[0]

    def step(
        self, embedded: tf.Tensor, state: tuple[Any, ...], memory: Memory
    ) -> tuple[tf.Tensor, tuple[Any, ...], tf.Tensor]:
        """One time step of k hypotheses for each of n sentences, without dropout.

        Args:
          embedded: [n, k, width] of a static k, the previous token.
          state: a tuple of each layer's (output, cell): [n, k, units] of the compute dtype, and float32.
          memory: of the n sentences; see `NormedBahdanau.memory`.

        Returns:
          [n, k, units], the next state, and the float32 attention weights [n, k, S].
        """
        after: list[tuple[tf.Tensor, ...]] = []
        hypotheses = embedded.shape[1]

        def one_step(layer: int, inputs: tf.Tensor) -> tf.Tensor:
            rows = [tf.reshape(value, [-1, value.shape[-1]]) for value in (inputs, *state[layer])]
            stepped = self.lstms[layer].step(rows[0], rows[1:])
            after.append(tuple(tf.reshape(value, [-1, hypotheses, value.shape[-1]]) for value in stepped))
            return after[-1][0]

        values, weights = self._layers(tf.cast(embedded, self.compute_dtype), memory, one_step)
        return values, tuple(after), weights

    def _layers(
        self, values: tf.Tensor, memory: Memory, run: Callable[[int, tf.Tensor], tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """(outputs, attention weights) of the layers, each run by `run(layer, inputs)`."""
        values = run(0, values)
        context, weights = self.attention(values, memory)
        for layer in range(1, len(self.lstms)):
            outputs = run(layer, tf.concat([values, context], axis=-1))
            values = outputs + values if layer >= FIRST_RESIDUAL else outputs
        return values, weights
