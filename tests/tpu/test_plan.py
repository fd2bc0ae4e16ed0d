import json

import pytest

from tests.helpers.made_checks import fitting
from tests.helpers.preloaded import tfbigbatch
from tfbigbatch.tpu import plan, topologies


def at(name, **fields):
    return plan.plan(fitting(**fields), topologies.parse(name))


def test_the_times_are_the_arithmetic():
    found = at("v3-32")
    assert (found.micro_batch, found.accumulation_steps) == (128, 1)
    # Two replicas share a chip. Variables are read and written, gradients written and read.
    weights = 2 * 200e6 + 8 * 25e6
    assert found.compute == pytest.approx(2 * 128 * 24e9 / 123e12)
    assert found.memory == pytest.approx((2 * 128 * 0.3e9 + 2 * weights) / 900e9)
    assert found.all_reduce == pytest.approx(2 * 15 / 16 * 100e6 / (340e12 / 1024))
    assert found.limit == "memory" and found.step == pytest.approx(found.memory + found.all_reduce)


def test_fewer_chips_accumulate_and_more_shrink_the_batch():
    few, many = at("v3-8"), at("v3-512")
    assert (few.micro_batch, few.accumulation_steps) == (128, 4)
    assert (many.micro_batch, many.accumulation_steps) == (8, 1)
    assert few.compute == pytest.approx(4 * at("v3-32").compute)
    assert at("v3-2048", batch_size=1024) is None
    # A step that accumulates has the cost of its pass.
    accumulating = at("v3-32", accumulation_steps=4)
    assert (accumulating.micro_batch, accumulating.memory) == (32, at("v3-32").memory)


def test_the_limit_is_the_longest():
    assert at("v3-2048", collectives=[{"kind": "all-reduce", "count": 1, "bytes": 1e11}]).limit == "all-reduce"
    assert at("v3-32", flops=128e13).limit == "compute"
    assert at("v3:1x1", batch_size=256).all_reduce == 0.0


def test_the_command_plans_phases_and_says_its_error(tmp_path):
    for phase in (1, 2):
        (tmp_path / f"{phase}.json").write_text(json.dumps(fitting(phase=phase, phases=2)))
    done = tfbigbatch("tpu-check", f"--plan={tmp_path}/1.json,{tmp_path}/2.json", "--chips=16,64,4096")
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| v3")]
    names = [f"| {name}, {phase}" for name in ("v3-32", "v3-128") for phase in ("phase 1", "phase 2", "all")]
    assert [row[0].rstrip() for row in rows] == names
    assert "MLPerf's runs on v3 took 1.1 to 1.9 times" in done.stdout


def test_mistakes_are_one_message(tmp_path):
    (tmp_path / "step.json").write_text(json.dumps(fitting(fits=False)))
    (tmp_path / "v5e.json").write_text(json.dumps(fitting(topology="v5e:4x4")))
    (tmp_path / "loops.json").write_text(json.dumps(fitting(uncounted_loops=2)))
    (tmp_path / "fits.json").write_text(json.dumps(fitting()))
    (tmp_path / "part.json").write_text(json.dumps({"fits": True, "topology": "v3:4x4"}))
    config = "--config=experiments/digits/lstm_legw.py"
    for name, arguments, said in (
        ("tpu-check", [f"--plan={tmp_path}/step.json"], "expected a step that compiles and fits"),
        ("tpu-check", [f"--plan={tmp_path}/loops.json"], "known number of iterations of each loop"),
        ("tpu-check", [f"--plan={tmp_path}/part.json"], "part.json is not an output of tpu-check"),
        ("tpu-check", [f"--plan={tmp_path}/fits.json,{tmp_path}/v5e.json"], "compiled for one generation"),
        ("tpu-check", [config], "--topology is missing"),
        ("tpu-check", [config, "--topology=v3-8", "--replicas=9"], "runs at most 8"),
        ("tpu-check", ["--config=nowhere.py", "--topology=v3-8"], "nowhere.py: no such file"),
    ):
        done = tfbigbatch(name, *arguments)
        assert done.returncode == 1 and said in done.stderr and "Traceback" not in done.stderr, done.stderr
