"""Runs with a batch ramp: the order of the data, resume, replicas, intervals, errors."""

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import replicated
from tests.helpers.runs import assert_close, curve, resumes
from tfbigbatch import tasks, train
from tfbigbatch.config import load_config, make_quick
from tfbigbatch.run_directory.metrics_log import read_rows
from tfbigbatch.training import phases as run_phases

DOUBLING = {"ramp__name": "doubling", "ramp__to": 192, "ramp__over": "1 epochs", "duration": "2 epochs"}
INTERVALS = {"evaluate_every": "0.5 epochs", "checkpoint_every": "0.5 epochs", "log_every": "200 examples"}


def digits_phases(config, replicas=1):
    return run_phases.phases_of(
        config,
        lambda fields: tasks.get(fields.task)(
            model=fields.model.to_dict(), data=fields.data.to_dict(), data_dir=None, use_fake_data=False
        ),
        replicas,
    )


def examples_read(phases, strategy, replicas):
    """The examples of a run in the order of its steps, each as a number; within a step in the order of the replicas."""
    found = []
    for phase in phases:
        for batch in phase.training_set(strategy, phase.first_step, phase.last_step):
            parts = strategy.experimental_local_results(tf.nest.flatten(batch)[0])
            assert len(parts) == replicas
            rows = np.concatenate([np.asarray(part).reshape(len(part), -1) for part in parts])
            found.extend((rows @ np.arange(rows.shape[1])).tolist())
    return found


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_ramp_reads_the_examples_in_the_order_of_its_first_batch(quick_config, replicas):
    strategy = replicated(replicas)
    plain, ramp = (digits_phases(quick_config(**fields), replicas) for fields in ({"duration": "3 epochs"}, DOUBLING))
    assert [phase.config.batch_size for phase in ramp] == [48, 96, 192]
    whole, grown = examples_read(plain, strategy, replicas), examples_read(ramp, strategy, replicas)
    for phase in ramp:
        # Each step holds the examples of as many steps of the first batch; replicas keep their own.
        for step in range(phase.first_step, phase.last_step):
            begin = phase.first_example + (step - phase.first_step) * phase.config.batch_size
            part = slice(begin, begin + phase.config.batch_size)
            assert sorted(whole[part]) == sorted(grown[part])
    if replicas == 1:
        assert whole[: len(grown)] == grown


@pytest.mark.slow
def test_it_is_evaluated_after_as_many_examples_at_every_batch(tmp_path, quick_config, capsys):
    result = train.run(quick_config(**DOUBLING, **INTERVALS), model_dir=str(tmp_path))
    stages = digits_phases(quick_config(**DOUBLING, **INTERVALS))
    assert result["total_steps"] == result["step"] == stages[-1].last_step < 2 * 1437 // 48
    rows = read_rows(tmp_path / "metrics.jsonl")
    examples = {row["step"]: row["examples"] for row in rows if "examples" in row}
    evaluated = [examples[row["step"]] for row in rows if row["split"] == "eval"]
    for index, seen in enumerate(evaluated[:-1], 1):
        assert 0 <= seen - index * 1437 / 2 < 192
    sizes = [row["batch_size"] for row in rows if "batch_size" in row]
    assert sizes == sorted(sizes) and set(sizes) == {48, 96, 192}
    assert rows[-2]["epoch"] == pytest.approx(2.0, abs=0.1)
    assert "batch      192 global = 48 per replica x 4 accumulation x 1 replica, from step" in capsys.readouterr().out


@pytest.mark.parametrize("stops, to", [((34,), 96), pytest.param((3, 22, 26), 192, marks=pytest.mark.slow)])
def test_it_resumes_in_any_stage_in_the_same_bits(tmp_path, quick_config, stops, to):
    fields = {**DOUBLING, **INTERVALS, "ramp__to": to, "optimizer": {"name": "lamb"}, "model__dropout": 0.3}
    resumes(tmp_path, quick_config(**fields), *stops)
    assert curve(tmp_path / "parts") == curve(tmp_path / "whole")


@pytest.mark.slow
def test_larger_passes_give_the_steps_of_accumulated_ones(tmp_path, quick_config):
    for name, most in (("accumulated", 0), ("larger", 96)):
        config = quick_config(**DOUBLING, ramp__micro_batch_size=most)
        expected = [1, 1, 2] if most else [1, 2, 4]
        assert [phase.config.accumulation_steps for phase in digits_phases(config)] == expected
        train.run(config, model_dir=str(tmp_path / name), mode="train")
    assert_close(tmp_path / "accumulated", tmp_path / "larger", rtol=2e-4, atol=2e-5)


@pytest.mark.slow
def test_streams_grow_with_an_epoch_and_resume(tmp_path):
    config = load_config("ptb/small")
    make_quick(config)
    config.duration, config.ramp.name = "3 epochs", "growth"
    config.evaluate_every = config.checkpoint_every = "1 epochs"
    config.ramp.growth = (("1 epochs", 2 * config.batch_size), ("2 epochs", 4 * config.batch_size))
    config.ramp.micro_batch_size = 4 * config.batch_size
    result = resumes(tmp_path, config, 40, use_fake_data=True)
    assert result["status"] == "done"
    rows = [row for row in read_rows(tmp_path / "whole/metrics.jsonl") if row["split"] == "eval"]
    assert len(rows) == 3 and rows[-1]["step"] == result["total_steps"]


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"ramp__to": 1000}, "ramp: BatchRamp: to=1000 is no larger multiple of the first batch, 48"),
        ({"ramp__over": "9 epochs"}, "the ramp is longer than the run"),
        ({"ramp__to": 1536}, "there are 1,437 training examples"),
        ({"ramp__name": "triangle"}, "ramp.name='triangle' is unknown"),
        ({"ramp__name": "none"}, "ramp.name='none' with other fields of a ramp"),
        ({"ramp__to": 0}, "ramp.to is not set; expected the last batch"),
        ({"ramp__micro_batch_size": 32}, "ramp.micro_batch_size=32: the first batch has passes of 48"),
        ({"phases": ({"duration": "2 epochs"},)}, "ramp.name='doubling' in a run with phases"),
    ],
)
def test_what_cannot_be_trained_is_one_error_before(tmp_path, quick_config, fields, message):
    with pytest.raises(ValueError, match=message):
        train.run(quick_config(**{**DOUBLING, **fields}), model_dir=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
