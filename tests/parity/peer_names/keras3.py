"""`keras.optimizers`, with ours in place of SGD, Adam, AdamW, Lamb and LossScaleOptimizer."""

from typing import Any

import keras

from tfbigbatch.optimizers import keras3

_registered = keras.saving.register_keras_serializable("peer_names")
_EVERY_LAYER = [".*"]


@_registered
class SGD(keras3.LARS):
    def __init__(self, learning_rate: Any = 0.01, momentum: float = 0.0, name: Any = None, **options: Any) -> None:
        options.setdefault("exclude_from_weight_decay", [])
        options.setdefault("exclude_from_layer_adaptation", _EVERY_LAYER)
        super().__init__(learning_rate, momentum=momentum, name=name, **options)


@_registered
class Adam(keras3.LAMB):
    def __init__(self, learning_rate: Any = 0.001, epsilon: float = 1e-7, name: Any = None, **options: Any) -> None:
        options.setdefault("exclude_from_weight_decay", [])
        options.setdefault("exclude_from_layer_adaptation", _EVERY_LAYER)
        super().__init__(learning_rate, epsilon=epsilon, name=name, **options)


@_registered
class AdamW(Adam):
    def __init__(self, learning_rate: Any = 0.001, weight_decay: float = 0.004, **options: Any) -> None:
        super().__init__(learning_rate, weight_decay=weight_decay, **options)


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
