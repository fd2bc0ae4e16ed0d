"""The iterations of a compiled program's loops, and its cost with all of them; the compiler's own cost has one of each.

The program's text is interpreted for its integers, such as the counters of an LSTM, of `tf.range` and of accumulation.
All else is unknown, and with it the iterations of a loop whose condition depends on it.
"""

from __future__ import annotations

import operator
import re
import typing
from collections import defaultdict
from collections.abc import Callable, Sequence

_COMPUTATION = re.compile(r"^(?P<entry>ENTRY )?(?P<name>%[\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^  (?P<root>ROOT )?(?P<name>%[\w.\-]+) = (?:\(.*?\)|\S+) (?P<operation>[\w\-]+)\(")
_NAME = re.compile(r"%[\w.\-]+")
_ATTRIBUTE = re.compile(r"\b(?P<key>condition|body|to_apply|index|direction)=(?P<value>%?[\w.\-]+)")
# In the order of their operands.
_BRANCHES = re.compile(r"\bbranch_computations=\{[^}]*\}|\btrue_computation=%[\w.\-]+, false_computation=%[\w.\-]+")
# Operations that return their operand.
_SAME = {"copy", "bitcast", "reshape", "copy-start", "copy-done", "optimization-barrier"}
# By the direction of a comparison, or by the operation.
_COMPUTE: dict[str, Callable[..., int]] = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "minimum": min,
    "maximum": max,
    "negate": operator.neg,
    "and": operator.and_,
    "or": operator.or_,
}
_KNOWN = {"constant", "parameter", "tuple", "get-tuple-element", "compare", "while", "call", "conditional"}
_KNOWN |= _SAME | set(_COMPUTE)
# A limit for loops that never end; more than a training step has.
_MOST_ITERATIONS = 20_000
_Cost = dict[str, float]
# An integer, a tuple's elements by position, or None if unknown.
_Value: typing.TypeAlias = "int | dict[int, _Value] | None"


class _Instruction(typing.NamedTuple):
    """A line of a program: names of its operands, or the text of a constant or parameter."""

    name: str
    operation: str
    operands: list[str]
    attributes: dict[str, str]
    branches: list[str]


def whole_cost(text: str, once: _Cost, cost_of: Callable[[str], _Cost]) -> tuple[_Cost, dict[str, int | None]]:
    """The cost of a program with all iterations of its loops, one where their number is unknown.

    Of a conditional's branches the highest cost counts, separately for each kind of cost, as in compilers.

    Args:
      text: the program as the compiler prints it, scheduled: names are defined before they are used.
      once: cost by kind, with one iteration of each loop.
      cost_of: the same for the text of a part of the program.

    Returns:
      (cost by kind, iterations by the name of a loop's body, None if unknown).
    """
    program = _Program(text, cost_of)
    missing = program.run(program.entry, [])[1] if program.entry else {}
    cost = {kind: value + missing[kind] if kind in missing else value for kind, value in once.items()}
    return cost, program.iterations


