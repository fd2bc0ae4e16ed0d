"""`keras.optimizers`, with ours in place of SGD, Adam, AdamW, Lamb and LossScaleOptimizer."""

from typing import Any

import keras

from tests.parity.peer_names import stand_ins
from tfbigbatch.optimizers import keras3

SGD, Adam, AdamW = stand_ins(keras3, keras.saving.register_keras_serializable("peer_names"), __name__, name=None)
Lamb = keras3.LAMB
LossScaleOptimizer = keras3.LossScaleOptimizer
_OURS = {"sgd": SGD, "adam": Adam, "adamw": AdamW}


def get(identifier: Any) -> Any:
    """`keras.optimizers.get`, for our names and Keras' own."""
    if isinstance(identifier, str) and identifier in _OURS:
        return _OURS[identifier]()
    if isinstance(identifier, dict) and identifier.get("class_name") in _OURS:
        return _OURS[identifier["class_name"]](**identifier["config"])
    return keras.optimizers.get(identifier)


def __getattr__(name: str) -> Any:
    return getattr(keras.optimizers, name)
