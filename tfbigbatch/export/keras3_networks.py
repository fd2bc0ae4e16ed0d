"""BERT's models and GNMT for Keras 3, of its standard layers; of GNMT the network of known targets without the search.

Each function takes the network and the arguments that built it. BERT's encoder is a functional model by itself. The
output matrix of the pretraining model is a copy of the word embeddings: trained further with Keras 3, the two are no
longer the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tf_keras

from tfbigbatch.export.keras3_layers import NotConvertible
from tfbigbatch.models.gnmt import FIRST_RESIDUAL, GNMT

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
    return keras.Model({**features, "masked_lm_positions": positions}, outputs, name=network.name)


def _classifier(network: tf_keras.Model, *, classes: int, pooling: str = "first", **sizes: Any) -> keras.Model:
    del classes
    features, encoded = _encoded(network, sizes)
    pooled = _pooled(encoded, features["input_mask"], pooling, sizes)
    return keras.Model(features, _of_layer(network, "head", pooled), name=network.name)


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
    return keras.Model(features, ops.concatenate(scores, axis=-1), name=network.name)


def _span_finder(network: tf_keras.Model, **sizes: Any) -> keras.Model:
    features, encoded = _encoded(network, sizes)
    spans = _of_layer(network, "span_head", encoded["sequence_output"])
    return keras.Model(features, {"start_positions": spans[..., 0], "end_positions": spans[..., 1]}, name=network.name)


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
    _check_float32(encoder)
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


def _gnmt(
    network: GNMT,
    *,
    dropout: float = 0.2,
    source_length: int | None = None,
    target_length: int | None = None,
    **sizes: Any,
) -> keras.Model:
    _check_float32(network.encoder)
    source = keras.Input((source_length,), dtype="int32", name="source_ids")
    lengths = keras.Input((), dtype="int32", name="source_lengths")
    target = keras.Input((target_length,), dtype="int32", name="target_ids")
    [table] = network.embedding.get_weights()
    embedding = layers.Embedding(*table.shape, name="embedding")
    position = ops.cumsum(ops.ones_like(source), axis=1) - 1
    is_token = position < ops.expand_dims(lengths, 1)
    turned = ops.where(is_token, ops.expand_dims(lengths, 1) - 1 - position, position)
    encoded = _gnmt_encoded(network.encoder, embedding(source), turned, dropout)
    decoded = _gnmt_decoded(network.decoder, embedding(target), encoded, is_token, dropout)
    embedding.set_weights([table])
    logits = _dense(network.classifier, decoded, "classifier")
    inputs = {"source_ids": source, "source_lengths": lengths, "target_ids": target}
    return keras.Model(inputs, logits, name=network.name)


def _gnmt_encoded(encoder: Any, values: Any, turned: Any, dropout: float) -> Any:
    """The encoder's output; `turned` are positions that reverse each sentence within its length, int32 [n, S]."""
    index = ops.expand_dims(turned, -1)
    values = layers.Dropout(dropout)(values)
    backward = _lstm(encoder.backward, ops.take_along_axis(values, index, axis=1), "encoder_backward")
    forward = _lstm(encoder.forward, values, "encoder_forward")
    values = ops.concatenate([forward, ops.take_along_axis(backward, index, axis=1)], axis=-1)
    for number, lstm in enumerate(encoder.lstms, 1):
        outputs = _lstm(lstm, layers.Dropout(dropout)(values), f"encoder_{number}")
        values = outputs + values if number >= FIRST_RESIDUAL else outputs
    return values


def _gnmt_decoded(decoder: Any, values: Any, encoded: Any, is_token: Any, dropout: float) -> Any:
    values = _lstm(decoder.lstms[0], layers.Dropout(dropout)(values), "decoder_0")
    context = _context(decoder.attention, values, encoded, is_token)
    for number, lstm in enumerate(decoder.lstms[1:], 1):
        both = layers.Dropout(dropout)(ops.concatenate([values, context], axis=-1))
        outputs = _lstm(lstm, both, f"decoder_{number}")
        values = outputs + values if number >= FIRST_RESIDUAL else outputs
    return values


def _context(attention: Any, queries: Any, values: Any, is_token: Any) -> Any:
    """The inputs of the normalised Bahdanau attention; g * v / |v| is one dense layer."""
    v, g, b = (np.asarray(each, np.float64) for each in (attention.v, attention.g, attention.b))
    units = len(v)
    [of_query], [of_key] = attention.of_query.get_weights(), attention.of_key.get_weights()
    keys = _with_weights(layers.Dense(units, name="attention_keys"), values, [of_key, b])
    asked = _with_weights(layers.Dense(units, use_bias=False, name="attention_queries"), queries, [of_query])
    pairs = ops.tanh(ops.expand_dims(asked, 2) + ops.expand_dims(keys, 1))
    direction = (g * v / np.sqrt(np.sum(v * v)))[:, np.newaxis]
    scores = _with_weights(layers.Dense(1, use_bias=False, name="attention_scores"), pairs, [direction])
    mask = ops.expand_dims(is_token, 1)
    weights = ops.softmax(ops.where(mask, ops.squeeze(scores, -1), np.finfo(np.float32).min), axis=-1)
    return ops.matmul(weights, values)


def _lstm(layer: Any, inputs: Any, name: str) -> Any:
    return _with_weights(layers.LSTM(layer.units, return_sequences=True, name=name), inputs, layer.get_weights())


def _check_float32(layer: Any) -> None:
    if layer._dtype_policy.name != "float32":
        raise NotConvertible(
            f"layer {layer.name!r} ({type(layer).__name__}) computes in {layer._dtype_policy.name}; only float32 is "
            "converted to Keras 3. Export it as keras2 or saved_model."
        )


CONVERTERS: Mapping[str, Callable[..., keras.Model]] = {
    "pretrainer": _pretrainer,
    "classifier": _classifier,
    "chooser": _chooser,
    "span_finder": _span_finder,
    "gnmt": _gnmt,
}
"""By the name of the function of `models` that built the network."""
