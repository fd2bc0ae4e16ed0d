"""How often each piece is to be predicted, in the target sentences of a prepared folder."""

from __future__ import annotations

import functools

import numpy as np

from tfbigbatch.data import token_counts
from tfbigbatch.data.records import tfrecord
from tfbigbatch.data.translation.manifest import Manifest
from tfbigbatch.data.translation.vocabulary import END


def of(manifest: Manifest) -> token_counts.TokenCounts:
    """The counts of the training split's targets, END included."""
    targets = functools.partial(_targets, manifest.bytes_of_id)
    return token_counts.of_records(manifest.splits["train"], targets, len(manifest.vocabulary))


def _targets(bytes_of_id: int, record: bytes) -> np.ndarray:
    ids = np.frombuffer(dict(tfrecord.parsed(memoryview(record)))["target"], f"<u{bytes_of_id}")
    return np.append(ids.astype(np.int64), END)
