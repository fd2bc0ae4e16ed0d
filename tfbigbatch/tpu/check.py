"""Checks a training step for a TPU slice: traced and lowered in one process, compiled in another; and the report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tfbigbatch.errors import InputError
from tfbigbatch.tpu import environments, hlo, topologies

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_LONGEST_LINE = 150
# For each environment: the module that runs in it, and variables. Without them libtpu asks a metadata server for the
# machine and looks for its TPU; it compiles for any slice anyway.
_PROCESSES = {
    environments.LOWER: ("step", {"TF_USE_LEGACY_KERAS": "1", "TPU_SKIP_MDS_QUERY": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}),
    environments.COMPILE: (
        "compile",
        {
            "TPU_SKIP_MDS_QUERY": "1",
            "TPU_ACCELERATOR_TYPE": "v5litepod-4",
            "TPU_WORKER_HOSTNAMES": "localhost",
            "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
            "JAX_PLATFORMS": "cpu",
        },
    ),
}


def check(
    config: str,
    topology: topologies.Topology,
    folder: str,
    *,
    replicas: int,
    overrides: Sequence[str] = (),
    phase: int = 1,
    data_dir: str | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> dict[str, Any]:
    """Compiles a training step for a slice.

    Args:
      config: path of an experiment file.
      topology: the slice.
      folder: of the environments; see `environments.ensure`.
      replicas: in sync, at most those of the topology.
      overrides: 'field=value' for the config.
      phase: of the run, counted from 1.
      data_dir: prepared data that sets the shapes; None for the shapes of the public data set.
      say: function of a line, called before each part that takes minutes.

    Returns:
      Dictionary: the request, `compiles`, `fits`, and the results of `step.lower` and `compile.run`; peak_bytes and
      usable_bytes of a replica; if it does not fit, needed_bytes and allocations.

    Raises:
      ValueError: the config cannot run on this number of replicas, or a process failed.
    """
    started = time.perf_counter()
    found = {
        "config": config,
        "overrides": list(overrides),
        "phase": phase,
        "topology": topology.name,
        "replicas": replicas,
        "accelerator_type": topology.accelerator_type,
        "chips": topology.chips,
    }
    with tempfile.TemporaryDirectory() as scratch:
        request = {**found, "data_dir": data_dir, "options": topology.libtpu_options, "folder": scratch}
        say(f"tracing      {config}, a replica's step of {replicas:,}")
        found |= _in(environments.LOWER, request, folder)
        if "error" in found:
            found.update(compiles=False, fits=None)
        else:
            say(f"compiling    for {topology.name}, after {time.perf_counter() - started:.0f} s")
            found |= _in(environments.COMPILE, {**request, "variables": found["variables"]}, folder)
            found |= _memory(found, int(topologies.GENERATIONS[topology.generation].usable_gib * 2**30))
    found["total_seconds"] = round(time.perf_counter() - started, 1)
    return found


def _memory(found: dict[str, Any], usable: int) -> dict[str, Any]:
    """The verdict on a compilation."""
    if "error" not in found:
        peak = found["memory"]["peak_memory"]
        return {"compiles": True, "fits": peak <= usable, "peak_bytes": peak, "usable_bytes": usable}
    memory = hlo.out_of_memory(found["error"])
    if memory is None:
        return {"compiles": False, "fits": None}
    return {"compiles": True, "fits": False, "needed_bytes": memory[0], "usable_bytes": memory[1]}


def _in(environment: str, request: dict[str, Any], folder: str) -> dict[str, Any]:
    """Runs the module of an environment in it; the request is its input in JSON, the answer the last that it prints."""
    module, variables = _PROCESSES[environment]
    command = [environments.python(environment, folder), "-m", f"tfbigbatch.tpu.{module}"]
    variables = {**os.environ, "PYTHONPATH": _ROOT, "PYTHONWARNINGS": "ignore", **variables}
    done = subprocess.run(command, env=variables, input=json.dumps(request), capture_output=True, text=True)
    if done.returncode:
        raise InputError(
            f"{' '.join(command[1:])} ended with code {done.returncode} and no answer"
            f"{': its memory may have run out' if done.returncode in (-9, 137) else ''}.\n{done.stderr[-3000:]}"
        )
    found: dict[str, Any] = json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])
    if "input_error" in found:
        raise InputError(found["input_error"])
    return found


def answer(run: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """The side of `_in` in the other environment: prints the answer of `run`, or the text of its InputError."""
    try:
        found = run(json.load(sys.stdin))
    except InputError as error:
        found = {"input_error": str(error)}
    print("\n" + json.dumps(found), flush=True)


# ------------------------------------------------------------------------------------------------------- the report


def lines(found: dict[str, Any]) -> Iterator[str]:
    """The lines of the report on a result of `check`."""
    yield (
        f"slice        {found['topology']} ({found['accelerator_type']}): {found['chips']:,} chips, "
        f"{found['replicas']:,} replicas"
    )
    accumulation = found["accumulation_steps"]
    micro = found["per_replica_batch"] // accumulation
    yield (
        f"batch        {found['batch_size']:,} global = {micro:,} per replica x {accumulation} accumulation x "
        f"{found['replicas']:,} replicas; {', '.join(found['inputs'])}"
    )
    yield f"model        {found['weights']:,} weights, {size(found['state_bytes'])} with the optimizer's state"
    yield from _verdict(found)
    if found.get("flops") is not None:
        yield f"step         {found['flops'] / 1e9:,.1f} GFLOP and {size(found['bytes'])} moved, in a replica"
        if found["uncounted_loops"]:
            yield f"             more than that: {found['uncounted_loops']} of its loops are counted with one iteration"
        yield f"collectives  {collectives(found) or 'none'}"
    for each in found["findings"]:
        times = f" x {each['times']}" if each["times"] > 1 else ""
        yield f"lint         {each['kind']}: {each['operation']}{times}, {each['line'] or each['name']}"[:_LONGEST_LINE]
    if found.get("float64_results"):
        yield f"lint         float64: {found['float64_results']} results in the compiled program"
    elif not found["findings"]:
        yield "lint         nothing on the host, no dynamic shapes, no strings, no float64"
    yield (
        f"took         traced {found['trace_seconds']} s, lowered {found.get('lower_seconds', 0)} s, compiled "
        f"{found.get('seconds', 0)} s"
    )


def _verdict(found: dict[str, Any]) -> Iterator[str]:
    if not found["compiles"]:
        yield f"compiles     NO: {found['error'][:2000]}"
        return
    needed, usable = found["needed_bytes" if "needed_bytes" in found else "peak_bytes"], found["usable_bytes"]
    if found["fits"]:
        yield f"fits         yes: {size(needed)} of {size(usable)} usable ({needed / usable:.0%})"
        return
    yield f"fits         NO: {size(needed)} of {size(usable)} usable"
    yield "             --config.accumulation_steps=2 halves what the activations need, and 4 quarters it"
    if found.get("recompute") is False:
        yield "             --config.model.recompute=true needs less, for about a third more operations"
    for each in found.get("allocations", ()):
        yield f"             {size(each['bytes']):>10}  {each['name'] or 'unnamed'}  {each['shape']}"[:_LONGEST_LINE]


def collectives(found: dict[str, Any]) -> str:
    """The collective operations as text: '1 all-reduce of 102.2 MB'."""
    return ", ".join(f"{each['count']} {each['kind']} of {size(each['bytes'])}" for each in found["collectives"])


def size(number: float) -> str:
    """Formats a number of bytes."""
    for unit, power in (("GB", 30), ("MB", 20), ("KB", 10)):
        if number >= 2**power:
            return f"{number / 2**power:.2f} {unit}" if unit == "GB" else f"{number / 2**power:.1f} {unit}"
    return f"{number:.0f} B"
