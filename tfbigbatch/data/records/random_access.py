"""Small records in any order: each is read by itself, from wherever it lies."""

import os
import threading
import weakref

import numpy as np

from tfbigbatch.data.records import tfrecord

# Records have no negative numbers.
NONE = -1


class PickedRecords:
    """Reads records by number, from files that the operating system keeps in memory where it has room.

    Args:
      split: record_manifest.Split.
    """

    def __init__(self, split):
        self._split, self._ends = split, np.cumsum(split.counts)
        self._open, self._lock = {}, threading.Lock()
        weakref.finalize(self, _close, self._open)

    def read(self, numbers):
        """Some records.

        Args:
          numbers: int64 array of [n]; NONE stands for none.

        Returns:
          object array of [n]: bytes, empty for none, and for a record that cannot be read or is damaged.
        """
        split, files = self._split, np.searchsorted(self._ends, numbers, side="right")
        offsets = split.offsets[numbers]
        # A frame ends where the next one of the file begins, or with the file.
        in_file = split.offsets[np.minimum(numbers + 1, len(split.offsets) - 1)]
        ends = np.where(numbers + 1 == self._ends[files], split.bytes[files], in_file)
        places = zip(numbers.tolist(), files.tolist(), offsets.tolist(), (ends - offsets).tolist())
        frames = [self._frame(*place) if number != NONE else b"" for number, *place in places]
        found = np.empty(len(frames), object)
        found[:] = tfrecord.unframed_together(frames)
        return found

    def _frame(self, file, offset, size):
        try:
            return os.pread(self._descriptor(file), size, offset)
        except OSError:
            return b""

    def _descriptor(self, file):
        with self._lock:
            if file not in self._open:
                self._open[file] = os.open(self._split.files[file], os.O_RDONLY)
            return self._open[file]


def _close(descriptors):
    for descriptor in descriptors.values():
        os.close(descriptor)
