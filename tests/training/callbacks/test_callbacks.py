"""The callbacks in a user's own `fit`, with a model of Keras' own."""

import re

import numpy as np
import pytest
import tf_keras

from tfbigbatch import train
from tfbigbatch.errors import DivergedError
from tfbigbatch.runs.metrics_log import read_rows
from tfbigbatch.runs.run_directory import RunDirectory
from tfbigbatch.training.callbacks import logs, watch


def compiled(learning_rate=0.1):
    model = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(4,))])
    model.compile(tf_keras.optimizers.SGD(learning_rate), "mse", metrics=["mae"])
    return model


def data(examples=96):
    random = np.random.RandomState(0)
    x = random.normal(size=(examples, 4)).astype("float32")
    return x, x.sum(axis=1, keepdims=True)


def test_rows_are_the_means_of_their_windows(tmp_path):
    directory = RunDirectory(str(tmp_path))
    log = logs.MetricsLog(directory)
    model = compiled(learning_rate=0.0)
    x, y = data()
    metrics = logs.StepMetrics(log, every=4, batch_size=8, dataset_size=96)
    # 12 steps an epoch; two calls of fit go on counting.
    for _ in range(2):
        model.fit(x, y, batch_size=8, shuffle=False, verbose=0, callbacks=[metrics])
    rows = read_rows(directory.metrics)
    assert [row["step"] for row in rows] == [4, 8, 12, 16, 20, 24]
    errors = np.square(model.predict(x, verbose=0) - y).reshape(3, 32).mean(axis=1)
    np.testing.assert_allclose([row["loss"] for row in rows], [*errors, *errors], rtol=1e-5)
    assert rows[2]["epoch"] == 1.0 and rows[0]["learning_rate"] == 0.0 and rows[0]["examples_per_second"] > 0


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_metric_that_is_not_finite_is_named_with_its_window(bad):
    x, y = data()
    x[50] = bad  # in step 7 of 12
    with pytest.raises(DivergedError, match=r"became (nan|inf) between step 6 and step 9\."):
        compiled().fit(x, y, batch_size=8, shuffle=False, verbose=0, callbacks=[watch.StopOnNonFinite(3)])


def test_a_line_without_a_terminal_has_the_learning_rate_and_the_speed(tmp_path, quick_config, capsys):
    train.run(quick_config(schedule__decay="constant"), model_dir=str(tmp_path), mode="train")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("step ")]
    assert lines and all(
        re.fullmatch(r"step \d+/24  loss [\d.]+  learning_rate 0\.1  examples_per_second [\d,]+", line)
        for line in lines
    )


@pytest.mark.parametrize("steps_per_execution, window", [(1, (3, 5)), (5, (6, 8)), (5, (5, 6))])
def test_a_profile_is_recorded_whatever_the_length_of_an_execution(tmp_path, steps_per_execution, window):
    model = compiled()
    model.compile("sgd", "mse", steps_per_execution=steps_per_execution)
    profile = watch.Profile(str(tmp_path), *window, steps_per_execution)
    model.fit(*data(), batch_size=8, verbose=0, callbacks=[profile])
    assert len(list(tmp_path.rglob("*.xplane.pb"))) == 1


def test_a_line_that_is_redrawn_leaves_one_of_its_own_to_the_next(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for last_step in (120, 24):
        progress = logs.Progress(last_step)
        compiled().fit(*data(), batch_size=8, epochs=2, verbose=0, callbacks=[progress])
        progress.close()
        progress.close()
        said = capsys.readouterr().out
        assert f"\rstep 1/{last_step}  loss" in said and said.endswith("\n") and not said.endswith("\n\n")
