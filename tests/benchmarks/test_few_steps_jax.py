"""The benchmark of few steps in JAX: its networks are the trainer's, and a table comes from a folder of data."""

import gzip
import importlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tf_keras

from tests.helpers.datasets import bert_sets
from tfbigbatch import experiment
from tfbigbatch.data.translation import fake
from tfbigbatch.data.translation import manifest as translation_manifest
from tfbigbatch.data.translation.vocabulary import BEGIN, END
from tfbigbatch.models import bert
from tfbigbatch.models.gnmt import decoding
from tfbigbatch.models.gnmt import network as gnmt_network
from tfbigbatch.models.lstm import row_classifier
from tfbigbatch.models.lstm_language_model import lstm_language_model
from tfbigbatch.models.mnist_cnn import mnist_cnn
from tfbigbatch.scaling import BatchRamp
from tfbigbatch.studies import study
from tfbigbatch.tasks.losses import SmoothedTokenCrossEntropy

jax = pytest.importorskip("jax")

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "benchmarks", "few_steps_jax")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A text of 30 words and 200 images, in the layout of the prepared folders."""
    folder, draw = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    (folder / "ptb_prepared").mkdir()
    for split, tokens in (("train", 640 * 21), ("valid", 500), ("test", 500)):
        np.save(folder / "ptb_prepared" / f"{split}.npy", draw.integers(0, 30, tokens, np.int32))
    (folder / "mnist").mkdir()
    for split, count in (("train", 200), ("t10k", 100)):
        images, labels = draw.integers(0, 256, (count, 28, 28), np.uint8), draw.integers(0, 10, count, np.uint8)
        for name, values in ((f"{split}-images-idx3-ubyte", images), (f"{split}-labels-idx1-ubyte", labels)):
            header = bytes(16 if values.ndim > 1 else 8)
            (folder / "mnist" / f"{name}.gz").write_bytes(gzip.compress(header + values.tobytes()))
    return folder


@pytest.fixture
def networks(monkeypatch):
    """The modules of the benchmark's tasks."""
    monkeypatch.syspath_prepend(FOLDER)
    names = ("task", "ptb", "mnist", "bert", "gnmt")
    yield {name: importlib.import_module(name) for name in names}
    for name in names:
        sys.modules.pop(name)


def same_weights(model, task, seed=3):
    """The weights of a task in JAX, also set in the trainer's model; the paths and shapes are the model's."""
    weights = task.weights(seed)
    assert [tuple(weight.shape) for weight in model.weights] == list(task.shapes.values())
    assert [weight.name.split(":")[0].split("/")[-1] for weight in model.weights] == [
        path.split("/")[-1] for path in task.shapes
    ]
    model.set_weights(weights)
    return weights


def test_the_language_model_is_the_trainers(data, networks):
    task = networks["ptb"].PTB(data / "ptb_prepared")
    model = lstm_language_model(vocabulary_size=30, window=20, hidden_units=200, embedding_units=200, layers=2)
    weights = same_weights(model, task)
    carried, tokens = task.batch(task.carried(4), None, 0, 4)
    mean, state = task.loss(weights, (carried, tokens), None)
    logits, *states = model([np.asarray(tokens)[:, :-1], *[part for pair in task.carried(4) for part in pair]])
    expected = tf_keras.losses.sparse_categorical_crossentropy(np.asarray(tokens)[:, 1:], logits, from_logits=True)
    np.testing.assert_allclose(mean, np.mean(expected), rtol=1e-5)
    for found, wanted in zip([part for pair in state for part in pair], states):
        np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("name", ["MNISTLSTM", "FullBatch"])
def test_the_networks_of_images_are_the_trainers(name, data, networks):
    task = getattr(networks["mnist"], name)(data / "mnist")
    shared = {"shape": (28, 28), "classes": 10, "brightest": 255}
    if name == "MNISTLSTM":
        model, tolerance = row_classifier(**shared, hidden_units=128, projection_units=128, dropout=0.5), 1e-5
    else:
        model, tolerance = mnist_cnn(**shared), 2e-2  # the task computes in bfloat16
    weights = same_weights(model, task)
    images = task.data["images"][:8]
    np.testing.assert_allclose(task.logits(weights, images, None), model(images), atol=tolerance)


