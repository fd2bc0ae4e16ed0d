"""BERT (Devlin et al. 2018, arXiv:1810.04805), with heads for pretraining and tasks.

Variables have the paths and shapes of tf-models-official's BertEncoderV2 and MaskedLM. Attention and the lookup of the
masked positions are own code: `keras.layers.MultiHeadAttention` takes twice the time on a CPU, and
`keras.ops.take_along_axis` eight times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import keras
from keras import layers, ops

from tfbigbatch.errors import InputError, nearest
from tfbigbatch.models.checks import check_sizes
from tfbigbatch.models.recompute import Block
from tfbigbatch.models.sizes import BERT_INITIAL_DEVIATION

# From tokens to a vector of the text: BERT's pooler of the first token, or the mean of all tokens.
POOLINGS = ("first", "mean")
_INPUTS = ("input_word_ids", "input_mask", "input_type_ids")
_EPSILON = 1e-12


@keras.saving.register_keras_serializable("tfbigbatch", "BertLayerNorm")
class LayerNorm(layers.LayerNormalization):
    """Keras' layer normalisation over the last axis, in fewer passes over memory; it computes in float32."""

    def call(self, inputs: Any) -> Any:
        """[..., units], of the layer's compute dtype."""
        inputs = ops.cast(inputs, "float32")
        mean, variance = ops.moments(inputs, -1, keepdims=True)
        scale = ops.rsqrt(variance + self.epsilon) * self.gamma
        return ops.cast(inputs * scale + (self.beta - mean * scale), self.compute_dtype)


@keras.saving.register_keras_serializable("tfbigbatch")
class HeadsDense(layers.EinsumDense):
    """An EinsumDense to or from attention heads, as a product of two matrices; the arguments are those of EinsumDense.

    Its bias has all axes of the outputs but those of the batch and of the tokens, which come first in the inputs.
    """

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """float [n, T, *outputs] of float [n, T, *inputs]."""
        outputs = self.bias.shape
        units = math.prod(outputs)
        tokens = ops.shape(inputs)[1]
        kernel = ops.reshape(self.kernel, (-1, units))
        flat = ops.reshape(inputs, (-1, kernel.shape[0]))
        return ops.reshape(ops.matmul(flat, kernel) + ops.reshape(self.bias, (units,)), (-1, tokens, *outputs))


