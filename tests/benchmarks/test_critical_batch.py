import json

from tests.helpers import preloaded


def test_whole_runs_have_a_critical_batch(tmp_path):
    """The mean loss rises by 0.01 at 64 and by 0.03 at 128: 0.02 are lost half way between them."""
    path = tmp_path / "runs.jsonl"
    rises = {32: 0.0, 64: 0.01, 128: 0.03}
    with open(path, "w") as file:
        for seed in (1, 0):
            for size, rise in rises.items():
                config, metrics = {"batch_size": size, "seed": seed}, {"cross_entropy": 0.1 + rise + seed}
                file.write(json.dumps({"started": {"config": config}, "status": {"metrics": metrics}}) + "\n")
    outcome = preloaded.run("benchmarks/critical_batch.py", f"--results_cache={path}")
    assert outcome.returncode == 0, outcome.stderr
    assert "critical batch: 91 (91 to 91), of 2 seeds" in outcome.stdout
    assert "|   128 |         0.630 | +0.030 |" in outcome.stdout
    outcome = preloaded.run("benchmarks/critical_batch.py", f"--results_cache={path}", "--metric=loss")
    assert outcome.returncode and "--metric=loss: expected one of cross_entropy" in outcome.stderr
