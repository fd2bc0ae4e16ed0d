"""Shards that are written whole, and what goes into which."""

import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.data.records import index, shards


def shard_in(folder):
    (folder / shards.PROGRESS).mkdir()
    return shards.Shard.numbered("train", 0, 1, str(folder), None)


def test_a_shard_is_written_whole_with_its_record(tmp_path):
    shard, counts = shard_in(tmp_path), {"lines": 0}

    def runs():
        for run in ([b"one", b"two", b"three"], [], [b"four" * 50]):
            counts["lines"] += len(run)
            yield run

    assert shards.done(shard) is None
    record = shards.write(shard, runs(), counts)
    assert record["lines"] == 4 and shards.done(shard) == record
    found = list(tf.data.TFRecordDataset(shard.path).as_numpy_iterator())
    assert found == [b"one", b"two", b"three", b"four" * 50]
    np.testing.assert_array_equal(np.load(shard.offsets), index.offsets(shard.path))
    with open(shard.path, "ab") as file:
        file.write(b"more")
    assert shards.done(shard) is None


def test_a_shard_that_fails_leaves_nothing(tmp_path):
    def runs():
        yield [b"one"]
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        shards.write(shard_in(tmp_path), runs(), {})
    assert [path.name for path in tmp_path.rglob("*")] == [shards.PROGRESS]


@pytest.mark.parametrize("count", [1, 2, 7])
def test_pieces_are_dealt_out_in_runs_of_about_the_same_size(count):
    lengths = [number * 37 % 100 + 1 for number in range(7)] if count < 7 else [1, 1, 1, 1, 1, 1, 9999]
    portions = list(shards.portions(np.cumsum(lengths), count))
    assert [first for first, _ in portions] == [0, *(last for _, last in portions[:-1])] and portions[-1][1] == 7
    assert all(last > first for first, last in portions) and len(portions) == count
    first_heavy = list(shards.portions(np.cumsum([9999, 1, 1, 1]), 3))
    assert [last - first for first, last in first_heavy] == [1, 1, 2]