@keras.saving.register_keras_serializable("tfbigbatch")
class SelfAttention(layers.Layer):
    """Multi-head self-attention (Vaswani et al. 2017), with the variables of `keras.layers.MultiHeadAttention`.

    Args:
      heads: their number.
      units: of the inputs and outputs; a multiple of `heads`.
      dropout: dropout rate of the attention weights.
    """

    def __init__(self, heads: int, units: int, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.heads, self.units = heads, units
        to_heads, inner = "abc,cde->abde", (None, heads, units // heads)
        self.query, self.key, self.value = (
            HeadsDense(to_heads, inner, bias_axes="de", kernel_initializer=_initializer(), name=name)
            for name in ("query", "key", "value")
        )
        self.attention_output = HeadsDense(
            "abcd,cde->abe", (None, units), bias_axes="e", kernel_initializer=_initializer(), name="attention_output"
        )
        self.dropout = layers.Dropout(dropout)

    def build(self, values_shape: Any, mask_shape: Any = None) -> None:
        for layer in (self.query, self.key, self.value):
            layer.build(values_shape)
        self.attention_output.build((*values_shape[:-1], self.heads, self.units // self.heads))

    def call(self, values: Any, mask: Any, training: bool | None = None) -> Any:
        """float [n, T, units] of float [n, T, units], and a mask, int32 [n, T], 0 for tokens that none attends to."""
        query = ops.transpose(self.query(values) * (self.units // self.heads) ** -0.5, (0, 2, 1, 3))
        scores = ops.matmul(query, ops.transpose(self.key(values), (0, 2, 3, 1)))
        # The smallest number of float16, and tf_keras' choice for all others.
        lowest = -65504.0 if scores.dtype == "float16" else -1e9
        unseen = (1.0 - ops.cast(mask, scores.dtype)) * lowest
        shares = self.dropout(ops.softmax(scores + unseen[:, None, None, :]), training=training)
        attended = ops.matmul(shares, ops.transpose(self.value(values), (0, 2, 1, 3)))
        return self.attention_output(ops.transpose(attended, (0, 2, 1, 3)))

    def in_keras(self, twin: Callable[..., Any], values: Any, mask: Any) -> Any:
        """The same by Keras' own layer."""
        attention = layers.MultiHeadAttention(
            self.heads, self.units // self.heads, dropout=self.dropout.rate, name=self.name
        )
        attend = twin(attention, weights=self.get_weights())
        return attend(values, values, attention_mask=ops.expand_dims(mask > 0, 1))

    def get_config(self) -> dict[str, Any]:
        own = {"heads": self.heads, "units": self.units, "dropout": self.dropout.rate}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable("tfbigbatch")
class TransformerLayer(layers.Layer):
    """Self-attention and two dense layers, each pair with a residual connection and a layer normalisation after it.

    Args:
      heads, units, inner_units: the sizes; `heads` divides `units`.
      dropout: dropout rate of the outputs of attention and of the dense layers.
      attention_dropout: dropout rate of the attention weights.
    """

    def __init__(
        self, heads: int, units: int, inner_units: int, dropout: float, attention_dropout: float, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self._own: dict[str, Any] = {"heads": heads, "units": units, "inner_units": inner_units}
        self._own |= {"dropout": dropout, "attention_dropout": attention_dropout}
        self.self_attention = SelfAttention(heads, units, attention_dropout, name="self_attention")
        self.attended_dropout = layers.Dropout(dropout)
        self.self_attention_layer_norm = _norm("self_attention_layer_norm")
        self.intermediate = _dense(inner_units, "intermediate")
        # A layer's own attribute `output` is Keras'.
        self.output_dense = _dense(units, "output")
        self.output_dropout = layers.Dropout(dropout)
        self.output_layer_norm = _norm("output_layer_norm")

    def build(self, values_shape: Any, mask_shape: Any = None) -> None:
        self.self_attention.build(values_shape)
        self.self_attention_layer_norm.build(values_shape)
        self.intermediate.build(values_shape)
        self.output_dense.build((*values_shape[:-1], self.intermediate.units))
        self.output_layer_norm.build(values_shape)

    def call(self, values: Any, mask: Any, training: bool | None = None) -> Any:
        """float32 [n, T, units] of float [n, T, units] and a mask, int32 [n, T]."""
        attended = self.attended_dropout(self.self_attention(values, mask, training=training), training=training)
        # Under mixed precision the normalisations compute, and give, float32.
        values = self.self_attention_layer_norm(values + attended)
        inner = self.intermediate(values)
        # As tf-models-official: with the activation in bfloat16 LAMB converges less well.
        inner = ops.cast(inner, "float32") if inner.dtype == "bfloat16" else inner
        outer = self.output_dropout(self.output_dense(_gelu(inner)), training=training)
        return self.output_layer_norm(values + ops.cast(outer, "float32"))

    def in_keras(self, twin: Callable[..., Any], values: Any, mask: Any) -> Any:
        """The same by Keras' own layers."""
        attended = twin(self.attended_dropout)(twin(self.self_attention)(values, mask))
        values = twin(self.self_attention_layer_norm)(values + attended)
        outer = twin(self.output_dense)(_gelu(twin(self.intermediate)(values)))
        return twin(self.output_layer_norm)(values + twin(self.output_dropout)(outer))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._own}


@keras.saving.register_keras_serializable("tfbigbatch", "BertEncoder")
class Encoder(layers.Layer):
    """BERT's encoder.

    Args:
      vocabulary_size: number of word pieces.
      layers, hidden_units, heads, inner_units: the transformer's sizes; heads divides hidden_units.
      dropout: dropout rate of the embeddings and of each layer's outputs.
      attention_dropout: dropout rate of the attention weights.
      max_positions: the longest sequence.
      token_types: segments in a sequence at most.
      recompute: whether the backward pass computes the activations of each layer again; see `recompute.Block`. It is a
        way to train, and no part of a saved model.
      trains_pooler: False where nothing reads the pooled output, and so no gradient reaches the pooler.

    Raises:
      ValueError: a size is out of range.
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        layers: int,
        hidden_units: int,
        heads: int,
        inner_units: int,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        max_positions: int = 512,
        token_types: int = 2,
        recompute: bool = False,
        trains_pooler: bool = True,
        name: str = "encoder",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        sizes = {"layers": layers, "hidden_units": hidden_units, "heads": heads, "inner_units": inner_units}
        sizes |= {"max_positions": max_positions, "token_types": token_types, "vocabulary_size": vocabulary_size}
        rates = {"dropout": dropout, "attention_dropout": attention_dropout}
        check_sizes(**sizes)
        if hidden_units % heads:
            raise InputError(f"model.heads={heads} does not divide model.hidden_units={hidden_units}.")
        self._own: dict[str, Any] = {**sizes, **rates, "trains_pooler": trains_pooler}
        self._recompute = recompute
        self.hidden_units, self.vocabulary_size = hidden_units, vocabulary_size
        self.word_embeddings = _embedding(vocabulary_size, hidden_units, "word_embeddings")
        self.position_embedding = _embedding(max_positions, hidden_units, "position_embedding")
        self.type_embeddings = _embedding(token_types, hidden_units, "type_embeddings")
        self.layer_norm = _norm("layer_norm")
        self.embedding_dropout = keras.layers.Dropout(dropout, name="embedding_dropout")
        arguments = heads, hidden_units, inner_units, dropout, attention_dropout
        # As attributes: `tf.train.Checkpoint` passes over the layers in a list.
        for name in self._names:
            setattr(self, name, TransformerLayer(*arguments, name=name))
        self.pooler_transform = _dense(hidden_units, "pooler_transform", "tanh")
        self.pooler_transform.trainable = trains_pooler

    @property
    def transformer(self) -> list[TransformerLayer]:
        """The transformer's layers, in their order."""
        return [getattr(self, name) for name in self._names]

    @property
    def _names(self) -> list[str]:
        return [f"layer_{number}" for number in range(self._own["layers"])]

    def build(self, inputs_shape: Any) -> None:
        values_shape = (None, None, self.hidden_units)
        for embedding in (self.word_embeddings, self.position_embedding, self.type_embeddings):
            embedding.build((None, None))
        with keras.name_scope("embeddings"):
            self.layer_norm.build(values_shape)
        with keras.name_scope("transformer"):
            for layer in self.transformer:
                layer.build(values_shape)
        self.pooler_transform.build((None, self.hidden_units))

    def call(self, inputs: Mapping[str, Any], training: bool | None = None) -> dict[str, Any]:
        """The encoded tokens and texts.

        Args:
          inputs: input_word_ids, input_mask and input_type_ids, int32 [n, *axes, T]; the mask is 0 for padding.
          training: whether dropout is active.

        Returns:
          sequence_output, float32 [n, *axes, T, hidden_units]; pooled_output, [n, *axes, hidden_units]; and the matrix
          word_embeddings, [vocabulary_size, hidden_units], which pretraining's output layer shares.
        """
        *batch, tokens = ops.shape(inputs["input_word_ids"])
        words, mask, types = (
            ops.reshape(inputs[name], (-1, tokens)) if len(batch) > 1 else inputs[name] for name in _INPUTS
        )
        table = ops.cast(self.position_embedding.embeddings, self.compute_dtype)
        values = self.word_embeddings(words) + table[:tokens] + self._of_types(types)
        values = self.embedding_dropout(self.layer_norm(values), training=training)
        for layer in self.transformer:
            run = Block(layer, [layer]) if self._recompute else layer
            values = run(values, mask, training=training)
        pooled = self.pooler_transform(values[:, 0])
        if len(batch) > 1:
            values = ops.reshape(values, (-1, *batch[1:], tokens, self.hidden_units))
            pooled = ops.reshape(pooled, (-1, *batch[1:], self.hidden_units))
        matrix = ops.convert_to_tensor(self.word_embeddings.embeddings)
        return {"sequence_output": values, "pooled_output": pooled, "word_embeddings": matrix}

    def _of_types(self, types: Any) -> Any:
        # A product, as its gradient is one too: a gather's would add all tokens to two rows, one after the other.
        table = ops.cast(self.type_embeddings.embeddings, self.compute_dtype)
        return ops.matmul(ops.one_hot(types, table.shape[0], dtype=self.compute_dtype), table)

    def compute_output_spec(self, inputs: Mapping[str, Any], training: bool | None = None) -> dict[str, Any]:
        """By shapes alone: tracing all layers would take longer than building them."""
        *batch, tokens = inputs["input_word_ids"].shape
        shapes = {
            "sequence_output": ((*batch, tokens, self.hidden_units), "float32"),
            "pooled_output": ((*batch, self.hidden_units), self.compute_dtype),
            "word_embeddings": ((self.vocabulary_size, self.hidden_units), self.compute_dtype),
        }
        return {name: keras.KerasTensor(*each) for name, each in shapes.items()}

    def in_keras(self, twin: Callable[..., Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The same by Keras' own layers; with an axis more each of its texts is encoded on its own."""
        words, mask, types = (inputs[name] for name in _INPUTS)
        if len(words.shape) > 2:
            texts = [
                self.in_keras(twin, {name: inputs[name][:, text] for name in _INPUTS}) for text in range(words.shape[1])
            ]
            names = ("sequence_output", "pooled_output")
            together = {name: ops.stack([each[name] for each in texts], axis=1) for name in names}
            return {**together, "word_embeddings": texts[0]["word_embeddings"]}
        positions = ops.cumsum(ops.ones_like(words), axis=1) - 1
        values = twin(self.word_embeddings)(words) + twin(self.position_embedding)(positions)
        values = twin(self.layer_norm)(values + twin(self.type_embeddings)(types))
        values = twin(self.embedding_dropout)(values)
        for layer in self.transformer:
            values = twin(layer)(values, mask)
        # Of all words, whatever the inputs are: a functional model's tensors come from them.
        matrix = twin(self.word_embeddings)(ops.arange(self.vocabulary_size, dtype="int32") + 0 * ops.sum(words))
        pooled = twin(self.pooler_transform)(values[:, 0])
        return {"sequence_output": values, "pooled_output": pooled, "word_embeddings": matrix}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._own}


@keras.saving.register_keras_serializable("tfbigbatch")
class MaskedLMHead(layers.Layer):
    """The logits of words at the masked positions; the output matrix is that of the word embeddings.

    Args:
      vocabulary_size: number of word pieces.
      units: of the encoder's outputs.

    Attributes:
      bias: of the logits, [vocabulary_size].
    """

    def __init__(self, vocabulary_size: int, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size, self.units = vocabulary_size, units
        self.dense = _dense(units, "dense")
        self.layer_norm = _norm("LayerNorm", dtype=None)

    def build(self, sequence_shape: Any, positions_shape: Any, table_shape: Any) -> None:
        # Not by `add_weight`, which would leave the scope.
        with keras.name_scope("output_bias"):
            shape = (self.vocabulary_size,)
            self.bias = keras.Variable("zeros", shape, dtype=self.variable_dtype, name="bias")
        with keras.name_scope("transform"):
            self.dense.build(sequence_shape)
            self.layer_norm.build(sequence_shape)

    def call(self, sequence: Any, positions: Any, table: Any) -> Any:
        """float [n, P, vocabulary_size] of the encoder's outputs, float [n, T, units].

        Args:
          sequence: the encoder's sequence_output.
          positions: of the masked tokens, int32 [n, P].
          table: the encoder's word_embeddings.
        """
        n, tokens, _ = ops.shape(sequence)
        masked = ops.shape(positions)[1]
        rows = ops.reshape(ops.expand_dims(ops.arange(n, dtype="int32") * tokens, 1) + positions, (-1,))
        values = ops.take(ops.reshape(sequence, (-1, self.units)), rows, axis=0)
        values = self.layer_norm(_gelu(self.dense(values)))
        logits = ops.matmul(values, ops.transpose(table)) + self.bias
        return ops.reshape(logits, (-1, masked, self.vocabulary_size))

    def compute_output_spec(self, sequence: Any, positions: Any, table: Any) -> Any:
        return keras.KerasTensor((*positions.shape, self.vocabulary_size), self.compute_dtype)

    def in_keras(self, twin: Callable[..., Any], sequence: Any, positions: Any, table: Any) -> Any:
        """The same by Keras' own layers; the bias is an embedding of all words with one unit."""
        values = ops.take_along_axis(sequence, ops.expand_dims(positions, -1), axis=1)
        values = twin(self.layer_norm)(_gelu(twin(self.dense)(values)))
        words = ops.cumsum(ops.ones_like(table[:, 0], dtype="int32")) - 1
        bias = layers.Embedding(self.vocabulary_size, 1, name="output_bias")
        bias = twin(bias, weights=[ops.convert_to_numpy(self.bias)[:, None]])(words)
        return ops.matmul(values, ops.transpose(table)) + bias[:, 0]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "vocabulary_size": self.vocabulary_size, "units": self.units}


def inputs(*axes: int) -> dict[str, Any]:
    """The encoder's inputs: a dictionary of int32 [n, *axes, T]."""
    return {name: keras.Input((*axes, None), dtype="int32", name=name) for name in _INPUTS}


def pretrainer(*, next_sentence: bool = True, **sizes: Any) -> keras.Model:
    """The pretraining model: masked language modelling and next sentence prediction.

    The first head runs at the masked positions only, and its output matrix is that of the word embeddings.

    Args:
      next_sentence: whether the model has the second head, on the pooled output.
      **sizes: see `Encoder`.

    Returns:
      keras.Model from the encoder's inputs and masked_lm_positions, int32 [n, P], to a dictionary of float32
      logits: masked_lm [n, P, vocabulary_size], and next_sentence [n, 2].

    Raises:
      ValueError: a size is out of range.
    """
    features = inputs()
    positions = keras.Input((None,), dtype="int32", name="masked_lm_positions")
    encoder = Encoder(**sizes, trains_pooler=next_sentence)
    encoded = encoder(features)
    head = MaskedLMHead(encoder.vocabulary_size, encoder.hidden_units, name="masked_lm_head")
    words = head(encoded["sequence_output"], positions, encoded["word_embeddings"])
    outputs = {"masked_lm": _float32("masked_lm")(words)}
    if next_sentence:
        outputs["next_sentence"] = _float32("next_sentence")(_dense(2, "next_sentence_head")(encoded["pooled_output"]))
    return keras.Model({**features, "masked_lm_positions": positions}, outputs, name="bert_pretrainer")


def classifier(*, classes: int, pooling: str = "first", **sizes: Any) -> keras.Model:
    """A classifier of texts and pairs of texts: pooled output, dropout, and a dense layer.

    Args:
      classes: number of outputs; 1 for regression.
      pooling: one of POOLINGS.
      **sizes: see `Encoder`.

    Returns:
      keras.Model from the encoder's inputs to float32 logits [n, classes].

    Raises:
      ValueError: the pooling is unknown, or a size is out of range.
    """
    features = inputs()
    return keras.Model(features, _pooled_head(features, classes, pooling, sizes), name="bert_classifier")


def chooser(*, choices: int, pooling: str = "first", **sizes: Any) -> keras.Model:
    """The model of multiple-choice questions: each answer is scored on its own, as a pair of texts.

    Args:
      choices: number of answers to each question.
      pooling: one of POOLINGS.
      **sizes: see `Encoder`.

    Returns:
      keras.Model from the encoder's inputs with an axis for the choices, int32 [n, choices, T], to float32
      logits [n, choices].

    Raises:
      ValueError: the pooling is unknown, or a size is out of range.
    """
    features = inputs(choices)
    scores = _pooled_head(features, 1, pooling, sizes)
    return keras.Model(features, ops.squeeze(scores, -1), name="bert_chooser")


def span_finder(**sizes: Any) -> keras.Model:
    """The model of answers that are spans of the text: their start and end positions.

    Args:
      **sizes: see `Encoder`.

    Returns:
      keras.Model from the encoder's inputs to a dictionary of float32 logits [n, T]: 'start_positions' and
      'end_positions'.

    Raises:
      ValueError: a size is out of range.
    """
    features = inputs()
    spans = _dense(2, "span_head")(Encoder(**sizes, trains_pooler=False)(features)["sequence_output"])
    names = ("start_positions", "end_positions")
    outputs = {name: _float32(name)(each) for name, each in zip(names, ops.unstack(spans, 2, axis=-1))}
    return keras.Model(features, outputs, name="bert_spans")


def _pooled_head(features: dict[str, Any], units: int, pooling: str, sizes: dict[str, Any]) -> Any:
    if pooling not in POOLINGS:
        raise InputError(f"model.pooling={pooling!r} is unknown. {nearest(pooling, POOLINGS)}")
    encoded = Encoder(**sizes, trains_pooler=pooling == "first")(features)
    pooled = encoded["pooled_output"]
    if pooling == "mean":
        weights = ops.expand_dims(ops.cast(features["input_mask"], "float32"), -1)
        pooled = ops.sum(encoded["sequence_output"] * weights, axis=-2) / ops.sum(weights, axis=-2)
    dropped = layers.Dropout(sizes.get("dropout", 0.1), name="head_dropout")(pooled)
    return _float32("logits")(_dense(units, "head")(dropped))


def _float32(name: str) -> layers.Layer:
    """A cast to float32, for logits at any precision."""
    return layers.Activation("linear", dtype="float32", name=name)


def _gelu(values: Any) -> Any:
    """The tanh approximation, as in Google's BERT, by (1 + tanh(u)) / 2 = sigmoid(2 u): half the passes over memory."""
    twice = 2.0 * math.sqrt(2.0 / math.pi)
    return values * ops.sigmoid(values * (twice + 0.044715 * twice * (values * values)))


def _norm(name: str, dtype: str | None = "float32") -> layers.Layer:
    return LayerNorm(epsilon=_EPSILON, dtype=dtype, name=name)


def _dense(units: int, name: str, activation: str | None = None) -> layers.Layer:
    return layers.Dense(units, activation, kernel_initializer=_initializer(), name=name)


def _embedding(size: int, units: int, name: str) -> layers.Layer:
    return layers.Embedding(size, units, embeddings_initializer=_initializer(), name=name)


def _initializer() -> keras.initializers.Initializer:
    return keras.initializers.TruncatedNormal(stddev=BERT_INITIAL_DEVIATION)
