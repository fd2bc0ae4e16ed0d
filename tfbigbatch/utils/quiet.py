"""TensorFlow's log in commands: its errors alone, unless the user chose a level by TF_CPP_MIN_LOG_LEVEL.

Programs that import the package keep TensorFlow's own settings.
"""

from __future__ import annotations

import ctypes
import importlib.util
import logging
import os
import sys
import warnings

_LEVEL, _OURS = "TF_CPP_MIN_LOG_LEVEL", "TFBIGBATCH_QUIET"
# absl::SetMinLogLevel of TensorFlow's library, by the absl releases of TensorFlow 2.17 to 2.21.
_RELEASES = (20230802, 20240722, 20250127, 20250814)
_SYMBOLS = [f"_ZN4absl12lts_{release}14SetMinLogLevelENS0_18LogSeverityAtLeastE" for release in _RELEASES]
# Warnings of TensorFlow's Python code on what is no mistake: evaluations and the last steps have shapes of their own.
_EXPECTED = ("triggered tf.function retracing", "Your input ran out of data")


def before_import() -> None:
    """Sets the level that TensorFlow reads at its import; for commands, and the processes that they start.

    Warnings of Python that concern its packages alone are left out too.
    """
    if _LEVEL not in os.environ:
        # Without an NVIDIA driver TensorFlow reports its absence as an error, in every run.
        os.environ[_LEVEL] = "2" if os.path.exists("/dev/nvidiactl") else "3"
        os.environ[_OURS] = "1"
    if _OURS in os.environ and not sys.warnoptions:
        warnings.filterwarnings("ignore", category=FutureWarning, module=r"google\.")
        logging.getLogger("tensorflow").addFilter(_is_unexpected)


def after_import() -> None:
    """Sets the level of the messages that TensorFlow writes by absl, which does not read the variable, to the same.

    Such as the address of a worker's server; from 2.21 on all of its log, with the absence of NVIDIA's driver. Does
    nothing outside of commands, or where the library lacks the function.
    """
    if _OURS not in os.environ:
        return
    spec = importlib.util.find_spec("tensorflow")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        try:
            library = ctypes.CDLL(os.path.join(folder, "libtensorflow_framework.so.2"))
        except OSError:
            continue
        for symbol in _SYMBOLS:
            if hasattr(library, symbol):
                getattr(library, symbol)(ctypes.c_int(int(os.environ[_LEVEL])))


def _is_unexpected(record: logging.LogRecord) -> bool:
    return not any(words in record.getMessage() for words in _EXPECTED)