@pytest.mark.slow
def test_berts_network_is_the_trainers(networks, tmp_path):
    folder, *_ = bert_sets.prepared(tmp_path, bert_sets.plain(30), validation_share=0.1)
    task = networks["bert"].BERT(folder)
    sizes = {"layers": 2, "hidden_units": 64, "heads": 1, "inner_units": 256, "max_positions": 32}
    model = bert.pretrainer(vocabulary_size=task.size, **sizes, dropout=0.0, attention_dropout=0.0)
    values = dict(zip(task.shapes, task.weights(3)))
    # The trainer's model has the output bias before its transform.
    order = [path for path in values if not path.startswith("masked_lm")]
    heads = ["output_bias", "transform/kernel", "transform/bias", "layer_norm/gamma", "layer_norm/beta"]
    order[order.index("next_sentence/kernel") : order.index("next_sentence/kernel")] = [
        f"masked_lm/{name}" for name in heads
    ]
    model.set_weights([values[path] for path in order])
    batch = {name: jax.numpy.asarray(values[:8]) for name, values in task.data["train"].items()}
    positions = np.tile(np.arange(2, 7), (8, 1)).astype(np.int32)
    words, following = task.logits(list(values.values()), batch["ids"], positions, batch)
    there = np.arange(32) < np.asarray(batch["sizes"])[:, None]
    features = {
        "input_word_ids": np.asarray(batch["ids"]),
        "input_mask": there.astype(np.int32),
        "input_type_ids": (there & (np.arange(32) >= np.asarray(batch["first"])[:, None])).astype(np.int32),
        "masked_lm_positions": positions,
    }
    expected = model(features)
    np.testing.assert_allclose(words, expected["masked_lm"], atol=1e-4)
    np.testing.assert_allclose(following, expected["next_sentence"], atol=1e-4)


@pytest.mark.slow
def test_gnmt_and_its_greedy_search_are_the_trainers(networks, tmp_path):
    translation_manifest.save(str(tmp_path), fake.pairs(str(tmp_path)))
    task = networks["gnmt"].Multi30k(tmp_path)
    sizes = {"hidden_units": 192, "encoder_layers": 1, "decoder_layers": 2}
    model = gnmt_network.gnmt(vocabulary_size=task.size, **sizes)
    weights = [jax.numpy.asarray(each) for each in same_weights(model, task)]
    batch = {name: jax.numpy.asarray(values[:8]) for name, values in task.data["test"].items()}
    labels = np.asarray(batch["target"])
    before = np.concatenate([np.full((8, 1), BEGIN), labels[:, :-1]], axis=1).astype(np.int32)
    features = {"source_ids": np.asarray(batch["source"]), "source_lengths": np.asarray(batch["source_length"])}
    expected = model({**features, "target_ids": before})
    there = np.arange(labels.shape[1]) < np.asarray(batch["target_length"])[:, None]
    logits = np.asarray(task.logits(weights, batch))
    np.testing.assert_allclose(logits[there], expected.numpy()[there], atol=1e-4)
    loss = SmoothedTokenCrossEntropy(0.1)(labels, logits, there.astype(np.float32))
    task.dropout = 0.0
    np.testing.assert_allclose(task.loss(weights, batch, jax.random.key(0))[0], loss, rtol=1e-5)

    task.data["test"] = batch
    found = np.asarray(task.metric(weights, "test"))
    ids = {"begin_token": BEGIN, "end_token": END, "max_length": task.most_decoded}
    wanted = decoding.translate(model, **features, **ids, beam_size=1).tokens[:, 0].numpy()
    ended = np.cumsum(found == END, axis=1) > 0
    np.testing.assert_array_equal(np.where(ended, END, found), wanted)


def test_the_score_of_the_references_themselves(networks, tmp_path):
    translation_manifest.save(str(tmp_path), fake.pairs(str(tmp_path)))
    task = networks["gnmt"].Multi30k(tmp_path)
    assert task.score(task.data["validation"]["target"], "validation") == pytest.approx(100.0)


def test_a_masked_word_is_a_word_and_most_become_the_mask(networks, tmp_path):
    folder, *_ = bert_sets.prepared(tmp_path, bert_sets.plain(30), validation_share=0.1)
    task = networks["bert"].BERT(folder)
    batch = {name: jax.numpy.asarray(values) for name, values in task.data["train"].items()}
    inputs, positions, labels, weights = (np.asarray(each) for each in task.masked(batch, jax.random.key(0)))
    ids = np.asarray(batch["ids"])
    chosen = weights > 0
    assert not {task.vocabulary.classify, task.vocabulary.separate} & set(labels[chosen])
    np.testing.assert_array_equal(np.take_along_axis(ids, positions, 1), labels)
    became = np.take_along_axis(inputs, positions, 1)[chosen]
    assert np.mean(became == task.vocabulary.mask) == pytest.approx(0.8, abs=0.1)
    assert (inputs != ids).sum() <= chosen.sum()