class _Program:
    def __init__(self, text: str, cost_of: Callable[[str], _Cost]) -> None:
        self.entry = ""
        self.iterations: dict[str, int | None] = {}
        self._cost_of, self._costs = cost_of, dict[str, _Cost]()
        self._blocks: dict[str, str] = {}
        self._instructions: dict[str, list[_Instruction]] = {}
        self._roots: dict[str, str] = {}
        self._read(text)

    def run(self, computation: str, arguments: Sequence[_Value]) -> tuple[_Value, _Cost]:
        """(a computation's result, the cost that is missing where each of its loops counts with one iteration)."""
        values: dict[str, _Value] = {}
        missing: _Cost = defaultdict(float)
        for each in self._instructions[computation]:
            operands = [values.get(name) for name in each.operands]
            value: _Value = None
            more: _Cost = {}
            if each.operation == "constant":
                value = _number(each.operands[0])
            elif each.operation == "parameter":
                at = int(each.operands[0])
                value = arguments[at] if at < len(arguments) else None
            elif each.operation == "tuple":
                value = dict(enumerate(operands))
            elif each.operation == "get-tuple-element":
                found = operands[0]
                value = found.get(int(each.attributes["index"])) if isinstance(found, dict) else None
            elif each.operation in _SAME:
                value = operands[0]
            elif each.operation == "while":
                value, more = self._loop(each, operands[0])
            elif each.operation == "call":
                value, more = self.run(each.attributes["to_apply"], operands)
            elif each.operation == "conditional":
                more = self._branches(each, operands[1:])
            elif all(isinstance(operand, int) for operand in operands):
                value = int(_COMPUTE[each.attributes.get("direction", each.operation)](*operands))
            values[each.name] = value
            _add(missing, more)
        return values.get(self._roots.get(computation, "")), missing

    def _loop(self, loop: _Instruction, state: _Value) -> tuple[_Value, _Cost]:
        """The `run` of a loop; its result is unknown if its iterations are."""
        body, condition = loop.attributes["body"], loop.attributes["condition"]
        missing: _Cost = defaultdict(float)
        iterations = 0
        while (goes_on := self.run(condition, [state])[0]) == 1 and iterations < _MOST_ITERATIONS:
            state, more = self.run(body, [state])
            _add(missing, more)
            iterations += 1
        if goes_on == 0:
            _add(missing, {kind: (iterations - 1) * cost for kind, cost in self._cost(body).items()})
        else:
            state, missing = None, self.run(body, [None])[1]
        is_known = goes_on == 0 and self.iterations.get(body, 0) is not None
        self.iterations[body] = iterations if is_known else None
        return state, missing

    def _branches(self, conditional: _Instruction, operands: Sequence[_Value]) -> _Cost:
        singles = [self._cost(branch) for branch in conditional.branches]
        missing = [self.run(branch, [operand])[1] for branch, operand in zip(conditional.branches, operands)]
        return {
            kind: max(each[kind] + more[kind] for each, more in zip(singles, missing))
            - max(each[kind] for each in singles)
            for kind in singles[0]
        }

    def _cost(self, computation: str) -> _Cost:
        """The cost of a program of this computation alone, after those that it calls."""
        if computation not in self._costs:
            names = list(self._blocks)
            before = [self._blocks[name] for name in names[: names.index(computation)]]
            text = "\n\n".join(["HloModule one_iteration", *before, f"ENTRY {self._blocks[computation]}"]) + "\n"
            self._costs[computation] = self._cost_of(text)
        return self._costs[computation]

    def _read(self, text: str) -> None:
        name: str | None = None
        lines: list[str] = []
        for line in text.splitlines():
            if name is None:
                if match := _COMPUTATION.match(line):
                    name, lines = match["name"], [line.removeprefix("ENTRY ")]
                    self._instructions[name] = []
                    self.entry = name if match["entry"] else self.entry
                continue
            lines.append(line)
            if line.startswith("}"):
                self._blocks[name] = "\n".join(lines)
                name = None
            elif match := _INSTRUCTION.match(line):
                if match["root"]:
                    self._roots[name] = match["name"]
                if match["operation"] in _KNOWN:
                    self._instructions[name].append(_instruction(match, line))


def _add(total: _Cost, more: _Cost) -> None:
    for kind, cost in more.items():
        total[kind] += cost


def _instruction(match: re.Match[str], line: str) -> _Instruction:
    operation, end = match["operation"], line.find(")", match.end())
    inside = line[match.end() : end]
    attributes = {each["key"]: each["value"] for each in _ATTRIBUTE.finditer(line, end)}
    branches = _BRANCHES.search(line, end) if operation == "conditional" else None
    operands = [inside] if operation in ("constant", "parameter") else _NAME.findall(inside)
    return _Instruction(match["name"], operation, operands, attributes, _NAME.findall(branches[0]) if branches else [])


def _number(text: str) -> int | None:
    if text in ("true", "false"):
        return int(text == "true")
    return int(text) if re.fullmatch(r"-?\d+", text) else None
