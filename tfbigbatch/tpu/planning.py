"""From a compiled step to the time of an update and of a run on other slices: arithmetic, no measurement.

Of a step three things take time: operations, at the chip's peak rate; bytes to and from its main memory; and the
all-reduce of the gradients, of which every chip sends and receives almost twice their size. On fewer or more chips
the global batch stays: a replica's part of it grows or shrinks, and accumulates where it is more than was compiled.
"""

import typing

from tfbigbatch.errors import InputError
from tfbigbatch.tpu import largest_batch, topologies
from tfbigbatch.tpu.chips import CHIPS

COMPUTE, MEMORY, ALL_REDUCE, FIXED = "compute", "memory", "all-reduce", "fixed"


class Fit(typing.NamedTuple):
    """How far real updates stay behind the peak rates; see `calibration`.

    Attributes:
      efficiency: the share of the peak rates, of compute or memory, that is reached. Above 1 for the memory where the
        compiler counts bytes that never leave the chip; of compute no more than the peak is taken.
      fixed: seconds of every update beside these, whatever its batch: waiting for the slowest chip, starting programs.
    """

    efficiency: float = 1.0
    fixed: float = 0.0


PEAK = Fit()


class Step(typing.NamedTuple):
    """What of a compiled step does not depend on the slice.

    Attributes:
      generation: of the TPU that it was compiled for.
      batch_size: examples in an update.
      updates: of the run, or of this phase of it.
      micro_batch: examples in one pass of a replica, as compiled; the most that is known to fit.
      flops: for an example.
      example_bytes: moved for an example, to and from main memory.
      weight_bytes: moved for an update whatever the batch: variables and gradients.
      reduced_bytes: of gradients, in an all-reduce.
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
    """An update on a slice. Times are in seconds.

    Attributes:
      topology: topologies.Topology.
      micro_batch, accumulation_steps: examples of a replica in a pass, and its passes.
      compute, memory, all_reduce: each alone, at the peak rates.
      bound: no update is shorter: the longest of compute, the all-reduce, and reading and writing what is not of the
        batch. `memory` is no bound: the compiler counts what stays on the chip between operations, too.
      estimate: by the fit asked for; the all-reduce and what is fixed follow the rest.
      limit: what takes longest: COMPUTE, MEMORY, ALL_REDUCE or FIXED.
      run: of all updates; without evaluations, checkpoints and compilation.
      host_rate: examples a second that every host must bring.
    """

    topology: object
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


def step_of(found):
    """The `Step` of a check, as `check.check` gave it.

    Raises:
      ValueError: it did not compile or fit; or how often its loops turn is not known.
    """
    if not found.get("fits"):
        raise InputError(f"{found['config']} on {found['topology']}: it did not compile and fit; nothing to plan with.")
    if found["uncounted_loops"]:
        raise InputError(
            f"{found['config']} on {found['topology']}: how often {found['uncounted_loops']} of the program's loops "
            "turn is not known, and so not what they cost: the step cannot be planned."
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


def plan(step, topology, fit=PEAK):
    """The `Plan` of a step on a slice of the generation that it was compiled for; None where the batch cannot divide.

    Args:
      step: Step.
      topology: topologies.Topology.
      fit: Fit.

    Raises:
      ValueError: another generation.
    """
    if topology.generation != step.generation:
        raise InputError(
            f"--topology={topology.name}: the step was compiled for {step.generation}, and the program of another "
            "generation moves other bytes. Check it there first: python tools/tpu_check.py --topology=... --json."
        )
    split = _split(step, topology.replicas)
    if split is None:
        return None
    micro_batch, accumulation = split
    chip, share = CHIPS[step.generation], topologies.GENERATIONS[step.generation].replicas_per_chip
    examples = micro_batch * accumulation * share
    compute = step.flops * examples / chip.flops
    memory = (step.example_bytes * examples + step.weight_bytes * share) / chip.memory_bandwidth
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
        bound=max(compute, step.weight_bytes * share / chip.memory_bandwidth, all_reduce),
        estimate=estimate,
        limit=max(times, key=times.get),
        run=estimate * step.updates,
        host_rate=step.batch_size / estimate / topology.hosts,
    )


def all_reduce_seconds(size, topology):
    """The least time of an all-reduce of `size` bytes: each chip sends 2 (n - 1) / n of them. In seconds."""
    chips = topology.chips
    return 2 * (chips - 1) / chips * size / CHIPS[topology.generation].all_reduce_bandwidth


def _split(step, replicas):
    """(micro-batch, accumulation) of a replica; None where the batch does not divide over them."""
    per_replica, rest = divmod(step.batch_size, replicas)
    if rest or not per_replica:
        return None
    found = largest_batch.suggestion(step.micro_batch, step.batch_size, replicas)
    return found.micro_batch, found.accumulation_steps
