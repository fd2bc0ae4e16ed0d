import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.errors import DivergedError, WorkerLost
from tfbigbatch.optimizers import keras3
from tfbigbatch.training.checkpoints import Checkpoints


def trained(units=4, optimizer=None):
    """A network after a step."""
    keras.backend.clear_session()
    network = keras.Sequential([keras.Input((3,)), keras.layers.Dense(units), keras.layers.Dense(1)])
    network.compile(optimizer or keras3.LAMB(0.01), "mse")
    train(network)
    return network


def train(network):
    network.optimizer.apply([tf.ones(each.shape) for each in network.trainable_variables], network.trainable_variables)


def test_weights_and_optimizer_state_come_back(tmp_path):
    network, other = trained(), trained()
    Checkpoints(network, str(tmp_path)).save(1)
    assert Checkpoints(other, str(tmp_path)).restore() == 1
    for a, b in zip(network.variables + network.optimizer.variables, other.variables + other.optimizer.variables):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["plain", "lr=[0.1]", "a\\b*?"])
def test_the_newest_two_stay(tmp_path, name):
    folder = tmp_path / name / "checkpoints"
    folder.mkdir(parents=True)
    checkpoints = Checkpoints(trained(), str(folder), keep=2)
    for step in range(1, 5):
        checkpoints.save(step)
    assert sorted(name for name in os.listdir(folder) if name.endswith(".index")) == ["step-3.index", "step-4.index"]
    # A later process resumes, and removes what this one kept.
    again = Checkpoints(trained(), str(folder), keep=2)
    assert again.restore() == 4 and again.latest() == str(folder / "step-4")
    for step in (5, 6):
        again.save(step)
    assert sorted(name for name in os.listdir(folder) if name.endswith(".index")) == ["step-5.index", "step-6.index"]
    with pytest.raises(ValueError, match="keep_checkpoints=1: expected 2 or more"):
        Checkpoints(trained(), str(tmp_path), keep=1)


@pytest.mark.parametrize(
    "other",
    [
        lambda: trained(units=5),
        lambda: trained(optimizer=keras.optimizers.SGD(0.1)),
        lambda: trained(optimizer=keras3.LARS(0.1)),
    ],
)
def test_a_checkpoint_of_another_model_is_refused(tmp_path, other):
    Checkpoints(trained(), str(tmp_path)).save(1)
    with pytest.raises(ValueError, match="step-1 is of another model or optimizer"):
        Checkpoints(other(), str(tmp_path)).restore()
    assert Checkpoints(trained(), str(tmp_path)).restore() == 1


DATA = "step-2.data-00000-of-00001"


def flipped(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 4
    file.write_bytes(content)


@pytest.mark.parametrize(
    "name, damage",
    [
        ("step-2.index", lambda file: file.write_bytes(b"garbage")),
        ("step-2.index", lambda file: file.write_bytes(b"")),
        ("step-2.index", lambda file: file.write_bytes(file.read_bytes()[:-40])),
        (DATA, lambda file: file.write_bytes(file.read_bytes()[:-20])),
        (DATA, lambda file: file.unlink()),
        (DATA, flipped),
    ],
    ids=["garbage", "empty", "cut index", "cut data", "no data", "flipped"],
)
def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path, name, damage):
    network = trained()
    checkpoints = Checkpoints(network, str(tmp_path))
    checkpoints.save(1)
    before = network.get_weights()
    train(network)
    checkpoints.save(2)
    damage(tmp_path / name)
    other = trained()
    if name == "step-2.index":
        # As an evaluation beside a process that trains.
        files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        reader = Checkpoints(trained(), str(tmp_path), writes=False)
        assert reader.restore() == 1 and reader.set_aside[0][0] == str(tmp_path / "step-2")
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files
    again = Checkpoints(other, str(tmp_path))
    assert again.restore() == 1
    np.testing.assert_equal(before, other.get_weights())
    ((path, wrong),) = again.set_aside
    assert path == str(tmp_path / "damaged.step-2") and wrong
    assert (tmp_path / "damaged.step-2.index").exists() and not (tmp_path / "step-2.index").exists()
    # The damaged one does not count among those that stay.
    for step in (2, 3):
        again.save(step)
    assert sorted(path.name for path in tmp_path.glob("step*.index")) == ["step-2.index", "step-3.index"]


