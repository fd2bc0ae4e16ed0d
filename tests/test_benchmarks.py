"""The benchmarks: what they compute of their figures, and a small run of each."""

import gzip
import importlib
import importlib.util
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.helpers.datasets import made_images
from tests.helpers.preloaded import ROOT

FOLDER = os.path.join(ROOT, "benchmarks")
SHARED = ("harness.py", "updates.py", "variables.py", "__pycache__")
SCRIPTS = sorted(name for name in os.listdir(FOLDER) if name not in SHARED)


def run(name, *arguments, fails=False):
    """What a benchmark prints."""
    done = subprocess.run(
        [sys.executable, os.path.join(FOLDER, name), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": ROOT, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert bool(done.returncode) == fails, done.stderr[-3000:]
    return done.stderr if fails else done.stdout


@pytest.fixture
def module(monkeypatch):
    """A function from the name of a benchmark's module, and its folder, to the module."""
    loaded = set(sys.modules)

    def load(name, folder=""):
        monkeypatch.syspath_prepend(FOLDER)
        monkeypatch.syspath_prepend(os.path.join(FOLDER, folder))
        return importlib.import_module(name)

    yield load
    for name in set(sys.modules) - loaded:
        if (getattr(sys.modules[name], "__file__", "") or "").startswith(FOLDER):
            del sys.modules[name]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jpegs")
    for number in range(6):
        (folder / f"{number}.JPEG").write_bytes(made_images.jpeg_of(number))
    return folder


@pytest.mark.parametrize("name", SCRIPTS)
def test_each_says_its_flags(name):
    assert "--help" in run(name, "--help")


def test_contenders_take_turns_and_ratios_are_within_a_round(module):
    harness, order = module("harness"), []
    seconds = {"ours": iter([9.0, 1.0, 2.0, 4.0]), "theirs": iter([9.0, 3.0, 2.0, 8.0])}

    def contender(name):
        return lambda: order.append(name) or {"seconds": next(seconds[name])}

    found = harness.in_turns({name: contender(name) for name in seconds}, 3, say=lambda line: None)
    assert order == ["ours", "theirs", "theirs", "ours", "ours", "theirs", "theirs", "ours"]
    assert harness.medians(found["ours"]) == {"seconds": 2.0}
    assert harness.ratio(found["ours"], found["theirs"], "seconds") == 2.0


@pytest.mark.skipif(not os.path.exists(os.path.join(ROOT, ".git")), reason="the files are those that git tracks")
def test_the_repository_is_counted():
    printed = run("structure.py", "--folders", "--row=tests, s=3")
    assert "| lines of the package |" in printed and "| tests, s | 3 |" in printed and "| optimizers |" in printed


def test_a_walk_counts_calls_and_those_that_go_back_up(module, tmp_path):
    (tmp_path / "base.py").write_text("def part():\n    return 1\n")
    (tmp_path / "low.py").write_text(
        "import base\n\n\ndef run(function, holder):\n    base.part()\n"
        "    return [function(each) for each in (1, 2)], holder.value()\n"
    )
    (tmp_path / "high.py").write_text(
        "import base, low\n\n\nclass Holder:\n    def value(self):\n        return 1\n\n\n"
        "def begin():\n    base.part()\n    list(map(own, numbers()))\n"
        "    return low.run(lambda each: own(each), Holder())\n\n\n"
        "def own(each):\n    return each\n\n\ndef numbers():\n    yield from (1, 2, 3)\n"
    )
    walks, structure = module("walks"), module("structure")
    for name in ("base", "low"):
        module(name, tmp_path)
    high = module("high", tmp_path)
    found = walks.Recorder(str(tmp_path)).during(high.begin)
    # map is no function of the folder: it is begin that calls own. A generator is called once, whatever it yields. To
    # call what it imports, or an argument, is no way up; to ask what it was given for a value is.
    names = [["high.py", "begin", 1], ["base.py", "part", 2], ["high.py", "numbers", 1], ["high.py", "own", 5]]
    names += [["low.py", "run", 1], ["high.py", "begin.<lambda>", 2], ["high.py", "Holder.value", 1]]
    assert found == {"functions": names, "up": [["low.py", "high.py", 1]]}
    assert structure.walked(found) == ["3", "7", "13", "1"]


def test_recorded_searches_are_replayed():
    printed = run("halving.py", "--rungs=0.15,0.3", "--keep=4,2")
    assert "| 8, 4, 2 at 15, 30% | 3.20 | 89 | 92 | " in printed
    misses = printed.partition("Not near the best:\n")[2].splitlines()
    assert len(misses) == round(64 * (1 - 0.92)) and "ptb 640 Muon: 0.02 for 0.01, 1.95%" in misses
    error = run("halving.py", "--first=9", fails=True)
    assert "--first=9 is out of range; expected a whole number of 1 or more and at most 8" in error


@pytest.fixture
def replays(module, monkeypatch, tmp_path):
    """The module of replays with a search of each kind: 3 is the best, which its loss shows from half of the run on,
    and before that is within the noise of 4; 7 diverges.
    """
    halving = module("halving")
    curves = [[(row, level) for row in range(1, 101)] for level in (3.0, 2.0, 1.5, 1.2, 1.0, 1.3, 4.0)]
    curves[3] = [(row, 0.5 if row > 50 else 0.8 + 0.8 * (row % 2)) for row in range(1, 101)]
    curves.append([(row, 1.0 if row < 10 else float("inf")) for row in range(1, 101)])
    regrets = [50.0, 20.0, 10.0, 0.0, 0.5, 2.0, 90.0, float("inf")]
    search = halving.Search(halving.FILES[0], "ptb 1 SGD", [2.0**each for each in range(8)], regrets, True, curves)
    points = halving.Search(
        halving.FILES[1], "mnist 1 SGD", search.rates, [each / 10 for each in regrets], False, curves
    )
    monkeypatch.setattr(halving, "searches", lambda: [search, points])
    monkeypatch.setattr(halving, "FOUR_NUMBERS", str(tmp_path / "none.jsonl"))
    monkeypatch.setattr(halving, "PAGE", str(tmp_path / "tune" / "halving"))
    return halving


def test_a_schedule_decides_as_a_search_does(replays):
    search, (Rungs, Schedule) = replays.searches()[0], (replays.Rungs, replays.Schedule)
    assert replays.replay(search, Schedule(Rungs(8, (0.3,), (1,)))) == (4, pytest.approx(8 * 0.3 + 0.7))
    assert replays.replay(search, Schedule(Rungs(8, (0.6,), (1,)))) == (3, pytest.approx(8 * 0.6 + 0.4))
    # 3, 4 and 5 are in the middle of three; by validation or loss 3 is the best of these.
    assert replays.replay(search, Schedule(Rungs(3, (), ()))) == (3, 3.0)
    assert replays.replay(search, Schedule(Rungs(8, (0.3,), (3,)), last="loss"))[0] == 3
    # What is within the noise stays, where the budget has the 0.7 runs.
    assert replays.replay(search, Schedule(Rungs(8, (0.3,), (1,)), budget=3.7)) == (4, pytest.approx(3.1))
    assert replays.replay(search, Schedule(Rungs(8, (0.3,), (1,)), budget=3.8)) == (3, pytest.approx(3.8))


def test_the_table_of_schedules_is_written(replays, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(replays, "GRIDS", (1.9,))
    monkeypatch.setattr(sys, "argv", ["halving.py"])
    replays.main()
    page = (tmp_path / "tune" / "halving.md").read_text()
    assert page == capsys.readouterr().out and "| 8 at 100% | 8.00 | 100 | 100 | " in page
    assert "schedules of up to 1.9 runs is " in page
    rows = json.loads((tmp_path / "tune" / "halving.json").read_text())["schedules"]
    assert rows[-1]["misses"] == [] and rows[0]["schedule"].startswith(f"{replays.of_budget(2.0).first}, ")


def test_searches_of_four_numbers_begin_with_their_first_candidates(replays, monkeypatch, tmp_path):
    losses = [[3.0] * 10, [2.0] * 10, [2.5] * 5 + [1.0] * 5]
    candidates = [
        {"point": {}, "held_out": held_out, "steps": list(range(2, 21, 2)), "losses": each}
        for held_out, each in zip([0.5, 0.6, 0.7], losses)
    ]
    line = {"task": "digits", "method": "all 16", "seed": 0, "higher_is_better": True, "candidates": candidates}
    (tmp_path / "curves.jsonl").write_text(json.dumps(line))
    monkeypatch.setattr(replays, "FOUR_NUMBERS", str(tmp_path / "curves.jsonl"))
    (search,) = replays.searches_of_four_numbers()
    assert search.steps == 20 and search.regrets == pytest.approx([20.0, 10.0, 0.0])
    Rungs, Schedule = replays.Rungs, replays.Schedule
    assert replays.replay(search, Schedule(Rungs(2, (), ()))) == (1, 2.0)
    assert replays.replay(search, Schedule(Rungs(3, (0.3,), (1,)))) == (1, pytest.approx(1.6))
    assert replays.replay(search, Schedule(Rungs(3, (0.6,), (1,)))) == (2, pytest.approx(2.2))


@pytest.mark.slow
def test_methods_are_measured_beside_tune(tmp_path):
    fields = ("--fields=duration=4 epochs", "--fields=data.minival=144")
    files = (f"--runs={tmp_path}/runs", f"--results={tmp_path}/runs.jsonl", f"--curves={tmp_path}/curves.jsonl")
    chosen = ("--tasks=digits", "--methods=tune 2;random 3")
    assert run("tune", *chosen, *files, *fields).count("RESULT") == 2
    rows = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert [(row["method"], row["cost"] <= 3.0) for row in rows] == [("tune 2", True), ("random 3", True)]
    curves = json.loads((tmp_path / "curves.jsonl").read_text())
    assert curves["method"] == "random 3" and len(curves["candidates"]) == 3
    assert "RESULT" not in run("tune", *chosen, *files, *fields)


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_a_step_is_walked_through(backend):
    pytest.importorskip(backend)
    found = json.loads(run("walks.py", "--optimizer=LAMB", f"--backend={backend}"))
    assert "optimizers/lamb.py" in {file for file, _, _ in found["functions"]}


def test_an_image_batch_passes_nine_files_at_most():
    files = {file for file, _, _ in json.loads(run("walks.py", "--images"))["functions"]}
    assert {"data/records/reader.py", "data/images/jpeg.py"} <= files and len(files) <= 9


@pytest.mark.parametrize(
    "model, count, parameters",
    # 53 convolutions with gamma and beta each, and a dense layer; embeddings, 16 variables a layer, and a pooler.
    [("resnet50", 161, 25_557_032), ("bert_base", 199, 109_482_240), ("bert_large", 391, 335_141_888)],
)
def test_the_variables_are_the_models(module, model, count, parameters):
    variables = module("variables")
    table = variables.shapes(model)
    assert len({name for name, _ in table}) == len(table) == count and variables.count(table) == parameters


@pytest.mark.slow
def test_a_tree_is_timed_beside_another(tmp_path, pictures):
    measures = "import,refused,start,run,images"
    small = ("--rounds=1", "--turns=1", "--duration=20 steps", f"--pictures={pictures}")
    printed = run("against.py", ROOT, f"--only={measures}", *small, f"--results={tmp_path}/against.json")
    assert all(f"| {measure} | " in printed for measure in measures.split(","))
    measured = json.loads((tmp_path / "against.json").read_text())["measured"]
    assert all(measured[name][tree][0]["seconds"] > 0 for name in measured for tree in ("old", "new"))
    assert "expected words of" in run("against.py", "--only=nothing", fails=True)


@pytest.mark.slow
def test_updates_are_timed_beside_those_of_another_tree_and_resumed(tmp_path):
    results = tmp_path / "updates.json"
    updates = ("--updates", "--variables=tiny", "--turns=1", f"--results={results}")
    assert "| lars tiny 2 | " in run("against.py", ROOT, *updates, "--only=lars")
    measured = json.loads(results.read_text())["measured"]
    assert set(measured) == {"lars tiny 1", "lars tiny 2"}
    assert all(measured[name][tree][0]["memory"] > 0 for name in measured for tree in ("old", "new"))
    assert "| muon tiny 1 | " in run("against.py", ROOT, *updates, "--only=muon tiny 1")
    resumed = json.loads(results.read_text())["measured"]
    assert resumed == {**measured, "muon tiny 1": resumed["muon tiny 1"]}


@pytest.mark.slow
def test_optimizers_of_one_rule_end_at_the_same_weights(tmp_path):
    peers = "--peers=tfm_lamb,tfm_lars,tfa_lamb,keras3_lamb,keras_adam"
    printed = run("optimizers.py", "--variables=tiny", "--rounds=1", peers, f"--results={tmp_path}/tiny.json")
    assert "| keras_adam | " in printed
    measured = json.loads((tmp_path / "tiny.json").read_text())["measured"]
    for name in {"tfm_lamb", "tfm_lars", "tfa_lamb", "keras3_lamb"} & set(measured):
        assert len({round(value, 4) for value in measured[name]["sums"].values()}) == 1, name


@pytest.mark.slow
def test_inputs_are_timed():
    digits = ("--config=digits/lstm_legw", "--batch_size=32", "--turns=2", "--batches=3")
    assert "examples a second of a core" in run("input.py", *digits)
    assert "the run has 1 phase(s)" in run("input.py", *digits, "--phase=3", fails=True)


@pytest.mark.slow
def test_steps_and_updates_run_on_jax(tmp_path):
    pytest.importorskip("jax")
    pytest.importorskip("optax")
    printed = run("optimizers.py", "--variables=tiny", "--rounds=1", "--peers=jax_muon,optax_muon", "--updates=2")
    assert "| jax_muon | " in printed and "| optax_muon | " in printed
    small = ("--config=mnist/lstm_small_batch", "--override=batch_size=4", "--override=model.hidden_units=8")
    assert "8,186 parameters" in run("gpu.py", "export", f"--out={tmp_path}", *small)
    on_cpu = ("run", f"--dir={tmp_path}", "--device=cpu", "--rounds=1", "--steps=1")
    assert "ms a step" in run("gpu.py", *on_cpu)
    # As another learning rate would.
    manifest = json.loads((tmp_path / "step.json").read_text())
    manifest["expected"]["moved"] = [1.2 * each for each in manifest["expected"]["moved"]]
    (tmp_path / "step.json").write_text(json.dumps(manifest))
    assert "the step differs from the CPU's" in run("gpu.py", *on_cpu, fails=True)


@pytest.mark.slow
@pytest.mark.parametrize("network", ["mnist_lstm", "language_model", "resnet50", "bert", "gnmt"])
def test_frameworks_train_the_same(tmp_path, network):
    found = "tfbigbatch,tfbigbatch_xla"
    small = (f"--networks=tiny_{network}", "--cores=1", "--rounds=1", "--seconds=0.05", f"--frameworks={found}")
    assert f"| tiny_{network} | 1 | " in run("frameworks", *small, f"--results={tmp_path}/rows.json")


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


@pytest.mark.slow
def test_lanes_in_jax_are_runs_of_the_package_s_networks(data):
    pytest.importorskip("jax")
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "tests.helpers.few_steps_program", str(data)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
