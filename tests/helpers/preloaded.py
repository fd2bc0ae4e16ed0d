"""Commands in copies of a process that has imported TensorFlow: a command takes tenths of a second, not seconds."""

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile

from tests.helpers.repository import ROOT

# Nothing of the package: its modules define flags, and a command is to have those of its own imports alone.
_IMPORTED = ["tensorflow", "keras", "ml_collections", "matplotlib"]


def run(command, *arguments, timeout=240, folder=ROOT, package_path=None, **environment):
    """Runs a command, by default from the project's root, and waits for its end.

    Args:
      command: path of its file, or a module's name, as "tfbigbatch".
      *arguments: of its command line.
      folder: the working directory.
      package_path: folder to import the package from, in place of the checkout.
      timeout: seconds; it is killed then, and `subprocess.TimeoutExpired` raised.
      **environment: variables beside those of this process.

    Returns:
      subprocess.CompletedProcess, with `returncode`, and `stdout` and `stderr` as text.
    """
    with tempfile.TemporaryDirectory() as scratch:
        outputs = [os.path.join(scratch, name) for name in ("stdout", "stderr")]
        process = start(command, *arguments, outputs=outputs, folder=folder, package_path=package_path, **environment)
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired([command, *arguments], timeout)
        said = []
        for path in outputs:
            with open(path, encoding="utf-8") as file:
                said.append(file.read())
    return subprocess.CompletedProcess([command, *arguments], process.exitcode, *said)


def start(command, *arguments, outputs, folder=ROOT, package_path=None, **environment):
    """Starts a command as `run` does, and returns its process at once.

    Args:
      outputs: paths of the files for its stdout and its stderr; the two may be one.

    Returns:
      multiprocessing.Process, with `exitcode`, None while it runs, and `kill` and `join`.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    arguments = [str(each) for each in arguments]
    environment = {**os.environ, **environment}
    if package_path is not None:
        environment["PYTHONPATH"] = str(package_path)
    outputs = [str(each) for each in outputs]
    process = context.Process(target=_become, args=(command, arguments, environment, str(folder), outputs))
    process.start()
    return process


def tfbigbatch(*arguments, **options):
    """Runs a sub-command of the console script; see `run`."""
    return run("tfbigbatch", *arguments, **options)


def _become(command, arguments, environment, folder, outputs):
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    if folder != ROOT:
        # As in a process that was started there with this PYTHONPATH.
        installed = [path for path in sys.path if os.path.abspath(path) != ROOT]
        sys.path[:] = [*environment.get("PYTHONPATH", "").split(os.pathsep), *installed]
    for stream, path in enumerate(outputs, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    sys.stdout, sys.stderr = (os.fdopen(stream, "w", buffering=1, encoding="utf-8") for stream in (1, 2))
    sys.argv = [command, *arguments]
    if command.endswith(".py"):
        # As Python does for a command's file.
        sys.path[0] = os.path.dirname(os.path.abspath(command))
        runpy.run_path(command, run_name="__main__")
    else:
        runpy.run_module(command, run_name="__main__", alter_sys=True)
