"""The variables that the traced training step of a model changes, by TensorFlow's graph of it."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import auto_control_deps_utils

from tfbigbatch.callbacks.reachable import handles
from tfbigbatch.callbacks.training_state import TrainingState

# Operations that keep the state of their random numbers to themselves.
_RANDOM = {"TruncatedNormal", "ParameterizedTruncatedNormal", "Multinomial"}


def unsaved(model: Any, state: TrainingState) -> list[str]:
    """Sentences on what the first step has changed and no snapshot of a `fit` holds, with what to do about each.

    Args:
      state: as it was found before the step.
    """
    made = state.made_since()
    known = {handle for each in made.values() for handle in handles(each)}
    lost = [
        f"{each.name} ({each.dtype.name} {each.shape})"
        for handle, each in _changed_variables(model).items()
        if handle not in known and not state.holds(handle)
    ]
    kinds = (
        (
            lost,
            "The training step changes it, and neither the model nor a callback holds it: give what does, as "
            "ExactResume(..., also=[...]).",
        ),
        (
            sorted(made),
            "The first step made it: make it before fit, by a call of the layer or model, or the optimizer's build().",
        ),
        (
            _random_operations(model),
            "These operations of tf.random keep the state of their numbers to themselves: draw from keras.random with "
            "a SeedGenerator, or from a tf.random.Generator, that is an attribute of the layer. For layers of Keras 2 "
            "call tf_keras.backend.experimental.enable_tf_random_generator() before the model is made.",
        ),
    )
    return [f"{', '.join(found[:5])}{', ...' if len(found) > 5 else ''}. {advice}" for found, advice in kinds if found]


def _changed_variables(model: Any) -> dict[int, tf.Variable]:
    """The variables that the training step assigns, by the number that `reachable.handles` has for each.

    Empty where the step is not traced: before the first one, and with run_eagerly=True.
    """
    found = {}
    for traced in _traced(model.train_function):
        graph = traced.graph
        variables = {handle: each for each in graph.variables for handle in handles(each)}
        read = auto_control_deps_utils.get_read_only_resource_input_indices_graph(graph)
        only_read = {id(graph.inputs[index]) for index in read}
        for outside, inside in graph.captures:
            if id(inside) not in only_read and id(outside) in variables:
                found[id(outside)] = variables[id(outside)]
    return found


def _random_operations(model: Any) -> list[str]:
    """The names of the training step's operations that draw random numbers from state of their own."""
    found = []
    for traced in _traced(model.train_function):
        graph = traced.graph.as_graph_def()
        nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
        found += [node.name for node in nodes if node.op.startswith("Random") or node.op in _RANDOM]
    return sorted(set(found))


def _traced(function: Any, depth: int = 4) -> Iterator[Any]:
    """The traces of a function, or of those that its closure holds."""
    if isinstance(function, tf.types.experimental.PolymorphicFunction):
        yield from function._list_all_concrete_functions()
    elif isinstance(function, types.FunctionType) and depth:
        for cell in function.__closure__ or ():
            yield from _traced(cell.cell_contents, depth - 1)
