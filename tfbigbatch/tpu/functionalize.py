"""Functionalization of a training step: variables that it reads and writes become arguments and results.

XLA's ahead-of-time compiler takes no variables, and TensorFlow has no public functionalization, hence this own code.
It copies the traced graph, operation by operation, with a tensor for the current value of each variable. Calls are
inlined; loops and branches that use variables get their values as loop variables and results.
"""

from __future__ import annotations

import graphlib
import typing
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import errors_impl, function_def_to_graph


class PureStep(typing.NamedTuple):
    """A pure training step.

    Attributes:
      function: from the step's inputs, flat, and then the values of `variables`, to the step's results, flat, and
        then the new values.
      specs: tf.TensorSpec of each argument of `function`.
      variables: the variables, in the order of their values.
    """

    function: Callable[..., list[Any]]
    specs: list[tf.TensorSpec]
    variables: list[tf.Variable]


class _Handle(typing.NamedTuple):
    """Placeholder for the handle of a variable; `number` is its index in `PureStep.variables`."""

    number: int


_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_LOOPS = ("While", "StatelessWhile")
_BRANCHES = ("If", "StatelessIf", "Case", "StatelessCase")


def functionalize(traced: Any) -> PureStep:
    """Functionalizes a step.

    Args:
      traced: tf.ConcreteFunction, traced with jit_compile=True: its tensor lists then have fixed sizes.

    Raises:
      ValueError: the step has an unknown operation on a variable, or uses another kind of resource.
    """
    graph, captured = traced.graph, traced.captured_inputs
    inputs = len(graph.inputs) - len(captured)
    by_handle = {tensor_id(variable.handle): variable for variable in graph.variables}
    variables = []
    for each in captured:
        if each.dtype == tf.resource:
            if tensor_id(each) not in by_handle:
                raise ValueError(f"the step uses a resource that is not a variable: {each}.")
            variables.append(by_handle[tensor_id(each)])

    def function(*arguments: Any) -> list[Any]:
        values = list(arguments[inputs:])
        numbers = iter(range(len(variables)))
        given = [
            *arguments[:inputs],
            *(_Handle(next(numbers)) if each.dtype == tf.resource else tf.constant(each.numpy()) for each in captured),
        ]
        results = _copy_graph(graph, given, values, "")
        return [*results, *(tf.identity(value) for value in values)]

    specs = [tf.TensorSpec(each.shape, each.dtype) for each in graph.inputs[:inputs]]
    return PureStep(function, specs + [tf.TensorSpec(each.shape, each.dtype) for each in variables], variables)


def tensor_id(handle: Any) -> int:
    """An identifier of an eager tensor."""
    return handle._id


def _copy_graph(graph: Any, arguments: Sequence[Any], values: Any, prefix: str) -> list[Any]:
    """Copies `graph` into the default graph and updates the variables' `values` in place; returns the outputs."""
    new = {tensor.ref(): argument for tensor, argument in zip(graph.inputs, arguments)}
    # Gradients of loops are added to existing graphs out of order.
    needed = {each: [*(tensor.op for tensor in each.inputs), *each.control_inputs] for each in graph.get_operations()}
    for operation in graphlib.TopologicalSorter(needed).static_order():
        if operation.type == "Placeholder" and operation.outputs[0].ref() in new:
            continue
        inputs = [new[tensor.ref()] for tensor in operation.inputs]
        outputs = _outputs(operation, inputs, values, f"{prefix}{operation.name}")
        new.update({tensor.ref(): output for tensor, output in zip(operation.outputs, outputs)})
    return [new[tensor.ref()] for tensor in graph.outputs]


def _outputs(operation: Any, inputs: list[Any], values: Any, name: str) -> Sequence[Any]:
    kind = operation.type
    if kind in _CALLS:
        return _copy_graph(_graph_of(operation.get_attr("f").name, operation.graph), inputs, values, f"{name}/")
    if not any(isinstance(each, _Handle) for each in inputs):
        return _copy_operation(operation, inputs, name)
    if kind == "Identity":
        return inputs
    if kind in _VARIABLES:
        return _VARIABLES[kind](operation, values, inputs[0].number, *inputs[1:])
    if kind in _LOOPS:
        return _loop(operation, inputs, values, f"{name}/")
    if kind in _BRANCHES:
        return _branches(operation, inputs, values, f"{name}/")
    raise ValueError(
        f"{name}: {kind} on a variable is not supported by tfbigbatch.tpu.functionalize; supported: "
        f"{', '.join(sorted((*_VARIABLES, *_LOOPS, *_BRANCHES, *_CALLS)))}."
    )


def _copy_operation(operation: Any, inputs: list[Any], name: str) -> Sequence[Any]:
    graph = tf.compat.v1.get_default_graph()
    for function in functions_of(operation.node_def):
        held = _held(function, operation.graph)
        if held is not None and hasattr(graph, "_add_function_recursive"):
            graph._add_function_recursive(held)
    # Attributes with an underscore are devices, colocations and the tracer's own.
    attributes = {key: value for key, value in operation.node_def.attr.items() if not key.startswith("_")}
    copy = graph._create_op_internal(
        operation.type,
        inputs,
        [tensor.dtype for tensor in operation.outputs],
        name=name,
        attrs=attributes,
        op_def=operation.op_def,
        compute_device=False,
    )
    for old, new in zip(operation.outputs, copy.outputs):
        if old.shape.rank is not None and not new.shape.is_fully_defined():
            new.set_shape(old.shape)
    return copy.outputs


