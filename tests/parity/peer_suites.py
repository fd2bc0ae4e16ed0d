"""Runs the peers' own test files on our optimizers, and compares what fails with the expected differences.

    python tests/parity/peer_suites.py --copies=FOLDER

A test file is taken from the installed package where it ships with its tests (Keras 3), otherwise from FOLDER, which
holds clones of the projects' repositories, or files under their paths there (docs/migration.md has the commands).
Only names are replaced: the imports of the optimizers (`tests/parity/peer_names`), and the arguments that have another
name here. Nothing of a peer is part of this repository.

The exit code is 1 where a test fails that is not expected to, or one that is does not fail.
"""

from __future__ import annotations

import argparse
import dataclasses
import glob
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from collections.abc import Mapping, Sequence

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Beside each adapted file: removes the tests of optimizers that are not ours; stands in for the peers' own conftest.
_CONFTEST = """
import os, re
import pytest


def pytest_collection_modifyitems(config, items):
    others = os.environ["PEER_OTHERS"]
    items[:] = [item for item in items if not (others and re.search(others, item.name))]


@pytest.fixture(params=["eager", "function"])
def maybe_run_functions_eagerly(request):
    import tensorflow as tf

    tf.config.run_functions_eagerly(request.param == "eager")
    yield
    tf.config.run_functions_eagerly(False)
"""
# What the peers' own runners set: flags, and CPUs for a strategy of several replicas.
_DEVICES = """
import tensorflow as tf
from absl import flags

if not flags.FLAGS.is_parsed():
    flags.FLAGS.mark_as_parsed()
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
"""


@dataclasses.dataclass(frozen=True)
class Suite:
    """A test file of a peer.

    Attributes:
      path: in the project's repository, and below the installed package's parent folder where it ships with tests.
      repository: the project's address, and the tag that the differences are for.
      names: pairs of a regular expression and its replacement, applied to the text in order.
      differs: names of the tests that fail on our optimizers by design.
      others: regular expression of the tests in which no optimizer of ours takes part; they are left out.
      environment: variables of the test process.
    """

    path: str
    repository: str
    names: Sequence[tuple[str, str]]
    differs: Sequence[str] = ()
    others: str = ""
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


