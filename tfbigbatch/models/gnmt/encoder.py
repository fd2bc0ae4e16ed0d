"""GNMT's encoder: a bidirectional LSTM, then LSTMs one upon the other."""

import tensorflow as tf
import tf_keras

from tfbigbatch.models.sequence_lstm import SequenceLSTM

# The first LSTM, counted from 0, whose input is added to its output.
FIRST_RESIDUAL = 2


class Encoder(tf_keras.layers.Layer):
    """Encodes sentences that are padded at their end; see `gnmt` for its place in the network.

    No LSTM is masked. Reading forward, padding comes after all that counts; the layer that reads backward is given
    each sentence turned round within its length, so that it too meets the padding last. What stands at padding in
    the output says nothing, and attention leaves it out.

    Args:
      units: of each LSTM; the first layer has as many in each direction, side by side.
      layers: LSTMs one upon the other, counting the two directions as one.
      dropout: share of each LSTM's input dropped in training.
      initial_scale: all weights begin uniform in [-initial_scale, initial_scale].
    """

    def __init__(self, units, *, layers, dropout, initial_scale, **kwargs):
        super().__init__(**kwargs)
        self.forward, self.backward, *self.lstms = [
            SequenceLSTM(units, initial_scale=initial_scale, name=name)
            for name in ("forward", "backward", *(f"lstm_{layer}" for layer in range(1, layers)))
        ]
        self.dropouts = [tf_keras.layers.Dropout(dropout, name=f"dropout_{layer}") for layer in range(layers)]

    def call(self, embedded, lengths, training=None):
        """From [n, S, width] and int32 lengths [n] to [n, S, units]; of one layer, to [n, S, 2 * units]."""
        values = self.dropouts[0](embedded, training=training)
        turned = tf.reverse_sequence(
            self.backward(tf.reverse_sequence(values, lengths, seq_axis=1)), lengths, seq_axis=1
        )
        values = tf.concat([self.forward(values), turned], axis=-1)
        for layer, lstm in enumerate(self.lstms, 1):
            outputs = lstm(self.dropouts[layer](values, training=training))
            values = outputs + values if layer >= FIRST_RESIDUAL else outputs
        return values
