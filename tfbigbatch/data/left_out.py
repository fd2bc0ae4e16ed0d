"""The table that each preparation ends with: what was read of a source, is used, and was left out, and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

HIDDEN = "hidden, or of a folder __MACOSX"


@dataclasses.dataclass(frozen=True)
class Account:
    """The numbers of parts of a source that are used and left out.

    Attributes:
      name: of the split, or of the file.
      unit: what is counted, in the plural: 'images', 'pairs'.
      read: how many there are.
      left_out: how many are not used, by reason; reasons of none are dropped.
    """

    name: str
    unit: str
    read: int
    left_out: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def used(self) -> int:
        """The number that is used."""
        return self.read - sum(self.left_out.values())

    @property
    def reasons(self) -> str:
        """The reasons with their numbers; '' where nothing was left out."""
        return "; ".join(f"{count:,} {reason}" for reason, count in self.left_out.items() if count)

    def __str__(self) -> str:
        said = f"{self.name}, {self.unit}: {self.read:,} read, {self.used:,} used"
        return f"{said}; left out: {self.reasons}" if self.reasons else said


def table(accounts: Sequence[Account]) -> list[str]:
    """The lines of the table: a heading, and a row for each account."""
    names = [f"{each.name}  {each.unit}" for each in accounts]
    width = max(map(len, names))
    heading = f"  {'':{width}s}  {'read':>11s}  {'used':>11s}  {'left out':>11s}"
    rows = (
        f"  {name:{width}s}  {each.read:11,}  {each.used:11,}  {each.read - each.used:11,}  {each.reasons}".rstrip()
        for name, each in zip(names, accounts)
    )
    return [heading, *rows]


def is_hidden(name: str) -> bool:
    """True for a path within a source that is not meant as data: hidden, or of what macOS adds to archives."""
    return any(part.startswith(".") or part == "__MACOSX" for part in name.split("/"))
