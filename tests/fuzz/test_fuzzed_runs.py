"""The files of run directories and their checkpoints, damaged by a seeded fuzzer."""

import json
import os
import shutil

import numpy as np

from tests.fuzz.test_fuzzed_texts import emptied
from tests.helpers import made_runs, mutations
from tests.helpers.fuzz_judge import few_and_many, judge
from tests.training.test_checkpoints import trained
from tfbigbatch import experiment
from tfbigbatch.reports import collect, summary
from tfbigbatch.runs import extension, goodput, metrics_log, stored_run
from tfbigbatch.runs.metric import Metric
from tfbigbatch.runs.run_directory import RunDirectory
from tfbigbatch.studies.results_cache import ResultsCache
from tfbigbatch.training.checkpoints import Checkpoints
from tfbigbatch.training.rollbacks import Rollbacks
from tfbigbatch.utils.startup import StartTimings


@few_and_many(150, 10_000)
def test_what_tells_of_a_run(tmp_path, seeds):
    config = experiment.new("digits_lstm").to_dict()
    metric = Metric.of_task("digits_lstm")

    def case(choices):
        folder = str(emptied(tmp_path / "run"))
        made_runs.write(folder, config, 0.9)
        name = choices.choice(("config.json", "status.json", "metrics.jsonl"))
        with open(os.path.join(folder, name), "rb") as file:
            content = file.read()
        damaged = mutations.of_bytes(choices, content)
        if name.endswith(".json"):
            damaged = mutations.of_json(choices, json.loads(content))
        with open(os.path.join(folder, name), "wb") as file:
            file.write(damaged)
        directory = RunDirectory(folder)
        # As the trainer does, which knows the config, and as a report does, which does not.
        if choices.random() < 0.5:
            directory.check(config)
        status = directory.status()
        f"{status.get('step', 0):,} {status.get('seconds', 0.0) + 1.0}"
        summary.summarise(collect.found_in([folder]), metric, target=0.5)
        metrics_log.MetricsLog(directory).resume(10)
        # Rows of whole lines stay, up to the step that is gone back to.
        kept = [row["step"] for row in metrics_log.read_rows(directory.metrics)]
        assert all(step <= 10 for step in kept)

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0


@few_and_many(100, 6000)
def test_what_a_resumed_or_extended_run_reads(tmp_path, seeds):
    config = {**experiment.new("digits_lstm").to_dict(), "duration": "40 steps"}
    folder = str(tmp_path / "run")
    made_runs.write(folder, {**config, "duration": "20 steps"}, 0.9)
    whole = {}
    for name in ("config.json", "status.json", "metrics.jsonl"):
        with open(os.path.join(folder, name), "rb") as file:
            whole[name] = file.read()
    started = {**json.loads(whole["config.json"]), "data_dir": "/data", "mixed_precision": "float32"}
    started |= {"init_from": {"path": "/runs/one", "checkpoint": "/runs/one/checkpoints/step-3"}}
    started |= {"extensions": [{"duration": "10 steps", "step": 10, "total_steps": 10}]}
    spent = {"fraction": 0.8, "wall": 5.0, **dict.fromkeys(goodput.PARTS, 0.5), "starts": 2, "repeated_steps": 3}
    status = {**json.loads(whole["status.json"]), "goodput": {**spent, "step": 20, "time": 1.0}}
    values = {"config.json": started, "status.json": status}

    def case(choices):
        damaged = choices.choice(sorted(whole))
        for name in whole:
            content = whole[name] if name not in values else json.dumps(values[name]).encode()
            if name == damaged:
                content = mutations.of_file(choices, name, content)
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        directory = RunDirectory(folder)
        content, status = directory.content(), directory.status()
        stored_run.config_of(folder)
        assert isinstance(stored_run.data_dir_of(folder), str | None)
        stored_run.origin(None, content, folder)
        longer = extension.requested(content, status, config, folder)
        if longer is not None:
            json.dumps(extension.extended(content, longer, "40 steps"))
        metrics_log.lost_steps(directory.metrics, status, 10, "10 steps")
        assert goodput.resumed(directory, status, StartTimings(), 10).content()["wall"] >= 0.0

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0


@few_and_many(60, 2000)
def test_a_results_cache_and_rollbacks(tmp_path, seeds):
    config = experiment.new("digits_lstm")
    made_runs.write(str(tmp_path / "run"), config.to_dict(), 0.9)
    ended = tmp_path / "ended.jsonl"
    ResultsCache(str(ended)).keep([str(tmp_path / "run")])
    run = json.loads(ended.read_text())
    rollbacks = [{"step": 8, "back_to": 4, "rate_factor": 0.5, "reason": "loss became nan"}]

    def case(choices):
        if choices.random() < 0.5:
            ended.write_bytes(mutations.of_json(choices, run))
            ResultsCache(str(ended)).restore(str(emptied(tmp_path / "restored")), config.to_dict())
        else:
            (tmp_path / "rollbacks.json").write_bytes(mutations.of_json(choices, rollbacks))
            found = Rollbacks(str(tmp_path), config)
            assert found.skipped >= 0 and 0.0 < found.rate_factor <= 1.0 and found.lines() is not None

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0


@few_and_many(16, 1524)
def test_the_newest_checkpoint(tmp_path, seeds):
    """Whatever happens to its files, the weights are afterwards those of a save, to the last bit."""
    network, optimizer = trained()
    weights = {}
    for step in (1, 2):
        network.set_weights([np.full_like(each, step) for each in network.get_weights()])
        optimizer.iterations.assign(step)
        Checkpoints(network, optimizer, str(tmp_path / "whole")).save(step)
        weights[step] = network.get_weights()
    names = [name for name in os.listdir(tmp_path / "whole") if not name.startswith("step-1")]

    def case(choices):
        folder = tmp_path / "damaged"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(tmp_path / "whole", folder)
        for name in choices.sample(names, choices.randint(1, 2)):
            path = folder / name
            path.write_bytes(mutations.of_bytes(choices, path.read_bytes()))
        if choices.random() < 0.2:
            (folder / choices.choice(names)).unlink()
        checkpoints = Checkpoints(network, optimizer, str(folder))
        step = checkpoints.restore()
        for one, other in zip(network.get_weights(), weights[step]):
            np.testing.assert_array_equal(one, other)
        assert step == 2 or checkpoints.set_aside or not (folder / "step-2.index").exists()

    outcomes = judge(seeds, case)
    assert outcomes["refused"] == 0


def test_a_folder_where_a_checkpoint_belongs(tmp_path):
    network, optimizer = trained()
    Checkpoints(network, optimizer, str(tmp_path)).save(1)
    (tmp_path / "step-2.index").mkdir()
    (tmp_path / "step-x.index").write_bytes(b"")
    again = Checkpoints(network, optimizer, str(tmp_path))
    assert again.restore() == 1 and [os.path.basename(path) for path, _ in again.set_aside] == ["damaged.step-2"]
