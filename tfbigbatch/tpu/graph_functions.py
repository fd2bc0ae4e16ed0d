"""The functions that a graph's operations refer to: loop bodies, branches, calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensorflow.python.eager import context
from tensorflow.python.framework import errors_impl, function_def_to_graph


def names(node: Any) -> list[str]:
    """The names of the functions in the attributes of a NodeDef."""
    found: list[str] = []
    for value in node.attr.values():
        found += [value.func.name] if value.func.name else []
        found += [each.name for each in value.list.func]
    return found


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


def graph_of(name: str, graph: Any) -> Any:
    """A FuncGraph of the function; see `definition`."""
    try:
        return function_def_to_graph.function_def_to_graph(definition(name, graph))
    except ValueError:
        # A function that it calls is not registered, only in its own Python graph.
        held = _held(name, graph)
        if held is None:
            raise
        return held.graph


def add(function_names: Iterable[str], source: Any, target: Any) -> None:
    """Adds functions of the graph `source` to the graph `target`."""
    for name in function_names:
        held = _held(name, source)
        if held is not None and hasattr(target, "_add_function_recursive"):
            target._add_function_recursive(held)


def _held(name: str, graph: Any) -> Any:
    while graph is not None:
        held = graph._get_function(name)
        if held is not None:
            return held
        graph = getattr(graph, "outer_graph", None)
    return None
