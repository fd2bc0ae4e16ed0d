"""Parses the text of a compiled program (collectives, large tensors) and of out-of-memory errors."""

from __future__ import annotations

import math
import re
import typing

_KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
# Of an asynchronous pair, the start is counted.
_COLLECTIVE = re.compile(rf"^\s*(?:ROOT )?%?[\w.\-]+ = (?P<shape>.+?) (?P<kind>{'|'.join(_KINDS)})(?:-start)?\(", re.M)
_SHAPE = re.compile(r"\b(?P<dtype>pred|[sufc]\d+|bf16|f8\w*)\[(?P<sizes>[\d,<= ]*)\]")
_BITS = re.compile(r"\d+")
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


class Collective(typing.NamedTuple):
    """The collective operations of one kind.

    Attributes:
      kind: such as 'all-reduce'.
      count: in the program.
      bytes: total size of their results on one device.
    """

    kind: str
    count: int  # type: ignore[assignment]
    bytes: int


class Allocation(typing.NamedTuple):
    """A piece of memory.

    Attributes:
      bytes: its size.
      name: of the operation that computes it, with the names of layers; empty if the compiler gives none.
      shape: as the compiler writes it.
    """

    bytes: int
    name: str
    shape: str


def collectives(text: str) -> list[Collective]:
    """The collective operations in a program's text, by kind.

    An asynchronous start returns its operands and its results: half of its bytes are counted.
    """
    found: dict[str, tuple[int, int]] = {}
    for match in _COLLECTIVE.finditer(text):
        kind, size = match["kind"], _bytes(match["shape"])
        is_start = match[0].rstrip("(").endswith("-start")
        count, total = found.get(kind, (0, 0))
        found[kind] = count + 1, total + (size // 2 if is_start and match["shape"].startswith("(") else size)
    return [Collective(kind, *found[kind]) for kind in _KINDS if kind in found]


def out_of_memory(message: str) -> tuple[int, int] | None:
    """(used, usable) bytes of main memory in an out-of-memory error; None for another error."""
    match = next(filter(None, (pattern.search(message) for pattern in _MEMORY)), None)
    return (_size(match["used"]), _size(match["usable"])) if match else None


def allocations(message: str, most: int = 10) -> list[Allocation]:
    """The `most` largest allocations in an out-of-memory error."""
    found = []
    for match in _ALLOCATION.finditer(message):
        name = _OPERATOR_NAME.search(match["operator"] or "")
        found.append(Allocation(_size(match["size"]), name["name"] if name else "", (match["shape"] or "").strip()))
    return sorted(found, key=lambda each: -each.bytes)[:most]


def float64_count(text: str) -> int:
    """The number of float64 results in a program; a TPU emulates float64 with float32 operations."""
    return len(re.findall(r"= \(?f64\[", text))


def _bytes(shape: str) -> int:
    total = 0
    for match in _SHAPE.finditer(shape):
        sizes = [int(size) for size in re.findall(r"\d+", match["sizes"])]
        bits = 8 if match["dtype"] == "pred" else int(_BITS.findall(match["dtype"].removeprefix("b"))[0])
        total += math.prod(sizes) * bits // 8
    return total


def _size(text: str) -> int:
    unit = text[-1] if text[-1] in _UNITS else ""
    return int(float(text.removesuffix(unit)) * _UNITS[unit])
