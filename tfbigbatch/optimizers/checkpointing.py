"""An optimizer's state in a `tf.train.Checkpoint`: by name, and checked when it is restored."""

from __future__ import annotations

import collections
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.checkpoint import tensor_callable
from tensorflow.python.trackable import base as trackable

from tfbigbatch.errors import InputError


class SavedByName:
    """Mixed into an optimizer with a `named_state` and a `_place`: how TensorFlow and Keras save and load it."""

    named_state: NamedState
    variables: Any
    _place: Any
    has_foreign_state = False

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        if save_type == "checkpoint":
            return {"named_state": self.named_state}
        return super()._trackable_children(save_type, **kwargs)  # type: ignore[misc]

    def _lookup_dependency(self, name: str, *args: Any, **kwargs: Any) -> Any:
        # Keras' own optimizers have their state under '_variables'. The base class' constructor calls this too.
        if "named_state" in vars(self) and name in ("_variables", "named_state"):
            self.has_foreign_state = name == "_variables"
        return super()._lookup_dependency(name, *args, **kwargs)  # type: ignore[misc]

    def load_own_variables(self, store: Any) -> None:
        """Keras' own."""
        self._check_that_state_is_here()
        super().load_own_variables(store)  # type: ignore[misc]

    def save_own_variables(self, store: Any) -> None:
        """Keras' own."""
        self._check_that_state_is_here()
        super().save_own_variables(store)  # type: ignore[misc]

    def refuse_foreign_state(self) -> None:
        """Raises ValueError: a checkpoint of another optimizer was restored into this one."""
        raise ValueError(
            f"The checkpoint that was restored into this {type(self).__name__} holds the state of another "
            "optimizer: nothing of it was taken. To start afresh, leave the optimizer out: "
            "tf.train.Checkpoint(model=model)."
        )

    def _check_that_state_is_here(self) -> None:
        if self._place.is_in_other_processes:
            name = type(self).__name__
            raise InputError(
                f"{name}(shard_updates=True): a .keras or .h5 file is read and written by one process, and others have "
                f"a part of the state. Save a tf.train.Checkpoint on all workers, or the model without its optimizer "
                "(include_optimizer=False, save_weights)."
            )


class ShardedVariable(trackable.Trackable):
    """A state variable that one process of several has, as all of them save and restore it.

    A checkpoint holds it as it holds a variable. All processes save together, as MultiWorkerMirroredStrategy asks, and
    read the same file.

    Args:
      variable: None in the processes that do not have it.
      shape, dtype: of the variable.
      gather: function that gives all processes its value, when all call it.
    """

    def __init__(
        self,
        variable: tf.Variable | None,
        shape: Sequence[int],
        dtype: tf.DType,
        gather: Callable[[], tf.Tensor],
    ) -> None:
        self.variable = variable
        self.shape = tf.TensorShape(shape)
        self.dtype = dtype
        self._gather = gather

    def _serialize_to_tensors(self) -> dict[str, Any]:
        # TensorFlow asks at a restore too: the value is gathered only where it is written.
        value = tensor_callable.Callable(self._gather, dtype=self.dtype, device="/device:CPU:0")
        return {trackable.VARIABLE_VALUE_KEY: value}

    def _restore_from_tensors(self, restored: Mapping[str, tf.Tensor]) -> Any:
        if self.variable is None:
            return tf.no_op()
        return self.variable.assign(restored[trackable.VARIABLE_VALUE_KEY])


class NamedState(tf.Module):
    """The variables of an optimizer under the names they have in a checkpoint.

    A layer's variables are named after its path. Keras numbers layers over the life of a process (dense_7); here they
    are numbered within the model, so that the same model made twice has the same names.
    """

    def __init__(self, optimizer: str, **variables: tf.Variable) -> None:
        super().__init__(name="state")
        self.layout = _Layout(optimizer)
        for name, variable in variables.items():
            setattr(self, name, variable)

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        children = super()._trackable_children(save_type, **kwargs)
        if save_type != "checkpoint":
            # A SavedModel holds variables only.
            children.pop("layout", None)
        return children

    def add_layers(self, paths: Sequence[str], state: dict[str, list[Any]]) -> None:
        """Adds the state of each layer: dictionary of name to a list with a variable, a ShardedVariable or None, for
        each path.

        Raises:
          ValueError: what was restored before is of other layers.
        """
        names = canonical(paths)
        layers = {
            f"{kind}/{name}": variable
            for kind in state
            for name, variable in zip(names, state[kind])
            if variable is not None
        }
        self.layout.shapes = {name: variable.shape.as_list() for name, variable in layers.items()}
        self.layout.check()
        for name, variable in layers.items():
            setattr(self, name, variable)

    def add_averages(self, paths: Sequence[str], averages: Sequence[tf.Variable]) -> None:
        """Adds the moving average of each layer's weights."""
        for name, variable in zip(canonical(paths), averages):
            setattr(self, f"average/{name}", variable)


class _Layout(tf.train.experimental.PythonState):
    """Names and shapes of a checkpoint's layers: a restore of others is an error, not a fresh start."""

    def __init__(self, optimizer: str) -> None:
        self.optimizer = optimizer
        self.shapes: dict[str, list[int]] = {}
        self.restored: dict[str, list[int]] = {}

    def serialize(self) -> str:
        return json.dumps(self.shapes)

    def deserialize(self, string: str) -> None:
        self.restored = json.loads(string)
        self.check()

    def check(self) -> None:
        here, there = self.shapes, self.restored
        names = [name for name in {**here, **there} if here.get(name) != there.get(name)]
        if here and there and names:
            found = [f"{name}: {there.get(name, 'none')} there, {here.get(name, 'none')} here" for name in names[:6]]
            raise ValueError(
                f"The checkpoint holds another state than this {self.optimizer} has. {'; '.join(found)}. Restore it "
                "into the model and optimizer that wrote it, or leave the optimizer out: "
                "tf.train.Checkpoint(model=model)."
            )


def canonical(paths: Sequence[str]) -> list[str]:
    """Names for variables' paths, without Keras' running numbers: unique, and equal for equal models.

    ['dense_7/kernel', 'dense_9/kernel'] gives ['dense/kernel', 'dense#1/kernel'].
    """
    split = [[re.findall(r"^(.*?)(?:_(\d+))?$", part)[0] for part in path.split("/")] for path in paths]
    numbers: dict[Any, set[int]] = {}
    for parts in split:
        for depth, (stem, number) in enumerate(parts):
            numbers.setdefault((*parts[:depth], stem), set()).add(int(number or 0))
    names, seen = [], collections.Counter[str]()
    for parts in split:
        pieces = []
        for depth, (stem, number) in enumerate(parts):
            rank = sorted(numbers[*parts[:depth], stem]).index(int(number or 0))
            pieces.append(f"{stem}#{rank}" if rank else stem)
        name = "/".join(pieces)
        names.append(f"{name}~{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return names
