"""The loops of a compiled program: how often each turns, and what all turns cost. A compiler counts one of each.

Read from the program's text. The turns are known of a loop whose condition depends on whole numbers that the text
tells, such as the counters of an LSTM, `tf.range` and accumulation: those numbers alone are computed, turn by turn.
"""

import operator
import re
import typing

_COMPUTATION = re.compile(r"^(?P<entry>ENTRY )?(?P<name>%[\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^  (?P<root>ROOT )?(?P<name>%[\w.\-]+) = (?:\(.*?\)|\S+) (?P<operation>[\w\-]+)\(")
_NAME = re.compile(r"%[\w.\-]+")
_ATTRIBUTE = re.compile(r"\b(?P<key>condition|body|to_apply|index|direction)=(?P<value>%?[\w.\-]+)")
# In the order of the operands that they get.
_BRANCHES = re.compile(
    r"\bbranch_computations=\{(?P<listed>[^}]*)\}|"
    r"\btrue_computation=(?P<true>%[\w.\-]+), false_computation=(?P<false>%[\w.\-]+)"
)
_WHOLE_NUMBER = re.compile(r"-?\d+")
# They hand their operand on.
_SAME = {"copy", "bitcast", "reshape", "copy-start", "copy-done", "optimization-barrier"}
_COMPARISONS = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
}
_ARITHMETIC = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "minimum": min,
    "maximum": max,
    "negate": operator.neg,
    "and": operator.and_,
    "or": operator.or_,
}
# More than a training step has; a loop without an end would never be done.
_MOST_TURNS = 20_000


class Instruction(typing.NamedTuple):
    """A line of a program.

    Attributes:
      operation: such as 'while'.
      operands: names of results; of a constant and a parameter their text.
      attributes: dictionary of texts: condition, body, to_apply, index and direction, where the line has them.
      branches: names of computations of which one is run.
    """

    operation: str
    operands: tuple
    attributes: dict
    branches: tuple


class Loop(typing.NamedTuple):
    """A `while`.

    Attributes:
      within: name of the computation that holds it: the entry, another loop's body or a branch.
      body: name of the computation that it repeats.
      turns: how often; None where that is not known.
    """

    within: str
    body: str
    turns: int | None


