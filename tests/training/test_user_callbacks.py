"""Callbacks of the user: one training of epochs between evaluations, in however many processes."""

import csv

import keras
import numpy as np
import pytest
import tf_keras

from tests.helpers.runs import stopping
from tfbigbatch import tasks, train
from tfbigbatch.config import load_config, new_config
from tfbigbatch.config.files import callbacks_of
from tfbigbatch.errors import Preempted
from tfbigbatch.run_directory.metrics_log import read_rows
from tfbigbatch.training.user_callbacks import in_this_process

FEATURES = np.random.default_rng(0).normal(size=[96, 3]).astype("float32")


@pytest.fixture
def config():
    """A run of 24 steps, with an evaluation after every sixth."""

    def network():
        return keras.Sequential([keras.layers.Dense(1)])

    tasks.define("line", network=network, data=(FEATURES, FEATURES.sum(1)), loss="mse", metrics=["mae"])
    made = new_config("line")
    made.update({"batch_size": 8, "duration": "24 steps", "evaluate_every": "6 steps", "checkpoint_every": "12 steps"})
    made.update({"log_every": "4 steps", "keep_best": False})
    return made


class Recorder(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.calls = []

    def on_train_begin(self, logs=None):
        self.calls.append("begin")

    def on_train_end(self, logs=None):
        self.calls.append("end")

    def on_epoch_begin(self, epoch, logs=None):
        self.calls.append(epoch)

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append((epoch, int(self.model.optimizer.iterations), sorted(logs)))

    def on_batch_begin(self, batch, logs=None):
        self.calls.append(f"batch {batch}")


def test_a_run_in_two_processes_is_one_training_that_early_stopping_ends(tmp_path, config):
    run = str(tmp_path / "run")

    def callbacks():
        # No evaluation is better by so much: the second without ends the run.
        early = keras.callbacks.EarlyStopping("val_mae", min_delta=1000.0, patience=2, mode="min")
        return [keras.callbacks.CSVLogger(f"{tmp_path}/log.csv", append=True), Recorder(), early]

    first = callbacks()
    assert train.run(config, model_dir=run, callbacks=first, stop_after=12)["status"] == "running"
    names = ["loss", "mae", "val_mae"]
    batches = [f"batch {number}" for number in range(6)]
    assert first[1].calls == ["begin", 0, *batches, (0, 6, names), 1, *batches, (1, 12, names), "end"]
    assert first[2].wait == 1 and first[2].stopped_epoch == 0
    second = callbacks()
    done = train.run(config, model_dir=run, callbacks=second)
    assert second[1].calls == ["begin", 2, *batches, (2, 18, names), "end"]
    assert (done["status"], done["step"], done["stopped_by"]) == ("done", 18, "EarlyStopping")
    assert second[2].wait == 2 and second[2].min_delta == first[2].min_delta
    with open(tmp_path / "log.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["0", "1", "2"]
    written = read_rows(f"{run}/metrics.jsonl")
    evaluated = [row["mae"] for row in written if row["split"] == "eval"]
    assert [float(row["val_mae"]) for row in rows] == pytest.approx(evaluated)
    # Windows of 4 steps: 4 of them and 2, which make the epoch's mean.
    losses = {row["step"]: row["loss"] for row in written if row["split"] == "train"}
    assert float(rows[0]["loss"]) == pytest.approx((4 * losses[4] + 2 * losses[6]) / 6)
    # It has ended: the same command does nothing, and calls nothing.
    third = callbacks()
    assert train.run(config, model_dir=run, callbacks=third)["step"] == 18 and third[1].calls == []


def test_the_evaluation_that_a_stop_left_undone_ends_an_epoch_and_may_end_the_run(tmp_path, config):
    def callbacks():
        early = keras.callbacks.EarlyStopping("val_mae", min_delta=1000.0, patience=1, mode="min")
        return [Recorder(), early]

    config.duration, config.evaluate_every = "36 steps", "12 steps"
    run, resumed = str(tmp_path / "run"), callbacks()
    train.run(config, model_dir=run, callbacks=callbacks(), stop_after=12)
    with pytest.raises(Preempted):
        train.run(config, model_dir=run, callbacks=callbacks(), **stopping("evaluated batch 0"))
    done = train.run(config, model_dir=run, callbacks=resumed)
    assert resumed[0].calls == ["begin", 1, (1, 24, ["val_mae"]), "end"]
    assert (done["step"], done["stopped_by"]) == (24, "EarlyStopping")


@pytest.mark.parametrize("keras_of_callbacks", [keras, tf_keras])
def test_a_callback_sees_the_runs_network_and_optimizer(tmp_path, config, keras_of_callbacks):
    steps, path = [], str(tmp_path / "saved.weights.h5")

    def on_epoch_end(self, epoch, logs=None):
        steps.append(int(self.model.optimizer.iterations))

    config.duration, config.evaluate_every = "6 steps", "3 steps"
    callbacks = keras_of_callbacks.callbacks
    logger = type("Logger", (callbacks.Callback,), {"on_epoch_end": on_epoch_end})()
    saved = callbacks.ModelCheckpoint(path, save_weights_only=True)
    train.run(config, model_dir=str(tmp_path / "run"), callbacks=[logger, saved])
    network = keras.Sequential([keras.Input([3]), keras.layers.Dense(1)])
    network.load_weights(path)
    assert steps == [3, 6]
    np.testing.assert_equal(network.get_weights()[0], saved.model.get_weights()[0])


def test_the_file_of_an_experiment_lists_them(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from tfbigbatch.config import new_config\n"
        "def get_config():\n    return new_config('digits_lstm')\n"
        "def get_callbacks(config, model_dir):\n    return [config.batch_size, model_dir]\n"
    )
    config = load_config(str(path))
    assert callbacks_of(config, "runs/a") == [32, "runs/a"]
    path.write_text(path.read_text().replace("[config.batch_size, model_dir]", "config.batch_size"))
    config = load_config(str(path))
    with pytest.raises(ValueError, match="mine.py: TypeError: .int. object is not iterable"):
        callbacks_of(config, "runs/a")
    assert callbacks_of(load_config("digits/lstm_legw"), "runs/a") == []


def test_what_is_no_callback_is_refused_before_anything_is_written(tmp_path, config):
    with pytest.raises(ValueError, match="callbacks: 32; expected a Keras callback"):
        train.run(config, model_dir=str(tmp_path / "run"), callbacks=[Recorder(), 32])
    assert not (tmp_path / "run").exists()


def test_in_a_worker_run_those_that_ask_for_it():
    one, all_workers = Recorder(), Recorder()
    all_workers.every_worker = True
    assert in_this_process([one, all_workers], is_chief=True) == [one, all_workers]
    assert in_this_process([one, all_workers], is_chief=False) == [all_workers]
