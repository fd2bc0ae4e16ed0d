"""GNMT for Keras 3, of its standard layers: the network of known targets, not the search, which needs its steps."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from tfbigbatch.export.keras3_layers import NotConvertible
from tfbigbatch.models.gnmt import FIRST_RESIDUAL, GNMT

layers, ops = keras.layers, keras.ops


def convert(
    network: GNMT,
    *,
    dropout: float = 0.2,
    source_length: int | None = None,
    target_length: int | None = None,
    **sizes: Any,
) -> keras.Model:
    """The same network for Keras 3; the arguments are those of `gnmt`.

    Raises:
      ValueError: it computes in half precision.
    """
    if network.encoder._dtype_policy.name != "float32":
        raise NotConvertible(
            f"layer 'encoder' (Encoder) computes in {network.encoder._dtype_policy.name}; only float32 is converted to "
            "Keras 3. Export it as keras2 or saved_model."
        )
    source = keras.Input((source_length,), dtype="int32", name="source_ids")
    lengths = keras.Input((), dtype="int32", name="source_lengths")
    target = keras.Input((target_length,), dtype="int32", name="target_ids")
    table = network.embedding.get_weights()
    embedding = layers.Embedding(*table[0].shape, name="embedding")
    position = ops.cumsum(ops.ones_like(source), axis=1) - 1
    is_token = position < ops.expand_dims(lengths, 1)
    turned = ops.where(is_token, ops.expand_dims(lengths, 1) - 1 - position, position)
    encoded = _encoded(network.encoder, embedding(source), turned, dropout)
    decoded = _decoded(network.decoder, embedding(target), encoded, is_token, dropout)
    embedding.set_weights(table)
    weights = network.classifier.get_weights()
    logits = _with_weights(layers.Dense(weights[0].shape[1], name="classifier"), decoded, weights)
    inputs = {"source_ids": source, "source_lengths": lengths, "target_ids": target}
    return keras.Model(inputs, logits, name=network.name)


def _encoded(encoder: Any, values: Any, turned: Any, dropout: float) -> Any:
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


def _decoded(decoder: Any, values: Any, encoded: Any, is_token: Any, dropout: float) -> Any:
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


def _with_weights(layer: Any, inputs: Any, weights: list[np.ndarray]) -> Any:
    outputs = layer(inputs)
    layer.set_weights(weights)
    return outputs
