"""What becomes of a pair of sentences."""

import dataclasses

from tfbigbatch.errors import InputError

# Lengths are kept as uint16, and one place is END's.
_LONGEST = (1 << 16) - 2


@dataclasses.dataclass(frozen=True)
class Settings:
    """Which pairs are trained on, and where held-out sentences are cut.

    Attributes:
      max_length: pieces of a sentence at most, in training; a pair with a longer one is left out. MLPerf's GNMT has 50.
      max_ratio: of the longer to the shorter sentence of a pair, in pieces, at most, in training. 9 is that of Moses'
        clean-corpus-n, in words.
      max_eval_length: pieces of a held-out sentence at most; a longer one loses its end. MLPerf's GNMT has 150.

    Raises:
      ValueError: a value is out of its range.
    """

    max_length: int = 50
    max_ratio: float = 9.0
    max_eval_length: int = 150

    def __post_init__(self):
        for name, fine, expected in (
            ("max_length", 1 <= self.max_length <= _LONGEST, f"1 to {_LONGEST}"),
            ("max_ratio", self.max_ratio >= 1, "1 or more"),
            ("max_eval_length", 1 <= self.max_eval_length <= _LONGEST, f"1 to {_LONGEST}"),
        ):
            if not fine:
                raise InputError(f"--{name}={getattr(self, name)}: expected {expected}.")

    def refused(self, source, target):
        """Why a pair is not trained on, a key of REFUSALS; None where it is.

        Args:
          source, target: how many pieces the sentences have.
        """
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