class Program:
    """A program's computations and loops.

    Args:
      text: as the compiler prints it.

    Attributes:
      loops: every `Loop`.
    """

    def __init__(self, text):
        self._entry, self._blocks, self._instructions, self._roots = None, {}, {}, {}
        self._read(text)
        # From a body, a branch, or what is called, to the computation and the instruction that run it.
        self._run_by = {}
        for within, instructions in self._instructions.items():
            for each in instructions.values():
                for run in _computations(each):
                    self._run_by[run] = within, each
        self._ends = {}
        self.loops = [
            Loop(self._holder(within), body, self._end(within, each)[0])
            for body, (within, each) in self._run_by.items()
            if each.operation == "while"
        ]

    def cost(self, once, cost_of):
        """What the program costs with all turns of its loops; one where they are not known.

        Of branches the highest cost is counted, of each number by itself, as compilers do.

        Args:
          once: dictionary of numbers: the cost with one turn of each loop.
          cost_of: function of a program's text that gives the same for that program.

        Returns:
          Dictionary as `once`.
        """
        inside, switches = {}, {}
        for loop in self.loops:
            inside.setdefault(loop.within, []).append(loop)
        for within, instructions in self._instructions.items():
            for each in instructions.values():
                if each.branches:
                    switches.setdefault(self._holder(within), []).append(each.branches)

        def whole(computation, cost):
            """The cost, where `cost` has one turn of each loop in the computation."""
            for loop in inside.get(computation, ()):
                single = cost_of(self._alone(loop.body))
                turn = whole(loop.body, single)
                turns = 1 if loop.turns is None else loop.turns
                cost = {name: cost[name] + turns * turn[name] - single[name] for name in cost}
            for branches in switches.get(computation, ()):
                singles = [cost_of(self._alone(branch)) for branch in branches]
                wholes = [whole(branch, single) for branch, single in zip(branches, singles)]
                cost = {
                    name: cost[name] + max(each[name] for each in wholes) - max(each[name] for each in singles)
                    for name in cost
                }
            return cost

        return whole(self._entry, once) if self.loops else once

    def _alone(self, computation):
        """The text of a program that is this computation; what it calls stands before it."""
        names = list(self._blocks)
        before = [self._blocks[name] for name in names[: names.index(computation)]]
        return "\n\n".join(["HloModule one_turn", *before, f"ENTRY {self._blocks[computation]}"]) + "\n"

    def _holder(self, computation):
        """The entry, body or branch that runs a computation; itself where nothing known does."""
        while computation in self._run_by and self._run_by[computation][1].operation == "call":
            computation = self._run_by[computation][0]
        return computation

    def _end(self, within, loop):
        """(turns, the last values that decided them by position); (None, {}) where they are not known."""
        body = loop.attributes["body"]
        if body not in self._ends:
            self._ends[body] = self._turned(within, loop)
        return self._ends[body]

    def _turned(self, within, loop):
        values = {position: self._element(within, loop.operands[0], position) for position in self._deciding(loop)}
        if None in values.values():
            return None, {}
        for turns in range(_MOST_TURNS):
            goes_on = self._goes_on(loop, values.get)
            if not goes_on:
                return (None, {}) if goes_on is None else (turns, values)
            values = {position: self._next(loop, position, values.get) for position in values}
        return None, {}

    def _deciding(self, loop):
        """Positions of the carried values that the loop's condition depends on, of this turn or of one before."""
        asked, done = set(), set()

        def ask(position):
            asked.add(position)
            return 0  # Any number: what is asked for does not depend on it.

        self._goes_on(loop, ask)
        while asked - done:
            position = min(asked - done)
            self._next(loop, position, ask)
            done.add(position)
        return done

    def _goes_on(self, loop, carried):
        condition = loop.attributes["condition"]
        return self._value(condition, self._roots.get(condition), carried)

    def _next(self, loop, position, carried):
        body = loop.attributes["body"]
        return self._element(body, self._roots.get(body), position, carried)

    def _value(self, computation, name, carried=None):
        """A whole number (0 or 1 of a truth) that a name stands for, or None.

        Args:
          carried: function of a position: what a loop carries there in the turn of which the value is asked; None: the
            value that it has in every turn.
        """
        found = self._instructions[computation].get(name)
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

    def _element(self, computation, name, position, carried=None):
        """As `_value`, of a tuple's element."""
        found = self._instructions[computation].get(name)
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

    def _given(self, computation, position):
        """An element of what a body or a branch gets from the computation that runs it."""
        within, run_by = self._run_by.get(computation, (None, None))
        if run_by is None or run_by.operation == "call":
            return None
        if run_by.operation == "while":
            return self._steady(within, run_by, position)
        return self._element(within, run_by.operands[1 + run_by.branches.index(computation)], position)

    def _steady(self, within, loop, position):
        """What a loop carries from its first turn to its last as it is, or None."""
        body = loop.attributes["body"]
        root = self._instructions[body].get(self._roots.get(body))
        found = self._instructions[body].get(root.operands[position]) if root and root.operation == "tuple" else None
        while found is not None and found.operation in _SAME:
            found = self._instructions[body].get(found.operands[0])
        if found is None or found.operation != "get-tuple-element" or int(found.attributes["index"]) != position:
            return None
        source = self._instructions[body].get(found.operands[0])
        is_carried = source is not None and source.operation == "parameter"
        return self._element(within, loop.operands[0], position) if is_carried else None

    def _read(self, text):
        name, lines = None, []
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


def _instruction(match, line):
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


def _computations(instruction):
    """Names of those that an instruction runs: the bodies of loops, what is called, and branches."""
    key = {"while": "body", "call": "to_apply"}.get(instruction.operation)
    return (instruction.attributes[key],) if key else instruction.branches


def _number(text):
    if text in ("true", "false"):
        return int(text == "true")
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None
