"""BERT (Devlin et al. 2018, arXiv:1810.04805): tf-models-official's encoder, with heads for pretraining and tasks."""

from __future__ import annotations

import importlib
import types
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfbigbatch.errors import InputError, missing_extra, nearest
from tfbigbatch.models.checks import check_rates, check_recompute, check_sizes
from tfbigbatch.models.rebuilt import RebuiltModel
from tfbigbatch.models.recompute import Block
from tfbigbatch.models.sizes import BERT_INITIAL_DEVIATION

# From tokens to a vector of the text: BERT's pooler of the first token, or the mean of all tokens.
POOLINGS = ("first", "mean")
_INPUTS = ("input_word_ids", "input_mask", "input_type_ids")


def official(name: str) -> types.ModuleType:
    """A module of tf-models-official, such as 'official.nlp.modeling.layers'.

    Raises:
      ValueError: the package is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "official":
            raise
        raise missing_extra("tf-models-official", "models", "It needs TensorFlow 2.20.") from None


def encoder(
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
) -> tf_keras.layers.Layer:
    """tf-models-official's BertEncoderV2.

    Args:
      vocabulary_size: number of word pieces.
      layers, hidden_units, heads, inner_units: the transformer's sizes; heads divides hidden_units.
      dropout: dropout rate of the embeddings and of each layer's outputs.
      attention_dropout: dropout rate of the attention weights.
      max_positions: the longest sequence.
      token_types: segments in a sequence at most.
      recompute: whether the backward pass computes the activations of each layer again; see `recompute.Block`.

    Returns:
      A layer from a dictionary of input_word_ids, input_mask and input_type_ids, int32 [n, T], to a dictionary of
      sequence_output [n, T, hidden_units] and pooled_output [n, hidden_units].

    Raises:
      ValueError: a size is out of range, or tf-models-official is not installed.
    """
    check_recompute(recompute)
    check_sizes(layers=layers, hidden_units=hidden_units, heads=heads, inner_units=inner_units)
    check_sizes(max_positions=max_positions, token_types=token_types, vocabulary_size=vocabulary_size)
    if hidden_units % heads:
        raise InputError(f"model.heads={heads} does not divide model.hidden_units={hidden_units}.")
    check_rates(dropout=dropout, attention_dropout=attention_dropout)
    cls: Any = official("official.nlp.modeling.networks").BertEncoderV2
    return (_recomputed(cls) if recompute else cls)(
        vocab_size=vocabulary_size,
        hidden_size=hidden_units,
        num_layers=layers,
        num_attention_heads=heads,
        inner_dim=inner_units,
        inner_activation=_gelu,
        output_dropout=dropout,
        attention_dropout=attention_dropout,
        max_sequence_length=max_positions,
        type_vocab_size=token_types,
        initializer=_initializer(),
        name="encoder",
    )


def _recomputed(encoder_class: Any) -> Any:
    class RecomputedBertEncoder(encoder_class):
        """The same layers and variables; the backward pass computes the activations of each layer again."""

        def call(self, inputs: Mapping[str, tf.Tensor], training: bool | None = None) -> dict[str, tf.Tensor]:
            words, types = inputs["input_word_ids"], inputs["input_type_ids"]
            embeddings = self._get_embeddings(words, types, self._embedding_layer(words), None, None)
            values = self._embedding_dropout(self._embedding_norm_layer(embeddings))
            mask = self._attention_mask_layer(values, inputs["input_mask"])
            for layer in self._transformer_layers:

                def run(values: tf.Tensor, mask: tf.Tensor, training: bool | None, layer: Any = layer) -> tf.Tensor:
                    # The backward pass is outside of the call that would give the layer its mode.
                    return layer([values, mask], training=training)

                values = Block(run, [layer])(values, mask, training=training)
            return {"sequence_output": values, "pooled_output": self._pooler_layer(values[:, 0])}

    return RecomputedBertEncoder


def inputs(*axes: int) -> dict[str, tf.Tensor]:
    """The encoder's inputs: a dictionary of int32 [n, *axes, T]."""
    return {name: tf_keras.Input((*axes, None), dtype=tf.int32, name=name) for name in _INPUTS}


