"""A training step as a pure function: the variables that it reads and writes become arguments and results.

XLA's ahead-of-time compiler takes no variables. The traced graph is written again, operation by operation, with a
tensor for the present value of each variable; calls are inlined, and loops and branches that touch variables carry
their values along.
"""

import typing

import tensorflow as tf

from tfbigbatch.tpu import graph_functions


class LiftedStep(typing.NamedTuple):
    """A pure training step.

    Attributes:
      function: from the step's inputs, flat, and then the values of `variables`, to the step's results, flat, and
        then the new values.
      specs: tf.TensorSpec of each argument of `function`.
      variables: the variables, in the order of their values.
    """

    function: typing.Callable
    specs: list
    variables: list


class _Handle(typing.NamedTuple):
    """Stands for the handle of a variable: its number among the lifted ones."""

    number: int


_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_LOOPS = ("While", "StatelessWhile")
_BRANCHES = ("If", "StatelessIf", "Case", "StatelessCase")


def lift(traced):
    """The `LiftedStep` of a step.

    Args:
      traced: a tf.ConcreteFunction, traced with jit_compile=True: its lists have fixed sizes then.

    Raises:
      ValueError: the step does with a variable what is not known here, or uses a resource that is none.
    """
    graph, captured = traced.graph, traced.captured_inputs
    inputs = len(graph.inputs) - len(captured)
    by_handle = {id_of(variable.handle): variable for variable in graph.variables}
    variables = []
    for each in captured:
        if each.dtype == tf.resource:
            if id_of(each) not in by_handle:
                raise ValueError(f"the step uses a resource that is no variable: {each}.")
            variables.append(by_handle[id_of(each)])

    def function(*arguments):
        values = list(arguments[inputs:])
        numbers = iter(range(len(variables)))
        given = [
            *arguments[:inputs],
            *(_Handle(next(numbers)) if each.dtype == tf.resource else tf.constant(each.numpy()) for each in captured),
        ]
        results = _written_again(graph, given, values, "")
        return [*results, *(tf.identity(value) for value in values)]

    specs = [tf.TensorSpec(each.shape, each.dtype) for each in graph.inputs[:inputs]]
    return LiftedStep(function, specs + [tf.TensorSpec(each.shape, each.dtype) for each in variables], variables)


def id_of(handle):
    """What tells an eager tensor from others."""
    return handle._id


def _written_again(graph, arguments, values, prefix):
    """Writes `graph` into the default graph; changes `values`, the variables', in place. Returns its outputs."""
    new = {tensor.ref(): argument for tensor, argument in zip(graph.inputs, arguments)}
    for operation in _ordered(graph):
        if operation.type == "Placeholder" and operation.outputs[0].ref() in new:
            continue
        inputs = [new[tensor.ref()] for tensor in operation.inputs]
        outputs = _outputs(operation, inputs, values, f"{prefix}{operation.name}")
        new.update({tensor.ref(): output for tensor, output in zip(operation.outputs, outputs)})
    return [new[tensor.ref()] for tensor in graph.outputs]


def _ordered(graph):
    """The operations, each after those it needs: gradients of loops add to graphs that were made before."""
    done, ordered = set(), []
    for root in graph.get_operations():
        stack = [(root, False)]
        while stack:
            operation, is_ready = stack.pop()
            if operation in done:
                continue
            if is_ready:
                done.add(operation)
                ordered.append(operation)
                continue
            stack.append((operation, True))
            needed = [tensor.op for tensor in operation.inputs] + list(operation.control_inputs)
            stack += [(each, False) for each in needed if each not in done]
    return ordered


def _outputs(operation, inputs, values, name):
    kind = operation.type
    if kind in _CALLS:
        return _written_again(
            graph_functions.graph_of(operation.get_attr("f").name, operation.graph), inputs, values, f"{name}/"
        )
    if not any(isinstance(each, _Handle) for each in inputs):
        return _copied(operation, inputs, name)
    if kind == "Identity":
        return inputs
    if kind in _VARIABLES:
        return _VARIABLES[kind](operation, values, inputs[0].number, *inputs[1:])
    if kind in _LOOPS:
        return _loop(operation, inputs, values, f"{name}/")
    if kind in _BRANCHES:
        return _branches(operation, inputs, values, f"{name}/")
    raise ValueError(f"{name}: {kind} on a variable is not known to tfbigbatch.tpu.functionalize; it knows {_known()}.")


def _known():
    return ", ".join(sorted((*_VARIABLES, *_LOOPS, *_BRANCHES, *_CALLS)))


def _copied(operation, inputs, name):
    graph = tf.compat.v1.get_default_graph()
    graph_functions.add(graph_functions.names(operation.node_def), operation.graph, graph)
    # Those with an underscore name devices, colocations and the tracer's own affairs.
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


def _loop(operation, inputs, values, prefix):
    numbers = sorted({each.number for each in inputs if isinstance(each, _Handle)})
    tensors = [each for each in inputs if not isinstance(each, _Handle)]

    def run(attribute, carried):
        rest = iter(carried[: len(tensors)])
        inner = dict(zip(numbers, carried[len(tensors) :]))
        given = [each if isinstance(each, _Handle) else next(rest) for each in inputs]
        return _written_again(
            graph_functions.graph_of(operation.get_attr(attribute).name, operation.graph), given, inner, prefix
        ), inner

    def body(*carried):
        outputs, inner = run("body", carried)
        return [each for each in outputs if not isinstance(each, _Handle)] + [inner[number] for number in numbers]

    carried = tf.while_loop(
        lambda *carried: tf.squeeze(run("cond", carried)[0][0]),
        body,
        tensors + [values[number] for number in numbers],
        parallel_iterations=1,
    )
    for number, value in zip(numbers, carried[len(tensors) :]):
        values[number] = value
    rest = iter(carried[: len(tensors)])
    return [each if isinstance(each, _Handle) else next(rest) for each in inputs]


def _branches(operation, inputs, values, prefix):
    numbers = sorted({each.number for each in inputs if isinstance(each, _Handle)})
    is_case = operation.type.endswith("Case")
    functions = operation.get_attr("branches") if is_case else [operation.get_attr("then_branch")]
    functions = functions if is_case else [*functions, operation.get_attr("else_branch")]

    def branch(function):
        inner = {number: values[number] for number in numbers}
        outputs = _written_again(graph_functions.graph_of(function.name, operation.graph), inputs[1:], inner, prefix)
        return [*outputs, *(inner[number] for number in numbers)]

    made = [lambda function=function: branch(function) for function in functions]
    results = tf.switch_case(inputs[0], made) if is_case else tf.cond(inputs[0], *made)
    outputs = len(operation.outputs)
    for number, value in zip(numbers, results[outputs:]):
        values[number] = value
    return results[:outputs]


# ---- Operations on variables: functions of (operation, values, number, *other inputs) that give the outputs ---------


def _assigned(new_value):
    def outputs(operation, values, number, *inputs):
        values[number] = new_value(values[number], *inputs)
        return []

    return outputs


def _random_position(operation, values, number, algorithm, delta):
    """The generator's position before; the 128-bit counter in its first two words goes on by 256 a unit."""
    before = values[number]
    words = tf.bitcast(before, tf.uint64)
    low = words[0] + tf.cast(delta, tf.uint64) * tf.constant(256, tf.uint64)
    high = words[1] + tf.cast(low < words[0], tf.uint64)
    values[number] = tf.bitcast(tf.concat([tf.stack([low, high]), words[2:]], axis=0), tf.int64)
    return [before]


_VARIABLES = {
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
