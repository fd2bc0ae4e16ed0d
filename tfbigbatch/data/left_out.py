"""The account that each preparation ends with: what was read of a source, is used, and was left out, and why."""

from __future__ import annotations

from collections.abc import Mapping

HIDDEN = "hidden, or of a folder __MACOSX"


def account(name: str, unit: str, read: int, left_out: Mapping[str, int]) -> str:
    """A line on the parts of a source.

    Args:
      name: of the split, or of the file.
      unit: what is counted, in the plural: 'images', 'pairs'.
      read: how many there are.
      left_out: how many are not used, by reason.
    """
    reasons = "; ".join(f"{count:,} {reason}" for reason, count in left_out.items() if count)
    said = f"{name}, {unit}: {read:,} read, {read - sum(left_out.values()):,} used"
    return f"{said}; left out: {reasons}" if reasons else said


def is_hidden(name: str) -> bool:
    """True for a path within a source that is not meant as data: hidden, or of what macOS adds to archives."""
    return any(part.startswith(".") or part == "__MACOSX" for part in name.split("/"))
