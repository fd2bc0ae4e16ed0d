"""Arrows point down only, and importing the package stays cheap."""

import ast
import glob
import os
import subprocess
import sys

import pytest

import tfbigbatch

PACKAGE = os.path.dirname(tfbigbatch.__file__)
# What every floor may import: errors, the choice between Keras 2 and 3, and helpers that know nothing of training.
ANYWHERE = {"errors", "keras_version", "lazy_names", "utils", "__version__"}
# People use these alone: they import next to nothing else. In scaling, DATE adjusts a schedule by instruments, and a
# batch ramp makes the accumulation schedule of an optimizer.
ALONE = {
    "optimizers": set(),
    "schedules": set(),
    "instruments": set(),
    "scaling": {"instruments", "schedules", "optimizers"},
}
BELOW_TASKS = {"data", "models", "optimizers", "schedules", "scaling", "instruments"}
BELOW_TRAINING = BELOW_TASKS | {"callbacks", "tasks", "runs", "cluster", "experiment"}
ALLOWED = {
    "utils": set(),
    **ALONE,
    "callbacks": {"data", "optimizers"},
    "cluster": set(),
    "data": set(),
    "models": set(),
    "tasks": BELOW_TASKS,
    "runs": BELOW_TASKS | {"tasks", "experiment"},
    "export": BELOW_TRAINING,
    "training": BELOW_TRAINING,
    "reports": BELOW_TRAINING | {"training"},
    "studies": BELOW_TRAINING | {"training", "reports"},
    "advice": BELOW_TRAINING | {"training", "reports"},
    "cli": BELOW_TRAINING | {"training", "reports", "studies", "advice", "tpu", "train", "export"},
}
# The commands are the top floor: only these entry points import them.
ENTRIES = {"__main__.py"}


def imported(path):
    """The subpackages of tfbigbatch that a file imports, anywhere in it."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    found = set()
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = (
                [node.module] if node.module != "tfbigbatch" else [f"tfbigbatch.{alias.name}" for alias in node.names]
            )
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found.update(name.split(".")[1] for name in names if name.startswith("tfbigbatch."))
    return found


@pytest.mark.parametrize("subpackage", ALLOWED)
def test_a_subpackage_imports_only_what_lies_below(subpackage):
    for path in glob.glob(os.path.join(PACKAGE, subpackage, "**", "*.py"), recursive=True):
        above = imported(path) - ALLOWED[subpackage] - ANYWHERE - {subpackage}
        assert not above, f"{path} imports {above}"


def test_only_the_entry_points_import_the_commands():
    importers = {
        os.path.relpath(path, PACKAGE)
        for path in glob.glob(os.path.join(PACKAGE, "**", "*.py"), recursive=True)
        if "cli" in imported(path)
    }
    assert {path for path in importers if not path.startswith("cli")} == ENTRIES


def modules_after(statement):
    code = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return set(out.split())


def test_importing_the_package_imports_nothing_heavy():
    assert not {"tensorflow", "tf_keras", "keras", "numpy"} & modules_after("import tfbigbatch; tfbigbatch.Recipe")


def test_the_optimizers_need_tensorflow_and_keras_only():
    theirs = "import tensorflow, keras, tf_keras; tf_keras.optimizers, tf_keras.saving; before = set(sys.modules)"
    ours = "import tfbigbatch; tfbigbatch.LAMB; tfbigbatch.optimizers.keras2; tfbigbatch.Recipe"
    added = modules_after(f"{theirs}; {ours}; [sys.modules.pop(name) for name in before]")
    assert {name.split(".")[0] for name in added} == {"tfbigbatch"}


def test_scoring_and_reading_texts_need_no_tensorflow():
    scores = "from tfbigbatch.tasks.scores import glue, race, squad"
    texts = "from tfbigbatch.data.finetuning import glue, race, squad, squad_decoding"
    assert not {"tensorflow", "tf_keras", "keras"} & modules_after(
        f"{scores}; {texts}; from tfbigbatch.data import tokenizer"
    )


def test_preparing_data_needs_no_tensorflow():
    prepare = "; ".join(f"import tfbigbatch.data.{kind}.prepare.prepare" for kind in ("images", "bert", "translation"))
    assert not {"tensorflow", "tf_keras", "keras"} & modules_after(prepare)


def test_loading_and_checking_experiments_needs_no_tensorflow():
    shipped = "from tfbigbatch import experiment, studies; names = experiment.shipped()"
    checked = (
        "from tfbigbatch.experiment.checks import check_fields; [check_fields(experiment.load(name)) for name in names]"
    )
    found = modules_after(f"{shipped}; {checked}; assert len(names) > 50")
    assert "tfbigbatch.tasks.gnmt" in found and not {"tensorflow", "tf_keras", "keras"} & found


def test_an_unknown_name_is_told_what_there_is():
    with pytest.raises(AttributeError, match="no attribute 'LAMBDA'; it has Adasum, LAMB, LARS"):
        _ = tfbigbatch.LAMBDA
    assert {"Adasum", "LAMB", "LARS", "optimizers"} <= set(dir(tfbigbatch))
