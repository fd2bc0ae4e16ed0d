"""How often each piece is to be predicted in the target sentences of a prepared folder."""

from __future__ import annotations

import functools

import numpy as np

from tfbigbatch.data import token_counts
from tfbigbatch.data.records import tfrecord
from tfbigbatch.data.token_counts import TokenCounts
from tfbigbatch.data.translation.manifest import Manifest
from tfbigbatch.data.translation.vocabulary import END


def of(manifest: Manifest, most_records: int = token_counts.AT_START) -> TokenCounts:
    """The counts of a prepared folder, one END for each sentence included.

    Args:
      manifest: of the folder; its own counts are taken, or else those of its training records.
      most_records: as in `token_counts.of_records`.
    """
    if manifest.token_counts is not None:
        return TokenCounts.of_manifest(manifest.token_counts)
    targets = functools.partial(_targets, manifest.bytes_of_id)
    return token_counts.of_records(manifest.splits["train"], targets, len(manifest.vocabulary), most_records)


def _targets(bytes_of_id: int, record: bytes) -> np.ndarray:
    ids = np.frombuffer(tfrecord.bytes_of(record, "target"), f"<u{bytes_of_id}")
    return np.append(ids.astype(np.int64), END)
