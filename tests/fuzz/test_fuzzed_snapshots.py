"""What a training of one's own resumes from, and the counters of callbacks, damaged by a seeded fuzzer."""

import os
import shutil

import numpy as np
import tf_keras

from tests.helpers import mutations
from tests.helpers.fuzz_judge import few_and_many, judge
from tfbigbatch.callbacks import counters, snapshots
from tfbigbatch.training.callbacks import own


@few_and_many(100, 6000)
def test_the_newest_snapshot(tmp_path, seeds):
    """It is one that was written, with the bytes that were written."""
    made = snapshots.Snapshots(str(tmp_path / "whole"))
    made.make_directory()
    for step in (1, 2):
        with made.writing(step, {"epoch": 0, "data": {"kind": "arrays"}}) as folder:
            for name in ("state.index", "callbacks.npz"):
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(bytes([step]) * 200)
    names = sorted(os.listdir(made.path(2)))

    def case(choices):
        folder = tmp_path / "damaged"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(tmp_path / "whole", folder)
        for step in choices.choice(((2,), (2,), (1, 2))):
            path = folder / f"step-{step:010d}" / choices.choice(names)
            kind = choices.random()
            if kind < 0.1:
                path.unlink()
            elif kind < 0.15:
                path.unlink()
                path.mkdir()
            else:
                path.write_bytes(mutations.of_file(choices, path.name, path.read_bytes()))
        (folder / "status.json").write_bytes(mutations.of_json(choices, {"status": "done", "epochs": 3}))
        found = snapshots.Snapshots(str(folder))
        assert isinstance(found.status(), dict)
        content = found.newest(lambda line: None)
        for name in names:
            if name != "training.json":
                path = folder / f"step-{content['step']:010d}" / name
                assert path.read_bytes() == bytes([content["step"]]) * 200

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0


@few_and_many(100, 5000)
def test_the_arrays_and_counters_of_callbacks(tmp_path, seeds):
    def stopping():
        made = tf_keras.callbacks.EarlyStopping(patience=2)
        made.wait, made.best_weights = 1, [np.ones(3), np.zeros((2, 2))]
        return made

    network = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(1,))])
    network.compile("sgd", "mse")
    whole = tmp_path / "callbacks.npz"
    counters.save_arrays(str(whole), [stopping()])
    arrays = whole.read_bytes()
    kept = [{"step": 4, "epoch": 1, "callbacks": [{"class": "EarlyStopping", "state": {"wait": 1, "best": 0.5}}]}]

    def case(choices):
        callback = stopping()
        if choices.random() < 0.5:
            whole.write_bytes(mutations.of_bytes(choices, arrays))
            counters.restore_arrays(str(whole), [callback])
            assert all(isinstance(each, np.ndarray) for each in callback.best_weights)
        else:
            path = tmp_path / "callbacks.json"
            path.write_bytes(mutations.of_json(choices, kept))
            resumed = own.OwnCallbacks(
                [callback],
                network=network,
                optimizer=network.optimizer,
                directory=str(tmp_path),
                writes=False,
                total_steps=8,
            )
            resumed.begin(4)

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0
