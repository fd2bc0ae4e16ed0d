"""network.json: the structure of a run's network, so that a run directory is enough to build it, without the data."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import tf_keras

from tfbigbatch.models.keras3_network import Keras3Network
from tfbigbatch.utils import files

NAME = "network.json"
# Holds the description of a network that is a model of Keras 3.
_OF_KERAS_3 = "keras3"
# What a layer's description may hold beside layers. Anything else that it names, tf_keras would import, and might call.
_PARTS = (
    tf_keras.layers.Layer,
    tf_keras.initializers.Initializer,
    tf_keras.regularizers.Regularizer,
    tf_keras.constraints.Constraint,
    tf_keras.mixed_precision.Policy,
)
# TensorFlow's functions as layers, and the namespaces of those that compute: others read and write files.
_OPERATION_LAYERS = ("TFOpLambda", "SlicingOpLambda", "ClassMethod")
_COMPUTE = ("math", "nn", "linalg", "image", "signal", "random", "sparse", "ragged", "__operators__")
_NOT_COMPUTING = ("py_function", "numpy_function", "load_library", "load_op_library", "print", "function", "init_scope")
# Experiment files that this process executed: the user named them.
_EXECUTED = "tfbigbatch_experiment_"


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
    # Keras 3 looks at the names by itself.
    named = [] if _OF_KERAS_3 in described else refused(described)
    if named:
        return f"{path} names {', '.join(named)}: neither a layer of Keras, nor registered with it"
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


def refused(described: Any) -> list[str]:
    """What a description of a network names and Keras 2 is not to import or call, as 'module.name'.

    Args:
      described: from JSON, as Keras serializes a model.

    Returns:
      list of str, sorted; empty where all are layers, parts of layers, or functions that compute.
    """
    return sorted(set(_refused(described))) if isinstance(described, (dict, list)) else []


def _keras3() -> Any:
    # Not at the top: a run of Keras 2 does without it.
    import keras

    return keras


def _refused(described: Any) -> Iterator[str]:
    """The classes and functions in a description that are not to be looked up, as 'module.name'."""
    if isinstance(described, dict):
        name = described.get("class_name")
        name = described.get("config") if name == "function" else name
        for key, module in described.items():
            # A Lambda layer names the modules of its functions apart from them.
            if key.endswith("module") and isinstance(module, str) and not _is_part(module, name, described):
                yield f"{module}.{name}" if name else module
        settings = described.get("config")
        if name in _OPERATION_LAYERS and isinstance(settings, dict):
            operation = str(settings.get("cls_symbol") or settings.get("function"))
            if not _computes(operation):
                yield f"tf.{operation}"
    for part in described.values() if isinstance(described, dict) else described:
        if isinstance(part, (dict, list)):
            yield from _refused(part)


def _computes(operation: str) -> bool:
    """Whether a name below `tf` is that of an operation on tensors alone."""
    space, dot, _ = operation.removeprefix("compat.v1.").partition(".")
    return space in _COMPUTE if dot else space not in _NOT_COMPUTING


def _is_part(module: str, name: Any, described: dict[str, Any]) -> bool:
    if module == "builtins" or module.startswith(_EXECUTED):
        return True
    for registered in (described.get("registered_name"), name):
        if isinstance(registered, str) and tf_keras.saving.get_registered_object(registered) is not None:
            return True
    # Nothing is imported: the modules of Keras and of the user's layers are here already.
    root, _, rest = module.partition(".")
    if root in ("keras", "tf_keras"):
        found: Any = tf_keras
        for each in (*filter(None, rest.split(".")), str(name)):
            found = getattr(found, each, None)
        if found is None:
            found = getattr(sys.modules.get(f"tf_keras.{rest}"), str(name), None)
    else:
        found = getattr(sys.modules.get(module), str(name), None)
    return isinstance(found, type) and issubclass(found, _PARTS)
