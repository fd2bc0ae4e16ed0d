"""The file that an experiment comes from: stored, executed where its task is unknown, and never compared."""

import pytest

from tfbigbatch import experiment, studies, tasks
from tfbigbatch.runs.run_directory import RunDirectory
from tfbigbatch.studies import study
from tfbigbatch.studies.results_cache import _key

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
    tasks._registered.pop(name, None)


def test_load_stores_the_absolute_path_and_the_argument(file, monkeypatch, tmp_path):
    path, _ = file
    monkeypatch.chdir(tmp_path)
    assert experiment.load("mine.py").experiment == path
    assert experiment.load("mine.py:a").experiment == f"{path}:a"


def test_an_unknown_task_is_registered_from_the_file_or_its_copy(file, tmp_path):
    path, name = file
    config = experiment.load(f"{path}:a").to_dict()
    copies = experiment.copy_of(config)
    assert copies == {"experiment.py": FILE.format(name=name).encode()}
    tasks._registered.pop(name)
    experiment.register_task_of(config)
    assert name in tasks.registered()
    tasks._registered.pop(name)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "experiment.py").write_bytes(copies["experiment.py"])
    (tmp_path / "mine.py").write_text("")
    with pytest.raises(ValueError, match=f"mine.py does not register the task '{name}'"):
        experiment.register_task_of(config, str(tmp_path / "run"))
    (tmp_path / "mine.py").unlink()
    # The copy is code that may be anybody's.
    copy = str(tmp_path / "run" / "experiment.py")
    with pytest.raises(ValueError, match=f"mine.py, which is gone.*It is code: read it.*--register={copy}"):
        experiment.register_task_of(config, str(tmp_path / "run"))
    assert name not in tasks.registered()
    # Also where the config names it.
    with pytest.raises(ValueError, match="It is code"):
        experiment.register_task_of({**config, "experiment": copy}, str(tmp_path / "run"))
    experiment.execute(copy)
    assert name in tasks.registered()
    tasks._registered.pop(name)
    experiment.register_task_of(config, str(tmp_path / "run"))
    assert name in tasks.registered()


def test_configs_that_differ_in_their_file_alone_are_equal(file, tmp_path):
    config = experiment.load(file[0])
    other = config.copy_and_resolve_references()
    other.experiment = "/elsewhere/mine.py"
    assert experiment.differences(config.to_dict(), other.to_dict()) == []
    assert _key(config.to_dict()) == _key(other.to_dict())
    directory = RunDirectory(str(tmp_path / "run"))
    directory.open(config.to_dict(), [])
    assert directory.check(other.to_dict()) == []


def test_a_study_remembers_its_own_file_where_a_config_has_none(tmp_path):
    path = tmp_path / "study.py"
    path.write_text(
        "from tfbigbatch import experiment, studies\n"
        "def get_study():\n"
        "    table = studies.new('digits')\n"
        "    table.add('new', experiment.new('digits_lstm'))\n"
        "    table.add('shipped', experiment.load('digits/lstm_legw'))\n"
        "    return table\n"
    )
    assert studies.study is study
    new, shipped = study.load(str(path)).entries
    assert new.config.experiment == str(path)
    assert shipped.config.experiment.endswith("experiments/digits/lstm_legw.py")
