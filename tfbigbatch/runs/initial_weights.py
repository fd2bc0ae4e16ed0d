"""Weights of another run for a new run."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import trackable_object_graph_pb2

from tfbigbatch.errors import InputError, first_line
from tfbigbatch.runs import checkpoint_files
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
    """Assigns the values of a checkpoint to a network's variables of the same name and shape.

    Args:
      network: built.
      path: the result of `stored_run.checkpoint_at`.

    Raises:
      ValueError: nothing matches, or the checkpoint cannot be read.
    """
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
    unused = sorted({each.name for each in (*by_name.values(), *by_key.values()) if id(each) not in used})
    result = Matched(path, matched, other_shape, missing, unused)
    if not matched:
        raise InputError(
            f"--init_from: no variable of {path} has the name and shape of one of this network:\n"
            + "\n".join(result.lines()[1:])
        )
    for variable, value in values:
        variable.assign(tf.cast(value, variable.dtype))
    return result


class _Value(NamedTuple):
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
            "averages cannot be told apart. Give the layers names of their own."
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
