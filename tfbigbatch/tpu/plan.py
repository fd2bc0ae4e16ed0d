"""The time of a step and of a run on slices of other sizes: a roofline of the operations and bytes of a compiled step.

Three costs, each at the published peak rate of the chip: operations; bytes to and from main memory; and the all-reduce
of the gradients, in which every chip sends and receives almost twice their size. A step takes the longer of the first
two, and then the all-reduce. The global batch is the same on fewer or more chips: a replica's batch changes, and
accumulates if it is larger than the compiled one.

Nothing is fitted. Published runs took `ERROR` times the time of their plan; results/measurements/tpu.md has each.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Sequence
from typing import Any

from tfbigbatch.errors import InputError
from tfbigbatch.tpu import topologies

# Published over planned time, by results/measurements/tpu.md: MLPerf's runs on each generation, and the papers'.
ERROR = {"MLPerf's runs on v3": (1.1, 1.9), "MLPerf's runs on v4": (0.7, 1.1), "the papers' runs on v3": (2.4, 3.8)}
# Of a replica in a step; more than any run has.
_MOST_EXAMPLES = 2**24


class Plan(typing.NamedTuple):
    """A step on a slice. Times are in seconds.

    Attributes:
      topology: the slice.
      batch_size, updates: examples in a step, and steps of the run or of this phase.
      micro_batch, accumulation_steps: examples of a replica per pass, and passes per step.
      compute, memory, all_reduce: each alone, at the peak rates.
    """

    topology: topologies.Topology
    batch_size: int
    updates: int
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
        costs = {"compute": self.compute, "memory": self.memory, "all-reduce": self.all_reduce}
        return max(costs, key=lambda name: costs[name])


def plan(found: dict[str, Any], topology: topologies.Topology) -> Plan | None:
    """Plans a checked step on a slice of the generation that it was compiled for; None if the batch does not divide.

    Args:
      found: the result of `check.check`.
      topology: the slice.

    Raises:
      ValueError: the step did not compile or fit, or the iterations of its loops are unknown.
    """
    step = f"{found['config']} on {found['topology']}"
    if not found.get("fits"):
        raise InputError(
            f"{step}: not compiled or does not fit; it cannot be planned. Where it does not fit, check it with "
            "model.recompute or with accumulation_steps."
        )
    if found["uncounted_loops"]:
        raise InputError(
            f"{step}: the number of iterations of {found['uncounted_loops']} loop(s) in the program is unknown, and "
            "with it their cost: the step cannot be planned."
        )
    batch_size, compiled = found["batch_size"], found["per_replica_batch"]
    examples, rest = divmod(batch_size, topology.replicas)
    if rest or not 0 < examples <= _MOST_EXAMPLES:
        return None
    micro_batch = max(1, compiled // found["accumulation_steps"])
    least = -(-examples // micro_batch)
    accumulation = next(steps for steps in range(least, examples + 1) if examples % steps == 0)
    # Variables are read and written, gradients written and read, whatever the batch.
    weight_bytes = 2 * found["state_bytes"] + 2 * 4 * found["weights"]
    moved = weight_bytes + max(0.0, found["bytes"] - weight_bytes) * examples / compiled
    reduced = sum(each["bytes"] for each in found["collectives"] if each["kind"] == "all-reduce")
    chip, chips = topologies.GENERATIONS[topology.generation], topology.chips
    return Plan(
        topology=topology,
        batch_size=batch_size,
        updates=found["updates"],
        micro_batch=examples // accumulation,
        accumulation_steps=accumulation,
        compute=chip.replicas_per_chip * found["flops"] * examples / compiled / chip.flops,
        memory=chip.replicas_per_chip * moved / chip.memory_bandwidth,
        all_reduce=2 * (chips - 1) / chips * reduced / chip.all_reduce_bandwidth,
    )


def lines(names: Sequence[str], rows: Sequence[Sequence[Plan]]) -> Iterator[str]:
    """The lines of a table with a row for each slice and phase, and one for all phases together.

    Args:
      names: of the phases.
      rows: for each slice, the plan of each phase.
    """
    yield (
        f"{'slice':<14} {'chips':>5} {'replica':>12} {'compute':>9} {'memory':>9} {'all-reduce':>10} {'step':>9}  "
        f"{'limit':<10} {'per host':>12} {'run':>9} {'chip-hours':>10}"
    )
    for plans in rows:
        for name, each in zip(names, plans):
            parts = f"{each.micro_batch} x {each.accumulation_steps}"
            yield (
                f"{each.topology.accelerator_type:<14} {each.topology.chips:>5,} {parts:>12} {ms(each.compute):>9} "
                f"{ms(each.memory):>9} {ms(each.all_reduce):>10} {ms(each.step):>9}  {each.limit:<10} "
                f"{each.batch_size / each.step / each.topology.hosts:>10,.0f}/s {_run([each])}"
                + (f"  {name}" if len(plans) > 1 else "")
            )
        if len(plans) > 1:
            yield f"{'':100}{_run(plans)}  all"
    yield ""
    for runs, (low, high) in ERROR.items():
        yield f"{runs} took {low} to {high} times the run that is planned so"


def _run(plans: Sequence[Plan]) -> str:
    """The total time of a run's phases, and the chip-hours."""
    seconds = sum(each.step * each.updates for each in plans)
    if seconds < 600:
        shown = f"{seconds:,.2f} s" if seconds < 10 else f"{seconds:,.0f} s"
    else:
        shown = f"{seconds / 60:,.0f} min" if seconds < 4 * 3600 else f"{seconds / 3600:,.1f} h"
    return f"{shown:>9} {seconds * plans[0].topology.chips / 3600:>10,.1f}"


def ms(seconds: float) -> str:
    """Formats seconds as milliseconds."""
    return f"{1e3 * seconds:,.1f} ms" if seconds < 10 else f"{seconds:,.0f} s"
