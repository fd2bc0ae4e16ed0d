import pytest

from tfbigbatch.config import new_config
from tfbigbatch.errors import InputError
from tfbigbatch.run_directory import stored_run
from tfbigbatch.run_directory.directory import RunDirectory
from tfbigbatch.run_directory.stored_run import may_change


def config(**fields):
    made = new_config("digits_lstm")
    made.update({"batch_size": 48, "phases": ({"duration": "3 steps"}, {"duration": "4 steps", "batch_size": 24})})
    made.optimizer = {"name": "lamb", "weight_decay": 0.01}
    made.update(fields)
    return made


@pytest.fixture
def directory(tmp_path):
    RunDirectory(str(tmp_path)).open(config().to_dict(), ["CPU:0"], {"data_dir": "/data/digits"})
    return str(tmp_path)


def test_the_stored_config_is_that_of_the_start(directory):
    found = stored_run.config_of(directory)
    assert found.is_locked and found.to_json(sort_keys=True) == config().to_json(sort_keys=True)
    assert RunDirectory(directory).check(found.to_dict()) == []
    assert stored_run.data_dir_of(directory) == "/data/digits"


def test_without_a_run_there_is_none(tmp_path):
    assert RunDirectory(tmp_path).content() is None and stored_run.data_dir_of(tmp_path) is None
    with pytest.raises(InputError, match="holds no run: it has no config.json"):
        stored_run.config_of(tmp_path)


def test_overrides_count_and_the_given_config_does_not(directory):
    found, lines = stored_run.config_for(directory, ["evaluation_batch_size=50"], config(batch_size=96))
    assert (found.batch_size, found.evaluation_batch_size) == (48, 50)
    assert lines == [
        "config     that of the run; the experiment file has batch_size: 48 -> 96; evaluation_batch_size: 50 -> 256; "
        "schedule.batch_size: 48 -> 96"
    ]
    files = RunDirectory(directory)
    assert files.check(found.to_dict(), but=may_change(found, "eval")) == ["evaluation_batch_size: 256 -> 50"]
    with pytest.raises(InputError, match="evaluation_batch_size: 256 -> 50"):
        files.check(found.to_dict(), but=may_change(found))
    with pytest.raises(InputError, match="there is no field 'batchsize'"):
        stored_run.config_for(directory, ["batchsize=50"])


def test_a_batch_may_be_divided_otherwise_but_not_be_another(tmp_path):
    config = new_config("digits_lstm")
    config.phases = ({"duration": "2 steps", "accumulation_steps": 2}, {"duration": "3 steps"})
    directory = RunDirectory(str(tmp_path))
    directory.open(config.to_dict(), [])
    config.accumulation_steps = 4
    config.keep_best = False
    config.phases = ({"duration": "2 steps", "accumulation_steps": 1}, {"duration": "3 steps"})
    may = may_change(config)
    changed = directory.check(config.to_dict(), but=may)
    assert "accumulation_steps: 1 -> 4" in changed and "keep_best: True -> False" in changed
    config.phases = ({"duration": "2 steps"}, {"duration": "4 steps"})
    assert not {"batch_size", "seed"} & {*may}
    with pytest.raises(ValueError, match="the fields that differ:\n  phases: "):
        directory.check(config.to_dict(), but=may)


@pytest.mark.parametrize(
    "optimizer, fields",
    [
        ({"name": "lamb"}, {"simulated_replicas", "optimizer.shard_updates"}),
        # Adasum adds up the gradients of each part otherwise; Keras' AdamW has its state under other names.
        ({"name": "lamb", "adasum": True}, {"optimizer.shard_updates"}),
        ({"name": "adamw"}, {"simulated_replicas"}),
    ],
)
def test_what_an_optimizer_keeps_may_not_change(optimizer, fields):
    may = may_change(config(optimizer=optimizer), "eval")
    assert {"simulated_replicas", "optimizer.shard_updates"} & set(may) == fields
    assert "evaluate_on" in may


def test_recomputation_may_be_switched_and_no_other_field_of_the_model(tmp_path):
    config = new_config("bert_pretraining", model="bert_tiny")
    directory = RunDirectory(str(tmp_path))
    directory.open(config.to_dict(), [])
    config.model.recompute = True
    may = may_change(config)
    assert directory.check(config.to_dict(), but=may) == ["model.recompute: False -> True"]
    config.model.layers += 1
    with pytest.raises(ValueError, match="model.layers: 2 -> 3"):
        directory.check(config.to_dict(), but=may)


STORED = {"config": {"duration": "10 epochs", "phases": []}}
LONGER = {"duration": "20 epochs", "phases": ()}
DONE = {"status": "done", "step": 300, "total_steps": 300}


def test_a_finished_run_is_extended_and_the_history_kept():
    found = stored_run.requested_extension(STORED, DONE, LONGER, "run")
    assert found == {"duration": "10 epochs", "step": 300, "total_steps": 300}
    content = stored_run.extended(STORED, found, "20 epochs")
    assert content["config"]["duration"] == "20 epochs" and STORED["config"]["duration"] == "10 epochs"
    assert content["extensions"] == [{"duration": "10 epochs", "step": 300, "total_steps": 300}]
    # Killed before the first status, and in progress: the same command resumes.
    assert not stored_run.is_finished(content, DONE)
    running = {"status": "running", "step": 400, "total_steps": 600}
    assert stored_run.requested_extension(content, running, LONGER, "run") is None
    assert stored_run.is_finished(content, {"status": "done", "step": 600, "total_steps": 600})
    again = stored_run.extended(content, {"duration": "20 epochs", "step": 600, "total_steps": 600}, "30 epochs")
    assert [each["duration"] for each in again["extensions"]] == ["10 epochs", "20 epochs"]


@pytest.mark.parametrize(
    ("content", "status", "config", "said"),
    [
        (None, {}, LONGER, "holds no run. Leave --extend out"),
        (STORED, DONE, {"duration": "10 epochs", "phases": ()}, "'10 epochs' already. Give a longer one"),
        (STORED, {**DONE, "status": "running", "step": 7}, LONGER, "not finished; it is at step 7"),
        (STORED, {}, LONGER, "not finished; it is at step 0"),
        (STORED, DONE, {**LONGER, "phases": ({},)}, "the run has phases"),
    ],
)
def test_what_cannot_be_extended(content, status, config, said):
    with pytest.raises(InputError, match=said):
        stored_run.requested_extension(content, status, config, "run")
