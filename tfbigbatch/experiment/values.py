"""Values of config fields from the text of a command line, of the type that the field has."""

from __future__ import annotations

import ast
from typing import Any

import ml_collections

from tfbigbatch.errors import InputError

_TRUE, _FALSE, _NONE = ("true", "t", "yes", "1"), ("false", "f", "no", "0"), ("none", "null")
_EXAMPLES: dict[type, str] = {bool: "true", int: "512", float: "0.1", tuple: "1,2"}
_EXPECTED = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple: "values with commas between them",
}


def parse(name: str, text: str, current: Any) -> Any:
    """The value that a text gives to a field; its type is that of the present value.

    Numbers as Python writes them, 1e3 too for a whole number; true and false; tuples as 1,1,2 or (1, 1, 2), empty for
    none. A field that is None takes any value of Python, and other text as a string.

    Args:
      name: dotted name of the field, for errors.
      text: from the command line.
      current: the field's present value.

    Raises:
      ValueError: the text is not of this type, or the field is a group of fields.
    """
    if isinstance(current, ml_collections.ConfigDict):
        fields = sorted(current.keys(), key=lambda field: (field != "name", field))
        first = f"--config.{name}.{fields[0]}=..." if fields else f"--config.{name}.FIELD=VALUE"
        raise InputError(f"--config.{name}={text}: {name} is a group of fields; set one of them, such as {first}.")
    if isinstance(current, str):
        return text
    if current is None:
        return literal(text)
    kind = tuple if isinstance(current, (tuple, list)) else type(current)
    try:
        return _entries(text, current) if kind is tuple else _scalar(text, kind)
    except (ValueError, SyntaxError):
        expected, example = _EXPECTED.get(kind, f"a value of type {kind.__name__}"), _example(current, kind)
        raise InputError(f"--config.{name}={text}: expected {expected}, such as --config.{name}={example}.") from None


def literal(text: str) -> Any:
    """What a text says: None, true or false, a number, or a tuple, list or dictionary of Python; else the text."""
    lower = text.strip().lower()
    if lower in _NONE:
        return None
    if lower in ("true", "false"):
        return lower == "true"
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _scalar(text: str, kind: type) -> Any:
    if kind is bool:
        lower = text.strip().lower()
        if lower not in (*_TRUE, *_FALSE):
            raise ValueError
        return lower in _TRUE
    if kind is float:
        return float(text)
    if kind is int:
        try:
            return int(text)
        except ValueError:
            value = float(text)
            if not value.is_integer() or "." in text:
                raise ValueError from None
            return int(value)
    return kind(text)


def _entries(text: str, current: Any) -> tuple[Any, ...]:
    inside = text.strip()
    if inside[:1] + inside[-1:] in ("()", "[]"):
        inside = inside[1:-1].strip()
    if not inside:
        return ()
    if current and isinstance(current[0], str) or not inside.startswith(("{", "'", '"', "(", "[")):
        parts = [part.strip() for part in inside.rstrip(",").split(",")]
        if current and not isinstance(current[0], (dict, tuple, list)):
            return tuple(_entry(part, type(current[0])) for part in parts)
        return tuple(literal(part) for part in parts)
    value = ast.literal_eval(f"({inside},)" if not inside.endswith(",") else f"({inside})")
    return tuple(value)


def _entry(part: str, kind: type) -> Any:
    return part.strip("'\"") if kind is str else _scalar(part, kind)


def _example(current: Any, kind: type) -> str:
    """The present value as a text; another where it is empty or a flag."""
    if kind is tuple and current and not isinstance(current[0], dict):
        return ",".join(str(each) for each in current)
    if kind in (int, float) and current == current:
        return str(current)
    return _EXAMPLES.get(kind, str(current))