_OURS = "from tests.parity.peer_names"
_KERAS_3 = "https://github.com/keras-team/keras v3.15.1"
_OF_KERAS_3 = (r"from keras\.src import optimizers\b", f"{_OURS} import keras3 as optimizers")
SUITES = {
    "keras/lamb_test": Suite(
        "keras/src/optimizers/lamb_test.py",
        _KERAS_3,
        names=((r"from keras\.src\.optimizers\.lamb import Lamb", f"{_OURS}.keras3 import Lamb"),),
        # The decay is inside the trust ratio, as in the paper.
        differs=["LambTest.test_weight_decay"],
    ),
    "keras/optimizer_test": Suite(
        "keras/src/optimizers/optimizer_test.py",
        _KERAS_3,
        names=(_OF_KERAS_3, (r"\bgradient_accumulation_steps\b", "accumulation_steps")),
        # `iterations` counts steps, and the sum over micro-batches is in another private attribute.
        differs=[
            "OptimizerTest.test_gradient_accumulation",
            "OptimizerTest.test_overwrite_with_gradient_with_gradient_accumulation",
        ],
        # Parametrised by name: adam, sgd and adamw are the first three.
        others=r"(weigth_decay|pickleable_optimizers)([3-9]|10)$",
    ),
    "keras/optimizer_sparse_test": Suite(
        "keras/src/optimizers/optimizer_sparse_test.py",
        _KERAS_3,
        names=(_OF_KERAS_3,),
        # A sparse gradient becomes dense, as the norms are of the whole layer; the weights are the same. LAMB has no
        # `amsgrad`.
        differs=[
            "OptimizerSparseTest.test_sparse_gradients_sgd",
            "OptimizerSparseTest.test_sparse_gradients_loss_scale_optimizer_sgd",
            "OptimizerSparseTest.test_sparse_gradients_adam_amsgrad",
            "OptimizerSparseTest.test_sparse_gradients_adamw_amsgrad",
            "OptimizerSparseTest.test_sparse_correctness_adam_amsgrad",
            "OptimizerSparseTest.test_sparse_correctness_adamw_amsgrad",
        ],
        others=r"_(adadelta|adafactor|adagrad|adamax|ftrl|lion|nadam|rmsprop\w*|scatter_update)$",
    ),
    "keras/loss_scale_optimizer_test": Suite(
        "keras/src/optimizers/loss_scale_optimizer_test.py",
        _KERAS_3,
        names=((r"from keras\.src\.optimizers\.\w+ import (LossScaleOptimizer|SGD)", rf"{_OURS}.keras3 import \1"),),
        # `LossScaleOptimizer` takes the optimizers of this package only; the config has Keras' own SGD inside.
        differs=["LossScaleOptimizerTest.test_deserialization_backwards_compatibility"],
    ),
    "tf_keras/optimizer_test": Suite(
        "tf_keras/optimizers/optimizer_test.py",
        "https://github.com/keras-team/tf-keras v2.20.1",
        names=(
            (r"from tf_keras\.optimizers import (sgd|adam|adamw) as", rf"{_OURS}.keras2 import \1 as"),
            # The wheel has its modules below `src`.
            (r"from tf_keras\.(optimizers|testing_infra|utils)\b", r"from tf_keras.src.\1"),
        ),
        differs=[
            # Private names of Adam's state, `_momentums` and `_velocities`.
            "OptimizerFuntionalityTest.testApplyGradientsNameArg",
            "OptimizerFuntionalityTest.testCheckpointOptimizer",
            # The private `_clip_gradients` does not clip: clipping follows the sum over replicas and micro-batches.
            "OptimizerFuntionalityTest.testClipGlobalNorm",
            "OptimizerFuntionalityTest.testClipNorm",
            "OptimizerFuntionalityTest.testClipValue",
            # LAMB has no `amsgrad`.
            "OptimizerFuntionalityTest.testGetAndFromConfig",
            "OptimizerRegressionTest.testAdam",
            # `decay` is refused, in words of our own; `weight_decay=None` is 0.
            "OptimizerFuntionalityTest.testPassingLegacyArgsRaiseError",
            "OptimizerFuntionalityTest.testPassingMissingWDError",
            # The state's names begin with the optimizer's own name, `LAMB`.
            "OptimizerFuntionalityTest.testReturnAllOptimizerVariables",
            # A gradient of another shape than its variable's is refused; the test gives one of [1] for [1, 1].
            "OptimizerFuntionalityTest.testVariableConstraints",
        ],
        others=(
            # Parametrised by an index into its list of optimizers: 3, 5 and 10 are Adam, AdamW and SGD.
            r"(SaveAndLoadOptimizerWithModel|SparseGradientsWorkAsExpected)([0124]|[6-9])$"
            r"|_optimizerfn_(?!experimental(adam|adamw|sgdaverage)_)"
            r"|test(Adadelta|Adagrad|Ftrl|RMSprop|CheckpointOptimizerWithModel)$|test_arm_mac|test_session"
            # Of a function that the wheel does not export.
            r"|test_convert_to_legacy_optimizer"
            # Needs its project's runner of several processes; and one that hangs with tf_keras' own optimizers as well.
            r"|MultiWorkerMirrored|CustomTrainingLoop\w*Mirrored2CPUs"
        ),
    ),
    "tensorflow-addons/lamb_test": Suite(
        "tensorflow_addons/optimizers/tests/lamb_test.py",
        "https://github.com/tensorflow/addons v0.23.0",
        names=(
            (r"from tensorflow_addons\.optimizers import lamb", f"{_OURS} import addons as lamb"),
            (r"from tensorflow_addons\.utils import test_utils", f"{_OURS} import addons as test_utils"),
            (r"\bweight_decay_rate=", "weight_decay="),
        ),
        # `decay` is refused, as by Keras' optimizers since 2.11, and so is the older name `weight_decay_rate`.
        differs=[
            "test_basic_with_learning_rate_decay[eager]",
            "test_basic_with_learning_rate_decay[function]",
            "test_weight_decay_rate_deprecation",
        ],
        environment={"TF_USE_LEGACY_KERAS": "1"},
    ),
}


