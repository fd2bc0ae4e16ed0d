"""The two virtual environments of a check. The user makes them, by the commands that this module prints:

    python -m tfbigbatch.tpu.environments | sh -e

`lower` has TensorFlow with the TPU's kernels (the package tensorflow-tpu) and uses all other packages of the running
environment. `compile` has JAX and libtpu, the TPU's compiler. libtpu is proprietary and no part of this project.
"""

from __future__ import annotations

import os
import platform
import shlex
import sys
import sysconfig

from tfbigbatch.errors import InputError

FOLDER = ".tpu_envs"
# With the version in the folder's name, other pins are another environment.
LOWER, COMPILE = "lower-2.20.0", "compile-0.0.42.1"
_PINS = {
    LOWER: "--no-deps tensorflow-tpu==2.20.0",
    COMPILE: "jax[tpu]==0.10.2 jaxlib==0.10.2 libtpu==0.0.42.1 ml_dtypes==0.6.0 numpy==2.4.6 scipy==1.17.1",
}
_TERMS = (
    "2.5 GB of packages in two virtual environments. One is libtpu, Google's proprietary compiler and runtime for "
    "TPUs, under the terms of Google Cloud (https://cloud.google.com/terms), and no part of tfbigbatch: install it if "
    "you accept them."
)


def python(name: str, folder: str) -> str:
    """The path of an environment's interpreter."""
    return os.path.join(folder, name, "bin", "python")


def commands(folder: str) -> list[str]:
    """The shell commands that make the missing environments; a file that the last one writes marks a whole one."""
    found = []
    # The packages of the running environment (models, data, Keras) come after those of `lower`.
    borrowed = {LOWER: [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")], COMPILE: []}
    for name, pins in _PINS.items():
        marker = _marker(name, folder)
        if not os.path.exists(marker):
            lines = " ".join(map(shlex.quote, borrowed[name]))
            found += [
                f"{shlex.quote(sys.executable)} -m venv --clear {shlex.quote(os.path.join(folder, name))}",
                f"{shlex.quote(python(name, folder))} -m pip install --quiet {pins}",
                f"printf '%s\\n' {lines} > {shlex.quote(marker)}",
            ]
    return found


def ensure(folder: str) -> None:
    """Checks that both environments are there.

    Raises:
      ValueError: one is missing, or the platform has no packages.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64" or sys.version_info[:2] not in ((3, 11), (3, 12)):
        raise InputError(
            f"Python {platform.python_version()} on {platform.system()} {platform.machine()}: the packages of the TPU "
            "compiler (tensorflow-tpu, libtpu) are for Python 3.11 and 3.12 on Linux on x86-64. Run this command "
            "there; it needs no TPU."
        )
    if missing := commands(folder):
        by_hand = "\n".join(f"  {command}" for command in missing)
        raise InputError(f"{folder} lacks environments: {_TERMS} Run:\n{by_hand}")


def _marker(name: str, folder: str) -> str:
    version = f"python{sysconfig.get_python_version()}"
    return os.path.join(folder, name, "lib", version, "site-packages", "borrowed.pth")


if __name__ == "__main__":
    print("\n".join([f"# {_TERMS}", *commands(os.path.abspath(FOLDER))]))
