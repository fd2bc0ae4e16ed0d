"""The benchmark of an update: its tables of shapes, how it shares memory, and one smoke run."""

import json
import os

import pytest

from tests.helpers import preloaded
from tests.helpers.preloaded import ROOT
from tfbigbatch.errors import InputError

BENCH = os.path.join(ROOT, "benchmarks")


@pytest.fixture
def bench(monkeypatch):
    """The benchmark's modules by name; the command imports them from its own directory."""
    monkeypatch.syspath_prepend(BENCH)
    import baselines
    import optimizers
    import variables

    return {"baselines": baselines, "optimizers": optimizers, "variables": variables}


def run(*arguments):
    return preloaded.run(os.path.join(BENCH, "optimizers.py"), *arguments)


@pytest.mark.parametrize(
    "model, variables, parameters, excluded",
    [
        # 53 convolutions with gamma and beta each, and a dense layer.
        ("resnet50", 161, 25_557_032, 2 * 53 + 1),
        # Three embeddings with gamma and beta, 16 variables a layer (10 of them vectors), and a pooler.
        ("bert_base", 199, 109_482_240, 2 + 12 * 10 + 1),
        ("bert_large", 391, 335_141_888, 2 + 24 * 10 + 1),
    ],
)
def test_the_shapes_are_the_models(bench, model, variables, parameters, excluded):
    table = bench["variables"].shapes(model)
    names = [name for name, _ in table]
    assert len(set(names)) == len(table) == variables
    assert bench["variables"].count(table) == parameters
    patterns = bench["baselines"].EXCLUDED
    left_out = [(name, shape) for name, shape in table if any(pattern in name for pattern in patterns)]
    assert len(left_out) == excluded and all(len(shape) == 1 for _, shape in left_out)


def test_each_process_holds_ours_and_fits(bench):
    names = list(bench["baselines"].BASELINES)
    optimizers = bench["optimizers"]
    sets = optimizers.peer_sets(names, 335_141_888, memory_gib=30.0)
    assert len(sets) > 1 and set().union(*sets) == set(names)
    for members in sets:
        assert {bench["baselines"].rule(name).ours for name in members} <= set(members)
        assert optimizers.footprint(members, 335_141_888) <= 30.0
    assert len(optimizers.peer_sets(names, 25_557_032, memory_gib=30.0)) == 1


def test_too_little_memory_is_told(bench):
    with pytest.raises(InputError, match="tfbigbatch_lamb and tfa_lamb take about 18.0 GiB"):
        bench["optimizers"].peer_sets(["tfa_lamb"], 335_141_888, memory_gib=14.0)


@pytest.mark.slow
def test_a_smoke_run_times_optimizers_that_do_the_same(tmp_path):
    results = tmp_path / "tiny.json"
    outcome = run(
        "--model=tiny",
        "--repeats=1",
        "--nofirst_calls",
        "--optimizers=tfm_lamb,tfm_lars,tfa_lamb,tfbigbatch_keras3_lamb,keras_adam",
        f"--results={results}",
        "--markdown",
    )
    assert outcome.returncode == 0, outcome.stderr
    assert "| tfbigbatch LAMB " in outcome.stdout and "floor of lamb: 40 bytes" in outcome.stdout
    stored = json.loads(results.read_text())
    assert stored["variables"] == 7 and stored["command"].startswith("python benchmarks/optimizers.py --model=tiny")
    (process,) = stored["processes"]
    assert {"tfbigbatch_lamb", "tfbigbatch_lars", "keras_adam"} <= set(process["seconds"])
    for name in stored["left_out"]:
        assert f"{name}: left out: " in outcome.stdout
    # Same rule, same settings, same exclusions: the weights agree after three updates.
    sums = process["checksums"]
    for name in {"tfm_lamb", "tfa_lamb", "tfbigbatch_keras3_lamb"} & set(sums):
        assert sums[name] == pytest.approx(sums["tfbigbatch_lamb"], rel=1e-6), name
    assert process["summary"]["contenders"]["tfbigbatch_lamb"]["over_ours"]["median"] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("precision, floor", [("bfloat16", 40), ("float16", 40), ("float32", 44)])
def test_clipped_and_in_mixed_precision_they_still_do_the_same(tmp_path, precision, floor):
    results = tmp_path / "tiny.json"
    outcome = run(
        "--model=tiny",
        "--repeats=1",
        "--nofirst_calls",
        # Below the norm of these gradients.
        "--clip_norm=0.01",
        f"--precision={precision}",
        f"--results={results}",
    )
    assert outcome.returncode == 0, outcome.stderr
    assert f"floor of lamb: {floor} bytes" in outcome.stdout
    (process,) = json.loads(results.read_text())["processes"]
    sums = process["checksums"]
    for name in {"tfm_lamb", "tfa_lamb", "tfbigbatch_keras3_lamb"} & set(sums):
        assert sums[name] == pytest.approx(sums["tfbigbatch_lamb"], rel=1e-6), name


@pytest.mark.slow
def test_a_first_call_has_its_seconds_and_its_memory(tmp_path):
    results = tmp_path / "tiny.json"
    outcome = run("--model=tiny", "--repeats=1", "--optimizers=tfbigbatch_lamb", f"--results={results}")
    assert outcome.returncode == 0, outcome.stderr
    assert "extra peak memory" in outcome.stdout
    first = json.loads(results.read_text())["first_calls"]["tfbigbatch_lamb"]
    assert first["first_call_s"] > 0.0
    assert first["peak_growth_bytes"] is None or 0 <= first["peak_growth_bytes"] < 2**20


@pytest.mark.parametrize(
    "arguments, said",
    [
        ([], "model"),
        (["--model=resnet51"], "resnet50"),
        (["--model=tiny", "--optimizers=tfa_lam"], "--optimizers=tfa_lam: unknown. Did you mean 'tfa_lamb'?"),
        (["--model=tiny", "--repeats=0"], "repeats"),
        (["--model=tiny", "--memory_gib=1"], "--memory_gib=1.0"),
        (["--model=tiny", "--results=no/such/place.json"], "there is no directory no/such"),
    ],
)
def test_a_bad_flag_is_one_message(arguments, said):
    outcome = run(*arguments)
    assert outcome.returncode == 1 and "error: " in outcome.stderr and "Traceback" not in outcome.stderr
    assert said in outcome.stderr
