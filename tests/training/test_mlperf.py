import json
import logging

import pytest

from tfbigbatch import tasks, train
from tfbigbatch.config import load_config, new_config
from tfbigbatch.config.recipe import tuned_recipe
from tfbigbatch.training import mlperf

pytest.importorskip("mlperf_logging")


def small_run(tmp_path, *, stop_at_target=0.759, **arguments):
    """A small ResNet on made-up pictures, logged; returns (result, the log's path)."""
    config = new_config("image_classification", model="resnet")
    config.model.image_size, config.model.blocks, config.model.width = 16, (1,), 8
    config.batch_size = config.schedule.batch_size = config.evaluation_batch_size = 16
    config.duration = "40 epochs"
    config.optimizer = {"name": "lars", "weight_decay": 5e-5, "exclude_from_weight_decay": "norm_and_bias"}
    config.schedule.learning_rate, config.schedule.warmup_epochs = 10.0, 2.0
    config.schedule.decay = "mlperf_lars"
    config.evaluate_every = config.checkpoint_every = "4 epochs"
    config.stop_at_target = stop_at_target
    path = tmp_path / "mlperf.log"
    arguments = {"mlperf_log": str(path), "use_fake_data": True, **arguments}
    return train.run(config, model_dir=str(tmp_path / "run"), **arguments), path


def compliant(path, ruleset):
    """Whether MLPerf's own checker accepts a log."""
    from mlperf_logging.compliance_checker import mlp_compliance

    checker = mlp_compliance.make_checker("training", ruleset, quiet=True, werror=False)
    return mlp_compliance.main(str(path), f"training_{ruleset}/common.yaml", checker)[0]


def events(path):
    lines = path.read_text().splitlines()
    return [json.loads(line.partition(":::MLLOG ")[2]) for line in lines]


def test_a_run_that_reaches_its_target_stops_there_and_is_accepted_by_the_checker(tmp_path, caplog):
    result, path = small_run(tmp_path)
    assert result["status"] == "done" and result["step"] < 160 and result["metrics"]["accuracy"] >= 0.759
    with caplog.at_level(logging.WARNING):
        assert compliant(path, "4.0.0"), caplog.text
    found = {event["key"]: event["value"] for event in events(path)}
    assert found["lars_opt_learning_rate_decay_steps"] == 160 - 8 + 1
    assert (found["global_batch_size"], found["train_samples"], found["eval_samples"]) == (16, 64, 20)
    accuracies = [event for event in events(path) if event["key"] == "eval_accuracy"]
    assert [event["metadata"]["epoch_num"] for event in accuracies] == [4 * (n + 1) for n in range(len(accuracies))]
    assert all(event["value"] < 0.759 for event in accuracies[:-1])
    assert events(path)[-1]["metadata"]["status"] == "success"


GNMT = "wmt/gnmt_mlperf:1k"
BERT = "bert/mlperf:4k"
OF_BERT = {
    "opt_learning_rate_training_steps": 855,
    "num_warmup_steps": 0,
    "opt_base_learning_rate": 0.0024,
    "opt_lamb_beta_1": 0.66,
    "eval_accuracy": 0.73,
}
OF_GNMT = {
    "eval_accuracy": 0.2425,
    "opt_base_learning_rate": 0.002,
    "opt_learning_rate_warmup_steps": 200,
    "opt_learning_rate_remain_steps": 10336,
    "opt_learning_rate_decay_interval": 1292,
    "opt_learning_rate_decay_steps": 4,
    "opt_learning_rate_decay_factor": 0.5,
    # The longest made-up sentence has 12 pieces.
    "max_sequence_length": 14,
}


@pytest.mark.parametrize(
    "file, ruleset, every, values, expected",
    [(BERT, "5.0.0", 122, (0.7, 0.73), OF_BERT), (GNMT, "0.7.0", 4000, (21.5, 24.25), OF_GNMT)],
)
def test_a_log_is_accepted_by_the_checker(tmp_path, caplog, file, ruleset, every, values, expected):
    pytest.importorskip("sentencepiece")
    config = load_config(file)
    mlperf.check(config)
    model = {**config.model.to_dict(), **tasks.get(config.task).smoke_model(config.model.to_dict())}
    task = tasks.get(config.task)(model=model, data=config.data.to_dict(), data_dir=None, use_fake_data=True)
    recipe = tuned_recipe(config, len(task.train))
    log = mlperf.MLPerfLog(str(tmp_path / "mlperf.log"), config.task, task.target)
    settings = mlperf.settings(config, recipe, task, task.held_out(config.evaluate_on), replicas=8)
    log.start(settings, step=0, steps_in_epoch=float(every), evaluate_every=every)
    for number, value in enumerate(values, 1):
        log.evaluation_begins(number * every)
        log.evaluation_ends(number * every, {task.target: value}, run_ends=number == len(values))
    log.stop(reached=True)
    with caplog.at_level(logging.WARNING):
        assert compliant(tmp_path / "mlperf.log", ruleset), caplog.text
    found = {event["key"]: event["value"] for event in events(tmp_path / "mlperf.log")}
    assert {name: found[name] for name in expected} == expected


RESNET = "imagenet/resnet50_lars:32k"


@pytest.mark.parametrize(
    "file, field, value, said",
    [
        (RESNET, "optimizer", {"name": "lamb"}, "optimizer.name='lamb'.* ask for 'lars'"),
        (RESNET, "schedule.decay", "linear", "schedule.decay='linear'.* ask for 'mlperf_lars'"),
        ("imagenet/alexnet", "seed", 0, "model.name='alexnet'.* ask for 'resnet'"),
        (GNMT, "optimizer.weight_decay", 0.01, "optimizer.weight_decay=0.01; .* ask for 0.0"),
        (GNMT, "schedule.warmup_shape", "linear", "schedule.warmup_shape='linear'.* ask for 'exponential'"),
        (GNMT, "data.lowercase", False, "data.lowercase=False; .* ask for True"),
        (GNMT, "evaluate_on", "validation", "evaluate_on='validation'; .* ask for 'test'"),
    ],
)
def test_a_run_by_other_rules_is_refused_before_it_begins(tmp_path, file, field, value, said):
    config = load_config(file)
    holder, _, name = field.rpartition(".")
    (config[holder] if holder else config)[name] = value
    with pytest.raises(ValueError, match=said):
        train.run(config, model_dir=str(tmp_path / "run"), mlperf_log=str(tmp_path / "log"), use_fake_data=True)
    assert not list(tmp_path.iterdir())
