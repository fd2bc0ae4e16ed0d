import glob
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib

import pytest
import tensorflow as tf

from tests.helpers.repository import ROOT, read
from tests.test_wheel import build

LINES = {line: f"requirements/tensorflow-{line}.txt" for line in ("2.20", "2.21")}
PIN = re.compile(r"([\w.-]+)==([\w.]+)(?: ; [^\\\n]+)?(?: \\\n    --hash=sha256:[0-9a-f]{64})+\n")


@pytest.fixture(scope="module")
def project():
    return tomllib.loads(read("pyproject.toml"))["project"]


def pins(name):
    """Version by package, of a file in which each pin has its hashes."""
    text = read(name)
    assert PIN.sub("", text) == ""
    return {match[1].replace("-", "_"): match[2] for match in PIN.finditer(text)}


def test_each_line_of_tensorflow_has_its_pinned_set(project):
    assert "tensorflow>=2.20,<2.22" in project["dependencies"]
    assert project["optional-dependencies"]["keras2"] == ["tf_keras>=2.20,<2.22"]
    found = {os.path.basename(path) for path in glob.glob(os.path.join(ROOT, "requirements", "*"))}
    assert found == {"build.txt", "tools.txt", *map(os.path.basename, LINES.values())}
    assert {"setuptools", "wheel"} <= set(pins("requirements/build.txt"))
    assert {"pip_audit", "uv"} <= set(pins("requirements/tools.txt"))
    for line, name in LINES.items():
        versions = pins(name)
        assert all(versions[each].startswith(f"{line}.") for each in ("tensorflow", "tf_keras"))
        assert ("tf_models_official" in versions) == ("tensorflow_addons" in versions) == (line == "2.20")


def test_the_installed_versions_are_those_of_their_line():
    line = ".".join(tf.__version__.split(".")[:2])
    versions = pins(LINES[line])
    assert all(importlib.metadata.version(name) == versions[name] for name in ("tensorflow", "tf_keras"))


# NVIDIA's libraries, 3 GB, are for a machine with a GPU; the others are unions, which `make test` installs.
WITHOUT_PROGRAM = {"gpu", "parity", "test", "all"}
TRAIN = "tfbigbatch train --quick --config=imagenet/resnet50_lars"
FIT = """python -c "
import numpy as np, {keras} as keras, {module} as optimizers
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2)])
model.compile(optimizers.LAMB(0.1), 'mse')
model.fit(np.ones((8, 4), np.float32), np.ones((8, 2), np.float32), verbose=0)
{check}"
"""
# By extra: what runs with it alone, in bash, in an empty folder; ROOT is the checkout.
PROGRAMS = {
    # Where it has a wheel; tests/parity puts it on Keras 2, to run it.
    "addons": """python -c "
import importlib.metadata, sys
assert sys.version_info >= (3, 12) or importlib.metadata.version('tensorflow-addons') == '0.23.0'"
""",
    "docs": "python -m mkdocs build --quiet --strict --site-dir=$PWD/site --config-file=$ROOT/docs/site/mkdocs.yml",
    "hugging-face": """
(echo number,label; for row in {0..19}; do echo $((row - 10)),$((row > 9)); done) > rows.csv
tfbigbatch train --config=$ROOT/tests/helpers/extras/hugging_face.py --model_dir=run
""",
    "jax": "export KERAS_BACKEND=jax\n"
    + FIT.format(
        keras="keras",
        module="tfbigbatch",
        check="import optax; assert keras.backend.backend() == 'jax' and optax.lamb(0.1)",
    ),
    "keras2": FIT.format(keras="tf_keras", module="tfbigbatch.keras2", check=""),
    "mlperf": f"{TRAIN} --mlperf_log=log.txt; grep :::MLLOG log.txt",
    "models": f"""python -c "
import os, numpy as np, PIL.Image
for name in ('train/a', 'train/b', 'validation/a', 'validation/b'):
    os.makedirs(f'images/{{name}}')
    for number in range(8):
        pixels = np.random.RandomState(number).randint(0, 255, (40, 50, 3)).astype(np.uint8)
        PIL.Image.fromarray(pixels).save(f'images/{{name}}/{{number}}.png')"
tfbigbatch prepare-imagenet --source=images --output_dir=prepared
{TRAIN} --config.data.resizer=opencv
tfbigbatch train --quick --config=bert/lamb
tfbigbatch train --config=digits/lstm_legw '--config.duration=1 epochs' --model_dir=run
""",
    "plot": f"{TRAIN} --model_dir=run; tfbigbatch report run --results=page",
    "slurm": """python -c "
import os
from tfbigbatch.tuning.executors import as_executor
executor, _ = as_executor('local', os.getcwd())
with executor:
    executor.submit(lambda model_dir: os.makedirs(model_dir), model_dir=os.path.abspath('run')).result()
assert os.path.isdir('run')"
""",
    "text": """
words=(the cat sat on a mat and big dogs ran home to eat red fish)
for row in {0..399}; do
  echo "${words[*]:row % 7:3 + row % 5}." >> lines
  ((row % 8)) || echo >> text.txt
  tail -n 1 lines >> text.txt
done
tfbigbatch prepare-bert --source=text.txt --output_dir=bert --train_vocab_size=100
sides="--source_files=lines --target_files=lines --test_source_files=lines --test_target_files=lines"
tfbigbatch prepare-wmt $sides --output_dir=pairs --vocabulary_size=300
python -c "import sacrebleu; line = ['the cat sat on a mat']; assert sacrebleu.corpus_bleu(line, [line]).score > 99"
""",
    "tfds": "mkdir data; tfbigbatch train --config=$ROOT/tests/helpers/extras/tfds.py --data_dir=data --model_dir=run",
}


