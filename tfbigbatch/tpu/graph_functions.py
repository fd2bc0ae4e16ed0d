"""The functions that the operations of a graph name: loop bodies, branches, calls."""

from tensorflow.python.eager import context
from tensorflow.python.framework import errors_impl, function_def_to_graph


def names(node):
    """The names of the functions in the attributes of a NodeDef."""
    found = []
    for value in node.attr.values():
        found += [value.func.name] if value.func.name else []
        found += [each.name for each in value.list.func]
    return found


def definition(name, graph):
    """The FunctionDef of a function that is registered, or held by `graph` or a graph around it.

    Raises:
      LookupError: it is neither.
    """
    try:
        # First: the Python graph of a loop's body may be of before its gradient was taken.
        return context.context().get_function_def(name)
    except errors_impl.NotFoundError:
        held = _held(name, graph)
        if held is None:
            raise LookupError(f"function {name} of the traced step is not found.") from None
        return held.cached_definition


def graph_of(name, graph):
    """A FuncGraph of the function; see `definition`."""
    try:
        return function_def_to_graph.function_def_to_graph(definition(name, graph))
    except ValueError:
        # What it calls is registered nowhere, and held by its own Python graph.
        held = _held(name, graph)
        if held is None:
            raise
        return held.graph


def add(function_names, source, target):
    """Makes functions that `source` holds known to the graph `target`."""
    for name in function_names:
        held = _held(name, source)
        if held is not None and hasattr(target, "_add_function_recursive"):
            target._add_function_recursive(held)


def _held(name, graph):
    while graph is not None:
        held = graph._get_function(name)
        if held is not None:
            return held
        graph = getattr(graph, "outer_graph", None)
    return None
