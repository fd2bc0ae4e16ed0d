"""GNMT's decoder: an LSTM that attends to the source, then LSTMs that also read the context."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras

from tfbigbatch.models.gnmt.attention import Memory, NormedBahdanau
from tfbigbatch.models.gnmt.encoder import FIRST_RESIDUAL
from tfbigbatch.models.recompute import Block, in_turn
from tfbigbatch.models.sequence_lstm import SequenceLSTM


class Decoder(tf_keras.layers.Layer):
    """The decoder; see `network.gnmt` for the architecture, and why attention needs no loop over time.

    Args:
      units: of each LSTM and of attention.
      layers: number of LSTMs.
      dropout: dropout rate of each LSTM's input.
      initial_scale: all weights are initialised uniformly in [-initial_scale, initial_scale].
      recompute: whether the backward pass computes the activations of each LSTM and of attention again.
    """

    def __init__(
        self,
        units: int,
        *,
        layers: int,
        dropout: float,
        initial_scale: float,
        recompute: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._recompute = recompute
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

        def all_steps(layer: int, inputs: tf.Tensor) -> tf.Tensor:
            return in_turn([self.dropouts[layer], self.lstms[layer]], self._recompute)(inputs, training=training)

        def attend(query: tf.Tensor) -> tf.Tensor:
            if not self._recompute:
                return self.attention(query, memory)[0]
            return Block(self._attend, [self.attention])(query, *memory, training=training)

        return self._layers(embedded, all_steps, attend)

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
        attended: list[tf.Tensor] = []
        hypotheses = embedded.shape[1]

        def one_step(layer: int, inputs: tf.Tensor) -> tf.Tensor:
            rows = [tf.reshape(value, [-1, value.shape[-1]]) for value in (inputs, *state[layer])]
            stepped = self.lstms[layer].step(rows[0], rows[1:])
            after.append(tuple(tf.reshape(value, [-1, hypotheses, value.shape[-1]]) for value in stepped))
            return after[-1][0]

        def attend(query: tf.Tensor) -> tf.Tensor:
            context, weights = self.attention(query, memory)
            attended.append(weights)
            return context

        values = self._layers(tf.cast(embedded, self.compute_dtype), one_step, attend)
        return values, tuple(after), attended[0]

    def _attend(
        self, query: tf.Tensor, values: tf.Tensor, keys: tf.Tensor, mask: tf.Tensor, training: bool | None
    ) -> tf.Tensor:
        """The context; `training` is an argument of every block's function."""
        del training
        context: tf.Tensor = self.attention(query, Memory(values, keys, mask))[0]
        return context

    def _layers(
        self,
        values: tf.Tensor,
        run: Callable[[int, tf.Tensor], tf.Tensor],
        attend: Callable[[tf.Tensor], tf.Tensor],
    ) -> tf.Tensor:
        """The output of the layers, each run by `run(layer, inputs)`, and attention by `attend(query)`."""
        values = run(0, values)
        context = attend(values)
        for layer in range(1, len(self.lstms)):
            outputs = run(layer, tf.concat([values, context], axis=-1))
            values = outputs + values if layer >= FIRST_RESIDUAL else outputs
        return values
