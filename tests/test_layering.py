"""Arrows point down only, and importing the package stays cheap."""

import ast
import glob
import graphlib
import os
import subprocess
import sys

import pytest

import tfbigbatch

PACKAGE = os.path.dirname(tfbigbatch.__file__)
# What every floor may import: errors, the choice between Keras 2 and 3, and helpers that know nothing of training.
ANYWHERE = {"errors", "keras_version", "lazy_names", "utils", "__version__"}
# People use these alone: they import next to nothing else. Of callbacks they import the base. In scaling, a batch ramp
# makes the accumulation schedule of an optimizer.
ALONE = {
    "optimizers": set(),
    "schedules": set(),
    "instruments": {"callbacks"},
    "scaling": {"schedules", "optimizers"},
}
BELOW_TASKS = {"data", "models", "optimizers", "schedules", "scaling", "instruments"}
BELOW_TRAINING = BELOW_TASKS | {"callbacks", "tasks", "run_directory", "cluster", "config"}
ALLOWED = {
    "utils": set(),
    **ALONE,
    "callbacks": {"data", "optimizers"},
    "cluster": set(),
    "data": set(),
    "models": set(),
    "tasks": BELOW_TASKS,
    "run_directory": BELOW_TASKS | {"tasks", "config"},
    "export": BELOW_TRAINING,
    "training": BELOW_TRAINING,
    "reports": BELOW_TRAINING | {"training"},
    "sweeps": BELOW_TRAINING | {"training", "reports"},
    "tuning": BELOW_TRAINING | {"training", "reports", "sweeps", "train"},
    "cli": BELOW_TRAINING | {"training", "reports", "sweeps", "tuning", "tpu", "train", "export"},
}
# The commands are the top floor: only these entry points import them.
ENTRIES = {"__main__.py"}


def names_in(node):
    """The modules of an import statement, and what is imported from them, as 'a.b.c'."""
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def parsed(path):
    with open(path, encoding="utf-8") as file:
        return ast.parse(file.read())


def imported(path):
    """The subpackages of tfbigbatch that a file imports, anywhere in it."""
    names = [name.split(".") for node in ast.walk(parsed(path)) for name in names_in(node)]
    return {name[1] for name in names if name[0] == "tfbigbatch" and len(name) > 1}


@pytest.mark.parametrize("subpackage", ALLOWED)
def test_a_subpackage_imports_only_what_lies_below(subpackage):
    for path in glob.glob(os.path.join(PACKAGE, subpackage, "**", "*.py"), recursive=True):
        above = imported(path) - ALLOWED[subpackage] - ANYWHERE - {subpackage}
        assert not above, f"{path} imports {above}"


def test_no_imports_go_in_a_circle():
    """Not those inside functions or for type checkers either."""
    paths = glob.glob(os.path.join(PACKAGE, "**", "*.py"), recursive=True)
    modules = {
        os.path.relpath(path, os.path.dirname(PACKAGE))[:-3].replace(os.sep, ".").removesuffix(".__init__"): path
        for path in paths
    }
    graph = {}
    for module, path in modules.items():
        names = {name for node in ast.walk(parsed(path)) for name in names_in(node)}
        found = {name if name in modules else name.rpartition(".")[0] for name in names}
        graph[module] = found & set(modules) - {module}
    graphlib.TopologicalSorter(graph).prepare()


def importers(subpackage):
    """The files of the package that import a subpackage or a module of it."""
    paths = glob.glob(os.path.join(PACKAGE, "**", "*.py"), recursive=True)
    return {os.path.relpath(path, PACKAGE) for path in paths if subpackage in imported(path)}


def test_only_the_entry_points_import_the_commands():
    assert {path for path in importers("cli") if not path.startswith("cli")} == ENTRIES


def test_keras_2_is_one_file_above_the_optimizers_and_schedules():
    assert imported(os.path.join(PACKAGE, "keras2.py")) - ANYWHERE == {"optimizers", "schedules"}
    assert importers("keras2") == set()


def test_no_file_imports_keras_2_or_tf_models_official():
    """`tfbigbatch.keras2` asks `keras_version` for the former, which names its extra where it is missing."""
    found = {}
    for path in glob.glob(os.path.join(PACKAGE, "**", "*.py"), recursive=True):
        names = {name.split(".")[0] for node in ast.walk(parsed(path)) for name in names_in(node)}
        found[os.path.relpath(path, PACKAGE)] = names & {"tf_keras", "official"}
    assert {path: names for path, names in found.items() if names} == {}


