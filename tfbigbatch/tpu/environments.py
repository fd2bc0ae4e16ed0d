"""The two virtual environments of a check, installed on request only.

`lower` has TensorFlow with the TPU's kernels (the package tensorflow-tpu) and uses all other packages of the running
environment. `compile` has JAX and libtpu, the TPU's compiler. libtpu is proprietary and no part of this project: it is
installed from the package index for users who accept its terms.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from typing import Any

from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import read_json, write_json, write_text

FOLDER = ".tpu_envs"
ACCEPT = "TFBIGBATCH_ACCEPT_LIBTPU_LICENSE"
LOWER, COMPILE = "lower", "compile"
PINS = {
    LOWER: ["tensorflow-tpu==2.20.0"],
    COMPILE: [
        "jax[tpu]==0.10.2",
        "jaxlib==0.10.2",
        "libtpu==0.0.42.1",
        "ml_dtypes==0.6.0",
        "numpy==2.4.6",
        "scipy==1.17.1",
    ],
}
_MARKER = "installed.json"


def python(name: str, folder: str) -> str:
    """The path of an environment's interpreter."""
    return os.path.join(folder, name, "bin", "python")


def ensure(folder: str, accepted: bool = False, say: Callable[[str], object] = print) -> None:
    """Installs the missing environments.

    Args:
      folder: of the environments.
      accepted: True if the user accepts libtpu's terms, as with the environment variable ACCEPT=1.
      say: function of a line, called before each installation.

    Raises:
      ValueError: the platform has no packages, the terms are not accepted, or the installation failed.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64" or sys.version_info[:2] not in ((3, 11), (3, 12)):
        raise InputError(
            f"Python {platform.python_version()} on {platform.system()} {platform.machine()}: the packages of the TPU "
            "compiler (tensorflow-tpu, libtpu) are for Python 3.11 and 3.12 on Linux on x86-64. Run this command "
            "there; it needs no TPU."
        )
    missing = [name for name in PINS if not is_whole(name, folder)]
    if missing and not accepted and os.environ.get(ACCEPT) != "1":
        by_hand = "\n".join(f"  {' '.join(command)}" for name in missing for command in _commands(name, folder))
        raise InputError(
            f"{folder} lacks {' and '.join(missing)}: 2.5 GB of packages in virtual environments of their own. One "
            "is libtpu, Google's proprietary compiler and runtime for TPUs, under the terms of Google Cloud "
            "(https://cloud.google.com/terms), and no part of tfbigbatch. To accept them and install, pass "
            f"--accept_libtpu_license, or set {ACCEPT}=1. It runs:\n{by_hand}"
        )
    for name in missing:
        say(f"installing {', '.join(PINS[name])} into {os.path.join(folder, name)}")
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
        for command in _commands(name, folder):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise InputError(
                    f"{' '.join(command)} failed:\n{done.stderr.strip()[-1500:]}\nIt needs a package index and 4 GB "
                    f"of disk. Without a network, copy {folder} from a machine that has both, to the same path."
                )
        if name == LOWER:
            # The packages of the running environment (models, data, Keras), after its own.
            packages = os.path.join(folder, LOWER, "lib", f"python{sysconfig.get_python_version()}", "site-packages")
            write_text(os.path.join(packages, "borrowed.pth"), "".join(f"{path}\n" for path in _borrowed()))
        write_json(os.path.join(folder, name, _MARKER), _marker(name))


def is_whole(name: str, folder: str) -> bool:
    """True if an environment is completely installed, with the current pins, for the running Python and environment."""
    path = os.path.join(folder, name, _MARKER)
    return os.path.exists(path) and read_json(path) == _marker(name)


def _commands(name: str, folder: str) -> list[list[str]]:
    options = ["--quiet", "--disable-pip-version-check", "--no-compile"] + (["--no-deps"] if name == LOWER else [])
    return [
        [sys.executable, "-m", "venv", os.path.join(folder, name)],
        [python(name, folder), "-m", "pip", "install", *options, *PINS[name]],
    ]


def _borrowed() -> list[str]:
    return sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})


def _marker(name: str) -> dict[str, Any]:
    return {"pins": PINS[name], "python": sys.version.split()[0], "borrows": _borrowed() if name == LOWER else []}
