import pytest

from tfbigbatch import experiment
from tfbigbatch.errors import InputError
from tfbigbatch.runs import stored_run
from tfbigbatch.runs.resume_rules import may_change
from tfbigbatch.runs.run_directory import RunDirectory


def config(**fields):
    made = experiment.new("digits_lstm")
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
    assert stored_run.content_of(tmp_path) is None and stored_run.data_dir_of(tmp_path) is None
    with pytest.raises(InputError, match="holds no run, as it has no config.json. Name an experiment"):
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


def test_a_config_of_another_task_is_refused(directory):
    with pytest.raises(InputError, match="holds a run of task digits_lstm, and --config is of task mnist_lstm"):
        stored_run.config_for(directory, [], experiment.new("mnist_lstm"))
