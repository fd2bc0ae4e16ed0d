"""GNMT's encoder: a bidirectional LSTM, then a stack of LSTMs."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfbigbatch.models.recompute import in_turn
from tfbigbatch.models.sequence_lstm import SequenceLSTM

# Index of the first LSTM with a residual connection.
FIRST_RESIDUAL = 2


class Encoder(tf_keras.layers.Layer):
    """The encoder of sentences padded at their end; see `network.gnmt` for the architecture.

    No LSTM is masked. In the forward direction padding follows the real tokens; the backward layer reads each sentence
    reversed within its length, so that padding is last there too. Outputs at padding are meaningless, and attention
    masks them.

    Args:
      units: of each LSTM; the first layer has as many in each direction, concatenated.
      layers: number of LSTMs, counting the two directions as one.
      dropout: dropout rate of each LSTM's input.
      initial_scale: all weights are initialised uniformly in [-initial_scale, initial_scale].
      recompute: whether the backward pass computes the activations of each LSTM again.
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
        self.forward, self.backward, *self.lstms = [
            SequenceLSTM(units, initial_scale=initial_scale, name=name)
            for name in ("forward", "backward", *(f"lstm_{layer}" for layer in range(1, layers)))
        ]
        self.dropouts = [tf_keras.layers.Dropout(dropout, name=f"dropout_{layer}") for layer in range(layers)]

    def call(self, embedded: tf.Tensor, lengths: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """From [n, S, width] and int32 lengths [n] to [n, S, units]; with one layer, to [n, S, 2 * units]."""
        values = self.dropouts[0](embedded, training=training)
        reverse = tf.reverse_sequence(values, lengths, seq_axis=1)
        turned = tf.reverse_sequence(self._run([self.backward], reverse, training), lengths, seq_axis=1)
        values = tf.concat([self._run([self.forward], values, training), turned], axis=-1)
        for layer, lstm in enumerate(self.lstms, 1):
            outputs = self._run([self.dropouts[layer], lstm], values, training)
            values = outputs + values if layer >= FIRST_RESIDUAL else outputs
        return values

    def _run(self, layers: list[tf_keras.layers.Layer], values: tf.Tensor, training: bool | None) -> tf.Tensor:
        return in_turn(layers, self._recompute)(values, training=training)
