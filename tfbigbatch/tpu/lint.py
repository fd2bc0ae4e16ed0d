"""Lint of a traced step: operations that a TPU cannot run, or runs slowly, with the line of Python behind each."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tfbigbatch.tpu import functionalize

# Operations by reason. XLA compiles dynamic shapes that are bounded, padded to the bound.
_DYNAMIC = re.compile("(Unique|UniqueWithCounts)(V2)?|Where|NonMaxSuppressionV3|Bincount")
_ON_HOST = re.compile("Decode.*|EagerPyFunc|Parse.*|Print.*|PyFunc.*|ReadFile|StringFormat")
HOST, DYNAMIC, FLOAT64, STRING = "host", "dynamic shape", "float64", "string"
_WIDE = (tf.float64, tf.complex128)


def findings(traced: Any) -> list[dict[str, Any]]:
    """The problems of a traced step (tf.ConcreteFunction), one for each kind, operation and line.

    Returns:
      Dictionaries: kind (HOST, DYNAMIC, FLOAT64 or STRING), operation (its type), name (in the graph), times (their
      number), line ('file:line: code' of the innermost frame outside of TensorFlow and Keras; empty if unknown).
    """
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    seen: set[str] = set()
    for operation in traced.graph.get_operations():
        line = _line(operation)
        for name, kind, dtypes in _within(operation, seen):
            for problem in _problems(name, kind, dtypes):
                new = {"kind": problem, "operation": kind, "name": name, "line": line, "times": 0}
                found.setdefault((problem, kind, line), new)["times"] += 1
    return list(found.values())


def _problems(name: str, kind: str, dtypes: set[tf.DType]) -> Iterator[str]:
    if _ON_HOST.fullmatch(kind):
        yield HOST
    # XLA removes assertions, and their messages with them.
    elif tf.string in dtypes and not any(part.startswith("Assert") for part in name.split("/")):
        yield STRING
    if _DYNAMIC.fullmatch(kind):
        yield DYNAMIC
    if any(dtype in _WIDE for dtype in dtypes):
        yield FLOAT64


def _within(operation: Any, seen: set[str]) -> Iterator[tuple[str, str, set[tf.DType]]]:
    """(name, type, dtypes of its outputs) of an operation and of all operations in the functions that it calls."""
    yield operation.name, operation.type, {tensor.dtype for tensor in operation.outputs}
    waiting = functionalize.functions_of(operation.node_def)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for node in functionalize.definition(name, operation.graph).node_def:
            # A function's definition does not distinguish the dtypes of the outputs from others.
            types = (value.type for value in node.attr.values() if value.type)
            yield node.name, node.op, {tf.as_dtype(number).base_dtype for number in types}
            waiting += functionalize.functions_of(node)


def _line(operation: Any) -> str:
    outside = [frame for frame in operation.traceback or () if not _is_library(frame.filename)]
    if not outside:
        return ""
    path, number = outside[-1].filename, outside[-1].lineno
    return f"{os.path.relpath(path)}:{number}: {linecache.getline(path, number).strip()}".rstrip(": ")


def _is_library(path: str) -> bool:
    parts = path.split(os.sep)
    return "site-packages" in parts or path.startswith("<") or parts[-2:] == ["tpu", "step.py"]
