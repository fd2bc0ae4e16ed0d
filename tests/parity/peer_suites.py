"""Runs the peers' own test files on our optimizers, and compares what fails with a list of expected differences.

    python tests/parity/peer_suites.py --copies=FOLDER

A test file is taken from the installed package where it ships with its tests (Keras 3), otherwise from FOLDER, which
holds clones of the projects' repositories, or files under their paths there (docs/migration.md has the commands).
Only names are replaced: the imports of the optimizers (`tests/parity/peer_names`), and the arguments that have another
name here. Nothing of a peer is part of this repository.

The exit code is 1 where a test fails that is not in `peer_differences.py`, or one of that list does not fail.
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
import textwrap
import xml.etree.ElementTree
from collections.abc import Iterable, Mapping, Sequence

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

from tests.parity.peer_differences import EXPECTED  # noqa: E402  (after the path)

_TIME_LIMIT = 1800  # seconds for one file
_BEGIN, _END = "<!-- table of peer_suites.py -->\n", "<!-- end of the table -->\n"

# Beside each adapted file: removes the tests of optimizers that are not ours; stands in for the peers' own conftest.
_CONFTEST = """
import os, re
import pytest


def pytest_collection_modifyitems(config, items):
    others = os.environ["PEER_OTHERS"]
    removed = [item for item in items if others and re.search(others, item.name)]
    config.hook.pytest_deselected(items=removed)
    items[:] = [item for item in items if item not in removed]


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
      name: as in the table.
      path: in the project's repository, and below the installed package's parent folder where it ships with tests.
      tag: of the repository; the version that the expected differences are for.
      names: pairs of a regular expression and its replacement, applied to the text in order.
      others: regular expression of the tests in which no optimizer of ours takes part; they are left out.
      environment: variables of the test process.
    """

    name: str
    path: str
    repository: str
    tag: str
    names: Sequence[tuple[str, str]]
    others: str = ""
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


_KERAS_3 = "https://github.com/keras-team/keras", "v3.15.1"
_OF_KERAS_3 = (r"from keras\.src import optimizers\b", "from tests.parity.peer_names import keras3 as optimizers")
_ACCUMULATION = (r"\bgradient_accumulation_steps\b", "accumulation_steps")
SUITES = (
    Suite(
        "keras/lamb_test",
        "keras/src/optimizers/lamb_test.py",
        *_KERAS_3,
        names=((r"from keras\.src\.optimizers\.lamb import Lamb", "from tests.parity.peer_names.keras3 import Lamb"),),
    ),
    Suite(
        "keras/optimizer_test",
        "keras/src/optimizers/optimizer_test.py",
        *_KERAS_3,
        names=(_OF_KERAS_3, _ACCUMULATION),
        # Parametrised by name: adam, sgd and adamw are the first three.
        others=r"(weigth_decay|pickleable_optimizers)([3-9]|10)$",
    ),
    Suite(
        "keras/optimizer_sparse_test",
        "keras/src/optimizers/optimizer_sparse_test.py",
        *_KERAS_3,
        names=(_OF_KERAS_3,),
        others=r"_(adadelta|adafactor|adagrad|adamax|ftrl|lion|nadam|rmsprop\w*|scatter_update)$",
    ),
    Suite(
        "keras/loss_scale_optimizer_test",
        "keras/src/optimizers/loss_scale_optimizer_test.py",
        *_KERAS_3,
        names=(
            (
                r"from keras\.src\.optimizers\.\w+ import (LossScaleOptimizer|SGD)",
                r"from tests.parity.peer_names.keras3 import \1",
            ),
        ),
    ),
    Suite(
        "tf_keras/optimizer_test",
        "tf_keras/optimizers/optimizer_test.py",
        "https://github.com/keras-team/tf-keras",
        "v2.20.1",
        names=(
            (
                r"from tf_keras\.optimizers import (sgd|adam|adamw) as",
                r"from tests.parity.peer_names.keras2 import \1 as",
            ),
            # The wheel has its modules below `src`.
            (r"from tf_keras\.(optimizers|testing_infra|utils)\b", r"from tf_keras.src.\1"),
        ),
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
    Suite(
        "tensorflow-addons/lamb_test",
        "tensorflow_addons/optimizers/tests/lamb_test.py",
        "https://github.com/tensorflow/addons",
        "v0.23.0",
        names=(
            (r"from tensorflow_addons\.optimizers import lamb", "from tests.parity.peer_names import addons as lamb"),
            (
                r"from tensorflow_addons\.utils import test_utils",
                "from tests.parity.peer_names import addons as test_utils",
            ),
            (r"\bweight_decay_rate=", "weight_decay="),
        ),
        environment={"TF_USE_LEGACY_KERAS": "1"},
    ),
)


@dataclasses.dataclass
class Result:
    """What the tests of a suite did: 'passed', 'failed' or 'skipped' by name, and the first line of each failure."""

    outcomes: dict[str, str]
    failures: dict[str, str]

    def count(self, outcome: str) -> int:
        return list(self.outcomes.values()).count(outcome)


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
            raise SystemExit(
                f"{suite.name}: {pattern!r} is not in the file. It is of another version than {suite.tag}?"
            )
    return text


def run(suite: Suite, source: str) -> Result:
    """Runs an adapted test file in a process of its own."""
    with open(source, encoding="utf-8") as file:
        text = adapt(suite, file.read())
    with tempfile.TemporaryDirectory() as folder:
        path, report = os.path.join(folder, "peer_test.py"), os.path.join(folder, "report.xml")
        for name, content in ((path, text), (os.path.join(folder, "conftest.py"), _CONFTEST + _DEVICES)):
            with open(name, "w", encoding="utf-8") as file:
                file.write(content)
        environment = {**os.environ, "PYTHONPATH": ROOT, "PEER_OTHERS": suite.others, **suite.environment}
        options = ["-q", "-p", "no:cacheprovider", f"--rootdir={folder}", f"--junitxml={report}"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, path],
            env=environment, cwd=folder, capture_output=True, text=True, timeout=_TIME_LIMIT,
        )  # fmt: skip
        if not os.path.exists(report):
            raise SystemExit(f"{suite.name}: pytest ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return read(report)


def read(report: str) -> Result:
    """The outcomes in a JUnit report; 'Class.test' for a method, 'test' for a function."""
    result = Result({}, {})
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        test_class = case.get("classname", "").partition("peer_test.")[2]
        name = f"{test_class}.{case.get('name')}" if test_class else str(case.get("name"))
        problem = next((each for each in case if each.tag in ("failure", "error")), None)
        if problem is not None:
            result.outcomes[name] = "failed"
            result.failures[name] = (problem.get("message") or "").splitlines()[0][:300]
        else:
            result.outcomes[name] = "skipped" if case.find("skipped") is not None else "passed"
    return result


def compare(result: Result, expected: Iterable[str]) -> list[str]:
    """A line for each failure that is not expected, and each expected one that did not come."""
    expected = set(expected)
    lines = [
        f"fails, and is not in the list: {name}: {reason}"
        for name, reason in result.failures.items()
        if name not in expected
    ]
    for name in sorted(expected - set(result.failures)):
        lines.append(f"is in the list, and {result.outcomes.get(name, 'was not found')}: {name}")
    return lines


def table(rows: Sequence[tuple[Suite, Result]]) -> str:
    """The results as Markdown: a table, then the expected differences with their reasons."""
    lines = [
        "| test file | version | tests | passed | skipped | expected differences |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for suite, result in rows:
        counts = (len(result.outcomes), result.count("passed"), result.count("skipped"), result.count("failed"))
        lines.append(f"| {suite.name} | {suite.tag} | {' | '.join(map(str, counts))} |")
    for suite, _ in rows:
        if EXPECTED.get(suite.name):
            lines += ["", f"**{suite.name}**", ""]
            lines += [_item(reason, tests) for reason, tests in EXPECTED[suite.name]]
    return "\n".join(lines) + "\n"


def _item(reason: str, tests: Sequence[str]) -> str:
    text = f"- {reason} {', '.join(f'`{test}`' for test in tests)}"
    return textwrap.fill(text, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def write_table(path: str, text: str) -> None:
    """Replaces the table between its two marks in a page.

    Raises:
      SystemExit: the page has no marks.
    """
    with open(path, encoding="utf-8") as file:
        page = file.read()
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise SystemExit(f"{path} has no lines {_BEGIN.strip()!r} and {_END.strip()!r} for the table.")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{_BEGIN}\n{text}\n{_END}{after}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--copies", help="folder with clones of the peers' repositories, or files under their paths there"
    )
    names = [suite.name for suite in SUITES]
    parser.add_argument("--suite", action="append", choices=names, help="run this one; may be repeated")
    parser.add_argument("--write", metavar="PAGE", help="put the table into this page, between its marks")
    options = parser.parse_args(arguments)
    rows, wrong = [], False
    for suite in SUITES:
        if options.suite and suite.name not in options.suite:
            continue
        source = find(suite, options.copies)
        if source is None:
            print(
                f"{suite.name}: not found. git clone --depth 1 --branch {suite.tag} {suite.repository}, and --copies."
            )
            wrong = wrong or bool(options.suite)
            continue
        result = run(suite, source)
        problems = compare(result, [test for _, tests in EXPECTED.get(suite.name, ()) for test in tests])
        counts = ", ".join(f"{result.count(each)} {each}" for each in ("passed", "skipped", "failed"))
        print(f"{suite.name}: {counts}", *problems, sep="\n  ", flush=True)
        rows.append((suite, result))
        wrong = wrong or bool(problems)
    if options.write and not wrong:
        write_table(options.write, table(rows))
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
