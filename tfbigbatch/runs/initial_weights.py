"""Weights of another run, or of a Keras file, for a new run."""

from __future__ import annotations

import dataclasses
import tempfile
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import trackable_object_graph_pb2

from tfbigbatch.errors import InputError, first_line
from tfbigbatch.runs import checkpoint_files, keras_file
from tfbigbatch.utils.tensorflow_paths import literal_path

_SHOWN = 8


@dataclasses.dataclass(frozen=True)
class Matched:
    """The names of the variables that another model's values fit, and of those that they do not.

    Attributes:
      source: where the values are from.
      matched: names of the network's variables that were assigned.
      other_shape: names of those that have another shape there, with both shapes.
      missing: names of those that the source lacks.
      unused: names of the source's that the network lacks.
    """

    source: str
    matched: Sequence[str]
    other_shape: Sequence[str]
    missing: Sequence[str]
    unused: Sequence[str]

    def lines(self) -> list[str]:
        """The names in words, for the run's banner."""
        total = len(self.matched) + len(self.other_shape) + len(self.missing)
        found = [f"init       {len(self.matched)} of {total} variables from {self.source}; the optimizer starts fresh"]
        for reason, names in (
            ("other shape", self.other_shape),
            ("not there", self.missing),
            ("not used", self.unused),
        ):
            if names:
                more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
                found.append(f"           {reason}: {', '.join(names[:_SHOWN])}{more}")
        return found


def load_into(network: tf_keras.Model, path: str) -> Matched:
    """Assigns the values of a checkpoint or Keras file to a network.

    Of a checkpoint, those to the variables of the same name and shape; of a Keras file, as Keras' `load_weights` does,
    to the layers in the same places, and of a .weights.h5 file to all.

    Args:
      network: built.
      path: the result of `stored_run.checkpoint_at`.

    Raises:
      ValueError: nothing matches, or the file cannot be read.
    """
    result = _load_file(network, path) if path.endswith((".keras", ".h5")) else _load_checkpoint(network, path)
    if not result.matched:
        raise InputError(
            f"--init_from: no variable of {path} has the name and shape of one of this network:\n"
            + "\n".join(result.lines()[1:])
        )
    return result


def _load_file(network: tf_keras.Model, path: str) -> Matched:
    before = network.get_weights()
    marked = [np.full_like(each, np.nan) if np.issubdtype(each.dtype, np.floating) else each for each in before]
    with tempfile.TemporaryDirectory() as folder:
        weights = keras_file.weights(path, folder)
        try:
            network.set_weights(marked)
            with warnings.catch_warnings():
                # One for each layer that is left out.
                warnings.simplefilter("ignore")
                network.load_weights(weights, skip_mismatch=path.endswith(".keras"))
        except Exception as error:
            network.set_weights(before)
            raise InputError(
                f"--init_from: {path} does not fit this network: {first_line(error)} A weights file has no "
                "names: all of it has to fit; a checkpoint or a .keras file may differ."
            ) from None
    after = network.get_weights()
    missing = [np.issubdtype(each.dtype, np.floating) and bool(np.isnan(each).any()) for each in after]
    network.set_weights([old if lost else new for old, new, lost in zip(before, after, missing)])
    names = [_name(variable) for variable in network.weights]
    matched = [name for name, lost in zip(names, missing) if not lost]
    return Matched(path, matched, [], [name for name, lost in zip(names, missing) if lost], [])


def _load_checkpoint(network: tf_keras.Model, path: str) -> Matched:
    by_name, by_key = _values(path)
    keys = _keys(network)
    matched, other_shape, missing, used, values = [], [], [], set(), []
    for variable in network.variables:
        name = _name(variable)
        found = by_key.get(keys.get(id(variable), ""))
        # Variables that share a name are told apart by their keys, the paths of attributes to them.
        if found is None or found.name != name:
            found = by_name.get(name)
        if found is None:
            missing.append(name)
            continue
        used.add(id(found))
        if tuple(found.value.shape) != tuple(variable.shape):
            other_shape.append(f"{name} {list(variable.shape)}, there {list(found.value.shape)}")
            continue
        matched.append(name)
        values.append((variable, found.value))
    for variable, value in values:
        variable.assign(tf.cast(value, variable.dtype))
    unused = sorted({each.name for each in (*by_name.values(), *by_key.values()) if id(each) not in used})
    return Matched(path, matched, other_shape, missing, unused)


@dataclasses.dataclass(frozen=True, eq=False)
class _Value:
    name: str
    value: np.ndarray


def _values(path: str) -> tuple[Mapping[str, _Value], Mapping[str, _Value]]:
    """The network's values in a run's checkpoint, by name (those that are unique) and by key."""
    checkpoint_files.check_all(path)
    try:
        reader = tf.train.load_checkpoint(literal_path(path))
        graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(
            reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH")
        )
        by_key = {
            value.checkpoint_key: _Value(value.full_name, reader.get_tensor(value.checkpoint_key))
            for node in graph.nodes
            for value in node.attributes
            if value.checkpoint_key.startswith("network/") and "/.OPTIMIZER_SLOT/" not in value.checkpoint_key
        }
        averages = {
            value.full_name.removeprefix("average/"): reader.get_tensor(value.checkpoint_key)
            for node in graph.nodes
            for value in node.attributes
            if value.checkpoint_key.startswith(f"{checkpoint_files.AVERAGES}/")
        }
    except (tf.errors.OpError, RuntimeError, ValueError, IndexError, DecodeError) as error:
        raise InputError(f"--init_from: {path} cannot be read: {first_line(error)}") from None
    counts = Counter(each.name for each in by_key.values())
    if any(counts[name] != 1 for name in averages):
        raise InputError(
            f"--init_from: {path} is of a run with use_ema, and several of its variables share a name, so that their "
            "averages cannot be told apart. Give the .keras file of tfbigbatch export, which has the averages."
        )
    # A run with use_ema evaluated the averages.
    by_key = {key: _Value(each.name, averages.get(each.name, each.value)) for key, each in by_key.items()}
    return {each.name: each for each in by_key.values() if counts[each.name] == 1}, by_key


def _name(variable: Any) -> str:
    return str(variable.name).split(":")[0]


def _keys(network: tf_keras.Model) -> dict[int, str]:
    """The key that a run's checkpoint has for each variable, by the variable's id."""
    found: dict[int, str] = {}
    waiting: list[tuple[str, Any]] = [("network", network)]
    seen = {id(network)}
    # As TensorFlow does it: breadth first, so that each object has its shortest path.
    while waiting:
        path, holder = waiting.pop(0)
        if hasattr(holder, "assign"):
            found[id(holder)] = f"{path}/.ATTRIBUTES/VARIABLE_VALUE"
            continue
        children: Mapping[str, Any] = getattr(holder, "_trackable_children", dict)()
        for name, child in children.items():
            if id(child) not in seen:
                seen.add(id(child))
                waiting.append((f"{path}/{name.replace('.', '..').replace('/', '.S')}", child))
    return found
