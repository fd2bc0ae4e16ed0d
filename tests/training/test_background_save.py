"""Checkpoints that a thread writes from a copy of the state, and runs with continuous ones."""

import json
import os
import threading

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tensorflow.core.protobuf import trackable_object_graph_pb2

from tests.conftest import final_weights, mirrored
from tfbigbatch import train
from tfbigbatch.errors import DivergedError
from tfbigbatch.optimizers import keras2
from tfbigbatch.training import background_save
from tfbigbatch.training.background_save import Pace, StateCopy
from tfbigbatch.training.checkpoints import Checkpoints


def trained(optimizer=None, strategy=None):
    with (strategy or tf.distribute.get_strategy()).scope():
        network = tf_keras.Sequential(
            [
                tf_keras.layers.Dense(4, input_shape=(3,)),
                tf_keras.layers.BatchNormalization(),
                tf_keras.layers.Dropout(0.5),
                tf_keras.layers.Dense(1),
            ]
        )
        network.compile(optimizer or keras2.LAMB(0.01), "mse")
        network.optimizer.build(network.trainable_variables)
    fit(network)
    return network, network.optimizer


def fit(network):
    network.fit(np.ones([8, 3]), np.ones([8, 1]), batch_size=8, verbose=0)


def continuous(network, optimizer, folder, **options):
    checkpoints = Checkpoints(network, optimizer, str(folder), continuous=True, **options)
    checkpoints.prepare(network.distribute_strategy)
    return checkpoints


def graph_of(path):
    """The values of a checkpoint, their keys, and the names that they have in its object graph."""
    reader = tf.train.load_checkpoint(str(path))
    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(
        reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH")
    )
    found = [value for node in graph.nodes for value in node.attributes if "save_counter" not in value.checkpoint_key]
    return {each.checkpoint_key: (each.full_name, reader.get_tensor(each.checkpoint_key)) for each in found}


def assert_same_graph(one, other):
    first, second = graph_of(one), graph_of(other)
    assert first.keys() == second.keys()
    for key, (name, value) in first.items():
        assert second[key][0] == name
        np.testing.assert_array_equal(second[key][1], value)


def optimizer_of(name):
    if name == "scaled":
        return tf_keras.mixed_precision.LossScaleOptimizer(tf_keras.optimizers.Adam(0.01, use_ema=True))
    return {"lamb": keras2.LAMB, "lars": keras2.LARS}[name](0.01)


@pytest.mark.parametrize("name, replicas", [("lamb", 1), ("lars", 2), ("scaled", 1)])
def test_a_copy_is_saved_as_the_state_itself(tmp_path, name, replicas):
    strategy = mirrored(replicas) if replicas > 1 else None
    with (strategy or tf.distribute.get_strategy()).scope():
        optimizer = optimizer_of(name)
    network, optimizer = trained(optimizer, strategy)
    whole = tf.train.Checkpoint(network=network, optimizer=optimizer)
    copy = StateCopy(whole, True, network.variables)
    assert copy.take()
    whole.write(str(tmp_path / "whole"))
    copy.checkpoint.write(str(tmp_path / "copy"))
    assert_same_graph(tmp_path / "whole", tmp_path / "copy")
    assert background_save.differences(str(tmp_path / "copy"), str(tmp_path / "whole")) == []


def test_training_goes_on_while_the_state_before_it_is_written(tmp_path, monkeypatch):
    network, optimizer = trained()
    checkpoints = continuous(network, optimizer, tmp_path)
    checkpoints.begin_save(1)
    assert checkpoints.latest_step() == 1 and not checkpoints.wants_save(1)
    before, begun, goes_on = network.get_weights(), threading.Event(), threading.Event()
    write = tf.train.CheckpointManager.save

    def slow(self, *arguments, **options):
        begun.set()
        assert goes_on.wait(10)
        return write(self, *arguments, **options)

    monkeypatch.setattr(tf.train.CheckpointManager, "save", slow)
    checkpoints.begin_save(2)
    assert begun.wait(10)
    fit(network)
    assert checkpoints.latest_step() == 1 and not checkpoints.wants_save(3)
    goes_on.set()
    checkpoints.wait()
    other, other_optimizer = trained()
    assert Checkpoints(other, other_optimizer, str(tmp_path)).restore() is not None
    for one, two in zip(before, other.get_weights()):
        np.testing.assert_array_equal(one, two)