def test_each_extra_has_a_program_that_runs_with_it_alone(project):
    assert set(PROGRAMS) == set(project["optional-dependencies"]) - WITHOUT_PROGRAM


@pytest.mark.slow
@pytest.mark.skipif(not tf.__version__.startswith("2.20."), reason="the extra `models` needs TensorFlow 2.20")
@pytest.mark.parametrize("extra", PROGRAMS)
def test_an_extra_is_enough_in_a_fresh_environment(extra, tmp_path_factory):
    """Some minutes and 2 GB of disk each, and it needs the package index."""
    source, built, made, folder = (tmp_path_factory.mktemp(name) for name in ("source", "built", "made", "empty"))
    wheel, python = build(source, built), str(made / "bin" / "python")
    # Without hashes: with them pip would want one of the wheel too.
    (source / "pins.txt").write_text("".join(f"{name}=={pin}\n" for name, pin in pins(LINES["2.20"]).items()))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PATH": f"{made}/bin:{os.environ['PATH']}", "ROOT": ROOT}
    install = [python, "-m", "pip", "install", "--quiet", "--use-pep517", "--constraint", str(source / "pins.txt")]
    try:
        for command in (
            [sys.executable, "-m", "venv", made],
            [*install, f"tfbigbatch[{extra}] @ file://{wheel}"],
            [python, "-m", "pip", "check"],
            ["bash", "-e", "-c", PROGRAMS[extra]],
        ):
            outcome = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
            assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    finally:
        shutil.rmtree(made, ignore_errors=True)


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
@pytest.mark.parametrize("line, folder", [("2.20", "absent"), ("2.21", "absent"), ("2.21", None)])
def test_make_chooses_a_line_and_verifies_it(line, folder):
    """As from a shell, without the variables of the `make` that runs the tests; `absent`: in a fresh clone."""
    theirs = ("MAKE", "MFLAGS", "VENV", "PYTHON", "TENSORFLOW")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
    command = ["make", "--dry-run", "test", f"TENSORFLOW={line}", *([f"VENV={folder}"] if folder else [])]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert outcome.returncode == 0, outcome.stderr
    plan = outcome.stdout
    assert f"{folder or '.venv-2.21'}/bin/python -m pytest" in plan
    if folder:
        assert f"--require-hashes --no-deps --no-build-isolation --requirement {LINES[line]}" in plan
        # Of this package alone there is no hash.
        assert plan.count("pip install") == plan.count("--require-hashes") + 1
