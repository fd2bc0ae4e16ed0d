"""The two virtual environments of a check, installed on request only.

`lower` has TensorFlow with the TPU's kernels (the package tensorflow-tpu) and uses all other packages of the running
environment. `compile` has JAX and libtpu, the TPU's compiler. libtpu is proprietary and no part of this project: it is
installed from the package index for users who accept its terms.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from typing import Any

from tfbigbatch.errors import InputError

FOLDER = ".tpu_envs"
ACCEPT = "TFBIGBATCH_ACCEPT_LIBTPU_LICENSE"
LOWER, COMPILE = "lower", "compile"
_MARKER = "installed.json"
# Keys: the oldest Python of a set; the last fitting set is used.
_PINS = {
    LOWER: {(3, 9): ["tensorflow-tpu==2.20.0"]},
    COMPILE: {
        (3, 11): [
            "jax[tpu]==0.10.2",
            "jaxlib==0.10.2",
            "libtpu==0.0.42.1",
            "ml_dtypes==0.6.0",
            "numpy==2.4.6",
            "scipy==1.17.1",
        ]
    },
}
_NEEDS = "Linux on x86-64, and Python 3.11 or 3.12"


def pins(name: str, version: tuple[int, int] | None = None) -> list[str]:
    """The packages of an environment, at exact versions.

    Args:
      name: LOWER or COMPILE.
      version: (major, minor) of Python; None for the running one.

    Raises:
      ValueError: there are none for this Python.
    """
    wanted = version or sys.version_info[:2]
    fitting = [pinned for oldest, pinned in _PINS[name].items() if oldest <= wanted]
    if not fitting or wanted >= (3, 13):
        raise InputError(
            f"Python {'.'.join(map(str, wanted))}: the TPU compiler is available for Python 3.11 and 3.12 only. "
            "Make the project's environment with one of them: make clean setup PYTHON=python3.12."
        )
    return fitting[-1]


def commands(name: str, folder: str) -> list[list[str]]:
    """The commands that make an environment, as argument lists."""
    path = os.path.join(folder, name)
    options = ["--quiet", "--disable-pip-version-check", "--no-compile"] + (["--no-deps"] if name == LOWER else [])
    return [
        [sys.executable, "-m", "venv", path],
        [python(name, folder), "-m", "pip", "install", *options, *pins(name)],
    ]


def python(name: str, folder: str) -> str:
    """The path of an environment's interpreter."""
    return os.path.join(folder, name, "bin", "python")


def is_whole(name: str, folder: str) -> bool:
    """Whether an environment is completely installed, with the current pins, for the running Python and environment."""
    try:
        with open(os.path.join(folder, name, _MARKER), encoding="utf-8") as file:
            return json.load(file) == _marker(name)
    except (OSError, ValueError):
        return False


def check_platform() -> None:
    """Checks that there are packages for this machine.

    Raises:
      ValueError: there are none.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise InputError(
            f"the TPU compiler cannot be installed on {platform.system()} {platform.machine()}: its packages "
            f"(tensorflow-tpu, libtpu) are for {_NEEDS}. Run this command on such a machine; it needs no TPU."
        )
    for name in (LOWER, COMPILE):
        pins(name)


def ensure(folder: str, accepted: bool = False, say: Callable[[str], object] = print) -> None:
    """Installs the missing environments.

    Args:
      folder: of the environments.
      accepted: whether the user accepts libtpu's terms, as with the environment variable ACCEPT=1.
      say: function of a line, called before each installation.

    Raises:
      ValueError: the platform has no packages, the terms are not accepted, or the installation failed.
    """
    check_platform()
    missing = [name for name in (LOWER, COMPILE) if not is_whole(name, folder)]
    if not missing:
        return
    if not accepted and os.environ.get(ACCEPT) != "1":
        raise InputError(
            f"{folder} lacks {' and '.join(missing)}: 2.5 GB of packages in virtual environments of their own. One "
            "is libtpu, Google's proprietary compiler and runtime for TPUs, under the terms of Google Cloud "
            "(https://cloud.google.com/terms), and no part of tfbigbatch. To accept them and install, pass "
            f"--accept_libtpu_license, or set {ACCEPT}=1. Manual installation:\n{_by_hand(missing, folder)}"
        )
    for name in missing:
        say(f"installing {', '.join(pins(name))} into {os.path.join(folder, name)}")
        _make(name, folder)


def _make(name: str, folder: str) -> None:
    path = os.path.join(folder, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(folder, exist_ok=True)
    for command in commands(name, folder):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            said = "\n".join(line for line in done.stderr.splitlines() if line.strip())[-1500:]
            raise InputError(
                f"{path} could not be installed; this command failed:\n  {' '.join(command)}\n{said}\nIt needs a "
                f"package index, 4 GB of disk and {_NEEDS}. Without a network, run these elsewhere on such a machine "
                f"and copy the folder to the same path:\n{_by_hand([name], folder)}"
            )
    if name == LOWER:
        _borrow(folder)
    with open(os.path.join(path, _MARKER), "w", encoding="utf-8") as file:
        json.dump(_marker(name), file)


def _borrow(folder: str) -> None:
    """Adds the packages of the running environment (models, data, Keras) to `lower`, after its own."""
    version = "python{}.{}".format(*sys.version_info[:2])
    path = os.path.join(folder, LOWER, "lib", version, "site-packages", "borrowed.pth")
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(f"{each}\n" for each in _own_packages()))


def _own_packages() -> list[str]:
    paths = sysconfig.get_paths()
    return sorted({paths["purelib"], paths["platlib"]})


def _marker(name: str) -> dict[str, Any]:
    return {
        "pins": pins(name),
        "python": sys.version.split()[0],
        **({"borrows": _own_packages()} if name == LOWER else {}),
    }


def _by_hand(names: Sequence[str], folder: str) -> str:
    return "\n".join(f"  {' '.join(command)}" for name in names for command in commands(name, folder))
