"""Two tasks that no constant of `tune` was chosen on: phrases of SST-2, and characters of WikiText-2's text.

Their learning rates at batch 32 are the best of eight (`small batch`).
"""

from __future__ import annotations

import os
from typing import Any

import keras
import numpy as np
from keras_own import tasks as keras_own

from tfbigbatch import tasks
from tfbigbatch.config import new_config, set_fields

_CHARACTERS, _LENGTH, _WIDTH, _LAYERS = 128, 64, 64, 2
_WINDOWS = {"train": 8192, "validation": 1024, "test": 1024}


def sst2() -> Any:
    """A Transformer from scratch on all phrases of SST-2; benchmarks/keras_own trains it on an eighth of them."""

    def data(data_dir: str) -> dict[str, Any]:
        task = keras_own.transformer(data_dir, training=65280)
        return {"train": task.train, "validation": task.validation, "test": task.test}

    tasks.define(
        "sst2_transformer",
        network=keras_own._transformer_network,
        data=data,
        evaluates_on=("test", "validation"),
    )
    return _config("sst2_transformer", epochs=3, learning_rate=0.004)


def characters() -> Any:
    """The next character of WikiText-2's text by a small causal Transformer; nats for each character."""

    def data(data_dir: str) -> dict[str, Any]:
        files = {"train": "train.shuffled-chunks.txt", "validation": "valid.txt", "test": "test.txt"}
        return {split: _windows(os.path.join(data_dir, name), _WINDOWS[split]) for split, name in files.items()}

    def nats(labels: Any, logits: Any) -> Any:
        return keras.ops.mean(keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True), axis=-1)

    tasks.define(
        "characters",
        network=_network,
        data=data,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[nats],
        higher_is_better=False,
        evaluates_on=("test", "validation"),
    )
    return _config("characters", epochs=4, learning_rate=0.004)


def _config(task: str, *, epochs: int, learning_rate: float) -> Any:
    config = new_config(task)
    config.optimizer = {"name": "adamw", "weight_decay": 0.01, "global_clipnorm": 1.0}
    fields = {"batch_size": 32, "duration": f"{epochs} epochs", "schedule.learning_rate": learning_rate}
    return set_fields(config, {**fields, "schedule.batch_size": 32, "schedule.warmup_epochs": 0.05 * epochs})


def _windows(path: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Windows of a text's first characters of 7 bits, and the same one character later; spread over the text."""
    with open(path, "rb") as file:
        text = np.frombuffer(file.read(), np.uint8)
    text = text[text < _CHARACTERS].astype("int32")
    starts = np.linspace(0, len(text) - _LENGTH - 2, count).astype(int)[:, None] + np.arange(_LENGTH)
    return text[starts], text[starts + 1]


def _network() -> keras.Model:
    layers = keras.layers
    tokens = layers.Input((_LENGTH,), dtype="int32")
    places = layers.Embedding(_LENGTH, _WIDTH, name="embedding_of_places")(keras.ops.arange(_LENGTH))
    states = layers.Embedding(_CHARACTERS, _WIDTH, name="embedding_of_characters")(tokens) + places
    for _ in range(_LAYERS):
        normal = layers.LayerNormalization()(states)
        states += layers.MultiHeadAttention(2, _WIDTH // 2)(normal, normal, use_causal_mask=True)
        hidden = layers.Dense(4 * _WIDTH, "gelu")(layers.LayerNormalization()(states))
        states += layers.Dense(_WIDTH)(hidden)
    return keras.Model(tokens, layers.Dense(_CHARACTERS, name="logits")(layers.LayerNormalization()(states)))
