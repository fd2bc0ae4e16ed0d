"""The time of a step and of a run on slices of other sizes: a roofline of the operations and bytes of a compiled step.

Three costs, each at the published peak rate of the chip: operations; bytes to and from main memory; and the all-reduce
of the gradients, in which every chip sends and receives almost twice their size. A step takes the longer of the first
two, and then the all-reduce. The global batch is the same on fewer or more chips: a replica's batch changes, and
accumulates if it is larger than the compiled one.

Nothing is fitted. Published runs took `ERROR` times the time of their plan; results/measurements/tpu.md has each.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from typing import Any

from tfbigbatch.errors import InputError
from tfbigbatch.reports.table import Table
from tfbigbatch.tpu import topologies

# Published over planned time, by results/measurements/tpu.md: MLPerf's runs on each generation, and the papers'.
ERROR = {"MLPerf's runs on v3": (1.1, 1.9), "MLPerf's runs on v4": (0.7, 1.1), "the papers' runs on v3": (2.4, 3.8)}
_HEADINGS = ("slice", "chips", "replica", "compute", "memory", "all-reduce", "step", "limit", "run", "chip-hours")
# Of a replica in a step; more than any run has.
_MOST_EXAMPLES = 2**24


class Plan(typing.NamedTuple):
    """A step on a slice.

    Attributes:
      micro_batch, accumulation_steps: examples of a replica per pass, and passes per step.
      compute, memory, all_reduce: seconds of each alone, at the peak rates.
    """

    micro_batch: int
    accumulation_steps: int
    compute: float
    memory: float
    all_reduce: float

    @property
    def step(self) -> float:
        """Seconds of a step."""
        return max(self.compute, self.memory) + self.all_reduce

    @property
    def limit(self) -> str:
        """The longest of the three costs."""
        return max(zip(self[2:], ("compute", "memory", "all-reduce")))[1]


def plan(found: dict[str, Any], topology: topologies.Topology) -> Plan | None:
    """Plans a checked step on a slice of the generation that it was compiled for; None if the batch does not divide.

    Args:
      found: the result of `check.check`.
      topology: the slice.

    Raises:
      ValueError: the step did not compile or fit, or the iterations of its loops are unknown.
    """
    if not found.get("fits") or found["uncounted_loops"]:
        raise InputError(
            f"{found['config']} on {found['topology']} cannot be planned: expected a step that compiles and fits (try "
            "model.recompute or accumulation_steps), with a known number of iterations of each loop."
        )
    examples, rest = divmod(found["batch_size"], topology.replicas)
    if rest or not 0 < examples <= _MOST_EXAMPLES:
        return None
    least = -(-examples // max(1, found["per_replica_batch"] // found["accumulation_steps"]))
    accumulation = next(steps for steps in range(least, examples + 1) if examples % steps == 0)
    # Variables are read and written, gradients written and read, whatever the batch.
    weight_bytes = 2 * found["state_bytes"] + 2 * 4 * found["weights"]
    times = examples / found["per_replica_batch"]
    moved = weight_bytes + max(0.0, found["bytes"] - weight_bytes) * times
    reduced = sum(each["bytes"] for each in found["collectives"] if each["kind"] == "all-reduce")
    chip, chips = topologies.GENERATIONS[topology.generation], topology.chips
    return Plan(
        micro_batch=examples // accumulation,
        accumulation_steps=accumulation,
        compute=chip.replicas_per_chip * found["flops"] * times / chip.flops,
        memory=chip.replicas_per_chip * moved / chip.memory_bandwidth,
        all_reduce=2 * (chips - 1) / chips * reduced / chip.all_reduce_bandwidth,
    )


def table(checks: Sequence[dict[str, Any]], slices: Sequence[topologies.Topology]) -> Table:
    """A row for each slice and phase, and one for all phases together; none where a batch does not divide.

    Args:
      checks: the result of `check.check` for each phase of a run.
      slices: of the generation that the steps were compiled for.
    """
    rows = []
    for topology in slices:
        plans = [each for each in (plan(found, topology) for found in checks) if each is not None]
        if len(plans) < len(checks):
            continue
        seconds = [each.step * found["updates"] for each, found in zip(plans, checks)]
        for found, each, run in zip(checks, plans, seconds):
            times = [ms(value) for value in (each.compute, each.memory, each.all_reduce, each.step)]
            replica = f"{each.micro_batch} x {each.accumulation_steps}"
            name = topology.accelerator_type + (f", phase {found['phase']}" if len(checks) > 1 else "")
            rows.append([name, f"{topology.chips:,}", replica, *times, each.limit, *_run(run, topology)])
        if len(checks) > 1:
            rows.append([f"{topology.accelerator_type}, all", *[""] * 7, *_run(sum(seconds), topology)])
    return Table(_HEADINGS, rows, frozenset({"slice", "limit"}))


def _run(seconds: float, topology: topologies.Topology) -> tuple[str, str]:
    """The time and the chip-hours of a run."""
    shown = f"{seconds:,.1f} s"
    if seconds >= 600:
        shown = f"{seconds / 60:,.0f} min" if seconds < 4 * 3600 else f"{seconds / 3600:,.1f} h"
    return shown, f"{seconds * topology.chips / 3600:,.1f}"


def ms(seconds: float) -> str:
    """Formats seconds as milliseconds."""
    return f"{1e3 * seconds:,.1f} ms" if seconds < 10 else f"{seconds:,.0f} s"