def _loop(operation: Any, inputs: list[Any], values: Any, prefix: str) -> list[Any]:
    numbers = sorted({each.number for each in inputs if isinstance(each, _Handle)})
    tensors = [each for each in inputs if not isinstance(each, _Handle)]

    def with_handles(carried: Sequence[Any]) -> list[Any]:
        rest = iter(carried)
        return [each if isinstance(each, _Handle) else next(rest) for each in inputs]

    def run(attribute: str, carried: Sequence[Any]) -> list[Any]:
        inner = dict(zip(numbers, carried[len(tensors) :]))
        graph = _graph_of(operation.get_attr(attribute).name, operation.graph)
        outputs = _copy_graph(graph, with_handles(carried), inner, prefix)
        return [each for each in outputs if not isinstance(each, _Handle)] + [inner[number] for number in numbers]

    carried = tf.while_loop(
        lambda *carried: tf.squeeze(run("cond", carried)[0]),
        lambda *carried: run("body", carried),
        tensors + [values[number] for number in numbers],
        parallel_iterations=1,
    )
    for number, value in zip(numbers, carried[len(tensors) :]):
        values[number] = value
    return with_handles(carried)


def _branches(operation: Any, inputs: list[Any], values: Any, prefix: str) -> Sequence[Any]:
    numbers = sorted({each.number for each in inputs if isinstance(each, _Handle)})
    is_case = operation.type.endswith("Case")

    def branch(function: Any) -> list[Any]:
        inner = {number: values[number] for number in numbers}
        outputs = _copy_graph(_graph_of(function.name, operation.graph), inputs[1:], inner, prefix)
        return [*outputs, *(inner[number] for number in numbers)]

    functions = operation.get_attr("branches") if is_case else map(operation.get_attr, ("then_branch", "else_branch"))
    made = [lambda function=function: branch(function) for function in functions]
    results = tf.switch_case(inputs[0], made) if is_case else tf.cond(inputs[0], *made)
    outputs = len(operation.outputs)
    for number, value in zip(numbers, results[outputs:]):
        values[number] = value
    return results[:outputs]


# ---- The functions that a graph's operations refer to: loop bodies, branches, calls --------------------------------


def functions_of(node: Any) -> list[str]:
    """The names of the functions in the attributes of a NodeDef."""
    return [each.name for value in node.attr.values() for each in (value.func, *value.list.func) if each.name]


def definition(name: str, graph: Any) -> Any:
    """The FunctionDef of a function that is registered, or in `graph` or an outer graph.

    Raises:
      LookupError: it is in none of these.
    """
    try:
        # Registered ones first: the Python graph of a loop's body may lack changes made for its gradient.
        return context.context().get_function_def(name)
    except errors_impl.NotFoundError:
        held = _held(name, graph)
        if held is None:
            raise LookupError(f"function {name} of the traced step is not found.") from None
        return held.cached_definition


def _graph_of(name: str, graph: Any) -> Any:
    """A FuncGraph of the function; see `definition`."""
    try:
        return function_def_to_graph.function_def_to_graph(definition(name, graph))
    except ValueError:
        # A function that it calls is not registered, only in its own Python graph.
        held = _held(name, graph)
        if held is None:
            raise
        return held.graph


def _held(name: str, graph: Any) -> Any:
    while graph is not None:
        held = graph._get_function(name)
        if held is not None:
            return held
        graph = getattr(graph, "outer_graph", None)
    return None


# ---- Operations on variables: functions of (operation, values, number, *other inputs) returning the outputs --------


def _assigned(new_value: Callable[..., Any]) -> Callable[..., list[Any]]:
    def outputs(operation: Any, values: Any, number: int, *inputs: Any) -> list[Any]:
        values[number] = new_value(values[number], *inputs)
        return []

    return outputs


def _random_position(operation: Any, values: Any, number: int, algorithm: Any, delta: Any) -> list[Any]:
    """The generator's position before; the 128-bit counter in its first two words advances by 256 per unit."""
    before = values[number]
    words = tf.bitcast(before, tf.uint64)
    low = words[0] + tf.cast(delta, tf.uint64) * tf.constant(256, tf.uint64)
    high = words[1] + tf.cast(low < words[0], tf.uint64)
    values[number] = tf.bitcast(tf.concat([tf.stack([low, high]), words[2:]], axis=0), tf.int64)
    return [before]


_VARIABLES: dict[str, Callable[..., list[Any]]] = {
    "AssignAddVariableOp": _assigned(lambda old, delta: old + delta),
    "AssignSubVariableOp": _assigned(lambda old, delta: old - delta),
    "AssignVariableOp": _assigned(lambda old, new: new),
    "ReadVariableOp": lambda operation, values, number: [tf.identity(values[number])],
    "ResourceGather": lambda operation, values, number, indices: [
        tf.gather(values[number], indices, batch_dims=operation.get_attr("batch_dims"))
    ],
    "ResourceScatterAdd": _assigned(lambda old, at, rows: tf.tensor_scatter_nd_add(old, at[..., None], rows)),
    "ResourceScatterSub": _assigned(lambda old, at, rows: tf.tensor_scatter_nd_sub(old, at[..., None], rows)),
    "ResourceScatterUpdate": _assigned(lambda old, at, rows: tf.tensor_scatter_nd_update(old, at[..., None], rows)),
    "RngReadAndSkip": _random_position,
    "VarIsInitializedOp": lambda operation, values, number: [tf.constant(True)],
    "VariableShape": lambda operation, values, number: [
        tf.constant(values[number].shape.as_list(), operation.get_attr("out_type"))
    ],
}