def test_where_all_are_damaged_all_are_named(tmp_path):
    checkpoints = Checkpoints(trained(), str(tmp_path))
    for step in (1, 2):
        checkpoints.save(step)
        (tmp_path / f"step-{step}.index").write_bytes(b"garbage")
    with pytest.raises(ValueError, match="every checkpoint in(.|\n)*step-2: (.|\n)*step-1: (.|\n)*start afresh"):
        Checkpoints(trained(), str(tmp_path)).restore()
    assert (tmp_path / "step-1.index").exists()


@pytest.mark.parametrize(
    "saved, damaged, found, after",
    [
        ([1, 2], {"checkpoint": b"\x00garbage"}, 2, ["step-2.index", "step-3.index"]),
        # The index is the last file of a checkpoint to be written: a save was cut short.
        ([1, 2], {"step-2.index": None}, 1, ["step-1.index", "step-3.index"]),
        ([1], {"step-1.index": None, "checkpoint": None}, None, ["step-3.index"]),
    ],
    ids=["no list", "the last save", "the first save"],
)
def test_what_a_crash_may_leave_is_no_damage(tmp_path, saved, damaged, found, after):
    checkpoints = Checkpoints(trained(), str(tmp_path))
    for step in saved:
        checkpoints.save(step)
    for name, content in damaged.items():
        (tmp_path / name).unlink() if content is None else (tmp_path / name).write_bytes(content)
    again = Checkpoints(trained(), str(tmp_path))
    assert again.restore() == found and not again.set_aside
    again.save(3)
    assert sorted(path.name for path in tmp_path.glob("*.index")) == after


def test_lost_files_are_not_taken_for_a_fresh_start(tmp_path):
    Checkpoints(trained(), str(tmp_path)).save(1)
    (tmp_path / "step-1.index").unlink()
    with pytest.raises(ValueError, match="no checkpoint with its index.*Put the missing files back"):
        Checkpoints(trained(), str(tmp_path)).restore()


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
    network = trained()
    checkpoints = Checkpoints(network, str(tmp_path))
    checkpoints.save(1)
    network.weights[0].assign(tf.fill(network.weights[0].shape, float("nan")))
    with pytest.raises(DivergedError, match="not finite at step 2"):
        checkpoints.save(2)
    assert checkpoints.latest().endswith("step-1")


def test_a_full_disk_leaves_the_checkpoints_before_whole(small_disk):
    network = trained()
    checkpoints = Checkpoints(network, str(small_disk))
    checkpoints.save(1)
    (small_disk / "filler").write_bytes(
        b"x" * (256 * 1024 - sum(f.stat().st_size for f in small_disk.iterdir()) - 12 * 1024)
    )
    with pytest.raises(ValueError, match="checkpoint of step .* cannot be written"):
        for step in range(2, 8):
            checkpoints.save(step)
    assert Checkpoints(trained(), str(small_disk)).restore() == 1


def test_a_worker_that_is_lost_in_a_save_is_no_full_disk(tmp_path, monkeypatch):
    checkpoints = Checkpoints(trained(), str(tmp_path))

    def lost(*unused, **fields):
        raise tf.errors.UnavailableError(None, None, "Collective ops is aborted")

    monkeypatch.setattr(tf.train.Checkpoint, "write", lost)
    with pytest.raises(ValueError, match="checkpoint of step 1 cannot be written"):
        checkpoints.save(1)
    monkeypatch.setenv("TF_CONFIG", "{}")
    with pytest.raises(WorkerLost, match="another worker died"):
        checkpoints.save(1)
