"""What files that others made can do: be read, and nothing else."""

import ast
import contextlib
import glob
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import tfbigbatch
from tests.helpers.repository import ROOT
from tfbigbatch import tasks, train
from tfbigbatch.config import files as config_files
from tfbigbatch.config import new_config
from tfbigbatch.data.images import manifest as image_manifest
from tfbigbatch.data.records import manifest as manifests
from tfbigbatch.data.records import tfrecord
from tfbigbatch.data.tokenizer import Vocabulary
from tfbigbatch.data.translation.vocabulary import Vocabulary as PieceVocabulary
from tfbigbatch.errors import InputError
from tfbigbatch.export import export_run
from tfbigbatch.models import bert_checkpoints
from tfbigbatch.reports import losses
from tfbigbatch.reports.measured_run import training_loss
from tfbigbatch.reports.report import Report
from tfbigbatch.run_directory import checkpoint_files, weights
from tfbigbatch.run_directory.directory import RunDirectory
from tfbigbatch.run_directory.metrics_log import read_rows
from tfbigbatch.sweeps.results_cache import ResultsCache
from tfbigbatch.utils import files

SOURCES = sorted(
    os.path.relpath(path, ROOT)
    for folder in (os.path.dirname(tfbigbatch.__file__), os.path.join(ROOT, "tools"), os.path.join(ROOT, "benchmarks"))
    for path in glob.glob(os.path.join(folder, "**", "*.py"), recursive=True)
)
# Modules that make objects of bytes, or take archives apart by themselves, and who may use them, for what.
UNPICKLE = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "torch"}
BETWEEN_OUR_PROCESSES = {
    "tfbigbatch/sweeps/local_processes.py",
    "tfbigbatch/tuning/executors.py",
    "tfbigbatch/tuning/tune.py",
}
# Use torch's optimizers and devices, and read nothing with it.
TORCH_WITHOUT_FILES = {
    "benchmarks/frameworks/with_torch.py",
    "tfbigbatch/optimizers/ops_keras.py",
}
# Where files are executed: experiment and sweep files.
EXECUTES = {"tfbigbatch/config/files.py": {"exec_module"}}
# Where NumPy's files are read, without objects.
READ_ARRAYS = {"tfbigbatch/utils/files.py"}
# Python's own functions, and methods of any module, that run what a text or a file says.
FUNCTIONS, METHODS = {"eval", "exec", "compile", "__import__"}, {"exec_module", "run_path"}
# Of Keras, what lets a file hold code; of archives, what writes where an archive says.
REFUSED = {"extractall", "extract", "unpack_archive", "unsafe_load", "full_load", "enable_unsafe_deserialization"}


