"""GNMT, version 2: the translation model of MLPerf v0.5 to v0.7, and its search.

`gnmt` builds the network and describes its architecture; `translate` searches translations with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras

from tfbigbatch.models.beam_search import Hypotheses, beam_search
from tfbigbatch.models.checks import check_rates, check_recompute, check_sizes
from tfbigbatch.models.lstm import SequenceLSTM, uniform
from tfbigbatch.models.rebuilt import RebuiltModel
from tfbigbatch.models.recompute import Block, in_turn

# Index of the first LSTM with a residual connection, in the encoder and in the decoder.
FIRST_RESIDUAL = 2


class Memory(NamedTuple):
    """Encoded sentences, as attention reads them."""

    values: tf.Tensor
    """[n, S, width] of the compute dtype."""
    keys: tf.Tensor
    """[n, S, units] of the compute dtype."""
    mask: tf.Tensor
    """bool [n, S], true for real tokens."""


class NormedBahdanau(tf_keras.layers.Layer):
    """Additive attention with a normalised score vector.

        score(query, key) = g * v . tanh(W_q query + W_k key + b) / |v|

    Bahdanau et al. 2015 (arXiv:1409.0473), section A.1.2, with the weight normalisation of Salimans & Kingma 2016
    (arXiv:1602.07868): the `normed_bahdanau` of Luong et al.'s tfnmt, and the attention of MLPerf's GNMT.
    g is initialised with 1 / sqrt(units), b with 0.

    tf_keras.layers.AdditiveAttention has no matrices, g or b. Scores and weights are float32 at every precision.

    Args:
      units: width of queries and keys.
      initial_scale: the matrices and v are initialised uniformly in [-initial_scale, initial_scale].
    """

    def __init__(self, units: int, *, initial_scale: float = 0.1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units
        self._initial_v = uniform(initial_scale)
        self.of_query, self.of_key = (
            tf_keras.layers.Dense(units, use_bias=False, kernel_initializer=uniform(initial_scale), name=name)
            for name in ("query", "key")
        )

    def build(self, input_shape: Any) -> None:
        self.v = self.add_weight("v", [self.units], initializer=self._initial_v)
        # Named as in normalisation layers, so that the usual exclusions from decay and trust ratio find them.
        self.g = self.add_weight("gamma", [], initializer=tf_keras.initializers.Constant(self.units**-0.5))
        self.b = self.add_weight("bias", [self.units], initializer="zeros")
        super().build(input_shape)

    def memory(self, values: tf.Tensor, lengths: tf.Tensor) -> Memory:
        """The encoded sentences that `call` attends to.

        Args:
          values: [n, S, width], encoded tokens.
          lengths: int32 [n], the number of real tokens, each 1 or more.

        Returns:
          `Memory`. Its keys include b: added here, it costs one pass over the source instead of one over all pairs.
        """
        # The scope that Keras opens for `call`: the weights are named by it.
        with tf.name_scope(self.name):
            if not self.built:
                self.build(None)
            keys = self.of_key(values)
        mask = tf.sequence_mask(lengths, values.shape[1] or tf.shape(values)[1])
        return Memory(tf.cast(values, self.compute_dtype), keys + tf.cast(self.b, keys.dtype), mask)

    def call(self, query: tf.Tensor, memory: Memory) -> tuple[tf.Tensor, tf.Tensor]:
        """Attends.

        The tanh has n * T * S * units values, which training stores: the largest tensor of a GNMT except for its
        logits. Where memory is short, use micro-batches.

        Args:
          query: [n, T, any]: all time steps of a target, or all hypotheses of a beam.
          memory: `Memory` of the n sentences.

        Returns:
          context, [n, T, width] of the compute dtype, and float32 weights, [n, T, S], which sum to 1 over a
          sentence's real tokens and are 0 on its padding.
        """
        pairs = tf.tanh(self.of_query(query)[:, :, tf.newaxis] + memory.keys[:, tf.newaxis])
        v = tf.cast(self.v, tf.float32)
        direction = tf.cast(self.g, tf.float32) * v * tf.math.rsqrt(tf.reduce_sum(v * v))
        # As a product of two matrices: TensorFlow 2.20's own broadcasting one writes past its memory on CPUs.
        flat = tf.reshape(tf.cast(pairs, tf.float32), [-1, self.units])
        scores = tf.reshape(tf.matmul(flat, direction[:, tf.newaxis]), tf.shape(pairs)[:3])
        weights = tf.nn.softmax(tf.where(memory.mask[:, tf.newaxis], scores, scores.dtype.min), axis=-1)
        return tf.matmul(tf.cast(weights, memory.values.dtype), memory.values), weights


class Encoder(tf_keras.layers.Layer):
    """The encoder of sentences padded at their end; the arguments are those of `gnmt`.

    No LSTM is masked. In the forward direction padding follows the real tokens; the backward layer reads each sentence
    reversed within its length, so that padding is last there too. Outputs at padding are meaningless, and attention
    masks them.
    """

    def __init__(
        self, units: int, *, layers: int, dropout: float, initial_scale: float, recompute: bool, name: str
    ) -> None:
        super().__init__(name=name)
        self._recompute = recompute
        self.forward, self.backward, *self.lstms = [
            SequenceLSTM(units, initial_scale=initial_scale, name=name)
            for name in ("forward", "backward", *(f"lstm_{layer}" for layer in range(1, layers)))
        ]
        self.dropouts = [tf_keras.layers.Dropout(dropout, name=f"dropout_{layer}") for layer in range(layers)]

    def call(self, embedded: tf.Tensor, lengths: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """From [n, S, width] and int32 lengths [n] to [n, S, units]; with one layer, to [n, S, 2 * units]."""

        def run(values: tf.Tensor, *layers: tf_keras.layers.Layer) -> tf.Tensor:
            return in_turn(layers, self._recompute)(values, training=training)

        values = self.dropouts[0](embedded, training=training)
        reverse = tf.reverse_sequence(values, lengths, seq_axis=1)
        turned = tf.reverse_sequence(run(reverse, self.backward), lengths, seq_axis=1)
        values = tf.concat([run(values, self.forward), turned], axis=-1)
        for layer, lstm in enumerate(self.lstms, 1):
            outputs = run(values, self.dropouts[layer], lstm)
            values = outputs + values if layer >= FIRST_RESIDUAL else outputs
        return values


class Decoder(tf_keras.layers.Layer):
    """The decoder; the arguments are those of `gnmt`, which also says why attention needs no loop over time."""

    def __init__(
        self, units: int, *, layers: int, dropout: float, initial_scale: float, recompute: bool, name: str
    ) -> None:
        super().__init__(name=name)
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
    sizes: dict[str, Any] = {"vocabulary_size": vocabulary_size, "hidden_units": hidden_units}
    sizes |= {"encoder_layers": encoder_layers, "decoder_layers": decoder_layers}
    sizes["embedding_units"] = hidden_units if embedding_units is None else embedding_units
    check_sizes(**sizes)
    check_rates(dropout=dropout)
    check_recompute(recompute)
    embedding = tf_keras.layers.Embedding(
        vocabulary_size, sizes["embedding_units"], embeddings_initializer=uniform(initial_scale), name="embedding"
    )
    classifier = tf_keras.layers.Dense(
        vocabulary_size,
        kernel_initializer=uniform(initial_scale),
        bias_initializer=uniform(initial_scale),
        name="classifier",
    )
    fields: dict[str, Any] = {"dropout": dropout, "initial_scale": initial_scale}
    encoder = Encoder(hidden_units, layers=encoder_layers, recompute=recompute, name="encoder", **fields)
    decoder = Decoder(hidden_units, layers=decoder_layers, recompute=recompute, name="decoder", **fields)
    source = tf_keras.Input((source_length,), dtype=tf.int32, name="source_ids")
    lengths = tf_keras.Input((), dtype=tf.int32, name="source_lengths")
    target = tf_keras.Input((target_length,), dtype=tf.int32, name="target_ids")
    embedded = embedding(source), embedding(target)
    decoded = decoder(embedded[1], encoder(embedded[0], lengths), lengths)
    # The product in the compute dtype, the softmax in float32.
    logits = tf_keras.layers.Activation("linear", dtype=tf.float32, name="logits")(classifier(decoded))
    return GNMT(
        {"source_ids": source, "source_lengths": lengths, "target_ids": target},
        logits,
        embedding=embedding,
        encoder=encoder,
        decoder=decoder,
        classifier=classifier,
        arguments={**sizes, **fields, "source_length": source_length, "target_length": target_length},
    )


def translate(
    network: GNMT,
    source_ids: tf.Tensor,
    source_lengths: tf.Tensor,
    *,
    begin_token: int,
    **search: Any,
) -> Hypotheses:
    """The best translation of each sentence.

    In a tf.function with jit_compile=True, and static n and S, it is one XLA computation.

    Args:
      source_ids: int32 [n, S], padded at the end.
      source_lengths: int32 [n], 1 or more.
      begin_token: its id in the target's vocabulary.
      **search: the arguments of `beam_search`; MLPerf's are beam_size=5, length_penalty=0.6, coverage_penalty=0.1.

    Raises:
      ValueError: a number is out of range.
    """
    memory = network.encode(source_ids, source_lengths)
    n = source_ids.shape[0] or tf.shape(source_ids)[0]

    def step(tokens: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any, tf.Tensor]:
        return network.step(tokens, state, memory)

    return beam_search(step, network.initial_state(n), tf.fill([n], begin_token), source_mask=memory.mask, **search)
