"""What checkpoints say of their weights: distance, fit and curvature, against what the run itself tells."""

import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch import experiment, train
from tfbigbatch.reports import checkpoint_report
from tfbigbatch.reports.checkpoint_analysis import CheckpointAnalysis, Probes

PROBES = Probes(fit=256, sharpness=128, noise=1024)


@pytest.fixture
def run_directory(tmp_path, quick_config):
    """Returns a function that trains, and gives the run's status and directory."""

    def make(**fields):
        status = train.run(quick_config(keep_checkpoints=5, **fields), model_dir=str(tmp_path / "run"))
        return status, str(tmp_path / "run")

    return make


@pytest.mark.slow
def test_checkpoints_are_measured_from_the_first_weights_on(run_directory):
    status, directory = run_directory()
    analysis = CheckpointAnalysis(directory, probes=PROBES)
    assert analysis.steps == [0, 8, 16, 24]
    looks = {step: analysis.measure(step) for step in (0, 24, 8)}
    assert looks[0]["distance"] == 0.0 and 0.0 < looks[8]["distance"] < looks[24]["distance"]
    assert looks[24]["test_accuracy"] == pytest.approx(status["metrics"]["accuracy"])
    assert looks[24]["test_cross_entropy"] == pytest.approx(status["metrics"]["cross_entropy"], rel=1e-5)
    reader = tf.train.load_checkpoint(f"{directory}/checkpoints/step-24")
    stored = [reader.get_tensor(name) for name in reader.get_variable_to_shape_map() if name.startswith("network/")]
    squares = sum(np.square(array.astype(np.float64)).sum() for array in stored if array.dtype == np.float32)
    assert looks[24]["weight_norm"] == pytest.approx(np.sqrt(squares), rel=1e-6)
    for name in ("train_accuracy", "train_cross_entropy", "eigenvalue_1", "trace", "rise", "critical_batch_size"):
        assert np.isfinite(looks[24][name]), name
    # A look leaves nothing behind.
    assert analysis.measure(8) == looks[8]


@pytest.mark.slow
def test_the_first_weights_are_those_of_the_run(run_directory):
    _, directory = run_directory(schedule__learning_rate=1e-30)
    look = CheckpointAnalysis(directory, probes=PROBES).measure(24)
    assert look["distance"] < 1e-20


@pytest.mark.slow  # Two replicas are traced.
def test_adasum_and_simulated_replicas_need_none(run_directory):
    optimizer = {"name": "momentum", "momentum": 0.9, "adasum": True}
    _, directory = run_directory(optimizer=optimizer, simulated_replicas=2)
    assert CheckpointAnalysis(directory, probes=PROBES).measure(24)["distance"] > 0.0


@pytest.mark.slow
def test_a_task_of_streams_is_refused(tmp_path):
    config = experiment.shrink(experiment.new("lstm_language_model"))
    train.run(config, model_dir=str(tmp_path / "run"), use_fake_data=True)
    with pytest.raises(ValueError, match="in streams"):
        CheckpointAnalysis(str(tmp_path / "run"), use_fake_data=True)


def test_what_is_no_run_is_named(tmp_path):
    with pytest.raises(ValueError, match="holds no run"):
        CheckpointAnalysis(str(tmp_path))


def test_a_checkpoint_that_is_not_there_is_named(run_directory):
    _, directory = run_directory()
    with pytest.raises(ValueError, match=r"expected one of \[0, 8, 16, 24\]"):
        CheckpointAnalysis(directory, probes=PROBES).measure(9)


@pytest.mark.parametrize("sizes", [{"fit": 100}, {"noise": 64}])
def test_probes_are_whole_micro_batches(sizes):
    with pytest.raises(ValueError, match="expected a multiple of 64, 128 or more"):
        Probes(**sizes)


def test_the_table_shows_the_last_checkpoints_of_all_seeds():
    looks = [
        {
            "row": "LEGW",
            "batch_size": 4096,
            "seed": seed,
            "step": step,
            "train_accuracy": 0.5 + seed / 10,
            "test_accuracy": 0.5,
            "train_cross_entropy": 1.0,
            "eigenvalue_1": float("nan"),
            "distance": 2.0,
        }
        for seed in (0, 1)
        for step in (0, 40)
    ]
    header, _, row = checkpoint_report.table(looks).markdown(padded=False)
    cells = dict(zip((cell.strip() for cell in header.split("|")), (cell.strip() for cell in row.split("|"))))
    assert cells["updates"] == "40" and cells["seeds"] == "2" and cells["batch"] == "4,096"
    assert cells["gap"] == "5.00% ± 7.07%" and cells["distance"] == "2 ± 0" and cells["largest eigenvalue"] == ""
