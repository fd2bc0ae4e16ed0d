"""The variables and optimizers that the objects of a `fit` hold: in attributes, lists, closures and globals."""

from __future__ import annotations

import collections
import dataclasses
import functools
import inspect
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

# Of Keras' models: what they run on, and what `compile` was given, whose metrics are the model's once they are built.
_LEFT_OUT = {"_steps_per_execution", "_distribute_strategy", "train_function", "test_function", "predict_function"}
_LEFT_OUT |= {"_compile_config", "_compile_loss", "_compile_metrics", "compiled_loss", "compiled_metrics"}
# Of TensorFlow, what may hold variables; not datasets, functions and strategies.
_HOLDERS = (tf.Module, tf.random.Generator, tf.train.Checkpoint, tf.train.ExponentialMovingAverage)
_TABLES = (tf.lookup.experimental.MutableHashTable, tf.lookup.experimental.DenseHashTable)
PLAIN: tuple[type, ...] = (str, bytes, int, float, complex, type(None), type, types.ModuleType)
PLAIN += (np.ndarray, np.generic, tf.Tensor, tf.data.Dataset)
"""What holds no state of a training."""
# Packages whose classes and functions hold nothing of the training.
_FOREIGN = sys.stdlib_module_names | {"tensorflow", "numpy", "absl", "google", "h5py", "pandas"}
_FRAMEWORKS = {"keras", "tf_keras", "tfbigbatch"}
# Longer lists are data.
_LONGEST = 10_000


@dataclasses.dataclass
class Found:
    """The findings of a walk, each by the path to it, such as 'model.teacher._layers[0]._kernel'.

    Attributes:
      variables: each once, but for those that only an optimizer holds.
      of_optimizers: those.
      tables: lookup tables that can change.
      optimizers: the outermost ones.
    """

    variables: dict[str, tf.Variable] = dataclasses.field(default_factory=dict)
    of_optimizers: dict[str, tf.Variable] = dataclasses.field(default_factory=dict)
    tables: dict[str, Any] = dataclasses.field(default_factory=dict)
    optimizers: dict[str, Any] = dataclasses.field(default_factory=dict)


def found_from(
    roots: Mapping[str, tuple[Any, bool]], left_out: Sequence[Any], named: Mapping[str, tf.Variable]
) -> Found:
    """The findings of a walk from objects through all that they hold.

    Args:
      roots: by name, an object and whether the functions that users wrote are read for what they refer to: closures,
        defaults and globals.
      left_out: variables that are not found, and objects that are not entered.
      named: variables that have names: they are found first, by these.
    """
    found = Found()
    # The objects themselves, so that none is freed and its number given to another.
    seen: dict[int, Any] = {id(each): each for each in left_out}
    # A variable may be wrapped in others, as by AutoCastVariable.
    keys = {handles(each)[0] for each in left_out if isinstance(each, tf.Variable)}

    def walk(queue: Iterable[tuple[str, Any, bool]], variables: dict[str, tf.Variable]) -> None:
        queue = collections.deque(queue)
        while queue:
            path, value, with_functions = queue.popleft()
            if isinstance(value, PLAIN) or id(value) in seen:
                continue
            seen[id(value)] = value
            if isinstance(value, tf.Variable):
                if handles(value)[0] not in keys:
                    keys.add(handles(value)[0])
                    variables[path] = value
            elif isinstance(value, _TABLES):
                found.tables[path] = value
            elif is_optimizer(value) and variables is found.variables:
                found.optimizers[path] = value
            else:
                queue.extend((path + step, child, with_functions) for step, child in _children(value, with_functions))

    walk([(path, variable, False) for path, variable in named.items()], found.variables)
    for name, root in roots.items():
        walk([(name, *root)], found.variables)
    # Afterwards: they have lists of the variables that they train.
    for path, optimizer in found.optimizers.items():
        walk([(path + step, child, False) for step, child in _children(optimizer, False)], found.of_optimizers)
    return found


def is_optimizer(value: Any) -> bool:
    """True if a value is an optimizer of a Keras."""
    return hasattr(value, "apply_gradients") and hasattr(value, "get_config") and not isinstance(value, type)


def handles(variable: tf.Variable) -> list[int]:
    """The numbers that identify a variable in TensorFlow, one for each replica."""
    return [id(each.handle) for each in getattr(variable, "values", None) or [variable]]


def _children(value: Any, with_functions: bool) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        if len(value) <= _LONGEST:
            yield from ((f"[{key!r}]", child) for key, child in list(value.items()))
    elif isinstance(value, (list, tuple, collections.deque)):
        if len(value) <= _LONGEST:
            yield from ((f"[{index}]", child) for index, child in enumerate(list(value)))
        yield from _attributes(value)
    elif isinstance(value, types.MethodType):
        yield from (("", value.__self__), ("", value.__func__))
    elif isinstance(value, functools.partial):
        yield from (("", value.func), ("", value.args), ("", value.keywords))
    elif isinstance(value, types.FunctionType):
        if with_functions and _package(value) not in _FOREIGN | _FRAMEWORKS:
            yield from _referred(value)
    elif isinstance(value, _HOLDERS) or _package(type(value)) not in _FOREIGN:
        yield from _attributes(value)
        if with_functions:
            for kind in type(value).__mro__:
                if _package(kind) not in _FOREIGN | _FRAMEWORKS:
                    yield from (("", each) for each in vars(kind).values() if inspect.isfunction(each))


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    try:
        own = dict(vars(value))
    except TypeError:
        return
    yield from ((f".{name}", child) for name, child in own.items() if name not in _LEFT_OUT)


def _referred(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The objects in a function's closure and defaults, and the globals that it names."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield f" ({name})", cell.cell_contents
        except ValueError:
            # Not assigned yet.
            continue
    yield from (("", each) for each in function.__defaults__ or ())
    codes = [function.__code__]
    for code in codes:
        codes += [each for each in code.co_consts if isinstance(each, types.CodeType)]
        yield from (
            (f" ({name})", function.__globals__[name]) for name in code.co_names if name in function.__globals__
        )


def _package(value: Any) -> str:
    return (getattr(value, "__module__", None) or "").partition(".")[0]
