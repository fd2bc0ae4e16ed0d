"""The outline of a preparation: its lock, its fingerprint, shards that are written whole, and resuming."""

import json

import filelock
import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.data.records import manifest as record_manifest
from tfbigbatch.data.records import preparation, shards, tfrecord
from tfbigbatch.data.records.preparation import PROGRESS
from tfbigbatch.errors import Preempted

KIND = record_manifest.Kind("words", "prepare-words")


def fingerprint(source="/data/set", seed=0, rows=(("a.jpg", 3), ("b.jpg", 4))):
    return preparation.fingerprint(source, "images", {"seed": seed}, ["cat", "dog"], rows)


def write(shard, tick):
    if isinstance(shard.content, BaseException):
        raise shard.content
    tick()
    return shards.write(shard, [[b"one", b"two"]], {})


class Words(preparation.Preparation):
    """Shards of two words; in place of the second, an error where one is given."""

    kind, unit, function = KIND, "shard", staticmethod(write)

    def __init__(self, seed=0, error=None):
        self.fingerprint, self.error = fingerprint(seed=seed), error

    def load(self, folder):
        with record_manifest.loading(folder, KIND) as (_, _, splits):
            return splits

    def tasks(self, folder, say):
        return [shards.Shard("train", number, 2, folder, self.error if number else None) for number in range(2)]

    def save(self, folder, results):
        record_manifest.save(folder, KIND, shards.splits_of(results), {})


def prepare(folder, job):
    return preparation.prepare(job, str(folder), processes=1)


def test_a_folder_is_locked_for_one_command(tmp_path):
    (tmp_path / PROGRESS).mkdir()
    with filelock.FileLock(tmp_path / PROGRESS / "lock"):
        with pytest.raises(ValueError, match="Another command prepares --output_dir=.*. Wait for it"):
            prepare(tmp_path, Words())
    with pytest.raises(KeyError):
        prepare(tmp_path, Words(error=KeyError()))
    assert not prepare(tmp_path, Words())[1]


def test_the_fingerprint_is_of_the_content_and_not_of_where_it_lies():
    assert fingerprint() == fingerprint("/elsewhere/set") == fingerprint("/data/set/")
    digests = {fingerprint(seed=seed, rows=rows)["digest"] for seed in (0, 1) for rows in ((), (("a.jpg", 4),))}
    assert len(digests) == 4 and fingerprint()["source"] == "set"


def test_a_finished_folder_is_of_one_fingerprint(tmp_path):
    content, already = prepare(tmp_path, Words())
    assert not already and content["splits"]["train"]["examples"] == 4
    assert json.loads((tmp_path / PROGRESS / "plan.json").read_text()) == fingerprint()
    with pytest.raises(ValueError, match=r"or with the options {'seed': 0}. Choose another folder"):
        prepare(tmp_path, Words(seed=1))
    assert prepare(tmp_path, Words()) == (content, True)


def test_a_stopped_command_is_resumed(tmp_path):
    with pytest.raises(Preempted):
        prepare(tmp_path, Words(error=Preempted()))
    before = (tmp_path / "train-00000-of-00002").stat().st_mtime_ns
    assert not prepare(tmp_path, Words())[1]
    assert (tmp_path / "train-00000-of-00002").stat().st_mtime_ns == before


@pytest.mark.parametrize("name", ["train-00001-of-00002", "manifest.json", "validation.index.npy"])
def test_files_of_others_are_left_alone(tmp_path, name):
    (tmp_path / name).write_bytes(b"precious")
    with pytest.raises(ValueError, match=f"files that this command did not make, such as .*{name}"):
        prepare(tmp_path, Words())
    assert (tmp_path / name).read_bytes() == b"precious"


def shard_in(folder):
    (folder / PROGRESS).mkdir()
    return shards.Shard("train", 0, 1, str(folder), None)


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
    np.testing.assert_array_equal(np.load(shard.sidecar(".offsets.npy")), tfrecord.offsets(shard.path))
    with open(shard.path, "ab") as file:
        file.write(b"more")
    assert shards.done(shard) is None


def test_a_shard_that_fails_leaves_nothing(tmp_path):
    def runs():
        yield [b"one"]
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        shards.write(shard_in(tmp_path), runs(), {})
    assert [path.name for path in tmp_path.rglob("*")] == [PROGRESS]


@pytest.mark.parametrize("count", [2, 7])
def test_pieces_are_dealt_out_in_runs_of_about_the_same_size(count):
    lengths = [number * 37 % 100 + 1 for number in range(7)] if count < 7 else [1, 1, 1, 1, 1, 1, 9999]
    portions = list(shards.portions(np.cumsum(lengths), count))
    assert [first for first, _ in portions] == [0, *(last for _, last in portions[:-1])] and portions[-1][1] == 7
    assert all(last > first for first, last in portions) and len(portions) == count
    first_heavy = list(shards.portions(np.cumsum([9999, 1, 1, 1]), 3))
    assert [last - first for first, last in first_heavy] == [1, 1, 2]
