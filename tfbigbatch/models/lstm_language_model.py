"""LSTM language models with their state as input and output, for truncated backpropagation over a text."""

from __future__ import annotations

from typing import Any

import tf_keras

from tfbigbatch.models import recurrent
from tfbigbatch.models.recurrent import check_sizes, uniform


def lstm_language_model(
    *,
    vocabulary_size: int,
    window: int,
    hidden_units: int,
    embedding_units: int,
    layers: int,
    dropout: float = 0.0,
    initial_scale: float = 0.1,
    unit_forget_bias: bool = False,
    unroll: bool = False,
) -> tf_keras.Model:
    """The language model of Zaremba et al. 2014 (arXiv:1409.2329).

    Dropout is applied to the input of each layer and to the output of the last, not to the recurrent connections. The
    LSTMs use only arguments that cuDNN's kernel supports, so Keras uses it on a GPU.

    Args:
      vocabulary_size: number of words.
      window: tokens of a stream in one step.
      hidden_units: units of each LSTM.
      embedding_units: width of the word embeddings.
      layers: number of LSTMs.
      dropout: dropout rate.
      initial_scale: all weights are initialised uniformly in [-initial_scale, initial_scale].
      unit_forget_bias: initialises the LSTMs' biases with 0, and with 1 for the forget gates; in the paper they are
        initialised as all weights are.
      unroll: unrolls the LSTMs' time steps in the graph: slower to trace; on a GPU it rules out cuDNN's kernel.

    Returns:
      tf_keras.Model from [tokens, *states] to [logits, *states]. Tokens are int32 [batch, window], logits
      float32 [batch, window, vocabulary_size]; each layer has two states, output and cell, float32
      [batch, hidden_units] as inputs.

    Raises:
      ValueError: a size or rate is out of range.
    """
    check_sizes(
        window=window,
        hidden_units=hidden_units,
        embedding_units=embedding_units,
        layers=layers,
        dropout=dropout,
        initial_scale=initial_scale,
    )
    tokens = tf_keras.Input((window,), dtype="int32", name="tokens")
    states = _initial_states(layers, hidden_units)
    embedding = tf_keras.layers.Embedding(
        vocabulary_size, embedding_units, embeddings_initializer=uniform(initial_scale), name="embedding"
    )
    values, new_states = embedding(tokens), []
    for layer in range(layers):
        # Under mixed precision Keras casts a layer's inputs, but not the LSTM's initial state.
        pair = states[2 * layer : 2 * layer + 2]
        initial = [tf_keras.layers.Identity(name=f"cast_{state.name}")(state) for state in pair]
        lstm = _lstm(hidden_units, initial_scale, unit_forget_bias, unroll, f"lstm_{layer}")
        values, *mine = lstm(_dropped(values, dropout, f"dropout_{layer}"), initial_state=initial)
        new_states.extend(mine)
    logits = _logits(_dropped(values, dropout, f"dropout_{layers}"), vocabulary_size, initial_scale)
    return tf_keras.Model([tokens, *states], [logits, *new_states], name="lstm_language_model")


def _initial_states(layers: int, units: int) -> list[Any]:
    kinds = ("output", "cell")
    return [
        tf_keras.Input((units,), dtype="float32", name=f"{kind}_{layer}") for layer in range(layers) for kind in kinds
    ]


def _dropped(tensor: Any, dropout: float, name: str) -> Any:
    return tf_keras.layers.Dropout(dropout, name=name)(tensor) if dropout else tensor


def _lstm(units: int, initial_scale: float, unit_forget_bias: bool, unroll: bool, name: str) -> tf_keras.layers.LSTM:
    return recurrent.lstm(
        units,
        return_sequences=True,
        return_state=True,
        unroll=unroll,
        unit_forget_bias=unit_forget_bias,
        kernel_initializer=uniform(initial_scale),
        recurrent_initializer=uniform(initial_scale),
        bias_initializer="zeros" if unit_forget_bias else uniform(initial_scale),
        name=name,
    )


def _logits(values: Any, vocabulary_size: int, initial_scale: float) -> Any:
    # They stay float32 under mixed precision: their softmax needs the precision.
    return tf_keras.layers.Dense(
        vocabulary_size,
        kernel_initializer=uniform(initial_scale),
        bias_initializer=uniform(initial_scale),
        dtype="float32",
        name="logits",
    )(values)
