"""Which sentence pairs are kept, and where held-out sentences are truncated."""

from __future__ import annotations

import dataclasses

from tfbigbatch.data.records.preparation import check_options

# Lengths are stored as uint16, and END takes one token.
_LONGEST = (1 << 16) - 2


@dataclasses.dataclass(frozen=True)
class Settings:
    """Filters of sentence pairs. Lengths are in vocabulary pieces.

    Attributes:
      max_length: training pairs with a longer sentence are left out. MLPerf's GNMT uses 50.
      max_ratio: training pairs with a larger ratio of the longer to the shorter sentence are left out. Moses'
        clean-corpus-n uses 9, in words.
      max_eval_length: longer held-out sentences are truncated. MLPerf's GNMT uses 150.

    Raises:
      ValueError: a value is out of range.
    """

    max_length: int = 50
    max_ratio: float = 9.0
    max_eval_length: int = 150

    def __post_init__(self) -> None:
        check_options(
            self,
            {
                "max_length": (1 <= self.max_length <= _LONGEST, f"1 to {_LONGEST}"),
                "max_ratio": (self.max_ratio >= 1, "1 or more"),
                "max_eval_length": (1 <= self.max_eval_length <= _LONGEST, f"1 to {_LONGEST}"),
            },
        )

    def refused(self, source: int, target: int) -> str | None:
        """Why a pair with these numbers of pieces is left out of training, a key of REFUSALS; None if it is kept."""
        if not source or not target:
            return "empty"
        if max(source, target) > self.max_length:
            return "too_long"
        if max(source, target) > self.max_ratio * min(source, target):
            return "extreme_ratio"
        return None


REFUSALS = {
    "empty": "with an empty sentence",
    "too_long": "with a sentence of more pieces than --max_length",
    "extreme_ratio": "of lengths that differ by more than --max_ratio",
}
