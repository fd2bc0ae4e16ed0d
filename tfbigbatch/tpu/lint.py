"""Lint of a traced step: operations that a TPU cannot run, or runs slowly, with the line of Python behind each."""

from __future__ import annotations

import linecache
import os
import typing
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tfbigbatch.tpu import graph_functions

# Operations by reason. XLA compiles dynamic shapes that are bounded, padded to the bound.
_DYNAMIC = {"Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2", "Where", "NonMaxSuppressionV3", "Bincount"}
_ON_HOST = {
    "DecodeJpeg",
    "DecodeAndCropJpeg",
    "DecodePng",
    "DecodeRaw",
    "EagerPyFunc",
    "ParseExampleV2",
    "ParseSingleExample",
    "Print",
    "PrintV2",
    "PyFunc",
    "PyFuncStateless",
    "ReadFile",
    "StringFormat",
}
HOST, DYNAMIC, FLOAT64, STRING = "host", "dynamic shape", "float64", "string"
_WIDE = (tf.float64, tf.complex128)


class Finding(typing.NamedTuple):
    """A problem in the step.

    Attributes:
      kind: HOST, DYNAMIC, FLOAT64 or STRING.
      operation: type of the operation.
      name: its name in the graph.
      line: 'file:line: code' of the innermost frame outside of TensorFlow and Keras; empty if unknown.
      times: number of operations of this kind and type from that line.
    """

    kind: str
    operation: str
    name: str
    line: str
    times: int = 1


def findings(traced: Any) -> list[Finding]:
    """The problems of a traced step (tf.ConcreteFunction), one for each kind, operation and line."""
    names: dict[tuple[str, str, str], list[str]] = {}
    seen: set[str] = set()
    for operation in traced.graph.get_operations():
        line = _line(operation)
        for name, kind, dtypes in _within(operation, seen):
            for problem in _problems(name, kind, dtypes):
                names.setdefault((problem, kind, line), []).append(name)
    return [Finding(problem, kind, of[0], line, len(of)) for (problem, kind, line), of in names.items()]


def _problems(name: str, kind: str, dtypes: set[tf.DType]) -> Iterator[str]:
    if kind in _ON_HOST:
        yield HOST
    # XLA removes assertions, and their messages with them.
    elif tf.string in dtypes and not any(part.startswith("Assert") for part in name.split("/")):
        yield STRING
    if kind in _DYNAMIC:
        yield DYNAMIC
    if any(dtype in _WIDE for dtype in dtypes):
        yield FLOAT64


def _within(operation: Any, seen: set[str]) -> Iterator[tuple[str, str, set[tf.DType]]]:
    """(name, type, dtypes of its outputs) of an operation and of all operations in the functions that it calls."""
    yield operation.name, operation.type, {tensor.dtype for tensor in operation.outputs}
    waiting = graph_functions.names(operation.node_def)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for node in graph_functions.definition(name, operation.graph).node_def:
            # A function's definition does not distinguish the dtypes of the outputs from others.
            types = (value.type for value in node.attr.values() if value.type)
            yield node.name, node.op, {tf.as_dtype(number).base_dtype for number in types}
            waiting += graph_functions.names(node)


def _line(operation: Any) -> str:
    from_outside = None
    for frame in operation.traceback or ():
        if not _is_library(frame.filename):
            from_outside = frame
    if from_outside is None:
        return ""
    code = linecache.getline(from_outside.filename, from_outside.lineno).strip()
    return f"{os.path.relpath(from_outside.filename)}:{from_outside.lineno}: {code}".rstrip(": ")


def _is_library(path: str) -> bool:
    parts = path.replace("\\", "/").split("/")
    return "site-packages" in parts or path.startswith("<") or parts[-2:] in (["tpu", "step.py"], ["tpu", "lower.py"])
