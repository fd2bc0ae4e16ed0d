"""The text of a compiled program: its collective operations, and what a compiler says when memory runs out."""

import math
import re
import typing

_KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
# Of an operation that is split in two, the start is counted.
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
_RESULT = re.compile(r"^\s*(?:ROOT )?%?[\w.\-]+ = (?P<shape>\(.*?\)|\S+) (?P<operation>[\w\-]+)\(", re.M)
# Those that only hand on, or take apart, what others hold.
_NO_MEMORY = {"parameter", "bitcast", "get-tuple-element", "constant", "tuple", "while"}
_OPERATOR_NAME = re.compile(r'op_name="(?P<name>[^"]*)"')
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class Collective(typing.NamedTuple):
    """The collective operations of one kind.

    Attributes:
      kind: 'all-reduce' and the like.
      count: in the program.
      bytes: of their results on one device, together.
    """

    kind: str
    count: int
    bytes: int


class Allocation(typing.NamedTuple):
    """A piece of memory.

    Attributes:
      bytes: its size.
      name: of what computes it, in the layers' names; empty where the compiler names none.
      shape: as the compiler writes it.
    """

    bytes: int
    name: str
    shape: str


def collectives(text):
    """A `Collective` for each kind in a program's text.

    An asynchronous start gives its operands beside its results: the half of its bytes is counted.
    """
    found = {}
    for match in _COLLECTIVE.finditer(text):
        kind, size = match["kind"], _bytes(match["shape"])
        is_start = match[0].rstrip("(").endswith("-start")
        count, total = found.get(kind, (0, 0))
        found[kind] = count + 1, total + (size // 2 if is_start and match["shape"].startswith("(") else size)
    return [Collective(kind, *found[kind]) for kind in _KINDS if kind in found]


def out_of_memory(message):
    """(used, usable) bytes of the main memory, as a compiler's error tells them; None for another error."""
    match = next(filter(None, (pattern.search(message) for pattern in _MEMORY)), None)
    return (_size(match["used"]), _size(match["usable"])) if match else None


def allocations(message, most=10):
    """The largest `Allocation`s that an error for want of memory lists, at most so many."""
    found = []
    for match in _ALLOCATION.finditer(message):
        name = _OPERATOR_NAME.search(match["operator"] or "")
        found.append(Allocation(_size(match["size"]), name["name"] if name else "", (match["shape"] or "").strip()))
    return sorted(found, key=lambda each: -each.bytes)[:most]


def largest_results(text, most=10):
    """The largest results of a program's own operations, as `Allocation`s: those inside of fusions take no memory."""
    found = []
    entry = text[text.find("\nENTRY ") + 1 :]
    entry = entry[: entry.find("\n}")]
    for line in entry.splitlines():
        match = _RESULT.match(line)
        if match and match["operation"] not in _NO_MEMORY:
            name = _OPERATOR_NAME.search(line)
            found.append(Allocation(_bytes(match["shape"]), name["name"] if name else "", match["shape"].strip()))
    return sorted(found, key=lambda each: -each.bytes)[:most]


def float64_count(text):
    """How many results of a program are float64, which a TPU computes by several float32 operations."""
    return len(re.findall(r"= \(?f64\[", text))


def _bytes(shape):
    total = 0
    for match in _SHAPE.finditer(shape):
        sizes = [int(size) for size in re.findall(r"\d+", match["sizes"])]
        bits = 8 if match["dtype"] == "pred" else int(_BITS.search(match["dtype"].removeprefix("b"))[0])
        total += math.prod(sizes) * bits // 8
    return total


def _size(text):
    unit = text[-1] if text[-1] in _UNITS else ""
    return int(float(text.removesuffix(unit)) * _UNITS[unit])
