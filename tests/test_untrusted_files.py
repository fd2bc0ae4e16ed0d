"""What files that others made can do: be read, and nothing else."""

import ast
import glob
import io
import os
import subprocess
import sys
import tarfile

import numpy as np
import pytest

import tfbigbatch
from tests.helpers.datasets import image_sets
from tfbigbatch.data.finetuning import race
from tfbigbatch.data.images.prepare import prepare
from tfbigbatch.errors import InputError
from tfbigbatch.utils import files

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = sorted(
    os.path.relpath(path, ROOT)
    for folder in (os.path.dirname(tfbigbatch.__file__), os.path.join(ROOT, "tools"), os.path.join(ROOT, "benchmarks"))
    for path in glob.glob(os.path.join(folder, "**", "*.py"), recursive=True)
)
# Modules that make objects of bytes, or take archives apart by themselves, and who may use them, for what.
UNPICKLE = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "torch"}
BETWEEN_OUR_PROCESSES = {"tfbigbatch/utils/processes.py", "tfbigbatch/utils/job_process.py"}
# Use torch's optimizers and devices, and read nothing with it.
TORCH_WITHOUT_FILES = {
    "benchmarks/frameworks/with_torch.py",
    "benchmarks/image_decoders.py",
    "benchmarks/muon.py",
    "tfbigbatch/optimizers/ops_keras.py",
}
# Where files are executed: experiment and study files, and, in a benchmark, code of this repository's own history.
EXECUTES = {"tfbigbatch/experiment/files.py": {"exec_module"}, "benchmarks/libraries.py": {"exec_module"}}
# Where NumPy's files are read, without objects.
READ_ARRAYS = {"tfbigbatch/utils/files.py", "tfbigbatch/callbacks/counters.py"}
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


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from torch import load",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "eval(text)",
        "yaml.load(text)",
        "tar.extractall(folder)",
        "os.system(text)",
        "subprocess.run(text, shell=True)",
        "load_model(path, safe_mode=False)",
    ],
)
def test_the_walk_sees_what_it_looks_for(source):
    assert list(faults("tfbigbatch/anything.py", ast.parse(source)))


class Opened:
    """What an unpickled array of objects would call."""

    def __reduce__(self):
        return os.mkdir, (os.environ["TFBIGBATCH_TRAP"],)


def test_arrays_of_objects_are_not_unpickled(tmp_path, monkeypatch):
    monkeypatch.setenv("TFBIGBATCH_TRAP", str(tmp_path / "trap"))
    objects = np.array([Opened()], object)
    np.save(tmp_path / "a.npy", objects)
    np.savez(tmp_path / "a.npz", offsets=objects)
    with pytest.raises(InputError, match="a.npy cannot be read .*allow_pickle=False"):
        files.read_array(str(tmp_path / "a.npy"))
    with pytest.raises(InputError, match="a.npz cannot be read .*allow_pickle=False"):
        files.read_named_arrays(str(tmp_path / "a.npz"), ["offsets"])
    assert not (tmp_path / "trap").exists()


def tar_that_climbs(out):
    """The bytes of a tar of images whose members' names and links lead out of any folder that it is unpacked in."""
    content, image = io.BytesIO(), image_sets.encoded()
    with tarfile.open(fileobj=content, mode="w:gz" if out.endswith("gz") else "w") as tar:

        def add(name, kind=tarfile.REGTYPE, target="", data=image):
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, target, len(data) if kind == tarfile.REGTYPE else 0
            tar.addfile(member, io.BytesIO(data) if kind == tarfile.REGTYPE else None)

        for name in image_sets.CLASSES:
            for number in range(4):
                add(f"train/{name}/{number}.jpg")
            add(f"train/{name}/../../../../{name}.jpg")
        add("train/n01440764/link.jpg", tarfile.SYMTYPE, "/etc/passwd")
        add("train/n01440764/hard.jpg", tarfile.LNKTYPE, "../../../outside")
        add("train/out", tarfile.SYMTYPE, "../..")
        add("train/out/through_the_link.jpg")
        add("/train/n01440764/absolute.jpg")
        add("../../dev/high/1.txt", data=b"{}")
    return content.getvalue()


def below(folder):
    return {os.path.relpath(os.path.join(path, name), folder) for path, _, names in os.walk(folder) for name in names}


@pytest.mark.parametrize("ending", ["tar", "tar.gz"])
def test_an_archive_cannot_write_outside_of_the_prepared_folder(tmp_path, ending):
    inner = tmp_path / "a" / "b" / "c"
    inner.mkdir(parents=True)
    (inner / f"images.{ending}").write_bytes(tar_that_climbs(ending))
    before = below(tmp_path)
    options = prepare.Options(validation_share=0.0, max_bad_share=1.0)
    prepare.prepare(str(inner / f"images.{ending}"), str(inner / "out"), options)
    assert all(name.startswith(os.path.join("a", "b", "c", "out", "")) for name in below(tmp_path) - before)
    assert not any(os.path.islink(os.path.join(tmp_path, name)) for name in below(tmp_path))
    # Nor what is in the set: it holds images of the tar alone.
    with pytest.raises(InputError):
        race.read(str(inner / f"images.{ending}"), "dev")
    assert not (inner / "dev").exists() and not (tmp_path / "a" / "dev").exists()


@pytest.mark.slow  # A run in a process of its own.
def test_a_run_writes_into_its_directory_alone(tmp_path):
    boxes = {name: tmp_path / name for name in ("cwd", "home", "tmp", "cache")}
    for folder in boxes.values():
        folder.mkdir()
    flags = [
        f"--config={ROOT}/experiments/digits/lstm_legw.py",
        f"--model_dir={tmp_path}/run",
        "--config.model.hidden_units=4",
        "--config.batch_size=64",
        "--config.schedule.warmup_epochs=0.0",
        "--config.duration=4 steps",
        "--config.evaluate_every=4 steps",
        "--config.checkpoint_every=2 steps",
        "--config.asynchronous_saving=True",
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": ROOT,
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(boxes["home"]),
        "TMPDIR": str(boxes["tmp"]),
        "XDG_CACHE_HOME": str(boxes["cache"]),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tfbigbatch.train", *flags],
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
    assert {"run/config.json", "run/status.json", "run/metrics.jsonl", "run/checkpoints/step-4.index"} <= written