# Packages of the extras, and what only some machines have.
OPTIONAL = {
    *("PIL", "cv2", "datasets", "jax", "jaxlib", "jinja2", "keras_hub", "matplotlib", "mlperf_logging"),
    *("psutil", "sacrebleu", "sentencepiece", "sklearn", "tensorflow_datasets", "tokenizers", "torch", "tqdm"),
    *("submitit", "transformers"),
}
# Where TensorFlow, and modules that import it, may be imported inside a function: what a command is refused for (flags,
# paths, an experiment and its fields, which tasks and the names of image models have) is told before they are; the help
# of critical-batch reads `sweeps.branches`; and optimizers and schedules of Keras 3 run on JAX and PyTorch without
# TensorFlow.
BEFORE_TENSORFLOW = ("cli", "tasks", "train.py", "data/in_memory/mnist.py", "models", "optimizers", "schedules")
BEFORE_TENSORFLOW += ("sweeps/branches.py",)


def imports_tensorflow(name, seen):
    """True if importing 'tfbigbatch.a.b', or the module of 'tfbigbatch.a.b.function', imports TensorFlow or Keras."""
    if name.split(".")[0] in ("tensorflow", "tf_keras", "keras"):
        return True
    base = os.path.join(os.path.dirname(PACKAGE), *name.split("."))
    candidates = [f"{base}.py", os.path.join(base, "__init__.py"), f"{os.path.dirname(base)}.py"]
    path = next(filter(os.path.exists, candidates), None)
    if not name.startswith("tfbigbatch.") or path is None or path in seen:
        return False
    seen.add(path)
    return any(imports_tensorflow(each, seen) for node in parsed(path).body for each in names_in(node))


def imports_in_functions():
    """'FILE: MODULE' of each import inside a function that is none of the exceptions."""
    found = set()
    for path in glob.glob(os.path.join(PACKAGE, "**", "*.py"), recursive=True):
        short = os.path.relpath(path, PACKAGE)
        functions = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef)]
        for name in {each for function in functions for node in ast.walk(function) for each in names_in(node)}:
            late = short.startswith(BEFORE_TENSORFLOW) and imports_tensorflow(name, set())
            if not late and name.split(".")[0] not in OPTIONAL:
                found.add(f"{short}: {name}")
    return sorted(found)


def test_imports_are_at_the_top():
    found = imports_in_functions()
    assert not found, "\n".join([f"{len(found)} imports inside functions:", *found])


def modules_after(statement):
    code = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return set(out.split())


def test_importing_the_package_imports_nothing_heavy():
    assert not {"tensorflow", "tf_keras", "keras", "numpy"} & modules_after("import tfbigbatch; tfbigbatch.Recipe")


def test_the_optimizers_need_tensorflow_and_keras_only():
    theirs = "import tensorflow, keras, tf_keras; tf_keras.optimizers, tf_keras.saving; before = set(sys.modules)"
    ours = "import tfbigbatch; tfbigbatch.LAMB; tfbigbatch.keras2; tfbigbatch.Recipe"
    added = modules_after(f"{theirs}; {ours}; [sys.modules.pop(name) for name in before]")
    assert {name.split(".")[0] for name in added} == {"tfbigbatch"}


@pytest.mark.parametrize(
    "statements, imported",
    [
        (
            "from tfbigbatch.tasks import scores; from tfbigbatch.data.finetuning import glue, race, squad",
            "data.tokenizer",
        ),
        (
            "from tfbigbatch.data.translation import prepare; "
            "from tfbigbatch.data.images.prepare import prepare; from tfbigbatch.data.bert.prepare import prepare",
            "data.bert.prepare.prepare",
        ),
        (
            "from tfbigbatch import sweeps; from tfbigbatch.config import load_config; "
            "from tfbigbatch.config.recipe import check_fields; "
            "from tfbigbatch.config.files import shipped; names = shipped(); "
            "[check_fields(load_config(name)) for name in names]; assert len(names) > 50",
            "tasks.gnmt",
        ),
    ],
    ids=["scoring and reading texts", "preparing data", "loading and checking experiments"],
)
def test_no_tensorflow_is_imported_by(statements, imported):
    found = modules_after(statements)
    assert f"tfbigbatch.{imported}" in found and not {"tensorflow", "tf_keras", "keras"} & found


def test_an_unknown_name_is_told_what_there_is():
    with pytest.raises(AttributeError, match="no attribute 'LAMBDA'; it has AdamW, Adasum, BatchRamp, LAMB, LARS"):
        _ = tfbigbatch.LAMBDA
    assert {"AdamW", "LAMB", "LARS", "optimizers"} <= set(dir(tfbigbatch))
