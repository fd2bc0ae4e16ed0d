"""Reads small records one by one in any order, from wherever they lie."""

from __future__ import annotations

import os
import threading
import weakref

import numpy as np

from tfbigbatch.data.records import tfrecord
from tfbigbatch.data.records.manifest import Split

# In place of a record's number: no record.
NO_RECORD = -1


class RandomAccessReader:
    """Reads records by number, from files that the operating system keeps in its page cache where it has room.

    Args:
      split: Split of a prepared folder.
    """

    def __init__(self, split: Split) -> None:
        self._split, self._ends = split, np.cumsum(split.counts)
        self._open: dict[int, int] = {}
        self._lock = threading.Lock()
        weakref.finalize(self, _close, self._open)

    def read(self, numbers: np.ndarray) -> np.ndarray:
        """Some records.

        Args:
          numbers: int64 array of [n], record numbers or NO_RECORD.

        Returns:
          object array of [n]: bytes, empty for NO_RECORD and for a record that cannot be read or is damaged.
        """
        split, files = self._split, np.searchsorted(self._ends, numbers, side="right")
        offsets = split.offsets[numbers]
        # A frame ends where the next one of the file begins, or with the file.
        in_file = split.offsets[np.minimum(numbers + 1, len(split.offsets) - 1)]
        ends = np.where(numbers + 1 == self._ends[files], split.bytes[files], in_file)
        rows = zip(numbers.tolist(), files.tolist(), offsets.tolist(), (ends - offsets).tolist())
        frames = [self._frame(*row) if number != NO_RECORD else b"" for number, *row in rows]
        found = np.empty(len(frames), object)
        found[:] = [tfrecord.unframed(frame) for frame in frames]
        return found

    def _frame(self, file: int, offset: int, size: int) -> bytes:
        try:
            return os.pread(self._descriptor(file), size, offset)
        except OSError:
            return b""

    def _descriptor(self, file: int) -> int:
        with self._lock:
            if file not in self._open:
                self._open[file] = os.open(self._split.files[file], os.O_RDONLY | os.O_NONBLOCK)
            return self._open[file]


def _close(descriptors: dict[int, int]) -> None:
    for descriptor in descriptors.values():
        os.close(descriptor)
