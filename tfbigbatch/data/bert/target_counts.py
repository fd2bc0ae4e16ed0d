"""How often each token is a target of masked language modelling in a prepared folder."""

from __future__ import annotations

import functools

import numpy as np

from tfbigbatch.data import token_counts
from tfbigbatch.data.bert.manifest import Manifest
from tfbigbatch.data.records import tfrecord
from tfbigbatch.data.token_counts import TokenCounts


def of(manifest: Manifest, most_records: int = token_counts.AT_START) -> TokenCounts:
    """The counts of a prepared folder: those that it keeps, or else of its training records.

    Dynamic masks choose each token but [CLS] and [SEP] equally often, so these are counted; of records with masks, the
    tokens that are masked.

    Args:
      manifest: of the folder.
      most_records: as in `token_counts.of_records`.
    """
    if manifest.token_counts is not None:
        return TokenCounts.of_manifest(manifest.token_counts)
    targets = functools.partial(_maskable if manifest.dynamic else _masked, manifest)
    return token_counts.of_records(manifest.splits["train"], targets, len(manifest.vocabulary), most_records)


def _maskable(manifest: Manifest, record: bytes) -> np.ndarray:
    ids = np.frombuffer(tfrecord.bytes_of(record, "ids"), f"<u{manifest.bytes_of_id}").astype(np.int64)
    return ids[(ids != manifest.vocabulary.classify) & (ids != manifest.vocabulary.separate)]


def _masked(manifest: Manifest, record: bytes) -> np.ndarray:
    found = tfrecord.values(record)
    labels, weights = (np.array(found[manifest.keys[name]]) for name in ("labels", "weights"))
    return labels[weights > 0].astype(np.int64)
