"""The account that each preparation ends with: what was read of a source, is used, and was left out, and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

HIDDEN = "hidden, or of a folder __MACOSX"


@dataclasses.dataclass(frozen=True)
class Account:
    """The numbers of parts of a source that are used and left out.

    Attributes:
      name: of the split, or of the file.
      unit: what is counted, in the plural: 'images', 'pairs'.
      read: how many there are.
      left_out: how many are not used, by reason.
    """

    name: str
    unit: str
    read: int
    left_out: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        reasons = "; ".join(f"{count:,} {reason}" for reason, count in self.left_out.items() if count)
        said = f"{self.name}, {self.unit}: {self.read:,} read, {self.read - sum(self.left_out.values()):,} used"
        return f"{said}; left out: {reasons}" if reasons else said


def is_hidden(name: str) -> bool:
    """True for a path within a source that is not meant as data: hidden, or of what macOS adds to archives."""
    return any(part.startswith(".") or part == "__MACOSX" for part in name.split("/"))
