"""What one host computes and holds does not grow with the number of records."""

import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.data.records import manifest
from tfbigbatch.data.records import order as order_module
from tfbigbatch.data.records.manifest import Split
from tfbigbatch.data.records.order import Chunks, HostSlice, RecordOrder

FILES, WINDOW = 100, 8192


@pytest.mark.parametrize("records", [1_000_000, 365_000_000])
def test_a_window_takes_the_places_of_its_own_chunks_alone(records, monkeypatch):
    asked = []

    def examples_at(positions, **fields):
        asked.append(int(positions.shape[0]))
        return real(positions, **fields)

    real = order_module.examples_at
    monkeypatch.setattr(order_module, "examples_at", examples_at)
    chunks = Chunks(np.full(FILES, records // FILES), 64)
    order = RecordOrder(chunks, HostSlice(32_768, 256, 255), 1, WINDOW)
    short = chunks.short_in_order
    epoch, window, _ = order.position(records // 32_768 * 3 // 2)
    first, size = order.pieces(tf.constant(epoch, tf.int64), tf.constant(window, tf.int64), short)
    assert len(first) == asked[-1] <= WINDOW // 64 + 2 + FILES
    assert int(tf.reduce_sum(size)) <= WINDOW and int(tf.reduce_max(first)) < records
    held = sum(np.asarray(each).nbytes for each in [*vars(chunks).values(), *short] if np.ndim(each))
    assert held <= 8 * 8 * FILES


def test_a_large_index_is_read_at_the_ends_of_its_files_alone(tmp_path, monkeypatch):
    records = 1_000_000
    monkeypatch.setattr(manifest, "MOST_IN_MEMORY", records - 1)
    # Wrong within the files, which would be found where all of it was read.
    offsets = np.tile(np.arange(records // FILES) * 20, FILES)
    offsets[5] = 7
    np.save(manifest.index_path(str(tmp_path), "train"), offsets)
    counts = np.full(FILES, records // FILES)
    mapped = np.load(manifest.index_path(str(tmp_path), "train"), mmap_mode="r")
    assert Split("train", tuple(map(str, range(FILES))), counts, mapped, counts * 20).examples == records


@pytest.mark.parametrize("host", [0, 1023, 2047])
def test_the_slice_of_one_of_2048_hosts_takes_a_few_operations(host):
    graph = tf.Graph()
    with graph.as_default():
        HostSlice(32_768, 2048, host).of_epoch(tf.constant(3, tf.int64), 365_000_000)
    assert len(graph.get_operations()) < 60
