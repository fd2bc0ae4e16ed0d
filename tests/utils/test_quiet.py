"""TensorFlow's log in commands, and what programs that import the package see of it."""

import ctypes
import logging
import os
import subprocess
import sys
import types

import pytest
import tensorflow as tf

from tfbigbatch.utils import quiet

SHOW = (
    "import os, warnings; {}; print(os.environ.get('TF_CPP_MIN_LOG_LEVEL'), os.environ.get('TFBIGBATCH_QUIET'), "
    "any(category is FutureWarning for _, _, category, _, _ in warnings.filters))"
)


def shown(statement, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TF_CPP", "TFBIGBATCH_QUIET"))}
    kept.pop("PYTHONWARNINGS", None)
    command = [sys.executable, "-c", SHOW.format(statement)]
    done = subprocess.run(command, env={**kept, **environment}, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_commands_are_quiet_and_programs_keep_their_settings():
    level, ours, filtered = shown("import tfbigbatch.utils.command")
    assert level in ("2", "3") and (ours, filtered) == ("1", "True")
    # As the processes that a command starts.
    assert shown("import tfbigbatch.utils.command", TF_CPP_MIN_LOG_LEVEL="3", TFBIGBATCH_QUIET="1")[2] == "True"
    assert shown("import tfbigbatch.utils.command", TF_CPP_MIN_LOG_LEVEL="0") == ["0", "None", "False"]
    assert shown("import tfbigbatch.train, tfbigbatch.studies; tfbigbatch.Recipe") == ["None", "None", "False"]


def test_this_tensorflow_has_the_function_that_sets_absls_level():
    library = ctypes.CDLL(os.path.join(tf.sysconfig.get_lib(), "libtensorflow_framework.so.2"))
    assert any(hasattr(library, symbol) for symbol in quiet._SYMBOLS)


@pytest.mark.parametrize("level", [2, 3])
def test_absl_has_the_level_of_the_variable(monkeypatch, level):
    """With level 3, as without an NVIDIA driver, its absence is not reported: TensorFlow 2.21 does so by absl."""
    levels = []
    library = types.SimpleNamespace(**{quiet._SYMBOLS[-1]: lambda given: levels.append(given.value)})
    monkeypatch.setattr(quiet.ctypes, "CDLL", lambda path: library)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", str(level))
    monkeypatch.delenv("TFBIGBATCH_QUIET", raising=False)
    quiet.after_import()
    assert levels == []
    monkeypatch.setenv("TFBIGBATCH_QUIET", "1")
    quiet.after_import()
    assert set(levels) == {level}


def test_only_expected_warnings_are_left_out():
    def record(text):
        return logging.LogRecord("tensorflow", logging.WARNING, "", 0, text, (), None)

    assert not quiet._is_unexpected(record("5 out of the last 5 calls to f triggered tf.function retracing."))
    assert quiet._is_unexpected(record("Gradients do not exist for variables ['dense/kernel:0']"))
