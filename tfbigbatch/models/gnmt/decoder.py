"""GNMT's decoder: an LSTM that looks at the source, and LSTMs upon it that get what it saw."""

import tensorflow as tf
import tf_keras

from tfbigbatch.models.gnmt.attention import NormedBahdanau
from tfbigbatch.models.gnmt.encoder import FIRST_RESIDUAL
from tfbigbatch.models.sequence_lstm import SequenceLSTM


class Decoder(tf_keras.layers.Layer):
    """Decodes; see `gnmt` for its place in the network, and for why attention needs no loop over time.

    Args:
      units: of each LSTM and of attention.
      layers: LSTMs one upon the other.
      dropout: share of each LSTM's input dropped in training.
      initial_scale: all weights begin uniform in [-initial_scale, initial_scale].
    """

    def __init__(self, units, *, layers, dropout, initial_scale, **kwargs):
        super().__init__(**kwargs)
        self.lstms = [SequenceLSTM(units, initial_scale=initial_scale, name=f"lstm_{layer}") for layer in range(layers)]
        self.dropouts = [tf_keras.layers.Dropout(dropout, name=f"dropout_{layer}") for layer in range(layers)]
        self.attention = NormedBahdanau(units, initial_scale=initial_scale, name="attention")

    def call(self, embedded, encoded, lengths, training=None):
        """All time steps of known targets.

        Args:
          embedded: [n, T, width], the tokens before those that are to be foretold.
          encoded: [n, S, any], what the encoder gave.
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

    def step(self, embedded, state, memory):
        """One time step of k hypotheses for each of n sentences, without dropout.

        Args:
          embedded: [n, k, width] of a static k, the token before.
          state: a tuple of each layer's (output, cell): [n, k, units] of the compute dtype, and float32.
          memory: of the n sentences; see `NormedBahdanau.memory`.

        Returns:
          [n, k, units], the state after the step, and attention's float32 shares [n, k, S].
        """
        after, hypotheses = [], embedded.shape[1]

        def one_step(layer, inputs):
            rows = [tf.reshape(value, [-1, value.shape[-1]]) for value in (inputs, *state[layer])]
            stepped = self.lstms[layer].step(rows[0], rows[1:])
            after.append(tuple(tf.reshape(value, [-1, hypotheses, value.shape[-1]]) for value in stepped))
            return after[-1][0]

        values, shares = self._layers(tf.cast(embedded, self.compute_dtype), memory, one_step)
        return values, tuple(after), shares

    def _layers(self, values, memory, run):
        """The layers, each run by `run(layer, inputs)`: (values, attention's shares)."""
        values = run(0, values)
        context, shares = self.attention(values, memory)
        for layer in range(1, len(self.lstms)):
            outputs = run(layer, tf.concat([values, context], axis=-1))
            values = outputs + values if layer >= FIRST_RESIDUAL else outputs
        return values, shares
