"""Constructors that fields declare: the arguments of an optimizer's class for its page, as `help` shows them.

Only modules that need neither TensorFlow nor Keras are imported: those of the rules, and of the wrappers' arguments.
"""

from __future__ import annotations

import importlib
from typing import Any

import griffe

# Classes of these modules declare fields.
_DECLARING = {
    f"tfbigbatch.optimizers.{name}"
    for name in ("adamw", "lamb", "lars", "muon", "rule", "shampoo", "wrapper_arguments")
}


class DeclaredArguments(griffe.Extension):
    """Gives each class of declared fields its constructor, and the docstring with its arguments."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Called with the whole package, so that names of other modules resolve."""
        if pkg.path == "tfbigbatch":
            self._visit(pkg)

    def _visit(self, parent: griffe.Module | griffe.Class) -> None:
        for member in parent.members.values():
            if member.is_alias:
                continue
            if isinstance(member, griffe.Class):
                _declare(member)
            if isinstance(member, griffe.Module | griffe.Class):
                self._visit(member)


def _declare(cls: griffe.Class) -> None:
    classes = [cls, *cls.mro()]
    declaring = next((each for each in classes if each.module.path in _DECLARING), None)
    own = getattr(importlib.import_module(declaring.module.path), declaring.name) if declaring else None
    if not hasattr(own, "hyperparameters"):
        return
    from tfbigbatch.optimizers import declared

    text = next((each.docstring.value for each in classes if each.docstring), "")
    cls.docstring = griffe.Docstring(
        declared.documented(text, own.hyperparameters), lineno=cls.lineno, parent=cls, parser=griffe.Parser.google
    )
    kinds = griffe.ParameterKind
    parameters = [griffe.Parameter("self", kind=kinds.positional_or_keyword)] + [
        griffe.Parameter(
            name,
            kind=kinds.keyword_only if each.kw_only else kinds.positional_or_keyword,
            annotation=each.annotation,
            default=repr(each.default),
        )
        for name, each in own.hyperparameters.items()
    ]
    cls.set_member("__init__", griffe.Function("__init__", parameters=griffe.Parameters(*parameters)))
