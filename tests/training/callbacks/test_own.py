"""Callbacks of the user: one training of epochs between evaluations, whatever the trainer's calls of `fit`."""

import csv
import json

import keras
import numpy as np
import pytest
import tf_keras

from tfbigbatch import experiment, tasks, train
from tfbigbatch.training.callbacks import own

FEATURES = np.random.default_rng(0).normal(size=[96, 3]).astype("float32")


def config_of(**fields):
    def network():
        return tf_keras.Sequential([tf_keras.layers.Dense(1)])

    tasks.define("line", network=network, data=(FEATURES, FEATURES.sum(1)), loss="mse", metrics=["mae"])
    config = experiment.new("line")
    config.update({"batch_size": 8, "duration": "24 steps", "evaluate_every": "6 steps", "checkpoint_every": "4 steps"})
    config.update({"log_every": "4 steps", "keep_best": False, **fields})
    return config


class Recorder(tf_keras.callbacks.Callback):
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

    def on_train_batch_end(self, batch, logs=None):
        self.calls.append(f"batch {batch}")


def test_a_run_in_two_processes_is_one_training_that_early_stopping_ends(tmp_path):
    run = str(tmp_path / "run")
    config = config_of(checkpoint_every="12 steps")

    def callbacks():
        # No evaluation is better by so much: the second without ends the run.
        stopping = keras.callbacks.EarlyStopping("val_mae", min_delta=1000.0, patience=2, mode="min")
        return [tf_keras.callbacks.CSVLogger(f"{tmp_path}/log.csv", append=True), Recorder(), stopping]

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
    written = [json.loads(line) for line in open(f"{run}/metrics.jsonl", encoding="utf-8")]
    evaluated = [row["mae"] for row in written if row["split"] == "eval"]
    assert [float(row["val_mae"]) for row in rows] == pytest.approx(evaluated)
    # Windows of 4 steps: 4 of them and 2, which make the epoch's mean.
    losses = {row["step"]: row["loss"] for row in written if row["split"] == "train"}
    assert float(rows[0]["loss"]) == pytest.approx((4 * losses[4] + 2 * losses[6]) / 6)
    # It has ended: the same command does nothing, and calls nothing.
    third = callbacks()
    assert train.run(config, model_dir=run, callbacks=third)["step"] == 18 and third[1].calls == []


def test_the_file_of_an_experiment_lists_them(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from tfbigbatch import experiment\n"
        "def get_config():\n    return experiment.new('digits_lstm')\n"
        "def get_callbacks(config, model_dir):\n    return [config.batch_size, model_dir]\n"
    )
    config = experiment.load(str(path))
    assert experiment.callbacks_of(config, "runs/a") == [32, "runs/a"]
    path.write_text(path.read_text().replace("[config.batch_size, model_dir]", "config.batch_size"))
    config = experiment.load(str(path))
    with pytest.raises(ValueError, match="mine.py: TypeError: .int. object is not iterable"):
        experiment.callbacks_of(config, "runs/a")
    assert experiment.callbacks_of(experiment.load("digits/lstm_legw"), "runs/a") == []
    with pytest.raises(ValueError, match="callbacks: 32; expected a Keras callback"):
        own.checked([32])


@pytest.mark.parametrize("of_network", [tf_keras, keras])
def test_a_callback_of_either_keras_sees_the_runs_optimizer(tmp_path, of_network):
    steps = []

    def on_epoch_end(self, epoch, logs=None):
        steps.append(int(self.model.optimizer.iterations))

    logger = [type("Logger", (of.callbacks.Callback,), {"on_epoch_end": on_epoch_end})() for of in (tf_keras, keras)]
    config = config_of(duration="6 steps", evaluate_every="3 steps")
    tasks.define(
        "line",
        network=lambda: of_network.Sequential([of_network.layers.Dense(1)]),
        data=(FEATURES, FEATURES.sum(1)),
        loss="mse",
    )
    saved = keras.callbacks.ModelCheckpoint(str(tmp_path / "saved.keras")) if of_network is keras else None
    train.run(config, model_dir=str(tmp_path / "run"), callbacks=[*logger, *([saved] if saved else [])])
    assert steps == [3, 3, 6, 6]
    if saved:
        assert keras.saving.load_model(tmp_path / "saved.keras").built