def outcome_of(*arguments):
    """The ended process of the command."""
    command = [sys.executable, "benchmarks/few_steps_jax", *arguments]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": ROOT}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, env=environment)


def run(*arguments):
    """What the command prints."""
    outcome = outcome_of(*arguments)
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    return outcome.stdout


def refused(*arguments):
    """The message of the command that fails."""
    outcome = outcome_of(*arguments)
    assert outcome.returncode == 1
    return outcome.stderr


@pytest.mark.slow
def test_a_search_resumes_and_gives_a_table(data, tmp_path):
    results = f"--results={tmp_path}/runs.jsonl"
    asked = [results, f"--data_dir={data}", "--tasks=ptb", "--only=AdamW@640", "--lanes=3"]
    assert "AdamW, chosen, 4 steps" in run(*asked)
    lines = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert [line["stage"] for line in lines] == ["trials"] * (len(lines) - 1) + ["chosen"]
    tried = {rate: value for line in lines[:-1] for rate, value in zip(line["learning_rates"], line["validation"])}
    assert lines[-1]["learning_rates"] == [min(tried, key=tried.get)] * 3
    assert len(set(lines[-1]["test"])) == 3  # seeds differ
    assert "0 rows on" in run(*asked)
    run(results, f"--tables={tmp_path}/jax")
    [row] = json.loads((tmp_path / "jax_ptb.json").read_text())["runs"]
    assert row["mean"] == pytest.approx(np.mean(lines[-1]["test"]))
    assert {line["study"] for line in lines} == {"few_steps/study"}
    assert f"| AdamW | 640 | {row['mean']:.2f} ± " in (tmp_path / "jax_ptb.md").read_text()


@pytest.mark.slow
def test_a_batch_ramp_of_another_study_has_the_trainers_steps(data, networks, tmp_path):
    of_study = ["--study=results/ramp/study.py", f"--results={tmp_path}/runs.jsonl"]
    run(*of_study, f"--data_dir={data}", "--tasks=ptb", '--only="Muon, ramp"', "--lanes=2")
    line = json.loads((tmp_path / "runs.jsonl").read_text().splitlines()[-1])
    assert (line["stage"], line["method"], line["batch"]) == ("chosen", "Muon, ramp", 20)
    [row] = study.load("results/ramp/study.py:ptb").selected(["Muon, ramp"])
    examples_in_epoch = networks["ptb"].PTB(data / "ptb_prepared").examples_in_epoch
    recipe = experiment.tuned_recipe(row.config, examples_in_epoch(20))
    assert line["steps"] == BatchRamp(recipe, row.config.ramp.growth).stages_of_epochs(examples_in_epoch)[-1].last_step
    run(*of_study, f"--tables={tmp_path}/jax")
    assert "PTB-small, 4 epochs: batch ramps" in (tmp_path / "jax_ptb.md").read_text()


def test_an_unknown_task_is_refused(tmp_path):
    message = refused(f"--results={tmp_path}/x", "--tasks=gnmt")
    assert "--tasks=gnmt: expected some of ptb, bert" in message


def test_tables_are_of_one_study_of_the_results(tmp_path):
    results = "--results=results/few_steps/matrices_runs.jsonl"
    path_of_study = os.path.join(ROOT, "results", "few_steps", "matrices_ptb_study.py")
    run(results, f"--study={path_of_study}", f"--tables={tmp_path}/of_path")
    run(results, "--study=results/few_steps/matrices_ptb_study.py", f"--tables={tmp_path}/of_name")
    assert (tmp_path / "of_path_ptb.json").read_text() == (tmp_path / "of_name_ptb.json").read_text()
    message = refused(results, f"--tables={tmp_path}/none")
    assert "has no results of --study=few_steps/study; it has those of: results/few_steps/matrices_ptb_study" in message


def test_a_study_of_another_task_is_refused(tmp_path):
    asked = [
        "--study=results/ptb_13_epochs_study.py",
        "--tasks=bert",
        f"--data_dir={tmp_path}",
        f"--results={tmp_path}/x",
    ]
    assert "--study=results/ptb_13_epochs_study.py trains lstm_language_model, and --tasks has bert" in refused(*asked)
