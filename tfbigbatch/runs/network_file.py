"""network.json: the structure of a run's network, so that a run directory is enough to build it, without the data."""

from __future__ import annotations

import json
import os
from typing import Any

import tf_keras

from tfbigbatch.models.keras3_network import Keras3Network
from tfbigbatch.utils import files

NAME = "network.json"
# Holds the description of a network that is a model of Keras 3.
_OF_KERAS_3 = "keras3"


def content(network: tf_keras.Model) -> bytes | None:
    """The bytes of network.json; None for a network that Keras cannot serialize, such as a subclassed model.

    Args:
      network: a functional or sequential model, or a model with `get_config`.
    """
    # A user's layers may raise anything. Without the file the network is built by its task.
    try:
        if isinstance(network, Keras3Network):
            described = {_OF_KERAS_3: _keras3().saving.serialize_keras_object(network.keras3_model)}
        else:
            described = tf_keras.saving.serialize_keras_object(network)
        return (json.dumps(described) + "\n").encode()
    except Exception:
        return None


def load(directory: str) -> tf_keras.Model | str:
    """The network of a run directory, with random initial values; where it cannot be built from the file, the reason.

    Raises:
      ValueError: the file is not JSON.
    """
    path = os.path.join(directory, NAME)
    if not os.path.exists(path):
        return f"{directory} has no {NAME}"
    described = files.read_json_dictionary(path)
    # Keras and a user's layers may raise anything.
    try:
        if _OF_KERAS_3 in described:
            return Keras3Network(_keras3().saving.deserialize_keras_object(described[_OF_KERAS_3]))
        network = tf_keras.saving.deserialize_keras_object(described)
    except Exception as error:
        return f"{path} cannot be used: {(str(error).strip() or type(error).__name__).splitlines()[0]}"
    if not isinstance(network, tf_keras.Model):
        return f"{path} holds no model"
    return network if network.built else f"the model in {path} has no weights before its first call"


def _keras3() -> Any:
    # Not at the top: a run of Keras 2 does without it.
    import keras

    return keras
