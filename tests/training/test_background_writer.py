import errno
import os
import threading

import numpy as np
import pytest
import tensorflow as tf

from tests.training.test_checkpoints import trained
from tfbigbatch.training import background_writer
from tfbigbatch.training.checkpoints import Checkpoints


def indexes(folder):
    return sorted(path.name for path in folder.glob("*.index"))


def of_weights(network, value):
    network.set_weights([np.full_like(each, value) for each in network.get_weights()])


def test_it_holds_what_a_checkpoint_holds_and_the_newest_two_stay(tmp_path):
    network, optimizer = trained()
    plain = Checkpoints(network, optimizer, str(tmp_path / "plain"))
    behind = Checkpoints(network, optimizer, str(tmp_path / "behind"), asynchronous=True)
    for step in range(1, 5):
        of_weights(network, step)
        plain.save(step)
        behind.save(step)
        # What is trained meanwhile is not in it.
        of_weights(network, -step)
    behind.wait()
    assert indexes(tmp_path / "behind") == indexes(tmp_path / "plain") == ["step-3.index", "step-4.index"]
    assert tf.train.latest_checkpoint(str(tmp_path / "behind")).endswith("step-4")
    one, two = (tf.train.load_checkpoint(str(tmp_path / name / "step-4")) for name in ("plain", "behind"))
    names = one.get_variable_to_shape_map()
    assert names == two.get_variable_to_shape_map()
    for name in names:
        if "OBJECT_GRAPH" not in name:
            np.testing.assert_array_equal(one.get_tensor(name), two.get_tensor(name), err_msg=name)
    assert not tf.io.gfile.glob("ram://tfbigbatch/*/*/*") and not list((tmp_path / "behind").glob("*.part"))
    # Either kind goes on from the other's.
    again = Checkpoints(network, optimizer, str(tmp_path / "behind"))
    assert again.restore() == 1 and network.get_weights()[0].flat[0] == 4
    again.save(5)
    assert indexes(tmp_path / "behind") == ["step-4.index", "step-5.index"]
    assert Checkpoints(network, optimizer, str(tmp_path / "plain"), asynchronous=True).restore() == 1


@pytest.fixture
def held_up(monkeypatch):
    """(an event that lets files be written, a list of errors, each raised in place of a file that is put in place)."""
    go, errors, replace = threading.Event(), [], os.replace

    def waiting(one, other):
        assert go.wait(60)
        if errors:
            raise errors.pop()
        replace(one, other)

    monkeypatch.setattr(background_writer.os, "replace", waiting)
    yield go, errors
    go.set()


def test_training_goes_on_while_it_is_written(tmp_path, held_up):
    go, _ = held_up
    network, optimizer = trained()
    checkpoints = Checkpoints(network, optimizer, str(tmp_path), asynchronous=True)
    checkpoints.save(1)
    # Not there before it is whole: a process that is killed now leaves nothing that looks like a checkpoint.
    assert not indexes(tmp_path) and Checkpoints(*trained(), str(tmp_path)).restore() is None
    later = threading.Thread(target=checkpoints.save, args=(2,))
    later.start()
    later.join(0.2)
    # The next one waits for the last.
    assert later.is_alive()
    go.set()
    later.join(60)
    assert checkpoints.latest().endswith("step-2") and indexes(tmp_path) == ["step-1.index", "step-2.index"]


@pytest.mark.parametrize("when", ["save", "wait", "check"])
def test_an_error_of_the_thread_stops_the_run_and_leaves_the_last_good_one(tmp_path, held_up, when):
    go, errors = held_up
    go.set()
    network, optimizer = trained()
    checkpoints = Checkpoints(network, optimizer, str(tmp_path), asynchronous=True)
    checkpoints.save(1)
    checkpoints.wait()
    errors.append(OSError(errno.ENOSPC, "No space left on device"))
    checkpoints.save(2)
    checkpoints._writer._thread.join()
    with pytest.raises(
        ValueError, match="checkpoint of step 2 cannot be written under .*No space left.*free or extend"
    ):
        {"save": lambda: checkpoints.save(3), "wait": checkpoints.wait, "check": checkpoints.check}[when]()
    assert indexes(tmp_path) == ["step-1.index"]
    assert Checkpoints(*trained(), str(tmp_path)).restore() == 1
    # It is told once.
    checkpoints.close()


def test_a_worker_that_is_not_the_chief_writes_nothing(tmp_path):
    checkpoints = Checkpoints(*trained(), str(tmp_path), asynchronous=True, scratch=str(tmp_path / "scratch"))
    checkpoints.save(1)
    checkpoints.wait()
    assert not list(tmp_path.iterdir()) and not tf.io.gfile.glob("ram://tfbigbatch/*/*/*")
