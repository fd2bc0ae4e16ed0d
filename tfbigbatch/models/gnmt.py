"""GNMT, version 2: the translation model of MLPerf v0.5 to v0.7, and its search.

`gnmt` builds the network and describes its architecture; `translate` searches translations with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
from keras import ops

from tfbigbatch.models.checks import check_sizes
from tfbigbatch.models.lstm import SequenceLSTM, uniform
from tfbigbatch.models.recompute import Block, in_turn

if TYPE_CHECKING:
    from tfbigbatch.models.beam_search import Hypotheses

# Index of the first LSTM with a residual connection, in the encoder and in the decoder.
FIRST_RESIDUAL = 2
# Of a score that is masked: the least number of float32.
_LEAST = -3.4028235e38


class Memory(NamedTuple):
    """Encoded sentences, as attention reads them."""

    values: Any
    """[n, S, width] of the compute dtype."""
    keys: Any
    """[n, S, units] of the compute dtype."""
    mask: Any
    """bool [n, S], true for real tokens."""


@keras.saving.register_keras_serializable(package="tfbigbatch")
class NormedBahdanau(keras.layers.Layer):
    """Additive attention with a normalised score vector.

        score(query, key) = g * v . tanh(W_q query + W_k key + b) / |v|

    Bahdanau et al. 2015 (arXiv:1409.0473), section A.1.2, with the weight normalisation of Salimans & Kingma 2016
    (arXiv:1602.07868): the `normed_bahdanau` of Luong et al.'s tfnmt, and the attention of MLPerf's GNMT.
    g is initialised with 1 / sqrt(units), b with 0.

    keras.layers.AdditiveAttention has no matrices, g or b. Scores and weights are float32 at every precision.

    Args:
      units: width of queries and keys.
      initial_scale: the matrices and v are initialised uniformly in [-initial_scale, initial_scale].
    """

    def __init__(self, units: int, *, initial_scale: float = 0.1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units, self.initial_scale = units, initial_scale
        self.of_query, self.of_key = (
            keras.layers.Dense(units, use_bias=False, kernel_initializer=uniform(initial_scale), name=name)
            for name in ("query", "key")
        )

    def build(self, query_shape: Sequence[Any], values_shape: Sequence[Any]) -> None:
        """Makes the variables, which `memory` needs before the first call.

        Args:
          query_shape, values_shape: of the queries and of the encoded tokens; their last sizes are known.
        """
        self.v = self.add_weight(name="v", shape=[self.units], initializer=uniform(self.initial_scale))
        # Named as in normalisation layers, so that the usual exclusions from decay and trust ratio find them.
        self.g = self.add_weight(name="gamma", shape=[], initializer=keras.initializers.Constant(self.units**-0.5))
        self.b = self.add_weight(name="bias", shape=[self.units], initializer="zeros")
        self.of_query.build(query_shape)
        self.of_key.build(values_shape)

    def memory(self, values: Any, lengths: Any) -> Memory:
        """The encoded sentences that `call` attends to.

        Args:
          values: [n, S, width], encoded tokens.
          lengths: int32 [n], the number of real tokens, each 1 or more.

        Returns:
          `Memory`. Its keys include b: added here, it costs one pass over the source instead of one over all pairs.
        """
        keys = self.of_key(values)
        mask = _places(values) < ops.expand_dims(lengths, 1)
        return Memory(ops.cast(values, self.compute_dtype), keys + ops.cast(self.b, keys.dtype), mask)

    def call(self, query: Any, memory: Memory) -> tuple[Any, Any]:
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
        pairs = ops.tanh(self.of_query(query)[:, :, None] + memory.keys[:, None])
        v = ops.cast(self.v, "float32")
        direction = ops.cast(self.g, "float32") * v * ops.rsqrt(ops.sum(v * v))
        # As a product of two matrices: TensorFlow 2.20's own broadcasting one writes past its memory on CPUs.
        flat = ops.reshape(ops.cast(pairs, "float32"), (-1, self.units))
        scores = ops.reshape(ops.matmul(flat, direction[:, None]), ops.shape(pairs)[:3])
        weights = ops.softmax(ops.where(ops.expand_dims(memory.mask, 1), scores, _LEAST), axis=-1)
        return ops.matmul(ops.cast(weights, memory.values.dtype), memory.values), weights

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units, "initial_scale": self.initial_scale}


class _Stack(keras.layers.Layer):
    """What encoder and decoder share; the arguments are those of `gnmt`.

    Args:
      names: of the LSTMs.
    """

    def __init__(
        self,
        units: int,
        *,
        layers: int,
        names: Sequence[str],
        dropout: float = 0.2,
        initial_scale: float = 0.1,
        recompute: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        # Recomputation is a way to train, and no part of a saved network.
        self._config = {"units": units, "layers": layers, "dropout": dropout, "initial_scale": initial_scale}
        self._recompute = recompute
        self._all_lstms = [
            SequenceLSTM(
                units,
                return_sequences=True,
                unit_forget_bias=False,
                kernel_initializer=uniform(initial_scale),
                recurrent_initializer=uniform(initial_scale),
                bias_initializer=uniform(initial_scale),
                name=name,
            )
            for name in names
        ]
        self.dropouts = [keras.layers.Dropout(dropout, name=f"dropout_{layer}") for layer in range(layers)]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._config}

    def _runner(self, training: bool | None) -> Callable[..., Any]:
        """A function of values and layers, which runs them in turn."""
        return lambda values, *layers: in_turn(layers, self._recompute)(values, training=training)


@keras.saving.register_keras_serializable(package="tfbigbatch", name="GNMTEncoder")
class Encoder(_Stack):
    """The encoder of sentences padded at their end; the arguments are those of `gnmt`.

    No LSTM is masked. In the forward direction padding follows the real tokens; the backward layer reads each sentence
    reversed within its length, so that padding is last there too. Outputs at padding are meaningless, and attention
    masks them.
    """

    def __init__(self, units: int, *, layers: int, **options: Any) -> None:
        names = ["forward", "backward", *(f"lstm_{layer}" for layer in range(1, layers))]
        super().__init__(units, layers=layers, names=names, **options)
        self.forward, self.backward, *self.lstms = self._all_lstms

    def build(self, embedded_shape: Sequence[Any], lengths_shape: Any = None) -> None:
        units = self.forward.units
        self.forward.build(embedded_shape)
        self.backward.build(embedded_shape)
        for width, lstm in zip([2 * units, *[units] * len(self.lstms)], self.lstms):
            lstm.build((None, None, width))

    def call(self, embedded: Any, lengths: Any, training: bool | None = None) -> Any:
        """From [n, S, width] and int32 lengths [n] to [n, S, units]; with one layer, to [n, S, 2 * units]."""
        run = self._runner(training)
        values = run(embedded, self.dropouts[0])
        turned = _turned(run(_turned(values, lengths), self.backward), lengths)
        values = ops.concatenate([run(values, self.forward), turned], axis=-1)
        for layer, lstm in enumerate(self.lstms, 1):
            outputs = run(values, self.dropouts[layer], lstm)
            values = outputs + values if layer >= FIRST_RESIDUAL else outputs
        return values


@keras.saving.register_keras_serializable(package="tfbigbatch", name="GNMTDecoder")
class Decoder(_Stack):
    """The decoder; the arguments are those of `gnmt`, which also says why attention needs no loop over time."""

    def __init__(self, units: int, *, layers: int, initial_scale: float = 0.1, **options: Any) -> None:
        names = [f"lstm_{layer}" for layer in range(layers)]
        super().__init__(units, layers=layers, names=names, initial_scale=initial_scale, **options)
        self.lstms = self._all_lstms
        self.attention = NormedBahdanau(units, initial_scale=initial_scale, name="attention")

    def build(self, embedded_shape: Sequence[Any], encoded_shape: Sequence[Any], lengths_shape: Any = None) -> None:
        units = self.attention.units
        self.lstms[0].build(embedded_shape)
        for lstm in self.lstms[1:]:
            lstm.build((None, None, units + encoded_shape[-1]))
        self.attention.build((None, None, units), encoded_shape)

    def call(self, embedded: Any, encoded: Any, lengths: Any, training: bool | None = None) -> Any:
        """All time steps of known targets.

        Args:
          embedded: [n, T, width], the tokens before those to predict.
          encoded: [n, S, any], the encoder's output.
          lengths: int32 [n], real tokens of each source.

        Returns:
          [n, T, units].
        """
        memory, run = self.attention.memory(encoded, lengths), self._runner(training)

        def all_steps(layer: int, inputs: Any) -> Any:
            return run(inputs, self.dropouts[layer], self.lstms[layer])

        def attend(query: Any) -> Any:
            if not self._recompute:
                return self.attention(query, memory)[0]
            return Block(self._attend, [self.attention])(query, *memory, training=training)

        return self._layers_run(embedded, all_steps, attend)

    def step(self, embedded: Any, state: tuple[Any, ...], memory: Memory) -> tuple[Any, tuple[Any, ...], Any]:
        """One time step of k hypotheses for each of n sentences, without dropout.

        Args:
          embedded: [n, k, width] of a static k, the previous token.
          state: a tuple of each layer's (output, cell): [n, k, units] of the compute dtype, and float32.
          memory: of the n sentences; see `NormedBahdanau.memory`.

        Returns:
          [n, k, units], the next state, and the float32 attention weights [n, k, S].
        """
        after: list[tuple[Any, ...]] = []
        attended: list[Any] = []
        hypotheses = embedded.shape[1]

        def one_step(layer: int, inputs: Any) -> Any:
            rows = [ops.reshape(value, (-1, value.shape[-1])) for value in (inputs, *state[layer])]
            stepped = self.lstms[layer].step(rows[0], rows[1:])
            after.append(tuple(ops.reshape(value, (-1, hypotheses, value.shape[-1])) for value in stepped))
            return after[-1][0]

        def attend(query: Any) -> Any:
            context, weights = self.attention(query, memory)
            attended.append(weights)
            return context

        values = self._layers_run(ops.cast(embedded, self.compute_dtype), one_step, attend)
        return values, tuple(after), attended[0]

    def _attend(self, query: Any, values: Any, keys: Any, mask: Any, training: bool | None) -> Any:
        """The context; `training` is an argument of every block's function."""
        del training
        return self.attention(query, Memory(values, keys, mask))[0]

    def _layers_run(self, values: Any, run: Callable[[int, Any], Any], attend: Callable[[Any], Any]) -> Any:
        """The output of the layers, each run by `run(layer, inputs)`, and attention by `attend(query)`."""
        values = run(0, values)
        context = attend(values)
        for layer in range(1, len(self.lstms)):
            outputs = run(layer, ops.concatenate([values, context], axis=-1))
            values = outputs + values if layer >= FIRST_RESIDUAL else outputs
        return values