def find(suite: Suite, copies: str | None) -> str | None:
    """The path of the suite's file, among the copies or in the installed package; None where there is none."""
    found = []
    if copies:
        found += [os.path.join(copies, suite.path), *sorted(glob.glob(os.path.join(copies, "*", suite.path)))]
    package = importlib.util.find_spec(suite.path.partition("/")[0])
    for folder in package.submodule_search_locations or () if package else ():
        found.append(os.path.join(os.path.dirname(folder), suite.path))
    return next((path for path in found if os.path.isfile(path)), None)


def adapt(suite: Suite, text: str) -> str:
    """The text of a test file with our names; SystemExit where a name does not occur."""
    for pattern, replacement in suite.names:
        text, count = re.subn(pattern, replacement, text)
        if not count:
            raise SystemExit(f"{suite.path}: {pattern!r} is not in it. Is it of {suite.repository.split()[1]}?")
    return text


def run(suite: Suite, source: str) -> dict[str, str]:
    """Runs an adapted test file in a process of its own; gives 'passed', 'skipped' or the first line of the failure.

    Returns:
      the outcomes by name, 'Class.test' for a method and 'test' for a function.
    """
    with open(source, encoding="utf-8") as file:
        text = adapt(suite, file.read())
    with tempfile.TemporaryDirectory() as folder:
        path, report = os.path.join(folder, "peer_test.py"), os.path.join(folder, "report.xml")
        for name, content in ((path, text), (os.path.join(folder, "conftest.py"), _CONFTEST + _DEVICES)):
            with open(name, "w", encoding="utf-8") as file:
                file.write(content)
        environment = {**os.environ, "PYTHONPATH": ROOT, "PEER_OTHERS": suite.others, **suite.environment}
        options = ["-q", "-p", "no:cacheprovider", f"--rootdir={folder}", f"--junitxml={report}"]
        command = [sys.executable, "-m", "pytest", *options, path]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=1800)
        if not os.path.exists(report):
            raise SystemExit(f"{suite.path}: pytest ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        outcomes = {}
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            test_class = case.get("classname", "").partition("peer_test.")[2]
            problem = next((each for each in case if each.tag in ("failure", "error")), None)
            outcome = "passed" if case.find("skipped") is None else "skipped"
            if problem is not None:
                outcome = f"failed: {(problem.get('message') or '').splitlines()[0][:300]}"
            outcomes[f"{test_class}.{case.get('name')}" if test_class else str(case.get("name"))] = outcome
    return outcomes


def problems(outcomes: Mapping[str, str], expected: Sequence[str]) -> list[str]:
    """A line for each failure that is not expected, and each expected one that did not come."""
    lines = [f"{name}: {outcome}" for name, outcome in outcomes.items() if "failed" in outcome and name not in expected]
    for name in expected:
        if "failed" not in (outcome := outcomes.get(name, "not found")):
            lines.append(f"{name}: {outcome}, expected to fail")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", help="folder with clones of the peers' repositories, or files by their paths there")
    parser.add_argument("--suite", action="append", choices=list(SUITES), help="run this one; may be repeated")
    options = parser.parse_args(arguments)
    wrong = False
    for name in options.suite or SUITES:
        suite = SUITES[name]
        source = find(suite, options.copies)
        if source is None:
            print(f"{name}: not found. Clone {suite.repository}, and give --copies.")
            wrong = wrong or bool(options.suite)
            continue
        outcomes = run(suite, source)
        found = problems(outcomes, suite.differs)
        states = [outcome.partition(":")[0] for outcome in outcomes.values()]
        counts = ", ".join(f"{states.count(each)} {each}" for each in ("passed", "skipped", "failed"))
        print(f"{name}: {counts}", *found, sep="\n  ", flush=True)
        wrong = wrong or bool(found)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