def test_as_many_stay_as_without_a_thread(tmp_path):
    network, optimizer = trained()
    checkpoints = continuous(network, optimizer, tmp_path, keep=3)
    for step in range(1, 6):
        checkpoints.begin_save(step)
    checkpoints.save(6)
    assert checkpoints.steps() == [6, 5, 4]
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert [os.path.basename(path) for path in state.all_model_checkpoint_paths] == ["step-4", "step-5", "step-6"]
    again = continuous(network, optimizer, tmp_path, keep=3)
    assert again.restore() is not None
    for step in (7, 8):
        again.begin_save(step)
    again.wait()
    assert again.steps() == [8, 7, 6]


def test_a_checkpoint_that_cannot_be_written_is_an_error_of_the_training(tmp_path, monkeypatch):
    network, optimizer = trained()
    checkpoints = continuous(network, optimizer, tmp_path)
    checkpoints.begin_save(1)

    def full(self, *unused, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tf.train.CheckpointManager, "save", full)
    checkpoints.begin_save(2)
    checkpoints._writer.join()
    with pytest.raises(ValueError, match="checkpoint of step 2 cannot be written.*No space left"):
        checkpoints.wants_save(3)
    checkpoints.close()
    assert checkpoints.latest_step() == 1


def test_a_state_that_is_not_finite_is_not_written(tmp_path):
    network, optimizer = trained()
    checkpoints = continuous(network, optimizer, tmp_path)
    checkpoints.begin_save(1)
    network.weights[0].assign(tf.fill(network.weights[0].shape, float("inf")))
    with pytest.raises(DivergedError, match="not finite at step 2"):
        checkpoints.begin_save(2)
    checkpoints.wait()
    assert checkpoints.steps() == [1]


def test_a_save_may_take_four_per_cent_of_the_time(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(background_save.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(background_save, "_COMPETES", 0.5)
    pace = Pace()
    assert pace.is_due(0.0)
    pace.save_began(0.1)
    for after, is_due in ((4.9, False), (5.1, True)):
        clock[0] = 100.0 + after
        assert pace.is_due(0.2) == is_due


def test_a_continuous_run_resumes_to_the_same_bits_and_rows(tmp_path, quick_config, monkeypatch):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train.run(quick_config(), model_dir=str(whole))
    monkeypatch.setattr(background_save, "_COST", 1e9)
    config = quick_config(checkpoint_every="continuous", evaluate_every="12 steps")
    begun, begin, save = [], Checkpoints.begin_save, Checkpoints.save

    def begin_but_at_the_end(self, step):
        if step != 19:
            begun.append(step)
            begin(self, step)

    with monkeypatch.context() as killed:
        # As after a kill: the steps after its last checkpoint are lost.
        killed.setattr(Checkpoints, "save", lambda self, step: None if step == 19 else save(self, step))
        killed.setattr(Checkpoints, "begin_save", begin_but_at_the_end)
        train.run(config, model_dir=str(parts), stop_after=19)
    assert set(begun) <= {4, 8, 12, 16} and begun
    train.run(config, model_dir=str(parts))
    one, two = final_weights(whole), final_weights(parts)
    assert one.keys() == two.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(two[name], value, err_msg=name)
    assert rows(whole) == rows(parts)


def rows(folder):
    with open(folder / "metrics.jsonl", encoding="utf-8") as file:
        read = [json.loads(line) for line in file]
    return [{name: value for name, value in row.items() if "per_second" not in name} for row in read]
