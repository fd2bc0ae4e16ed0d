"""The Python on the pages of docs/ runs, top to bottom, in both Kerases."""

import doctest
import functools
import os
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.helpers.repository import ROOT, read
from tfbigbatch.tuning.sources import MUON_RATES
from tfbigbatch.utils.files import read_json

PAGES = (
    "docs/start.md",
    "docs/batch_size.md",
    "docs/optimizers.md",
    "docs/muon.md",
    "docs/shampoo.md",
    "docs/replicas.md",
    "docs/accumulation.md",
    "docs/presets.md",
    "docs/output_bias.md",
    "docs/migration.md",
    "docs/scaling.md",
    "docs/batch_ramps.md",
    "docs/tune.md",
    "docs/bert.md",
    "docs/instruments.md",
    "docs/gpu.md",
    "docs/your_own.md",
    "docs/export.md",
    "docs/runs.md",
    "docs/exact_resume.md",
    "docs/cluster.md",
)


def blocks(page):
    """(info, line, code) of each fenced block of Python: 'python', or 'python before' for another package's code."""
    text = read(page)
    for match in re.finditer(r"^```(python[^\n]*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield match[1], text.count("\n", 0, match.start(2)), match[2]


@functools.cache
def run(page):
    """Runs a page as one session; gives its names. Code of other packages is compiled only."""
    names, failed = {"__name__": page}, 0
    for info, line, code in blocks(page):
        if ">>>" in code:
            test = doctest.DocTestParser().get_doctest(code, names, page, page, line)
            failed += doctest.DocTestRunner().run(test, clear_globs=False).failed
            names = test.globs
        else:
            # The empty lines make a traceback's line that of the page.
            compiled = compile("\n" * line + code, page, "exec")
            if info == "python":
                exec(compiled, names)
    assert not failed, f"{failed} examples of {page} print something else"
    return names


# docs/runs.md trains, resumes and analyses.
_SLOW = ("docs/runs.md",)


@pytest.mark.parametrize("page", [pytest.param(page, marks=[pytest.mark.slow] * (page in _SLOW)) for page in PAGES])
def test_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # Some write files where they run.
    run(page)


def small_model(keras, normalised=False):
    keras.utils.set_random_seed(0)
    layers = keras.layers
    middle = [layers.BatchNormalization()] if normalised else []
    return keras.Sequential([layers.Input((4,)), layers.Dense(3), *middle, layers.Dense(1)])


@pytest.mark.slow
@pytest.mark.filterwarnings("error:exclude_from")
def test_the_presets_train_and_peak_where_their_sources_say():
    names = run("docs/presets.md")
    presets = [names["resnet50_lars"](batch) for batch in names["MLPERF_LARS"]] + [names["resnet50_lamb_32k"]()]
    presets += [names["bert_large_lamb"](phase) for phase in (1, 2)]
    peaks = {10.0: 1564, 17.0: 782, 21.2: 626, 24.699: 606, 0.04: 782, 6e-3: 2133, 4e-3: 213}
    for preset, (peak, step) in zip(presets, peaks.items(), strict=True):
        schedule = keras.optimizers.schedules.deserialize(preset.get_config()["learning_rate"])
        before, at, after = (float(schedule(step + offset)) for offset in (-1, 0, 1))
        assert before < at > after and at == pytest.approx(peak, rel=1e-5)
        model = small_model(keras, normalised=True)
        model.compile(preset, "mse")
        model.fit(np.ones([8, 4], "float32"), np.ones([8, 1], "float32"), verbose=0)
        assert np.isfinite(model.get_weights()[0]).all()


LEGACY = [
    ("official.modeling.optimization.lamb", "LAMB", "LAMB", {}),
    ("official.modeling.optimization.lars", "LARS", "LARS", {"form": "tfm"}),
]


@pytest.mark.parametrize("module, theirs, ours, options", LEGACY)
def test_a_peers_checkpoint_goes_on_in_ours(module, theirs, ours, options, tmp_path):
    peer = getattr(pytest.importorskip(module, reason="tf-models-official is not installed"), theirs)
    names = run("docs/migration.md")
    x = np.random.RandomState(0).normal(size=(64, 4)).astype("float32")
    fit = {"x": x, "y": x[:, :1], "batch_size": 16, "shuffle": False, "verbose": 0}
    old, new = small_model(tf_keras), small_model(tf_keras)
    old.compile(peer(0.05, weight_decay_rate=0.1), "mse")
    old.fit(epochs=2, **fit)
    path = tf.train.Checkpoint(model=old, optimizer=old.optimizer).write(str(tmp_path / "old"))
    optimizer = names[ours](0.05, weight_decay=0.1, exclude_from_weight_decay=[], **options)
    names["continue_from"](path, new, optimizer)
    new.compile(optimizer, "mse")
    for model in (old, new):
        model.fit(epochs=2, **fit)
    assert int(optimizer.iterations) == 16
    for one, other in zip(old.get_weights(), new.get_weights()):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_the_runs_of_the_page_on_runs_continue(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # It writes a checkpoint where it runs.
    names = run("docs/runs.md")
    config = read_json(os.path.join(names["folder"], "digits", "config.json"))
    assert config["extensions"] == [{"duration": "3 steps", "step": 3, "total_steps": 3}]
    assert names["result"]["step"] == 4 and names["result"]["best"]["metric"] == "accuracy"
    first = read_json(os.path.join(names["folder"], "next", "config.json"))["init_from"]
    best = os.path.join(names["folder"], "digits", "best")
    assert first == {"path": best, "checkpoint": os.path.join(best, f"step-{names['result']['best']['step']}")}


@pytest.mark.slow  # All pages once more.
def test_the_pages_run_in_the_other_keras(tmp_path):
    legacy = os.environ.get("TF_USE_LEGACY_KERAS") in ("true", "True", "1")
    environment = {**os.environ, "TF_USE_LEGACY_KERAS": "" if legacy else "1", "PYTHONPATH": ROOT}
    done = subprocess.run(
        [sys.executable, "-m", "tests.test_docs"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_muons_page_has_the_range_that_advise_gives():
    assert "**Learning rate: {:g} to {:g}**".format(*MUON_RATES) in read("docs", "muon.md")


if __name__ == "__main__":
    for each in PAGES:
        run(each)