def pretrainer(*, next_sentence: bool = True, **sizes: Any) -> tf_keras.Model:
    """The pretraining model: masked language modelling and next sentence prediction.

    The first head runs at the masked positions only, and its output matrix is that of the word embeddings.

    Args:
      next_sentence: whether the model has the second head, on the pooled output.
      **sizes: see `encoder`.

    Returns:
      tf_keras.Model from the encoder's inputs and masked_lm_positions, int32 [n, P], to a dictionary of float32
      logits: masked_lm [n, P, vocabulary_size], and next_sentence [n, 2].

    Raises:
      ValueError: a size is out of range, or tf-models-official is not installed.
    """
    network = encoder(**sizes)
    masked_lm_head = official("official.nlp.modeling.layers").MaskedLM
    features = inputs()
    positions = tf_keras.Input((None,), dtype=tf.int32, name="masked_lm_positions")
    encoded = network(features)
    words = masked_lm_head(
        network.get_embedding_table(), activation=_gelu, initializer=_initializer(), name="masked_lm_head"
    )(encoded["sequence_output"], positions)
    outputs = {"masked_lm": _float32("masked_lm")(words)}
    if next_sentence:
        follows = tf_keras.layers.Dense(2, kernel_initializer=_initializer(), name="next_sentence_head")
        outputs["next_sentence"] = _float32("next_sentence")(follows(encoded["pooled_output"]))
    else:
        # No gradient reaches it.
        network.pooler_layer.trainable = False
    return RebuiltModel(
        {**features, "masked_lm_positions": positions},
        outputs,
        builder="pretrainer",
        arguments={"next_sentence": next_sentence, **sizes},
        name="bert_pretrainer",
    )


def classifier(*, classes: int, pooling: str = "first", **sizes: Any) -> tf_keras.Model:
    """A classifier of texts and pairs of texts: pooled output, dropout, and a dense layer.

    Args:
      classes: number of outputs; 1 for regression.
      pooling: one of POOLINGS.
      **sizes: see `encoder`.

    Returns:
      tf_keras.Model from the encoder's inputs to float32 logits [n, classes].

    Raises:
      ValueError: the pooling is unknown, or a size is out of range.
    """
    features = inputs()
    return RebuiltModel(
        features,
        _pooled_head(features, classes, pooling, sizes),
        builder="classifier",
        arguments={"classes": classes, "pooling": pooling, **sizes},
        name="bert_classifier",
    )


def chooser(*, choices: int, pooling: str = "first", **sizes: Any) -> tf_keras.Model:
    """The model of multiple-choice questions: each answer is scored on its own, as a pair of texts.

    Args:
      choices: number of answers to each question.
      pooling: one of POOLINGS.
      **sizes: see `encoder`.

    Returns:
      tf_keras.Model from the encoder's inputs with an axis for the choices, int32 [n, choices, T], to float32
      logits [n, choices].

    Raises:
      ValueError: the pooling is unknown, or a size is out of range.
    """
    features = inputs(choices)
    side_by_side = {name: tf.reshape(value, [-1, tf.shape(value)[-1]]) for name, value in features.items()}
    scores = _pooled_head(side_by_side, 1, pooling, sizes)
    return RebuiltModel(
        features,
        tf.reshape(scores, [-1, choices]),
        builder="chooser",
        arguments={"choices": choices, "pooling": pooling, **sizes},
        name="bert_chooser",
    )


def span_finder(**sizes: Any) -> tf_keras.Model:
    """The model of answers that are spans of the text: their start and end positions.

    Args:
      **sizes: see `encoder`.

    Returns:
      tf_keras.Model from the encoder's inputs to a dictionary of float32 logits [n, T]: 'start_positions' and
      'end_positions'.
    """
    features = inputs()
    dense = tf_keras.layers.Dense(2, kernel_initializer=_initializer(), name="span_head")
    start, end = tf.unstack(dense(encoder(**sizes)(features)["sequence_output"]), axis=-1)
    outputs = {"start_positions": start, "end_positions": end}
    return RebuiltModel(
        features,
        {name: _float32(name)(value) for name, value in outputs.items()},
        builder="span_finder",
        arguments=sizes,
        name="bert_spans",
    )


def _pooled_head(features: dict[str, tf.Tensor], units: int, pooling: str, sizes: dict[str, Any]) -> tf.Tensor:
    if pooling not in POOLINGS:
        raise InputError(f"model.pooling={pooling!r} is unknown. {nearest(pooling, POOLINGS)}")
    network = encoder(**sizes)
    encoded = network(features)
    pooled = encoded["pooled_output"]
    if pooling == "mean":
        # No gradient reaches it.
        network.pooler_layer.trainable = False
        pooled = tf_keras.layers.GlobalAveragePooling1D(dtype=tf.float32)(
            encoded["sequence_output"], mask=tf.cast(features["input_mask"], tf.bool)
        )
    dropped = tf_keras.layers.Dropout(sizes.get("dropout", 0.1))(pooled)
    return _float32("logits")(tf_keras.layers.Dense(units, kernel_initializer=_initializer(), name="head")(dropped))


def _float32(name: str) -> tf_keras.layers.Layer:
    """A cast to float32, for logits at any precision."""
    return tf_keras.layers.Activation("linear", dtype=tf.float32, name=name)


def _gelu(values: tf.Tensor) -> tf.Tensor:
    # The tanh approximation, as in Google's BERT.
    return tf_keras.activations.gelu(values, approximate=True)


def _initializer() -> tf_keras.initializers.Initializer:
    return tf_keras.initializers.TruncatedNormal(stddev=BERT_INITIAL_DEVIATION)
