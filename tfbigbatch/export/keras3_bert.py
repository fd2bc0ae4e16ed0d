"""BERT's models of `models.bert` for Keras 3, of its standard layers.

Each function takes the network and the arguments that built it. The encoder is a functional model by itself; so are its
layers, each called by the encoder once. The output matrix of the pretraining model is a copy of the word embeddings:
trained further with Keras 3, the two are no longer the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tf_keras

from tfbigbatch.export.keras3_layers import NotConvertible

layers, ops = keras.layers, keras.ops
_EPSILON = 1e-12


def _pretrainer(network: tf_keras.Model, *, next_sentence: bool = True, **sizes: Any) -> keras.Model:
    features, encoded = _encoded(network, sizes)
    positions = keras.Input((None,), dtype="int32", name="masked_lm_positions")
    head = network.get_layer("masked_lm_head")
    values = ops.take_along_axis(encoded["sequence_output"], ops.expand_dims(positions, -1), axis=1)
    values = _gelu(_dense(head.dense, values, "masked_lm_transform"))
    values = _norm(head.layer_norm, values, "masked_lm_norm")
    table = np.asarray(head.embedding_table)
    words = _with_weights(layers.Dense(table.shape[0], name="masked_lm_head"), values, [table.T, np.asarray(head.bias)])
    outputs = {"masked_lm": words}
    if next_sentence:
        outputs["next_sentence"] = _of_layer(network, "next_sentence_head", encoded["pooled_output"])
    return _model(network, {**features, "masked_lm_positions": positions}, outputs)


def _classifier(network: tf_keras.Model, *, classes: int, pooling: str = "first", **sizes: Any) -> keras.Model:
    del classes
    features, encoded = _encoded(network, sizes)
    pooled = _pooled(encoded, features["input_mask"], pooling, sizes)
    return _model(network, features, _of_layer(network, "head", pooled))


def _chooser(network: tf_keras.Model, *, choices: int, pooling: str = "first", **sizes: Any) -> keras.Model:
    encoder = _encoder(network.get_layer("encoder"), **sizes)
    names = list(encoder.input)
    features = {name: keras.Input((choices, None), dtype="int32", name=name) for name in names}
    head = layers.Dense(1, name="head")
    scores = []
    # Keras 3 has no reshape to two unknown sizes: each choice is encoded on its own, by the same layers.
    for choice in range(choices):
        of_choice = {name: features[name][:, choice] for name in names}
        scores.append(head(_pooled(encoder(of_choice), of_choice["input_mask"], pooling, sizes)))
    head.set_weights(network.get_layer("head").get_weights())
    return _model(network, features, ops.concatenate(scores, axis=-1))


def _span_finder(network: tf_keras.Model, **sizes: Any) -> keras.Model:
    features, encoded = _encoded(network, sizes)
    spans = _of_layer(network, "span_head", encoded["sequence_output"])
    return _model(network, features, {"start_positions": spans[..., 0], "end_positions": spans[..., 1]})


CONVERTERS: Mapping[str, Callable[..., keras.Model]] = {
    "pretrainer": _pretrainer,
    "classifier": _classifier,
    "chooser": _chooser,
    "span_finder": _span_finder,
}


def _model(network: tf_keras.Model, features: dict[str, Any], outputs: Any) -> keras.Model:
    return keras.Model(features, outputs, name=network.name)


def _encoded(network: tf_keras.Model, sizes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The inputs of a model, and the encoder's outputs for them."""
    encoder = _encoder(network.get_layer("encoder"), **sizes)
    features = {name: keras.Input((None,), dtype="int32", name=name) for name in encoder.input}
    return features, encoder(features)


def _pooled(encoded: dict[str, Any], mask: Any, pooling: str, sizes: Mapping[str, Any]) -> Any:
    pooled = encoded["pooled_output"]
    if pooling == "mean":
        weights = ops.expand_dims(ops.cast(mask, "float32"), -1)
        pooled = ops.sum(encoded["sequence_output"] * weights, axis=1) / ops.sum(weights, axis=1)
    return layers.Dropout(sizes.get("dropout", 0.1))(pooled)


def _encoder(
    encoder: Any,
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
) -> keras.Model:
    if encoder._dtype_policy.name != "float32":
        raise NotConvertible(
            f"layer {encoder.name!r} ({type(encoder).__name__}) computes in {encoder._dtype_policy.name}; only float32 "
            "is converted to Keras 3. Export it as keras2 or saved_model."
        )
    names = ("input_word_ids", "input_mask", "input_type_ids")
    features = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    words = features["input_word_ids"]
    positions = ops.cumsum(ops.ones_like(words), axis=1) - 1
    values = _embedding(words, encoder._embedding_layer.embeddings, vocabulary_size, "word_embeddings")
    values += _embedding(positions, encoder._position_embedding_layer._position_embeddings, max_positions, "positions")
    values += _embedding(features["input_type_ids"], encoder._type_embedding_layer.embeddings, token_types, "types")
    values = keras.layers.Dropout(dropout)(_norm(encoder._embedding_norm_layer, values, "embedding_norm"))
    mask = ops.expand_dims(features["input_mask"] > 0, 1)
    for number, block in enumerate(encoder.transformer_layers):
        values = _block(block, values, mask, f"layer_{number}", heads, dropout, attention_dropout)
    first = _dense(encoder.pooler_layer, values[:, 0], "pooler", "tanh")
    return keras.Model(features, {"sequence_output": values, "pooled_output": first}, name="encoder")


def _block(block: Any, values: Any, mask: Any, name: str, heads: int, dropout: float, attention_dropout: float) -> Any:
    width = values.shape[-1]
    attention = layers.MultiHeadAttention(heads, width // heads, dropout=attention_dropout, name=f"{name}_attention")
    attended = attention(values, values, attention_mask=mask)
    attention.set_weights(block._attention_layer.get_weights())
    values = _norm(block._attention_layer_norm, values + layers.Dropout(dropout)(attended), f"{name}_attention_norm")
    inner = _gelu(_dense(block._intermediate_dense, values, f"{name}_inner"))
    outer = layers.Dropout(dropout)(_dense(block._output_dense, inner, f"{name}_outer"))
    return _norm(block._output_layer_norm, values + outer, f"{name}_norm")


def _gelu(values: Any) -> Any:
    # The tanh approximation, as in Google's BERT.
    return ops.gelu(values, approximate=True)


def _embedding(ids: Any, table: Any, size: int, name: str) -> Any:
    table = np.asarray(table)
    return _with_weights(layers.Embedding(size, table.shape[1], name=name), ids, [table])


def _norm(layer: Any, values: Any, name: str) -> Any:
    twin = layers.LayerNormalization(epsilon=_EPSILON, name=name)
    return _with_weights(twin, values, layer.get_weights())


def _dense(layer: Any, values: Any, name: str, activation: str | None = None) -> Any:
    weights = layer.get_weights()
    return _with_weights(layers.Dense(weights[0].shape[1], activation, name=name), values, weights)


def _of_layer(network: tf_keras.Model, name: str, values: Any) -> Any:
    return _dense(network.get_layer(name), values, name)


def _with_weights(layer: Any, inputs: Any, weights: list[np.ndarray]) -> Any:
    outputs = layer(inputs)
    layer.set_weights(weights)
    return outputs
