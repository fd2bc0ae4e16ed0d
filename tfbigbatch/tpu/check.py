"""Checks a training step for a TPU slice: traced and lowered in one process, compiled in another."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
import typing
from collections.abc import Callable
from typing import Any

from tfbigbatch.errors import InputError
from tfbigbatch.tpu import environments, hlo, topologies
from tfbigbatch.tpu.chips import CHIPS

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class CheckRequest(typing.NamedTuple):
    """A training step and a slice.

    Attributes:
      config: path of an experiment file.
      topology: the slice.
      replicas: in sync, at most those of the topology.
      overrides: 'field=value' for the config.
      phase: of the run, counted from 1.
      data_dir: prepared data that sets the shapes; None for the shapes of the public data set.
      micro_batch: examples per replica in one pass, without accumulation, instead of the config's batch; or None.
      xla_flags: of libtpu's compiler, as '--xla_jf_auto_cross_replica_sharding=true'.
    """

    config: str
    topology: topologies.Topology
    replicas: int
    overrides: tuple[str, ...] = ()
    phase: int = 1
    data_dir: str | None = None
    micro_batch: int | None = None
    xla_flags: tuple[str, ...] = ()


def check(
    asked: CheckRequest, folder: str, *, keep: str | None = None, say: Callable[[str], object] = lambda line: None
) -> dict[str, Any]:
    """Compiles a training step for a slice.

    Args:
      asked: the step and the slice.
      folder: of the environments; see `environments.ensure`.
      keep: folder in which to keep the program (step.mlir, program.txt), or None.
      say: function of a line, called before each part that takes minutes.

    Returns:
      Dictionary: the request, `compiles`, `fits`, and the results of `lower.run` and `compile.run`; peak_bytes and
      usable_bytes of a replica; if it does not fit, needed_bytes and allocations.

    Raises:
      ValueError: the config cannot run on this number of replicas, or a process failed.
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
            **({"xla_flags": list(asked.xla_flags)} if asked.xla_flags else {}),
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


def _lowered(asked: CheckRequest, folder: str, scratch: str) -> dict[str, Any]:
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


def _compiled(asked: CheckRequest, variables: int, folder: str, scratch: str, keep_program: bool) -> dict[str, Any]:
    request = {
        "topology": asked.topology.name,
        "options": asked.topology.libtpu_options,
        "replicas": asked.replicas,
        "variables": variables,
        "folder": scratch,
        "keep_program": keep_program,
        "xla_flags": list(asked.xla_flags),
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


def _in(environment: str, module: str, request: dict[str, Any], folder: str, answer: str) -> dict[str, Any]:
    """Runs a module of this package in another environment; returns its JSON answer."""
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


def _keep(scratch: str, folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    for name in ("step.mlir", "program.txt"):
        if os.path.exists(os.path.join(scratch, name)):
            shutil.copy(os.path.join(scratch, name), folder)
