"""The options of preparing parallel texts: the vocabulary, and the filters of sentence pairs."""

from __future__ import annotations

import dataclasses

from tfbigbatch.data.records.preparation import check_options, option
from tfbigbatch.errors import InputError

VOCABULARY_SIZE = 32000
# The special pieces, the bytes, and some characters.
_FEWEST_PIECES = 300
# Lengths are stored as uint16, and END takes one token.
_LONGEST = (1 << 16) - 2
REFUSALS = {
    "empty": "with an empty sentence",
    "too_long": "with a sentence of more pieces than --max_length",
    "extreme_ratio": "of lengths that differ by more than --max_ratio",
}
"""Words for the reasons to leave a training pair out."""


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the preparation; each is a flag of `tfbigbatch prepare-wmt` with the help that stands here.

    Lengths are in pieces of the vocabulary.

    Raises:
      ValueError: a value is out of range, or both a vocabulary and a size are given.
    """

    vocabulary: str | None = option(None, "Sentencepiece model, such as the vocabulary.model of a prepared folder.")
    vocabulary_size: int | None = option(
        None, f"In place of --vocabulary: learn one of this size. Default: {VOCABULARY_SIZE:,}."
    )
    # MLPerf's GNMT uses 50 and 150; Moses' clean-corpus-n 9, in words.
    max_length: int = option(50, "Largest number of tokens in a training sentence.")
    max_ratio: float = option(9.0, "Largest ratio of the longer to the shorter sentence of a training pair, in tokens.")
    max_eval_length: int = option(150, "Largest number of tokens in a held-out sentence; longer ones are truncated.")
    processes: int = 1
    overwrite: bool = False

    def __post_init__(self) -> None:
        if self.vocabulary is not None and self.vocabulary_size is not None:
            raise InputError("Give either --vocabulary=FILE or --vocabulary_size=NUMBER, and not both.")
        pieces = self.vocabulary_size is None or self.vocabulary_size >= _FEWEST_PIECES
        check_options(
            self,
            {
                "vocabulary_size": (pieces, f"{_FEWEST_PIECES} or more: 256 are single bytes"),
                "max_length": (1 <= self.max_length <= _LONGEST, f"1 to {_LONGEST}"),
                "max_ratio": (self.max_ratio >= 1, "1 or more"),
                "max_eval_length": (1 <= self.max_eval_length <= _LONGEST, f"1 to {_LONGEST}"),
                "processes": (self.processes >= 1, "1 or more"),
            },
        )

    def refused(self, source: int, target: int) -> str | None:
        """The reason to leave out a training pair of these numbers of pieces, a key of REFUSALS; None to keep it."""
        if not source or not target:
            return "empty"
        if max(source, target) > self.max_length:
            return "too_long"
        if max(source, target) > self.max_ratio * min(source, target):
            return "extreme_ratio"
        return None
