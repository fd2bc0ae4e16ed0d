"""The modules of tf_keras that hold SGD, Adam and AdamW, with ours in their place."""

import types

import tf_keras

from tests.parity.peer_names import stand_ins
from tfbigbatch import keras2

SGD, Adam, AdamW = stand_ins(keras2, tf_keras.saving.register_keras_serializable("peer_names"), __name__)
sgd = types.SimpleNamespace(SGD=SGD)
adam = types.SimpleNamespace(Adam=Adam)
adamw = types.SimpleNamespace(AdamW=AdamW)
