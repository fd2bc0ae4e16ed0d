import dataclasses

import numpy as np
import pytest

from tests.helpers import made_runs
from tests.helpers.made_losses import run_loss
from tfbigbatch import experiment, train
from tfbigbatch.reports import collect, run_losses
from tfbigbatch.reports.collect import Row
from tfbigbatch.reports.training_fit import TrainedRun
from tfbigbatch.runs.load import load_run


def row(name, bias, batch_size=16, **model):
    config = {"task": "gnmt", "batch_size": batch_size, "seed": 0, "model": {"output_bias": bias, **model}}
    return Row(name, config, [])


def test_twins_differ_in_their_bias_only():
    rows = [row("a", "zero"), row("b", "uniform"), row("c", "frequency"), row("other", "frequency", hidden_units=2)]
    found = run_losses.named(rows)
    assert [each.twin for each in found] == ["c", "c", "a", None]


def test_a_twin_of_the_same_learning_rate_comes_first():
    rates = [("a", "zero", 0.1), ("b", "frequency", 0.2), ("c", "frequency", 0.1), ("d", "zero", 0.4)]
    rows = [row(name, bias) for name, bias, _ in rates]
    for each, (_, _, rate) in zip(rows, rates):
        each.config["schedule"] = {"learning_rate": rate}
    assert [each.twin for each in run_losses.named(rows)] == ["c", "a", "a", "b"]


def test_names_are_unique():
    found = run_losses.named([row("Muon", "zero", 16), row("Muon", "zero", 1024), row("LAMB", "zero")])
    assert [each.name for each in found] == ["Muon at 16", "Muon at 1,024", "LAMB"]


def test_a_run_without_weights_or_an_end_is_not_measured(tmp_path):
    config = {"task": "digits_lstm", "batch_size": 8, "seed": 0, "evaluate_on": "test", "model": {}}
    made_runs.write(str(tmp_path / "cached"), config, 0.9)
    made_runs.write(str(tmp_path / "running"), config, 0.9, status="running")
    assert not any(
        run_losses.is_measurable(collect._read(str(tmp_path / name))) for name in ("cached", "running", "absent")
    )


@pytest.mark.slow
def test_the_fit_is_the_cross_entropy_of_the_last_weights(tmp_path, quick_config):
    """Against the loaded network and NumPy, over all training examples."""
    directory = str(tmp_path / "run")
    # With moments that scale, of an optimizer that this needs no more.
    train.run(quick_config(optimizer={"name": "adamw"}, schedule__moments="half_life"), model_dir=directory)
    trained = TrainedRun(directory)
    features, labels = trained.task.train.features, trained.task.train.labels
    logits = load_run(directory).network.predict(features, verbose=0).astype(np.float64)
    losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(labels)), labels]
    assert trained.training_loss(10**6) == pytest.approx(losses.mean(), rel=1e-5)


@pytest.mark.slow  # A run is traced twice.
@pytest.mark.parametrize(
    "task, nats",
    [
        ("lstm_language_model", "cross_entropy"),
        ("bert_pretraining", "masked_lm_cross_entropy"),
        ("gnmt", "cross_entropy"),
    ],
)
def test_runs_on_tokens_are_measured(task, nats, tmp_path):
    model = "bert_tiny" if task == "bert_pretraining" else None
    config = experiment.shrink(experiment.new(task, model=model))
    config.schedule.learning_rate = 1e-6
    directory = str(tmp_path / "run")
    status = train.run(config, model_dir=directory, use_fake_data=True)
    [found] = collect.found_in([directory])
    [named] = run_losses.named([found])
    run = run_losses.measure(named, found.runs[0], fit_examples=10**6, use_fake_data=True)
    assert (run.bias, run.steps, run.curve.steps) == ("frequency", 8, [2, 4, 6, 8])
    assert run.held_out == pytest.approx(status["metrics"][nats])
    # Hardly trained: the losses are the entropy of the training tokens. GNMT's varies with a batch's sentence lengths.
    assert [run.train, np.mean(run.curve.losses)] == pytest.approx([run.line] * 2, rel=0.15)


def test_the_file_keeps_the_runs_and_a_damaged_one_is_refused(tmp_path):
    path = str(tmp_path / "runs.jsonl")
    assert run_losses.read(path) == []
    run = run_loss("large", 80)
    run_losses.write(path, [run])
    assert run_losses.read(path)[0] == dataclasses.replace(run, curve=run_losses.read(path)[0].curve)
    (tmp_path / "runs.jsonl").write_text('{"row": "large"}\n')
    with pytest.raises(ValueError, match="tfbigbatch explain wrote"):
        run_losses.read(path)
