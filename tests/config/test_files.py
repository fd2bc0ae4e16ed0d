"""The file that an experiment comes from: stored, executed where its task is unknown, and never compared."""

import os

import pytest

from tfbigbatch import sweeps, tasks
from tfbigbatch.config import execute, files, load_config
from tfbigbatch.config.files import callbacks_of, copy_of, register_task_of
from tfbigbatch.config.overrides import differences
from tfbigbatch.run_directory.directory import RunDirectory
from tfbigbatch.sweeps.results_cache import _key
from tfbigbatch.tasks import registry

FILE = """
from tfbigbatch import tasks
from tfbigbatch.config import execute, load_config, new_config

class Mine(tasks.Task):
    __init__ = network = loss = metrics = lambda self: None

tasks.register("{name}", Mine)

def get_config(name="no"):
    config = new_config("{name}")
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
    config = load_config(f"{path}:a").to_dict()
    forgotten(name)
    # What was not executed is not recorded.
    files.record(config, run)
    with pytest.raises(ValueError, match=REFUSED):
        register_task_of(config, run)
    load_config(path)
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
    config = load_config(path).to_dict()
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
    execute(copy)
    files.record({**config, "experiment": copy}, run)
    assert callbacks_of(config, run) == []
    forgotten(name)
    with pytest.raises(ValueError, match=REFUSED):
        register_task_of({**config, "experiment": copy}, run)


def test_a_file_that_was_named_stands_for_one_of_its_name(file, run, tmp_path):
    path, name = file
    config = load_config(path).to_dict()
    forgotten(name)
    execute(path)
    registry._registered.pop(name)
    register_task_of({**config, "experiment": "/elsewhere/mine.py"}, run)
    assert name in tasks.names()


def test_configs_that_differ_in_their_file_alone_are_equal(file, tmp_path):
    config = load_config(file[0])
    other = config.copy_and_resolve_references()
    other.experiment = "/elsewhere/mine.py"
    assert differences(config.to_dict(), other.to_dict()) == []
    assert _key(config.to_dict()) == _key(other.to_dict())
    directory = RunDirectory(str(tmp_path / "run"))
    directory.open(config.to_dict(), [])
    assert directory.check(other.to_dict()) == []


def test_a_sweep_remembers_its_own_file_where_a_config_has_none(tmp_path):
    path = tmp_path / "sweep.py"
    path.write_text(
        "from tfbigbatch import sweeps\n"
        "from tfbigbatch.config import load_config, new_config\n"
        "def get_sweep():\n"
        "    table = sweeps.Sweep('digits')\n"
        "    table.add('new', new_config('digits_lstm'))\n"
        "    table.add('shipped', load_config('digits/lstm_legw'))\n"
        "    return table\n"
    )
    new, shipped = sweeps.load(str(path)).entries
    assert new.config.experiment == str(path)
    assert shipped.config.experiment.endswith("experiments/digits/lstm_legw.py")
