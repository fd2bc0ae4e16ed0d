"""The iterations of a compiled program's loops, and the cost of all of them; the compiler's own cost has one of each.

Parsed from the program's text. A loop's number of iterations is known if its condition depends on integers in the text
only, such as the counters of an LSTM, of `tf.range` and of accumulation: those are computed, iteration by iteration.
"""

from __future__ import annotations

import operator
import re
import typing
from collections.abc import Callable

_COMPUTATION = re.compile(r"^(?P<entry>ENTRY )?(?P<name>%[\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^  (?P<root>ROOT )?(?P<name>%[\w.\-]+) = (?:\(.*?\)|\S+) (?P<operation>[\w\-]+)\(")
_NAME = re.compile(r"%[\w.\-]+")
_ATTRIBUTE = re.compile(r"\b(?P<key>condition|body|to_apply|index|direction)=(?P<value>%?[\w.\-]+)")
# In the order of their operands.
_BRANCHES = re.compile(r"\bbranch_computations=\{[^}]*\}|\btrue_computation=%[\w.\-]+, false_computation=%[\w.\-]+")
# Operations that return their operand.
_SAME = {"copy", "bitcast", "reshape", "copy-start", "copy-done", "optimization-barrier"}
# By the direction of a comparison, or by the operation.
_COMPUTE: dict[str | None, Callable[..., int]] = {
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
# A limit for loops that never end; more than a training step has.
_MOST_ITERATIONS = 20_000
_Cost = dict[str, float]
# An integer, a tuple's known elements by position, or None if unknown.
_Value: typing.TypeAlias = "int | dict[int, _Value] | None"


class Instruction(typing.NamedTuple):
    """A line of a program.

    Attributes:
      operation: such as 'while'.
      operands: names of results; the text of a constant or parameter.
      attributes: condition, body, to_apply, index and direction, if the line has them.
      runs: names of the computations that it runs: a loop's body, a called one, or branches.
    """

    operation: str
    operands: tuple[str, ...]
    attributes: dict[str, str]
    runs: tuple[str, ...]


class Loop(typing.NamedTuple):
    """A `while` loop.

    Attributes:
      within: name of the computation that contains it: the entry, another loop's body or a branch.
      body: name of the computation that it repeats.
      iterations: their number; None if unknown.
    """

    within: str
    body: str
    iterations: int | None


class Program:
    """A program's computations and loops.

    Args:
      text: as the compiler prints it.

    Attributes:
      loops: all loops.
    """

    def __init__(self, text: str) -> None:
        self._entry = ""
        self._blocks: dict[str, str] = {}
        self._instructions: dict[str, dict[str, Instruction]] = {}
        self._roots: dict[str, str] = {}
        self._read(text)
        # From a body, branch or called computation to the computation and instruction that run it.
        self._run_by = {
            run: (within, each)
            for within, instructions in self._instructions.items()
            for each in instructions.values()
            for run in each.runs
        }
        self._given_to: dict[str, dict[int, _Value]] = {}
        self._ends: dict[str, tuple[int | None, dict[int, _Value]]] = {}
        self.loops = [
            Loop(self._holder(within), body, self._end(within, each)[0])
            for body, (within, each) in self._run_by.items()
            if each.operation == "while"
        ]

    def cost(self, once: _Cost, cost_of: Callable[[str], _Cost]) -> _Cost:
        """The program's cost with all iterations of its loops, one if unknown.

        Of a conditional's branches the highest cost counts, separately for each kind of cost, as in compilers.

        Args:
          once: cost by kind, with one iteration of each loop.
          cost_of: the same for a program's text.
        """
        if not self.loops:
            return once
        switches: dict[str, list[tuple[str, ...]]] = {}
        for within, instructions in self._instructions.items():
            for each in instructions.values():
                if each.operation == "conditional":
                    switches.setdefault(self._holder(within), []).append(each.runs)

        def whole(computation: str, cost: _Cost) -> _Cost:
            """The full cost, from the `cost` with one iteration of each loop in the computation."""
            for loop in self.loops:
                if loop.within == computation:
                    single = cost_of(self._alone(loop.body))
                    one, times = whole(loop.body, single), 1 if loop.iterations is None else loop.iterations
                    cost = {name: cost[name] + times * one[name] - single[name] for name in cost}
            for branches in switches.get(computation, ()):
                singles = [cost_of(self._alone(branch)) for branch in branches]
                wholes = [whole(branch, single) for branch, single in zip(branches, singles)]
                more = {name: max(of[name] for of in wholes) - max(of[name] for of in singles) for name in cost}
                cost = {name: cost[name] + more[name] for name in cost}
            return cost

        return whole(self._entry, once)

    def _alone(self, computation: str) -> str:
        """The text of a program of this computation alone, after those that it calls."""
        names = list(self._blocks)
        before = [self._blocks[name] for name in names[: names.index(computation)]]
        return "\n\n".join(["HloModule one_iteration", *before, f"ENTRY {self._blocks[computation]}"]) + "\n"

    def _holder(self, computation: str) -> str:
        """The entry, body or branch that runs a computation; itself if none is known."""
        while computation in self._run_by and self._run_by[computation][1].operation == "call":
            computation = self._run_by[computation][0]
        return computation

    def _end(self, within: str, loop: Instruction) -> tuple[int | None, dict[int, _Value]]:
        """(iterations, elements at the end); if they are unknown, (None, the elements that no iteration changes)."""
        body, condition = loop.attributes["body"], loop.attributes["condition"]
        if body not in self._ends:
            self._ends[body] = None, self._given(body)
            state = self._elements(within, loop.operands[0], self._given(within))
            for iterations in range(_MOST_ITERATIONS):
                goes_on = self._value(condition, self._roots.get(condition), state)
                if not isinstance(goes_on, int):
                    break
                if not goes_on:
                    self._ends[body] = iterations, state
                    break
                state = self._elements(body, self._roots.get(body), state)
        return self._ends[body]

    def _given(self, computation: str) -> dict[int, _Value]:
        """The elements of a computation's parameter that are known and the same whenever it runs."""
        if computation not in self._given_to:
            given: dict[int, _Value] = {}
            within, run_by = self._run_by.get(computation, ("", None))
            if run_by is not None and run_by.operation == "while":
                first = self._elements(within, run_by.operands[0], self._given(within))
                given = {at: value for at, value in first.items() if self._is_passed_on(computation, at)}
            elif run_by is not None and run_by.operation == "conditional":
                operand = run_by.operands[1 + run_by.runs.index(computation)]
                given = self._elements(within, operand, self._given(within))
            self._given_to[computation] = given
        return self._given_to[computation]

    def _is_passed_on(self, body: str, position: int) -> bool:
        """True if a loop's body returns this element of its parameter as it is."""
        instructions = self._instructions[body]
        root = instructions.get(self._roots.get(body, ""))
        found = instructions.get(root.operands[position]) if root and root.operation == "tuple" else None
        while found is not None and found.operation in _SAME:
            found = instructions.get(found.operands[0])
        if found is None or found.operation != "get-tuple-element" or int(found.attributes["index"]) != position:
            return False
        source = instructions.get(found.operands[0])
        return source is not None and source.operation == "parameter"

    def _elements(self, computation: str, name: str | None, given: dict[int, _Value]) -> dict[int, _Value]:
        """The known elements of a tuple, by position; see `_value`."""
        value = self._value(computation, name, given)
        return value if isinstance(value, dict) else {}

    def _value(self, computation: str, name: str | None, given: dict[int, _Value]) -> _Value:
        """The value of a name in a computation, a boolean as 0 or 1; `given` are its parameter's known elements."""
        found = self._instructions[computation].get(name or "")
        if found is None:
            return None
        if found.operation == "constant":
            return _number(found.operands[0])
        if found.operation == "parameter":
            return given
        if found.operation in _SAME:
            return self._value(computation, found.operands[0], given)
        if found.operation == "get-tuple-element":
            at, source = int(found.attributes["index"]), self._instructions[computation].get(found.operands[0])
            if source is not None and source.operation == "tuple":
                return self._value(computation, source.operands[at], given)
            return self._elements(computation, found.operands[0], given).get(at)
        if found.operation == "while":
            return self._end(computation, found)[1]
        compute = _COMPUTE.get(found.attributes.get("direction", found.operation))
        if found.operation != "tuple" and compute is None:
            return None
        values = [self._value(computation, each, given) for each in found.operands]
        if compute is None:
            return {at: value for at, value in enumerate(values) if value is not None}
        return int(compute(*values)) if all(isinstance(each, int) for each in values) else None

    def _read(self, text: str) -> None:
        name: str | None = None
        lines: list[str] = []
        for line in text.splitlines():
            if name is None:
                match = _COMPUTATION.match(line)
                if match:
                    name, lines = match["name"], [line.removeprefix("ENTRY ")]
                    self._instructions[name] = {}
                    self._entry = name if match["entry"] else self._entry
                continue
            lines.append(line)
            if line.startswith("}"):
                self._blocks[name] = "\n".join(lines)
                name = None
            elif match := _INSTRUCTION.match(line):
                self._instructions[name][match["name"]] = _instruction(match, line)
                if match["root"]:
                    self._roots[name] = match["name"]


def _instruction(match: re.Match[str], line: str) -> Instruction:
    operation, end = match["operation"], line.find(")", match.end())
    inside = line[match.end() : end]
    attributes = {each["key"]: each["value"] for each in _ATTRIBUTE.finditer(line, end)}
    branches = _BRANCHES.search(line, end)
    if operation == "conditional":
        runs = _NAME.findall(branches[0]) if branches else []
    else:
        runs = [attributes[key] for name, key in (("while", "body"), ("call", "to_apply")) if operation == name]
    operands = [inside] if operation in ("constant", "parameter") else _NAME.findall(inside)
    return Instruction(operation, tuple(operands), attributes, tuple(runs))


def _number(text: str) -> int | None:
    if text in ("true", "false"):
        return int(text == "true")
    return int(text) if re.fullmatch(r"-?\d+", text) else None