@keras.saving.register_keras_serializable(package="tfbigbatch")
class GNMT(keras.Model):
    """The network that `gnmt` builds; `encode` and `step` run the same weights one token at a time."""

    @property
    def embedding(self) -> keras.layers.Embedding:
        """The layer of the pieces of source and target."""
        return self.get_layer("embedding")

    @property
    def encoder(self) -> Encoder:
        """The layer of the sources."""
        return self.get_layer("encoder")

    @property
    def decoder(self) -> Decoder:
        """The layer of the targets."""
        return self.get_layer("decoder")

    @property
    def classifier(self) -> keras.layers.Dense:
        """The layer of the logits."""
        return self.get_layer("classifier")

    def encode(self, source_ids: Any, source_lengths: Any) -> Memory:
        """The encoded sources for `step`, from int32 [n, S], padded at the end, and their lengths, int32 [n]."""
        encoded = self.encoder(self.embedding(source_ids), source_lengths, training=False)
        return self.decoder.attention.memory(encoded, source_lengths)

    def initial_state(self, sentences: Any) -> tuple[Any, ...]:
        """The state before the first token: each layer's (output, cell), zeros of [sentences, units]."""
        return tuple(lstm.zero_state(sentences) for lstm in self.decoder.lstms)

    def step(self, tokens: Any, state: tuple[Any, ...], memory: Memory) -> tuple[Any, tuple[Any, ...], Any]:
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
        return ops.cast(self.classifier(values), "float32"), state, weights


