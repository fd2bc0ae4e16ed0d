"""Estimated time of a step and of a run on other slices, computed from a compiled step (a roofline model).

Three costs: operations, at the chip's peak rate; bytes to and from main memory; and the all-reduce of the gradients, in
which every chip sends and receives almost twice their size. The global batch is the same on fewer or more chips: the
batch of a replica changes, and accumulates if it is larger than the compiled one.
"""

from __future__ import annotations

import typing
from typing import Any

from tfbigbatch.errors import InputError
from tfbigbatch.tpu import largest_batch, topologies
from tfbigbatch.tpu.chips import CHIPS

COMPUTE, MEMORY, ALL_REDUCE, FIXED = "compute", "memory", "all-reduce", "fixed"


class Fit(typing.NamedTuple):
    """Real steps relative to the peak rates; see `calibration`.

    Attributes:
      efficiency: fraction of the peak rates reached, for compute and memory. Can be above 1 for memory, as the compiler
        counts bytes that never leave the chip; for compute it is limited to 1.
      fixed: further seconds of each step, whatever its batch: waiting for the slowest chip, starting programs.
    """

    efficiency: float = 1.0
    fixed: float = 0.0


PEAK = Fit()


class Step(typing.NamedTuple):
    """The costs of a compiled step that do not depend on the slice.

    Attributes:
      generation: of the TPU that it was compiled for.
      batch_size: examples in a step.
      updates: optimizer steps of the run, or of this phase.
      micro_batch: examples in one pass of a replica, as compiled; known to fit.
      flops: per example.
      example_bytes: per example, to and from main memory.
      weight_bytes: per step whatever the batch: variables and gradients.
      reduced_bytes: size of the gradients in the all-reduce.
    """

    generation: str
    batch_size: int
    updates: int
    micro_batch: int
    flops: float
    example_bytes: float
    weight_bytes: float
    reduced_bytes: float


class Plan(typing.NamedTuple):
    """A step on a slice. Times are in seconds.

    Attributes:
      topology: the slice.
      micro_batch, accumulation_steps: examples of a replica per pass, and passes per step.
      compute, memory, all_reduce: each alone, at the peak rates.
      bound: lower bound of a step: the longest of compute, the all-reduce, and reading and writing variables and
        gradients. `memory` is no bound, as the compiler also counts bytes that stay on the chip between operations.
      estimate: with the given fit; the all-reduce and the fixed time do not overlap with the rest.
      limit: the longest part: COMPUTE, MEMORY, ALL_REDUCE or FIXED.
      run: of all steps; without evaluations, checkpoints and compilation.
      host_rate: examples per second that each host must supply.
    """

    topology: topologies.Topology
    micro_batch: int
    accumulation_steps: int
    compute: float
    memory: float
    all_reduce: float
    bound: float
    estimate: float
    limit: str
    run: float
    host_rate: float


def step_of(found: dict[str, Any]) -> Step:
    """The costs of a step from the result of `check.check`.

    Raises:
      ValueError: it did not compile or fit, or the iterations of its loops are unknown.
    """
    if not found.get("fits"):
        raise InputError(
            f"{found['config']} on {found['topology']}: not compiled or does not fit; it cannot be planned. Where it "
            "does not fit, check it with model.recompute or with accumulation_steps."
        )
    if found["uncounted_loops"]:
        raise InputError(
            f"{found['config']} on {found['topology']}: the number of iterations of {found['uncounted_loops']} "
            "loop(s) in the program is unknown, and with it their cost: the step cannot be planned."
        )
    examples = found["per_replica_batch"]
    # Variables are read and written, gradients written and read.
    weight_bytes = 2 * found["state_bytes"] + 2 * 4 * found["weights"]
    reduced = sum(each["bytes"] for each in found["collectives"] if each["kind"] == ALL_REDUCE)
    return Step(
        generation=found["topology"].partition(":")[0],
        batch_size=found["batch_size"],
        updates=found["updates"],
        micro_batch=examples // found["accumulation_steps"],
        flops=found["flops"] / examples,
        example_bytes=max(0.0, found["bytes"] - weight_bytes) / examples,
        weight_bytes=weight_bytes,
        reduced_bytes=reduced,
    )


def plan(step: Step, topology: topologies.Topology, fit: Fit = PEAK) -> Plan | None:
    """Plans a step on a slice of the generation that it was compiled for; None if the batch does not divide.

    Raises:
      ValueError: another generation.
    """
    if topology.generation != step.generation:
        raise InputError(
            f"--topology={topology.name}: the step was compiled for {step.generation}, and the program of another "
            "generation moves other bytes. Check it there first: tfbigbatch tpu-check --topology=... --json."
        )
    split = _split(step, topology.replicas)
    if split is None:
        return None
    micro_batch, accumulation = split
    chip, replicas_per_chip = CHIPS[step.generation], topologies.GENERATIONS[step.generation].replicas_per_chip
    examples = micro_batch * accumulation * replicas_per_chip
    compute = step.flops * examples / chip.flops
    memory = (step.example_bytes * examples + step.weight_bytes * replicas_per_chip) / chip.memory_bandwidth
    all_reduce = all_reduce_seconds(step.reduced_bytes, topology)
    times = {
        COMPUTE: compute / min(1.0, fit.efficiency),
        MEMORY: memory / fit.efficiency,
        ALL_REDUCE: all_reduce,
        FIXED: fit.fixed,
    }
    estimate = max(times[COMPUTE], times[MEMORY]) + all_reduce + fit.fixed
    return Plan(
        topology=topology,
        micro_batch=micro_batch,
        accumulation_steps=accumulation,
        compute=compute,
        memory=memory,
        all_reduce=all_reduce,
        bound=max(compute, step.weight_bytes * replicas_per_chip / chip.memory_bandwidth, all_reduce),
        estimate=estimate,
        limit=max(times, key=lambda name: times[name]),
        run=estimate * step.updates,
        host_rate=step.batch_size / estimate / topology.hosts,
    )


def all_reduce_seconds(size: float, topology: topologies.Topology) -> float:
    """Lower bound of the seconds of an all-reduce of `size` bytes: each chip sends 2 (n - 1) / n of them."""
    chips = topology.chips
    return 2 * (chips - 1) / chips * size / CHIPS[topology.generation].all_reduce_bandwidth


def _split(step: Step, replicas: int) -> tuple[int, int] | None:
    """(micro-batch, accumulation) of a replica; None if the batch does not divide."""
    per_replica, rest = divmod(step.batch_size, replicas)
    if rest or not per_replica:
        return None
    found = largest_batch.suggestion(step.micro_batch, step.batch_size, replicas)
    return found.micro_batch, found.accumulation_steps
