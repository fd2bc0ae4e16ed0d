"""The loops of a compiled program: how often each turns, and what all turns cost. A compiler counts one of each.

Read from the program's text. The turns are known of a loop whose counter goes from a constant by ones to a constant, as
those that an LSTM, `tf.range` and accumulation make.
"""

import re
import typing

_COMPUTATION = re.compile(r"^(?P<entry>ENTRY )?(?P<name>%[\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^  (?P<root>ROOT )?(?P<name>%[\w.\-]+) = (?:\(.*?\)|\S+) (?P<operation>[\w\-]+)\(")
_NAME = re.compile(r"%[\w.\-]+")
_ATTRIBUTE = re.compile(r"\b(?P<key>condition|body|to_apply|index|direction)=(?P<value>%?[\w.\-]+)")
# They hand their operand on.
_SAME = {"copy", "bitcast", "reshape", "copy-start", "copy-done", "optimization-barrier"}


class Instruction(typing.NamedTuple):
    """A line of a program.

    Attributes:
      operation: such as 'while'.
      operands: names of results; of a constant its text.
      attributes: dictionary of texts: condition, body, to_apply, index and direction, where the line has them.
    """

    operation: str
    operands: tuple
    attributes: dict


class Loop(typing.NamedTuple):
    """A `while`.

    Attributes:
      within: name of the computation that holds it.
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
        # From a body, or what is called, to the computation and the instruction that run it.
        self._run_by = {}
        for within, instructions in self._instructions.items():
            for each in instructions.values():
                if each.operation in ("while", "call"):
                    run = each.attributes["body" if each.operation == "while" else "to_apply"]
                    self._run_by[run] = within, each
        self.loops = [
            Loop(self._holder(within), body, self._turns(within, each))
            for body, (within, each) in self._run_by.items()
            if each.operation == "while"
        ]

    def cost(self, once, cost_of):
        """What the program costs with all turns of its loops; one where they are not known.

        Args:
          once: dictionary of numbers: the cost with one turn of each loop.
          cost_of: function of a program's text that gives the same for that program.

        Returns:
          Dictionary as `once`.
        """
        single = {each.body: cost_of(self._alone(each.body)) for each in self.loops}

        def whole(computation, cost):
            for loop in self.loops:
                if loop.within == computation:
                    turn, counted = whole(loop.body, single[loop.body]), single[loop.body]
                    turns = 1 if loop.turns is None else loop.turns
                    cost = {name: cost[name] + turns * turn[name] - counted[name] for name in cost}
            return cost

        return whole(self._entry, once)

    def _alone(self, computation):
        """The text of a program that is this computation; what it calls stands before it."""
        names = list(self._blocks)
        before = [self._blocks[name] for name in names[: names.index(computation)]]
        return "\n\n".join(["HloModule one_turn", *before, f"ENTRY {self._blocks[computation]}"]) + "\n"

    def _holder(self, computation):
        """The body or entry that runs a computation; itself where nothing known does."""
        while computation in self._run_by and self._run_by[computation][1].operation == "call":
            computation = self._run_by[computation][0]
        return computation

    def _turns(self, within, loop):
        if self._holder(within) != self._entry and self._holder(within) not in self._run_by:
            # Of a branch, or of what is not read here.
            return None
        counted = self._counted(within, loop)
        return counted and counted[2] - counted[1]

    def _counted(self, within, loop):
        """(position, first, last) of a loop's counter among the values that it carries; None where it is not known."""
        condition, body = loop.attributes["condition"], loop.attributes["body"]
        compare = self._instructions[condition].get(self._roots.get(condition))
        if compare is None or compare.operation != "compare" or compare.attributes.get("direction") != "LT":
            return None
        counter, limit = (self._resolved(condition, name) for name in compare.operands)
        position = self._position(condition, counter)
        if position is None or not self._adds_one(body, position):
            return None
        start, end = self._carried_at_first(within, loop, position), self._number(limit)
        if end is None:
            end = self._carried(within, loop, self._position(condition, limit))
        return None if start is None or end is None else (position, start, max(start, end))

    def _value(self, computation, name):
        """A whole number that a name always stands for in a computation, or None."""
        found = self._resolved(computation, name)
        if self._position(computation, found) is not None:
            return self._carried(*self._run_by.get(computation, (None, None)), self._position(computation, found))
        if found is not None and found.operation == "get-tuple-element":
            source, position = self._resolved(computation, found.operands[0]), int(found.attributes["index"])
            if source is not None and source.operation == "while":
                counted = self._counted(computation, source)
                if counted and counted[0] == position:
                    return counted[2]
                return self._carried(computation, source, position)
        return self._number(found)

    def _carried(self, within, loop, position):
        """A whole number that a loop carries from its first turn to its last as it is, or None."""
        if position is None or loop is None or loop.operation != "while":
            return None
        stays = self._position(loop.attributes["body"], self._next(loop.attributes["body"], position)) == position
        return self._carried_at_first(within, loop, position) if stays else None

    def _carried_at_first(self, within, loop, position):
        first = self._resolved(within, loop.operands[0])
        is_listed = first is not None and first.operation == "tuple"
        return self._value(within, first.operands[position]) if is_listed else None

    def _resolved(self, computation, name):
        """The instruction behind a name and what only hands on."""
        found = self._instructions[computation].get(name)
        while found is not None and found.operation in _SAME:
            found = self._instructions[computation].get(found.operands[0])
        return found

    def _number(self, found):
        is_number = found is not None and found.operation == "constant" and re.fullmatch(r"-?\d+", found.operands[0])
        return int(found.operands[0]) if is_number else None

    def _position(self, computation, found):
        """Which of the values that a loop carries an instruction takes, or None."""
        if found is None or found.operation != "get-tuple-element":
            return None
        source = self._resolved(computation, found.operands[0])
        return int(found.attributes["index"]) if source is not None and source.operation == "parameter" else None

    def _next(self, body, position):
        """The instruction of a carried value's next."""
        root = self._instructions[body].get(self._roots.get(body))
        return self._resolved(body, root.operands[position]) if root is not None and root.operation == "tuple" else None

    def _adds_one(self, body, position):
        found = self._next(body, position)
        if found is None or found.operation != "add":
            return False
        terms = [self._resolved(body, name) for name in found.operands]
        return {self._position(body, each) for each in terms} >= {position} and {*map(self._number, terms)} >= {1}

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
    operands = (inside,) if match["operation"] == "constant" else tuple(_NAME.findall(inside))
    return Instruction(
        match["operation"], operands, {each["key"]: each["value"] for each in _ATTRIBUTE.finditer(line, end)}
    )