def gnmt(
    *,
    vocabulary_size: int,
    hidden_units: int = 1024,
    encoder_layers: int = 4,
    decoder_layers: int = 4,
    embedding_units: int | None = None,
    dropout: float = 0.2,
    initial_scale: float = 0.1,
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
      recompute: whether the backward pass computes the activations of each LSTM and of attention again; see
        `recompute.Block`.

    Returns:
      `GNMT`, from a dictionary of 'source_ids', int32 [n, S], padded at the end; 'source_lengths', int32 [n], 1 or
      more; and 'target_ids', int32 [n, T], the begin token and the target; to float32 logits
      [n, T, vocabulary_size], at t for the token after target_ids[:, t].

    Raises:
      ValueError: a size is out of range.
    """
    sizes: dict[str, Any] = {"vocabulary_size": vocabulary_size, "hidden_units": hidden_units}
    sizes |= {"encoder_layers": encoder_layers, "decoder_layers": decoder_layers}
    sizes["embedding_units"] = hidden_units if embedding_units is None else embedding_units
    check_sizes(**sizes)
    embedding = keras.layers.Embedding(
        vocabulary_size, sizes["embedding_units"], embeddings_initializer=uniform(initial_scale), name="embedding"
    )
    classifier = keras.layers.Dense(
        vocabulary_size,
        kernel_initializer=uniform(initial_scale),
        bias_initializer=uniform(initial_scale),
        name="classifier",
    )
    fields: dict[str, Any] = {"dropout": dropout, "initial_scale": initial_scale}
    encoder = Encoder(hidden_units, layers=encoder_layers, recompute=recompute, name="encoder", **fields)
    decoder = Decoder(hidden_units, layers=decoder_layers, recompute=recompute, name="decoder", **fields)
    source = keras.Input((None,), dtype="int32", name="source_ids")
    lengths = keras.Input((), dtype="int32", name="source_lengths")
    target = keras.Input((None,), dtype="int32", name="target_ids")
    embedded = embedding(source), embedding(target)
    decoded = decoder(embedded[1], encoder(embedded[0], lengths), lengths)
    # The product in the compute dtype, the softmax in float32.
    logits = keras.layers.Activation("linear", dtype="float32", name="logits")(classifier(decoded))
    inputs = {"source_ids": source, "source_lengths": lengths, "target_ids": target}
    return GNMT(inputs, logits, name="gnmt")


def _places(values: Any) -> Any:
    """The place of each token in its sentence, int32 [n, S]; also where S is not known."""
    return ops.cumsum(ops.ones_like(values[:, :, 0], dtype="int32"), axis=1) - 1


def _turned(values: Any, lengths: Any) -> Any:
    """Sentences [n, S, width] in the reverse order of their real tokens; padding stays behind them."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.reverse_sequence(values, lengths, seq_axis=1)
    places, ends = _places(values), ops.expand_dims(lengths, 1)
    source = ops.where(places < ends, ends - 1 - places, places)
    return ops.take_along_axis(values, ops.expand_dims(source, -1), axis=1)


def translate(
    network: GNMT,
    source_ids: Any,
    source_lengths: Any,
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
    import tensorflow as tf

    from tfbigbatch.models.beam_search import beam_search

    memory = network.encode(source_ids, source_lengths)
    n = source_ids.shape[0] or tf.shape(source_ids)[0]

    def step(tokens: Any, state: Any) -> tuple[Any, Any, Any]:
        return network.step(tokens, state, memory)

    return beam_search(step, network.initial_state(n), tf.fill([n], begin_token), source_mask=memory.mask, **search)
