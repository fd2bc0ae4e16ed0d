"""The records that could not be read or decoded: logged once each, counted, and too many refused."""

import threading

import numpy as np
from absl import logging

from tfbigbatch.errors import InputError


class BadRecords:
    """What is bad in one split; the data pipeline reports it, from any thread.

    Args:
      split: `record_manifest.Split`.
      max_share: the share of its records that may be bad.
    """

    def __init__(self, split, *, max_share):
        if not 0.0 <= max_share <= 1.0:
            raise InputError(f"max_bad_share={max_share}: expected a share, from 0.0 to 1.0.")
        self._split, self._max_share = split, max_share
        self._ends = np.cumsum(split.counts)
        self._numbers = set()
        self._lock = threading.Lock()

    @property
    def count(self):
        """The bad records that were met, each counted once."""
        return len(self._numbers)

    def place(self, number):
        """(file, offset) of a record, by its number in the split."""
        file = int(np.searchsorted(self._ends, number, side="right"))
        return self._split.files[file], int(self._split.offsets[number])

    def found(self, numbers):
        """Notes bad records: int64 array of their numbers in the split."""
        with self._lock:
            new = [int(number) for number in numbers if int(number) not in self._numbers]
            self._numbers.update(new)
        for number in new:
            file, offset = self.place(number)
            logging.warning("skipped: the record at byte %d of %s cannot be read or decoded", offset, file)

    def check(self):
        """Raises where too many are bad.

        Raises:
          ValueError: more than `max_share` of the split's records are bad.
        """
        if self.count > self._max_share * self._split.examples:
            file, offset = self.place(min(self._numbers))
            raise InputError(
                f"{self.count:,} of the {self._split.examples:,} records of {self._split.name} cannot be read or "
                f"decoded, and at most a share of {self._max_share} may be; the first is at byte {offset} of {file}. "
                "Prepare the set anew, or raise max_bad_share."
            )
