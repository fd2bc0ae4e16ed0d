"""The modules of tf_keras that hold SGD, Adam and AdamW, with ours in their place."""

import types
from typing import Any

import tf_keras

from tfbigbatch.optimizers import keras2

_registered = tf_keras.saving.register_keras_serializable("peer_names")
_EVERY_LAYER = [".*"]


@_registered
class SGD(keras2.LARS):
    def __init__(self, learning_rate: Any = 0.01, momentum: float = 0.0, **options: Any) -> None:
        options.setdefault("exclude_from_weight_decay", [])
        options.setdefault("exclude_from_layer_adaptation", _EVERY_LAYER)
        super().__init__(learning_rate, momentum=momentum, **options)


@_registered
class Adam(keras2.LAMB):
    def __init__(self, learning_rate: Any = 0.001, epsilon: float = 1e-7, **options: Any) -> None:
        options.setdefault("exclude_from_weight_decay", [])
        options.setdefault("exclude_from_layer_adaptation", _EVERY_LAYER)
        super().__init__(learning_rate, epsilon=epsilon, **options)


@_registered
class AdamW(Adam):
    def __init__(self, learning_rate: Any = 0.001, weight_decay: float = 0.004, **options: Any) -> None:
        super().__init__(learning_rate, weight_decay=weight_decay, **options)


sgd = types.SimpleNamespace(SGD=SGD)
adam = types.SimpleNamespace(Adam=Adam)
adamw = types.SimpleNamespace(AdamW=AdamW)
