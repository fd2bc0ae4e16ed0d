"""How often each token can be a target of masked language modelling, in the records of a prepared folder."""

from __future__ import annotations

import functools

import numpy as np

from tfbigbatch.data import token_counts
from tfbigbatch.data.bert.manifest import Manifest
from tfbigbatch.data.records import tfrecord


def of(manifest: Manifest) -> token_counts.TokenCounts:
    """The counts of a prepared folder's training split.

    With dynamic masks every token but [CLS] and [SEP] is a target equally often; of records with masks, those that are
    masked.
    """
    targets = _maskable if manifest.dynamic else _masked
    return token_counts.of_records(
        manifest.splits["train"], functools.partial(targets, manifest), len(manifest.vocabulary)
    )


def maskable(ids: np.ndarray, manifest: Manifest) -> np.ndarray:
    return ids[(ids != manifest.vocabulary.classify) & (ids != manifest.vocabulary.separate)]


def _maskable(manifest: Manifest, record: bytes) -> np.ndarray:
    ids = np.frombuffer(dict(tfrecord.parsed(memoryview(record)))["ids"], f"<u{manifest.bytes_of_id}").astype(np.int64)
    return maskable(ids, manifest)


def _masked(manifest: Manifest, record: bytes) -> np.ndarray:
    found = tfrecord.values(record)
    labels, weights = (np.array(found[manifest.keys[name]]) for name in ("labels", "weights"))
    return labels[weights > 0]
