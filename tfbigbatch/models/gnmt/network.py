"""GNMT, version 2: the translation model of MLPerf v0.5 to v0.7."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfbigbatch.models import recompute as recomputation
from tfbigbatch.models.gnmt.attention import Memory
from tfbigbatch.models.gnmt.decoder import Decoder
from tfbigbatch.models.gnmt.encoder import Encoder
from tfbigbatch.models.rebuilt import RebuiltModel
from tfbigbatch.models.recurrent import check_sizes, uniform


@tf_keras.saving.register_keras_serializable(package="tfbigbatch")
class GNMT(RebuiltModel):
    """The network that `gnmt` builds; `encode` and `step` run the same weights one token at a time.

    Attributes:
      embedding, encoder, decoder, classifier: its layers.
    """

    def __init__(
        self,
        inputs: Any,
        outputs: Any,
        *,
        embedding: tf_keras.layers.Layer,
        encoder: Encoder,
        decoder: Decoder,
        classifier: tf_keras.layers.Layer,
        arguments: dict[str, Any],
    ) -> None:
        super().__init__(inputs, outputs, builder="gnmt", arguments=arguments, name="gnmt")
        self.embedding, self.encoder, self.decoder, self.classifier = embedding, encoder, decoder, classifier

    def encode(self, source_ids: tf.Tensor, source_lengths: tf.Tensor) -> Memory:
        """The encoded sources for `step`, from int32 [n, S], padded at the end, and their lengths, int32 [n]."""
        encoded = self.encoder(self.embedding(source_ids), source_lengths, training=False)
        return self.decoder.attention.memory(encoded, source_lengths)

    def initial_state(self, sentences: Any) -> tuple[Any, ...]:
        """The state before the first token: each layer's (output, cell), zeros of [sentences, units]."""
        return tuple(lstm.zero_state(sentences) for lstm in self.decoder.lstms)

    def step(
        self, tokens: tf.Tensor, state: tuple[Any, ...], memory: Memory
    ) -> tuple[tf.Tensor, tuple[Any, ...], tf.Tensor]:
        """One step of k hypotheses for each of n sentences.

        Args:
          tokens: int32 [n, k], the previous tokens; at first the begin token.
          state: as `initial_state`, but [n, k, units].
          memory: the result of `encode` for the n sentences.

        Returns:
          float32 logits [n, k, vocabulary_size]; the next state; and the float32 attention weights [n, k, S], 0 on
          padding.
        """
        values, state, weights = self.decoder.step(self.embedding(tokens), state, memory)
        return tf.cast(self.classifier(values), tf.float32), state, weights


def gnmt(
    *,
    vocabulary_size: int,
    hidden_units: int = 1024,
    encoder_layers: int = 4,
    decoder_layers: int = 4,
    embedding_units: int | None = None,
    dropout: float = 0.2,
    initial_scale: float = 0.1,
    source_length: int | None = None,
    target_length: int | None = None,
    recompute: bool = False,
) -> GNMT:
    """GNMT v2, as the `gnmt` of MLPerf's reference and of NVIDIA/DeepLearningExamples (PyTorch/Translation/GNMT).

    In Wu et al. 2016 (arXiv:1609.08144) the attention's query is the decoder's output of the previous time step, so
    training needs a loop over time. In version 2 it is the first decoder LSTM's output of the same time step, and the
    input of that LSTM is the target's embedding without context (the reference's `RecurrentAttention`). With known
    targets, the first LSTM then runs over all time steps, attention runs for all of them at once, and then the other
    LSTMs.

    Encoder: a bidirectional LSTM with `hidden_units` in each direction, then a stack of LSTMs. Decoder: the first
    LSTM, then LSTMs that each read the layer below concatenated with the same context. From the third layer on, in
    both, a layer's input without context is added to its output. The classifier reads the last layer without context.
    Dropout is applied to the input of each LSTM, context included. Source and target share one embedding; the
    classifier has its own matrix. All weights are initialised uniformly; for attention's see `NormedBahdanau`.

    Args:
      vocabulary_size: tokens of the joint vocabulary.
      hidden_units: of each LSTM and of attention.
      encoder_layers, decoder_layers: number of LSTMs.
      embedding_units: width of the embedding; None for hidden_units, as in the reference.
      dropout: dropout rate.
      initial_scale: weights are initialised in [-initial_scale, initial_scale].
      source_length, target_length: S and T, where they should be static.
      recompute: whether the backward pass computes the activations of each LSTM and of attention again; see
        `recompute.Block`.

    Returns:
      `GNMT`, from a dictionary of 'source_ids', int32 [n, S], padded at the end; 'source_lengths', int32 [n], 1 or
      more; and 'target_ids', int32 [n, T], the begin token and the target; to float32 logits
      [n, T, vocabulary_size], at t for the token after target_ids[:, t].

    Raises:
      ValueError: a size or rate is out of range.
    """
    embedding_units = hidden_units if embedding_units is None else embedding_units
    fields: dict[str, Any] = {"dropout": dropout, "initial_scale": initial_scale}
    sizes: dict[str, Any] = {"vocabulary_size": vocabulary_size, "hidden_units": hidden_units}
    sizes |= {"encoder_layers": encoder_layers, "decoder_layers": decoder_layers, "embedding_units": embedding_units}
    check_sizes(**sizes, **fields)
    recomputation.check(recompute)
    lengths = {"source_length": source_length, "target_length": target_length}
    layers: dict[str, Any] = {
        **_ends(vocabulary_size, embedding_units, initial_scale),
        "encoder": Encoder(hidden_units, layers=encoder_layers, recompute=recompute, name="encoder", **fields),
        "decoder": Decoder(hidden_units, layers=decoder_layers, recompute=recompute, name="decoder", **fields),
    }
    return _connected(_inputs(**lengths), layers, {**sizes, **fields, **lengths})


def _inputs(source_length: int | None, target_length: int | None) -> dict[str, Any]:
    return {
        "source_ids": tf_keras.Input((source_length,), dtype=tf.int32, name="source_ids"),
        "source_lengths": tf_keras.Input((), dtype=tf.int32, name="source_lengths"),
        "target_ids": tf_keras.Input((target_length,), dtype=tf.int32, name="target_ids"),
    }


def _ends(vocabulary_size: int, embedding_units: int, initial_scale: float) -> dict[str, Any]:
    """The shared embedding and the classifier."""
    return {
        "embedding": tf_keras.layers.Embedding(
            vocabulary_size, embedding_units, embeddings_initializer=uniform(initial_scale), name="embedding"
        ),
        "classifier": tf_keras.layers.Dense(
            vocabulary_size,
            kernel_initializer=uniform(initial_scale),
            bias_initializer=uniform(initial_scale),
            name="classifier",
        ),
    }


def _connected(inputs: dict[str, tf.Tensor], layers: dict[str, Any], arguments: dict[str, Any]) -> GNMT:
    source, target = (layers["embedding"](inputs[name]) for name in ("source_ids", "target_ids"))
    encoded = layers["encoder"](source, inputs["source_lengths"])
    decoded = layers["decoder"](target, encoded, inputs["source_lengths"])
    # The product in the compute dtype, the softmax in float32.
    logits = tf_keras.layers.Activation("linear", dtype=tf.float32, name="logits")(layers["classifier"](decoded))
    return GNMT(inputs, logits, arguments=arguments, **layers)