def called(tree):
    """(holder, name, keywords) of every call: of `a.b(...)` they are 'a' and 'b', of `b(...)` '' and 'b'."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            is_method = isinstance(node.func, ast.Attribute)
            holder = ast.unparse(node.func.value) if is_method else ""
            name = node.func.attr if is_method else getattr(node.func, "id", "")
            yield holder, name, {word.arg: ast.unparse(word.value) for word in node.keywords}


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").split(".")[0]


def faults(path, tree):
    """What a file does that it may not, in words."""
    if path not in BETWEEN_OUR_PROCESSES | TORCH_WITHOUT_FILES:
        yield from (f"imports {name}" for name in UNPICKLE & set(imported(tree)))
    allowed = EXECUTES.get(path, set())
    for holder, name, keywords in called(tree):
        shown = f"{holder}.{name}({keywords})"
        if name in REFUSED or (name in METHODS and name not in allowed) or (name in FUNCTIONS and holder == ""):
            yield shown
        if holder == "os" and name in ("system", "popen"):
            yield shown
        if name == "load" and holder in ("np", "numpy"):
            if path not in READ_ARRAYS or keywords.get("allow_pickle") != "False":
                yield shown
        if name in ("load_model", "deserialize_keras_object"):
            if path.startswith("tfbigbatch/") and not path.startswith("tfbigbatch/optimizers/"):
                yield shown
        if holder == "yaml" and name != "safe_load":
            yield shown
        if {keywords.get("shell", "False"), keywords.get("allow_pickle", "False")} != {"False"}:
            yield shown
        if keywords.get("safe_mode", "True") != "True":
            yield shown


def test_nothing_unpickles_and_nothing_but_experiments_is_executed():
    found = {}
    for path in SOURCES:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            found[path] = list(faults(path, ast.parse(file.read())))
    assert not {path: words for path, words in found.items() if words} and len(found) > 100


class Opened:
    """What an unpickled array of objects would call."""

    def __reduce__(self):
        return os.mkdir, (os.environ["TFBIGBATCH_TRAP"],)


def test_arrays_of_objects_are_not_unpickled(tmp_path, monkeypatch):
    monkeypatch.setenv("TFBIGBATCH_TRAP", str(tmp_path / "trap"))
    objects = np.array([Opened()], object)
    np.save(tmp_path / "a.npy", objects)
    with pytest.raises(InputError, match="a.npy cannot be read .*allow_pickle=False"):
        files.read_array(str(tmp_path / "a.npy"))
    assert not (tmp_path / "trap").exists()


# ---- A run directory -------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path):
    """A run directory with the files of one that is done, but for its checkpoints."""
    files_of_run = RunDirectory(str(tmp_path / "runs" / "run"))
    files_of_run.open(new_config("digits_lstm").to_dict(), [])
    files_of_run.write_status("done", step=2)
    with open(files_of_run.metrics, "w", encoding="utf-8") as file:
        file.write('{"step": 2, "split": "train", "loss": 1.0}\n')
    return files_of_run.path


def collected(path):
    return Report.of_folders([path])


def resumed(path):
    return train.run(None, model_dir=path, use_fake_data=True)


@pytest.mark.parametrize("remembered", ["evil.py", "{}/evil.py", "run/../evil.py", "{}/run/experiment.py", ""])
@pytest.mark.parametrize("task", ["mine", "digits_lstm"])
def test_a_python_file_that_came_with_a_run_is_not_executed(run, tmp_path, monkeypatch, remembered, task):
    trap, runs = tmp_path / "trap", os.path.dirname(run)
    # Another test may have named a file that is called so.
    monkeypatch.setattr(config_files, "_executed", {})
    for path in (f"{runs}/evil.py", f"{run}/experiment.py"):
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"open({str(trap)!r}, 'w').close()\n")
    monkeypatch.chdir(runs)
    content = files.read_json(f"{run}/config.json")
    content["config"].update(task=task, experiment=remembered.format(runs))
    files.write_json(f"{run}/config.json", content)
    os.remove(f"{run}/status.json")
    # A task of the package is known without the file, whose callbacks a resumed run would call.
    commands = [resumed] if task != "mine" else [collected, resumed, tfbigbatch.load_run, export_run, training_loss]
    for command in commands:
        with pytest.raises(InputError, match="only if you name it.*--config=FILE.*--register=FILE"):
            command(run)
    assert not trap.exists()


def test_nothing_but_the_config_describes_a_network(run, tmp_path):
    """Other files of the directory are not opened: a pipe would be waited for."""
    config = new_config("digits_lstm")
    task = tasks.get("digits_lstm")(model=config.model.to_dict(), data={}, data_dir=None, use_fake_data=True)
    variables = {path: each.value for path, each in weights.by_path(task.network()).items()}
    tf.train.Checkpoint(weights=variables).save(f"{run}/checkpoints/step")
    os.mkfifo(f"{run}/network.json")
    with in_time():
        assert tfbigbatch.load_run(run).step == 1


@contextlib.contextmanager
def in_time(seconds=60):
    def hang(number, frame):
        raise AssertionError("it waits or reads without end")

    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def sparse(path):
    with open(path, "wb") as file:
        file.truncate(files.MOST_BYTES + 1)


# What a path may name in place of a file that is read as a whole.
SPECIAL = {
    "pipe": os.mkfifo,
    "device": lambda path: os.symlink("/dev/zero", path),
    "folder": os.mkdir,
    "large": sparse,
}


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("name", ["config.json", "status.json", "metrics.jsonl"])
def test_a_file_of_a_run_is_a_regular_one(run, name, kind):
    path = os.path.join(run, name)
    os.remove(path)
    SPECIAL[kind](path)
    said = f"{name} cannot be read: it (is a folder, a pipe|has more than)|holds no run directory"
    with in_time(), pytest.raises(InputError, match=said):
        collected(run).table()
        read_rows(path)


RECORDS = {"name": manifests.MANIFEST, "bytes": 0, "records": 0}
READERS = {
    "results": lambda path: losses.read_lines(path, dict, command="explain"),
    "results cache": ResultsCache,
    "an array": files.read_array,
    "a vocabulary": Vocabulary.load,
    "pieces": PieceVocabulary.load,
    "an index": tfrecord.offsets,
    "BERT's weights": bert_checkpoints._safetensors,
    "arrays": files.read_arrays,
    "a manifest": lambda path: manifests.read(os.path.dirname(path), image_manifest.KIND),
    "records": lambda path: manifests._split(os.path.dirname(path), "train", {"files": [RECORDS]}),
}


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
@pytest.mark.parametrize("what", READERS)
def test_what_is_read_is_a_regular_file(tmp_path, what, kind):
    path = str(tmp_path / manifests.MANIFEST)
    SPECIAL[kind](path)
    with in_time(), pytest.raises(InputError, match="is a folder, a pipe or a device"):
        READERS[what](path)


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("name", ["step-2.index", "step-2.data-00000-of-00001", "checkpoint"])
def test_a_checkpoint_is_of_regular_files(tmp_path, name, kind):
    """TensorFlow opens them itself."""
    SPECIAL[kind](tmp_path / name)
    with in_time(), pytest.raises(InputError, match="is a folder, a pipe or a device"):
        checkpoint_files.paths(str(tmp_path))


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_file_is_written_as_itself(tmp_path, kind):
    victim, path = tmp_path / "victim", tmp_path / "status.json"
    victim.write_text("kept")
    os.mkfifo(f"{path}.part") if kind == "pipe" else os.symlink(victim, f"{path}.part")
    with in_time(), pytest.raises(InputError, match="status.json cannot be written"):
        files.write_json(str(path), {})
    # Replaced, and not written through.
    os.remove(f"{path}.part")
    os.symlink(victim, path)
    files.write_json(str(path), {})
    assert victim.read_text() == "kept" and not path.is_symlink()


def below(folder):
    return {os.path.relpath(os.path.join(path, name), folder) for path, _, names in os.walk(folder) for name in names}


@pytest.mark.slow  # A run in a process of its own.
def test_a_run_writes_into_its_directory_alone(tmp_path):
    boxes = {name: tmp_path / name for name in ("cwd", "home", "tmp", "cache")}
    for folder in boxes.values():
        folder.mkdir()
    flags = ["--quick", f"--config={ROOT}/experiments/digits/lstm_legw.py", f"--model_dir={tmp_path}/run"]
    environment = {
        **os.environ,
        "PYTHONPATH": ROOT,
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(boxes["home"]),
        "TMPDIR": str(boxes["tmp"]),
        "XDG_CACHE_HOME": str(boxes["cache"]),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tfbigbatch", "train", *flags],
        cwd=boxes["cwd"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    written = below(tmp_path)
    # Keras writes its settings, at their defaults, into the home folder of whoever imports it, and matplotlib, where it
    # is installed, the list of the machine's fonts into the cache.
    others = ("run/", "home/.keras/keras.json", "cache/matplotlib/fontlist")
    assert {name for name in written if not name.startswith(others)} == set()
    assert {"run/config.json", "run/status.json", "run/metrics.jsonl", "run/checkpoints/step-8.index"} <= written
