"""Docstrings that the source assigns: `__doc__ = lamb.DOCSTRING` and `__doc__ = SharpnessMixin.__doc__`."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import griffe

SHARED = "tfbigbatch.optimizers.options"


class AssignedDocstrings(griffe.Extension):
    """Gives each class the docstring that its `__doc__` names."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Called with the whole package, so that names of other modules resolve."""
        if pkg.path == "tfbigbatch":
            self._visit(pkg)

    def _visit(self, parent: griffe.Module | griffe.Class) -> None:
        for member in parent.members.values():
            if member.is_alias:
                continue
            if isinstance(member, griffe.Class) and "__doc__" in member.members:
                member.docstring = _assigned(member)
                del member.members["__doc__"]
            if isinstance(member, griffe.Module | griffe.Class):
                self._visit(member)


def _assigned(cls: griffe.Class) -> griffe.Docstring:
    """The docstring that `__doc__` of a class names.

    Raises:
      ValueError: it names neither a class with a docstring nor a `DOCSTRING`.
    """
    name, _, attribute = str(cls.members["__doc__"].value).rpartition(".")
    first, *rest = name.split(".")
    origin = _target(cls.modules_collection[".".join([cls.module.resolve(first), *rest])])
    if attribute == "__doc__" and origin.docstring:
        text = origin.docstring.value
    elif attribute == "DOCSTRING":
        text = _with_shared_arguments(cls, ast.parse(str(origin.members[attribute].value), mode="eval").body)
    else:
        raise ValueError(
            f"{cls.path}.__doc__ = {cls.members['__doc__'].value}; expected NAME.DOCSTRING or NAME.__doc__"
        )
    return griffe.Docstring(text, lineno=cls.lineno, parent=cls, parser=griffe.Parser.google)


def _with_shared_arguments(cls: griffe.Class, call: ast.expr) -> str:
    """What `options.with_shared_arguments` returns, by its own source; importing it would import Keras."""
    if not isinstance(call, ast.Call):
        raise ValueError(f"{cls.path}: its DOCSTRING is no call of with_shared_arguments.")
    tree = ast.parse(cls.modules_collection[SHARED].filepath.read_text(encoding="utf-8"))
    # The function, and the texts that it puts together.
    nodes = [
        node
        for node in tree.body
        if (isinstance(node, ast.FunctionDef) and node.name == "with_shared_arguments")
        or (isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant))
    ]
    names: dict[str, Any] = {}
    exec(compile(ast.Module(nodes, []), SHARED, "exec"), names)
    arguments = [ast.literal_eval(each) for each in call.args]
    options = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
    return inspect.cleandoc(names["with_shared_arguments"](*arguments, **options))


def _target(found: griffe.Object | griffe.Alias) -> Any:
    return found.final_target if found.is_alias else found
