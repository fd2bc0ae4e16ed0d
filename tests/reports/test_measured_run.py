"""What checkpoints say of their weights, against what the run itself tells."""

import numpy as np
import pytest

from tests.helpers import made_runs
from tfbigbatch import train
from tfbigbatch.config import make_quick, new_config
from tfbigbatch.reports import collect, losses
from tfbigbatch.reports.measured_run import measure, training_loss
from tfbigbatch.run_directory.load import load_run


def measured(directory, **options):
    [row] = collect.found_in([directory])
    [named] = losses.named([row])
    return measure(named, row.runs[0], **options)


@pytest.mark.slow
def test_the_fit_is_the_cross_entropy_of_the_weights(tmp_path, quick_config):
    """Against the loaded network and NumPy, over all training examples."""
    directory = str(tmp_path / "run")
    # Of an optimizer, with moments that scale, that the measurements need no more.
    config = quick_config(keep_checkpoints=5, optimizer={"name": "adamw"}, schedule__moments="half_life")
    status = train.run(config, model_dir=directory)
    found = measured(directory)
    assert found.held_out == status["metrics"]["cross_entropy"]
    again, task = training_loss(directory)
    features, labels = task.train.features, task.train.labels
    logits = load_run(directory).network.predict(features, verbose=0).astype(np.float64)
    nats = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(labels)), labels]
    assert found.train == pytest.approx(nats.mean(), rel=1e-5)
    assert again == found.train


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
    config = new_config(task, model=model)
    make_quick(config)
    config.schedule.learning_rate = 1e-6
    directory = str(tmp_path / "run")
    status = train.run(config, model_dir=directory, use_fake_data=True)
    run = measured(directory, use_fake_data=True)
    assert (run.bias, run.steps, run.curve.steps) == ("frequency", 8, [2, 4, 6, 8])
    assert run.held_out == pytest.approx(status["metrics"][nats])
    # Hardly trained: the losses are the entropy of the training tokens. GNMT's varies with a batch's sentence lengths.
    assert [run.train, np.mean(run.curve.losses)] == pytest.approx([run.line] * 2, rel=0.15)


def test_what_has_no_checkpoint_is_named(tmp_path):
    with pytest.raises(ValueError, match="holds no run"):
        training_loss(str(tmp_path))
    made_runs.write(str(tmp_path / "cached"), new_config("digits_lstm").to_dict(), 0.9)
    with pytest.raises(ValueError, match="holds no checkpoint"):
        training_loss(str(tmp_path / "cached"))
