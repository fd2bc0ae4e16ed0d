"""How often each token of a vocabulary is a target in a training set: for the initial bias of a model's output."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np

from tfbigbatch.data.records.manifest import Split
from tfbigbatch.data.records.random_access import RandomAccessReader

# Records that are counted of a folder that was prepared without counts: seconds, and frequencies need no more.
MOST_RECORDS = 200_000
_TOGETHER = 1024


@dataclasses.dataclass(frozen=True, eq=False)
class TokenCounts:
    """Counts of the tokens to predict.

    Attributes:
      counts: int64 [vocabulary].
      source: where they are from, in words.
    """

    counts: np.ndarray
    source: str


def of_tokens(tokens: np.ndarray, vocabulary_size: int) -> np.ndarray:
    """The counts of token ids, int64 [vocabulary_size], of an integer array of any shape with ids in that range."""
    return np.bincount(tokens.reshape(-1), minlength=vocabulary_size).astype(np.int64)


def of_records(
    split: Split,
    targets: Callable[[bytes], np.ndarray],
    vocabulary_size: int,
    most_records: int = MOST_RECORDS,
) -> TokenCounts:
    """Counts the targets in a split's records, or in evenly spaced ones of a larger split.

    Args:
      split: of a prepared folder.
      targets: function of a serialized record; gives the ids to predict, an integer array. A record on which it raises
        ValueError is left out, as a damaged one is, and so are ids outside of the vocabulary.
      vocabulary_size: ids are in [0, vocabulary_size).
      most_records: read at most so many.
    """
    numbers = np.unique(np.linspace(0, split.examples - 1, min(split.examples, most_records)).astype(np.int64))
    reader, counts = RandomAccessReader(split), np.zeros(vocabulary_size, np.int64)
    for start in range(0, len(numbers), _TOGETHER):
        ids = np.concatenate(
            [np.zeros(0, np.int64), *_targets(reader.read(numbers[start : start + _TOGETHER]), targets)]
        )
        counts += of_tokens(ids[(ids >= 0) & (ids < vocabulary_size)], vocabulary_size)
    part = "its records" if len(numbers) == split.examples else f"{len(numbers):,} of {split.examples:,} records"
    return TokenCounts(counts, f"counted now in {part}: the folder has no counts, prepare it again to keep them")


def _targets(records: Iterable[bytes], targets: Callable[[bytes], np.ndarray]) -> Iterable[np.ndarray]:
    for record in records:
        if record:
            try:
                yield targets(record)
            except ValueError:
                continue
