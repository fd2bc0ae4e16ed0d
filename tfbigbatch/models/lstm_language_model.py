"""LSTM language models with their state as input and output, for truncated backpropagation over a text."""

from __future__ import annotations

from typing import Any

import keras

from tfbigbatch.models import lstm
from tfbigbatch.models.checks import check_sizes


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
) -> keras.Model:
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
      keras.Model from [tokens, *states] to [logits, *states]. Tokens are int32 [batch, window], logits
      float32 [batch, window, vocabulary_size]; each layer has two states, output and cell, float32
      [batch, hidden_units] as inputs.

    Raises:
      ValueError: a size is out of range.
    """
    check_sizes(window=window, hidden_units=hidden_units, embedding_units=embedding_units, layers=layers)

    def uniform() -> keras.initializers.Initializer:
        return lstm.uniform(initial_scale)

    def dropped(values: Any, layer: int) -> Any:
        return keras.layers.Dropout(dropout, name=f"dropout_{layer}")(values) if dropout else values

    tokens = keras.Input((window,), dtype="int32", name="tokens")
    names = [f"{kind}_{layer}" for layer in range(layers) for kind in ("output", "cell")]
    states = [keras.Input((hidden_units,), dtype="float32", name=name) for name in names]
    values = keras.layers.Embedding(
        vocabulary_size, embedding_units, embeddings_initializer=uniform(), name="embedding"
    )(tokens)
    new_states: list[Any] = []
    for layer in range(layers):
        recurrent = lstm.lstm(
            hidden_units,
            return_sequences=True,
            return_state=True,
            unroll=unroll,
            unit_forget_bias=unit_forget_bias,
            kernel_initializer=uniform(),
            recurrent_initializer=uniform(),
            bias_initializer="zeros" if unit_forget_bias else uniform(),
            name=f"lstm_{layer}",
        )
        values, *mine = recurrent(dropped(values, layer), initial_state=states[2 * layer : 2 * layer + 2])
        new_states.extend(mine)
    values = dropped(values, layers)
    # The logits stay float32 under mixed precision: their softmax needs the precision.
    logits = keras.layers.Dense(
        vocabulary_size, kernel_initializer=uniform(), bias_initializer=uniform(), dtype="float32", name="logits"
    )(values)
    return keras.Model([tokens, *states], [logits, *new_states], name="lstm_language_model")
