"""TFRecord shards of a prepared folder, each written whole or not at all, with a record of what it holds beside it.

A shard is any object with `path`, where the file lies once it is whole, and two files of the folder for the
progress: `record`, what it holds, written last, and `offsets`, at which byte each record begins.
"""

import contextlib
import hashlib
import json
import os

import numpy as np

from tfbigbatch.data.records import tfrecord
from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import atomic_write

# Records that are framed at once.
_TOGETHER = 1024


def write(shard, runs, counts):
    """Writes a shard, its offsets, and then its record.

    Args:
      shard: see above.
      runs: iterable of lists of serialized examples; what it raises ends the writing, and nothing is left under the
        shard's name.
      counts: dictionary that goes into the record as it is when `runs` has ended.

    Returns:
      The record, a dictionary: `counts`, and the file's 'bytes' and 'sha256'.

    Raises:
      ValueError: the folder cannot be written.
    """
    digest, sizes, part = hashlib.sha256(), [], f"{os.path.splitext(shard.record)[0]}.part"
    try:
        with open(part, "wb") as file:
            for run in runs:
                for start in range(0, len(run), _TOGETHER):
                    frames = tfrecord.framed_together(run[start : start + _TOGETHER])
                    content = b"".join(frames)
                    file.write(content)
                    digest.update(content)
                    sizes += map(len, frames)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, shard.path)
        ends = np.cumsum(np.array(sizes, np.int64))
        atomic_write(shard.offsets, lambda file: np.save(file, ends - np.array(sizes, np.int64)))
        record = {**counts, "bytes": int(ends[-1]) if sizes else 0, "sha256": digest.hexdigest()}
        atomic_write(shard.record, lambda file: file.write(json.dumps(record, indent=1).encode()))
    except OSError as error:
        raise InputError(f"{error.filename or shard.path}: {error.strerror or error}.") from None
    finally:
        with contextlib.suppress(OSError):
            os.remove(part)
    return record


def done(shard):
    """The record of a whole shard; None where it is not there, or not of the size it was written with."""
    try:
        with open(shard.record, encoding="utf-8") as file:
            record = json.load(file)
        whole = os.path.getsize(shard.path) == record["bytes"] and os.path.exists(shard.offsets)
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None
    return record if whole else None


def portions(ends, count):
    """Cuts pieces of text in a row into runs of about the same size, none empty.

    Args:
      ends: int64 array of where each piece ends.
      count: of the runs, at most that of the pieces.

    Returns:
      Iterable of (first, last): a run is the pieces [first, last).
    """
    cuts = np.searchsorted(ends, np.arange(1, count) * (int(ends[-1]) / count)) + 1
    cuts = np.maximum(np.minimum(cuts, len(ends) - np.arange(count - 1, 0, -1)), np.arange(1, count))
    # Large pieces may push cuts onto each other.
    for place in range(1, len(cuts)):
        cuts[place] = max(cuts[place], cuts[place - 1] + 1)
    return zip([0, *cuts.tolist()], [*cuts.tolist(), len(ends)])
