"""Loop iterations of a compiled program, and the cost of all of them; the compiler's own cost has one of each loop.

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
_BRANCHES = re.compile(
    r"\bbranch_computations=\{(?P<listed>[^}]*)\}|"
    r"\btrue_computation=(?P<true>%[\w.\-]+), false_computation=(?P<false>%[\w.\-]+)"
)
_WHOLE_NUMBER = re.compile(r"-?\d+")
# Operations that return their operand.
_SAME = {"copy", "bitcast", "reshape", "copy-start", "copy-done", "optimization-barrier"}
_COMPARISONS: dict[str | None, Callable[..., int]] = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
}
_ARITHMETIC: dict[str, Callable[..., int]] = {
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


class Instruction(typing.NamedTuple):
    """A line of a program.

    Attributes:
      operation: such as 'while'.
      operands: names of results; the text of a constant or parameter.
      attributes: condition, body, to_apply, index and direction, if the line has them.
      branches: names of the computations of a conditional.
    """

    operation: str
    operands: tuple[str, ...]
    attributes: dict[str, str]
    branches: tuple[str, ...]


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


# The value that a loop carries at a position of its tuple.
_Carried = Callable[[int], int | None]


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
        self._run_by: dict[str, tuple[str, Instruction]] = {}
        for within, instructions in self._instructions.items():
            for each in instructions.values():
                for run in _computations(each):
                    self._run_by[run] = within, each
        self._ends: dict[str, tuple[int | None, dict[int, int]]] = {}
        self.loops = [
            Loop(self._holder(within), body, self._end(within, each)[0])
            for body, (within, each) in self._run_by.items()
            if each.operation == "while"
        ]

    def cost(self, once: dict[str, float], cost_of: Callable[[str], dict[str, float]]) -> dict[str, float]:
        """The program's cost with all iterations of its loops, one if unknown.

        Of a conditional's branches the highest cost counts, separately for each kind of cost, as in compilers.

        Args:
          once: cost by kind, with one iteration of each loop.
          cost_of: the same for a program's text.
        """
        inside: dict[str, list[Loop]] = {}
        switches: dict[str, list[tuple[str, ...]]] = {}
        for loop in self.loops:
            inside.setdefault(loop.within, []).append(loop)
        for within, instructions in self._instructions.items():
            for each in instructions.values():
                if each.branches:
                    switches.setdefault(self._holder(within), []).append(each.branches)

        def whole(computation: str, cost: dict[str, float]) -> dict[str, float]:
            """The full cost, from the `cost` with one iteration of each loop in the computation."""
            for loop in inside.get(computation, ()):
                single = cost_of(self._alone(loop.body))
                one = whole(loop.body, single)
                iterations = 1 if loop.iterations is None else loop.iterations
                cost = {name: cost[name] + iterations * one[name] - single[name] for name in cost}
            for branches in switches.get(computation, ()):
                singles = [cost_of(self._alone(branch)) for branch in branches]
                wholes = [whole(branch, single) for branch, single in zip(branches, singles)]
                cost = {
                    name: cost[name] + max(each[name] for each in wholes) - max(each[name] for each in singles)
                    for name in cost
                }
            return cost

        return whole(self._entry, once) if self.loops else once

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

    def _end(self, within: str, loop: Instruction) -> tuple[int | None, dict[int, int]]:
        """(iterations, final values of its deciding integers by position); (None, {}) if unknown."""
        body = loop.attributes["body"]
        if body not in self._ends:
            self._ends[body] = self._iterated(within, loop)
        return self._ends[body]

    def _iterated(self, within: str, loop: Instruction) -> tuple[int | None, dict[int, int]]:
        values = {position: self._element(within, loop.operands[0], position) for position in self._deciding(loop)}
        if None in values.values():
            return None, {}
        for iterations in range(_MOST_ITERATIONS):
            condition = self._condition(loop, values.get)
            if condition is None:
                return None, {}
            if not condition:
                return iterations, {position: value for position, value in values.items() if value is not None}
            values = {position: self._next(loop, position, values.get) for position in values}
        return None, {}

    def _deciding(self, loop: Instruction) -> set[int]:
        """Positions of the loop variables that its condition depends on, in this or an earlier iteration."""
        asked: set[int] = set()
        done: set[int] = set()

        def ask(position: int) -> int:
            asked.add(position)
            return 0  # Any number: the positions do not depend on it.

        self._condition(loop, ask)
        while asked - done:
            position = min(asked - done)
            self._next(loop, position, ask)
            done.add(position)
        return done

    def _condition(self, loop: Instruction, carried: _Carried) -> int | None:
        condition = loop.attributes["condition"]
        return self._value(condition, self._roots.get(condition), carried)

    def _next(self, loop: Instruction, position: int, carried: _Carried) -> int | None:
        body = loop.attributes["body"]
        return self._element(body, self._roots.get(body), position, carried)

    def _value(self, computation: str, name: str | None, carried: _Carried | None = None) -> int | None:
        """The value of a name as an integer (0 or 1 for a boolean), or None if unknown.

        Args:
          carried: values of the loop variables by position, in the iteration for which the value is computed; None for
            a value that is the same in every iteration.
        """
        found = self._get(computation, name)
        if found is None:
            return None
        if found.operation in _SAME:
            return self._value(computation, found.operands[0], carried)
        if found.operation == "constant":
            return _number(found.operands[0])
        if found.operation == "get-tuple-element":
            return self._element(computation, found.operands[0], int(found.attributes["index"]), carried)
        compute = _ARITHMETIC.get(found.operation) or _COMPARISONS.get(found.attributes.get("direction"))
        if compute is None:
            return None
        values = [self._value(computation, each, carried) for each in found.operands]
        return None if None in values else int(compute(*values))

    def _element(
        self, computation: str, name: str | None, position: int, carried: _Carried | None = None
    ) -> int | None:
        """As `_value`, for an element of a tuple."""
        found = self._get(computation, name)
        if found is None:
            return None
        if found.operation in _SAME:
            return self._element(computation, found.operands[0], position, carried)
        if found.operation == "tuple":
            return self._value(computation, found.operands[position], carried)
        if found.operation == "while":
            _, last = self._end(computation, found)
            return last[position] if position in last else self._steady(computation, found, position)
        if found.operation == "parameter":
            return self._given(computation, position) if carried is None else carried(position)
        return None

    def _get(self, computation: str, name: str | None) -> Instruction | None:
        return None if name is None else self._instructions[computation].get(name)

    def _given(self, computation: str, position: int) -> int | None:
        """An element of the argument of a body or branch, from the computation that runs it."""
        if computation not in self._run_by:
            return None
        within, run_by = self._run_by[computation]
        if run_by.operation == "call":
            return None
        if run_by.operation == "while":
            return self._steady(within, run_by, position)
        return self._element(within, run_by.operands[1 + run_by.branches.index(computation)], position)

    def _steady(self, within: str, loop: Instruction, position: int) -> int | None:
        """The value of a loop variable that no iteration changes, or None."""
        body = loop.attributes["body"]
        root = self._get(body, self._roots.get(body))
        found = self._get(body, root.operands[position]) if root and root.operation == "tuple" else None
        while found is not None and found.operation in _SAME:
            found = self._get(body, found.operands[0])
        if found is None or found.operation != "get-tuple-element" or int(found.attributes["index"]) != position:
            return None
        source = self._get(body, found.operands[0])
        is_carried = source is not None and source.operation == "parameter"
        return self._element(within, loop.operands[0], position) if is_carried else None

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
    end = line.find(")", match.end())
    inside = line[match.end() : end]
    is_text = match["operation"] in ("constant", "parameter")
    branches = _BRANCHES.search(line, end) if match["operation"] == "conditional" else None
    return Instruction(
        match["operation"],
        (inside,) if is_text else tuple(_NAME.findall(inside)),
        {each["key"]: each["value"] for each in _ATTRIBUTE.finditer(line, end)},
        tuple(_NAME.findall(branches[0])) if branches else (),
    )


def _computations(instruction: Instruction) -> tuple[str, ...]:
    """Names of the computations that an instruction runs: a loop's body, a called one, or branches."""
    key = {"while": "body", "call": "to_apply"}.get(instruction.operation)
    return (instruction.attributes[key],) if key else instruction.branches


def _number(text: str) -> int | None:
    if text in ("true", "false"):
        return int(text == "true")
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None
