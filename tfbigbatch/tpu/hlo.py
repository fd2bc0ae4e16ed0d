"""Parses the text of a compiled program (collectives, large tensors) and of out-of-memory errors."""

from __future__ import annotations

import math
import re
from typing import Any

_KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
# Of an asynchronous pair, the start is counted.
_COLLECTIVE = re.compile(rf"^\s*(?:ROOT )?%?[\w.\-]+ = (?P<shape>.+?) (?P<kind>{'|'.join(_KINDS)})(?:-start)?\(", re.M)
_SHAPE = re.compile(r"\b(?P<dtype>pred|[sufc]\d+|bf16|f8\w*)\[(?P<sizes>[\d,<= ]*)\]")
_MEMORY = (
    re.compile(r"Used (?P<used>[\d.]+[KMGT]?) of (?P<usable>[\d.]+[KMGT]?) hbm"),
    re.compile(r"\((?P<used>[\d.]+[KMGT]?)\) exceeds available HBM \((?P<usable>[\d.]+[KMGT]?)\)"),
)
_ALLOCATION = re.compile(
    r"Size:\s*(?P<size>[\d.]+[KMGT]?)[ \t]*"
    r"(?:\n\s*Operator:\s*(?P<operator>[^\n]*))?(?:\n\s*Shape:\s*(?P<shape>[^\n]*))?"
)
_OPERATOR_NAME = re.compile(r'op_name="(?P<name>[^"]*)"')
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def collectives(text: str) -> list[dict[str, Any]]:
    """The collective operations in a program's text: kind, count and bytes, the total size of a device's results.

    An asynchronous start returns its operands and its results: half of its bytes are counted.
    """
    found: dict[str, tuple[int, int]] = {}
    for match in _COLLECTIVE.finditer(text):
        kind, size = match["kind"], _bytes(match["shape"])
        is_start = match[0].rstrip("(").endswith("-start")
        count, total = found.get(kind, (0, 0))
        found[kind] = count + 1, total + (size // 2 if is_start and match["shape"].startswith("(") else size)
    return [{"kind": kind, "count": found[kind][0], "bytes": found[kind][1]} for kind in _KINDS if kind in found]


def out_of_memory(message: str) -> tuple[int, int] | None:
    """(used, usable) bytes of main memory in an out-of-memory error; None for another error."""
    match = next(filter(None, (pattern.search(message) for pattern in _MEMORY)), None)
    return (_size(match["used"]), _size(match["usable"])) if match else None


def allocations(message: str) -> list[dict[str, Any]]:
    """The ten largest allocations in an out-of-memory error: bytes, name of the operation or "", and shape."""
    found = [
        {
            "bytes": _size(match["size"]),
            "name": (_OPERATOR_NAME.findall(match["operator"] or "") or [""])[0],
            "shape": (match["shape"] or "").strip(),
        }
        for match in _ALLOCATION.finditer(message)
    ]
    return sorted(found, key=lambda each: -each["bytes"])[:10]


def float64_count(text: str) -> int:
    """The number of float64 results in a program; a TPU emulates float64 with float32 operations."""
    return len(re.findall(r"= \(?f64\[", text))


def _bytes(shape: str) -> int:
    total = 0
    for match in _SHAPE.finditer(shape):
        sizes = [int(size) for size in re.findall(r"\d+", match["sizes"])]
        bits = 8 if match["dtype"] == "pred" else int(re.findall(r"\d+", match["dtype"])[0])
        total += math.prod(sizes) * bits // 8
    return total


def _size(text: str) -> int:
    unit = text[-1] if text[-1] in _UNITS else ""
    return int(float(text.removesuffix(unit)) * _UNITS[unit])
