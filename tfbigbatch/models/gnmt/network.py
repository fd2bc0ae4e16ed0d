"""GNMT, version 2: the translation model of MLPerf v0.5 to v0.7."""

import tensorflow as tf
import tf_keras

from tfbigbatch.errors import InputError
from tfbigbatch.models.gnmt.decoder import Decoder
from tfbigbatch.models.gnmt.encoder import Encoder


class GNMT(tf_keras.Model):
    """The network that `gnmt` builds, and the same weights one token after the other.

    Attributes:
      embedding, encoder, decoder, classifier: its layers.
    """

    def __init__(self, inputs, outputs, *, embedding, encoder, decoder, classifier):
        super().__init__(inputs, outputs, name="gnmt")
        self.embedding, self.encoder, self.decoder, self.classifier = embedding, encoder, decoder, classifier

    def encode(self, source_ids, source_lengths):
        """What `step` needs of the sources: int32 [n, S], padded at their end, and their lengths, int32 [n].

        Returns:
          `bahdanau.Memory`.
        """
        encoded = self.encoder(self.embedding(source_ids), source_lengths, training=False)
        return self.decoder.attention.memory(encoded, source_lengths)

    def initial_state(self, sentences):
        """The state before the first token: each layer's (output, cell), zeros of [sentences, units]."""
        return tuple(lstm.zero_state(sentences) for lstm in self.decoder.lstms)

    def step(self, tokens, state, memory):
        """One step of k hypotheses for each of n sentences.

        Args:
          tokens: int32 [n, k], the token before; at first that which begins a target.
          state: as `initial_state`, but [n, k, units].
          memory: what `encode` gave for the n sentences, whatever k.

        Returns:
          float32 logits [n, k, vocabulary_size]; the state after the step; and attention's float32 shares
          [n, k, S], 0 on padding.
        """
        values, state, shares = self.decoder.step(self.embedding(tokens), state, memory)
        return tf.cast(self.classifier(values), tf.float32), state, shares


def gnmt(
    *,
    vocabulary_size,
    hidden_units=1024,
    encoder_layers=4,
    decoder_layers=4,
    embedding_units=None,
    dropout=0.2,
    initial_scale=0.1,
    source_length=None,
    target_length=None,
):
    """GNMT v2, as the `gnmt` of MLPerf's reference and of NVIDIA/DeepLearningExamples (PyTorch/Translation/GNMT).

    Wu et al. 2016 (arXiv:1609.08144) feed attention with the decoder's output of the step before, so that training
    must go step by step. In version 2 the query is the first decoder LSTM's output of the same step, and that LSTM
    gets the target's embedding alone, no context (the reference's `RecurrentAttention`). With known targets, then,
    all time steps of the first LSTM come first, attention for all of them at once, and after it the other LSTMs.

    Encoder: a bidirectional LSTM with `hidden_units` in each direction, then LSTMs one upon the other. Decoder: the
    first LSTM, then LSTMs each of which gets the layer below it side by side with the same context. From the third
    layer on, in both, a layer's input without context is added to its output. The classifier gets the last layer,
    and no context. Dropout is on what goes into each LSTM, context too. One embedding serves source and target; the
    classifier has its own matrix. All weights begin uniform; for attention's see `NormedBahdanau`.

    Args:
      vocabulary_size: tokens of the joint vocabulary.
      hidden_units: of each LSTM and of attention.
      encoder_layers, decoder_layers: LSTMs one upon the other.
      embedding_units: width of the embedding; None for hidden_units, as in the reference.
      dropout: share dropped in training.
      initial_scale: weights begin in [-initial_scale, initial_scale].
      source_length, target_length: S and T, where they are to be static.

    Returns:
      `GNMT`, from a dictionary of 'source_ids', int32 [n, S], padded at their end; 'source_lengths', int32 [n], 1
      and more; and 'target_ids', int32 [n, T], the target behind its begin token; to float32 logits
      [n, T, vocabulary_size], those at t of the token after target_ids[:, t].

    Raises:
      ValueError: a size or share is out of its range.
    """
    embedding_units = hidden_units if embedding_units is None else embedding_units
    sizes = {
        "vocabulary_size": vocabulary_size,
        "hidden_units": hidden_units,
        "encoder_layers": encoder_layers,
        "decoder_layers": decoder_layers,
        "embedding_units": embedding_units,
    }
    if min(sizes.values()) < 1 or not 0.0 <= dropout < 1.0 or initial_scale <= 0:
        given = ", ".join(f"{name}={size}" for name, size in sizes.items())
        raise InputError(
            f"{given}, dropout={dropout}, initial_scale={initial_scale}: expected sizes of 1 or more, "
            "0 <= dropout < 1, and initial_scale above 0."
        )

    def uniform():
        return tf_keras.initializers.RandomUniform(-initial_scale, initial_scale)

    fields = {"dropout": dropout, "initial_scale": initial_scale}
    layers = {
        "embedding": tf_keras.layers.Embedding(
            vocabulary_size, embedding_units, embeddings_initializer=uniform(), name="embedding"
        ),
        "encoder": Encoder(hidden_units, layers=encoder_layers, name="encoder", **fields),
        "decoder": Decoder(hidden_units, layers=decoder_layers, name="decoder", **fields),
        "classifier": tf_keras.layers.Dense(
            vocabulary_size, kernel_initializer=uniform(), bias_initializer=uniform(), name="classifier"
        ),
    }
    inputs = {
        "source_ids": tf_keras.Input((source_length,), dtype=tf.int32, name="source_ids"),
        "source_lengths": tf_keras.Input((), dtype=tf.int32, name="source_lengths"),
        "target_ids": tf_keras.Input((target_length,), dtype=tf.int32, name="target_ids"),
    }
    source, target = (layers["embedding"](inputs[name]) for name in ("source_ids", "target_ids"))
    encoded = layers["encoder"](source, inputs["source_lengths"])
    decoded = layers["decoder"](target, encoded, inputs["source_lengths"])
    # The product of the compute dtype, its softmax of float32.
    logits = tf_keras.layers.Activation("linear", dtype=tf.float32, name="logits")(layers["classifier"](decoded))
    return GNMT(inputs, logits, **layers)
