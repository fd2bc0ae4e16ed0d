"""The file that an experiment comes from: stored, executed where its task is unknown, and never compared."""

import os

import pytest

from tfbigbatch import experiment, studies, tasks
from tfbigbatch.experiment import files
from tfbigbatch.experiment.files import callbacks_of, copy_of, register_task_of
from tfbigbatch.experiment.overrides import differences
from tfbigbatch.runs.run_directory import RunDirectory
from tfbigbatch.studies.results_cache import _key
from tfbigbatch.tasks import registry

FILE = """
from tfbigbatch import experiment, tasks

class Mine(tasks.Task):
    __init__ = network = loss = metrics = lambda self: None

tasks.register("{name}", Mine)

def get_config(name="no"):
    config = experiment.new("{name}")
    config.duration = "3 epochs"
    return config
"""


@pytest.fixture
def file(tmp_path, request):
    name = request.node.name.lower()
    path = tmp_path / "mine.py"
    path.write_text(FILE.format(name=name))
    yield str(path), name
    registry._registered.pop(name, None)


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    return str(folder)


def forgotten(name):
    """As in a process that has executed nothing."""
    registry._registered.pop(name, None)
    files._executed.clear()


REFUSED = "is executed only if you name it, .* --config=FILE, .* --register=FILE, .*execute"


def test_a_file_is_executed_where_this_user_trained_the_run_with_it(file, run, monkeypatch):
    path, name = file
    config = experiment.load(f"{path}:a").to_dict()
    forgotten(name)
    # What was not executed is not recorded.
    files.record(config, run)
    with pytest.raises(ValueError, match=REFUSED):
        register_task_of(config, run)
    experiment.load(path)
    files.record(config, run)
    forgotten(name)
    # Not for another run, nor without one, nor for another user.
    for other in (f"{run}/..", None):
        with pytest.raises(ValueError, match=REFUSED):
            register_task_of(config, other)
    with monkeypatch.context() as other:
        other.setattr("os.getuid", lambda: 12345)
        with pytest.raises(ValueError, match=REFUSED):
            register_task_of(config, run)
    assert name not in tasks.names()
    register_task_of(config, run)
    assert name in tasks.names()


def test_neither_a_file_beside_a_run_nor_its_copy_is_executed_unnamed(file, run, monkeypatch):
    path, name = file
    config = experiment.load(path).to_dict()
    copies = copy_of(config)
    assert copies == {"experiment.py": FILE.format(name=name).encode()}
    copy, beside = (os.path.join(folder, "experiment.py") for folder in (run, os.path.dirname(run)))
    for each in (copy, beside):
        with open(each, "wb") as opened:
            opened.write(copies["experiment.py"])
    os.remove(path)
    monkeypatch.chdir(os.path.dirname(run))
    forgotten(name)
    for named in (path, copy, beside, "experiment.py", "one/../experiment.py", ""):
        with pytest.raises(ValueError, match=REFUSED):
            register_task_of({**config, "experiment": named}, run)
        with pytest.raises(ValueError, match=REFUSED):
            callbacks_of({**config, "experiment": named}, run)
    assert name not in tasks.names()
    # Named, it is; a record of a file in the run directory would be of what came with it.
    experiment.execute(copy)
    files.record({**config, "experiment": copy}, run)
    assert callbacks_of(config, run) == []
    forgotten(name)
    with pytest.raises(ValueError, match=REFUSED):
        register_task_of({**config, "experiment": copy}, run)


def test_a_file_that_was_named_stands_for_one_of_its_name(file, run, tmp_path):
    path, name = file
    config = experiment.load(path).to_dict()
    forgotten(name)
    experiment.execute(path)
    registry._registered.pop(name)
    register_task_of({**config, "experiment": "/elsewhere/mine.py"}, run)
    assert name in tasks.names()


def test_configs_that_differ_in_their_file_alone_are_equal(file, tmp_path):
    config = experiment.load(file[0])
    other = config.copy_and_resolve_references()
    other.experiment = "/elsewhere/mine.py"
    assert differences(config.to_dict(), other.to_dict()) == []
    assert _key(config.to_dict()) == _key(other.to_dict())
    directory = RunDirectory(str(tmp_path / "run"))
    directory.open(config.to_dict(), [])
    assert directory.check(other.to_dict()) == []


def test_a_study_remembers_its_own_file_where_a_config_has_none(tmp_path):
    path = tmp_path / "study.py"
    path.write_text(
        "from tfbigbatch import experiment, studies\n"
        "def get_study():\n"
        "    table = studies.Study('digits')\n"
        "    table.add('new', experiment.new('digits_lstm'))\n"
        "    table.add('shipped', experiment.load('digits/lstm_legw'))\n"
        "    return table\n"
    )
    new, shipped = studies.load(str(path)).entries
    assert new.config.experiment == str(path)
    assert shipped.config.experiment.endswith("experiments/digits/lstm_legw.py")
