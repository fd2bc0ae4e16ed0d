"""The commands plan and tpu-check, as far as nothing is compiled."""

import json

from tests.helpers.made_checks import fitting
from tests.helpers.preloaded import tfbigbatch


def test_a_plan_of_a_check(tmp_path):
    (tmp_path / "step.json").write_text(json.dumps(fitting()))
    arguments = [f"--checks={tmp_path}/step.json", "--chips=16,64,4096", "--efficiency=0.5", "--core_rate=600"]
    done = tfbigbatch("plan", *arguments, f"--plot={tmp_path}/plan.png")
    assert done.returncode == 0, done.stderr
    assert "v3-32 " in done.stdout and "v3-128 " in done.stdout and "v3-8192" not in done.stdout
    assert "cores of a host" in done.stdout and (tmp_path / "plan.png").exists()


def test_what_is_missing_is_one_message(tmp_path):
    (tmp_path / "step.json").write_text(json.dumps(fitting(fits=False)))
    older = fitting()
    del older["uncounted_loops"]
    (tmp_path / "older.json").write_text(json.dumps(older))
    config = "--config=experiments/digits/lstm_legw.py"
    for name, arguments, said in (
        ("plan", [], "--checks is missing"),
        ("plan", [f"--checks={tmp_path}/step.json"], "not compiled or does not fit"),
        ("plan", [f"--checks={tmp_path}/older.json"], "older.json is not an output of this version's tpu-check"),
        ("tpu-check", [config], "--topology is missing"),
        ("tpu-check", [config, "--topology=v3-8", "--replicas=9"], "runs at most 8"),
        ("tpu-check", ["--config=nowhere.py", "--topology=v3-8"], "nowhere.py: no such file"),
    ):
        done = tfbigbatch(name, *arguments)
        assert done.returncode == 1 and said in done.stderr and "Traceback" not in done.stderr, done.stderr
