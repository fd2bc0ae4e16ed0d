"""A check: a training step is traced and lowered in one process, and compiled in another, for a slice."""

import json
import os
import shutil
import subprocess
import tempfile
import time
import typing

from tfbigbatch.errors import InputError
from tfbigbatch.tpu import environments, hlo
from tfbigbatch.tpu.chips import CHIPS

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Asked(typing.NamedTuple):
    """What is to be checked.

    Attributes:
      config: path of an experiment file.
      topology: topologies.Topology.
      replicas: in sync, at most those of the topology.
      overrides: texts 'field=value' for the config.
      phase: of the run, from 1 on.
      data_dir: prepared data whose shapes count; None for those of the public data set.
      micro_batch: examples of a replica in one pass, without accumulation, in place of the config's batch; or None.
    """

    config: str
    topology: object
    replicas: int
    overrides: tuple = ()
    phase: int = 1
    data_dir: str | None = None
    micro_batch: int | None = None


def check(asked, folder, *, keep=None, say=lambda line: None):
    """Compiles a training step for a slice.

    Args:
      asked: Asked.
      folder: where the environments lie; see `environments.ensure`.
      keep: folder that keeps the program (step.mlir, program.txt), or None.
      say: called with a line before what takes minutes.

    Returns:
      Dictionary: what was asked, `compiles`, `fits`, and what `lower.run` and `compile.run` give; peak_bytes and
      usable_bytes of a replica; where it does not fit, needed_bytes and allocations.

    Raises:
      ValueError: the config cannot be used at this number of replicas, or a process failed.
    """
    started = time.perf_counter()
    say(f"tracing      {asked.config}, a replica's step of {asked.replicas:,}")
    with tempfile.TemporaryDirectory() as scratch:
        found = {
            "config": asked.config,
            "overrides": list(asked.overrides),
            "phase": asked.phase,
            "topology": asked.topology.name,
            "accelerator_type": asked.topology.accelerator_type,
            "chips": asked.topology.chips,
            "replicas": asked.replicas,
            **_lowered(asked, folder, scratch),
        }
        if "error" in found:
            found.update(compiles=False, fits=None)
        else:
            say(f"compiling    for {asked.topology.name}, after {time.perf_counter() - started:.0f} s")
            found.update(_compiled(asked, found["variables"], folder, scratch, keep is not None))
        if keep is not None:
            _keep(scratch, keep)
    found["total_seconds"] = round(time.perf_counter() - started, 1)
    return found


def _lowered(asked, folder, scratch):
    request = {
        "config": asked.config,
        "overrides": list(asked.overrides),
        "replicas": asked.replicas,
        "phase": asked.phase,
        "data_dir": asked.data_dir,
        "micro_batch": asked.micro_batch,
        "folder": scratch,
    }
    return _in(environments.LOWER, "lower", request, folder, "step.json")


def _compiled(asked, variables, folder, scratch, keep_program):
    request = {
        "topology": asked.topology.name,
        "options": asked.topology.libtpu_options,
        "replicas": asked.replicas,
        "variables": variables,
        "folder": scratch,
        "keep_program": keep_program,
    }
    found = _in(environments.COMPILE, "compile", request, folder, "compiled.json")
    usable = CHIPS[asked.topology.generation].usable_bytes
    if "error" not in found:
        peak = found["memory"]["peak_memory"]
        return {**found, "compiles": True, "fits": peak <= usable, "peak_bytes": peak, "usable_bytes": usable}
    memory = hlo.out_of_memory(found["error"])
    if memory is None:
        return {**found, "compiles": False, "fits": None}
    needed, usable = memory
    return {
        **found,
        "compiles": True,
        "fits": False,
        "needed_bytes": needed,
        "usable_bytes": usable,
    }


def _in(environment, module, request, folder, answer):
    """What a module of this package answers in another environment."""
    scratch = request["folder"]
    path = os.path.join(scratch, f"{module}.request.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(request, file)
    command = [environments.python(environment, folder), "-m", f"tfbigbatch.tpu.{module}", path]
    variables = {**os.environ, "PYTHONPATH": _ROOT, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        with open(os.path.join(scratch, answer), encoding="utf-8") as file:
            found = json.load(file)
    except OSError:
        last = "\n".join(done.stderr.splitlines()[-5:])
        raise InputError(
            f"{' '.join(command[1:3])} ended with code {done.returncode} and no answer"
            f"{': its memory may have run out' if done.returncode in (-9, 137) else ''}.\n{last}"
        ) from None
    if "input_error" in found:
        raise InputError(found["input_error"])
    if "crash" in found:
        raise RuntimeError(f"{' '.join(command[1:3])} failed:\n{found['crash']}")
    return found


def _keep(scratch, folder):
    os.makedirs(folder, exist_ok=True)
    for name in ("step.mlir", "program.txt"):
        if os.path.exists(os.path.join(scratch, name)):
            shutil.copy(os.path.join(scratch, name), folder)
