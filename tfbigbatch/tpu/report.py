"""The text report of a check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_LONGEST_LINE = 150


def lines(found: dict[str, Any]) -> Iterator[str]:
    """The lines of the report on a result of `check.check`."""
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
    yield from _findings(found)
    memory = max(found["lower_gib"], found.get("compile_gib", 0))
    yield (
        f"took         traced {found['trace_seconds']} s, lowered {found.get('lower_seconds', 0)} s, compiled "
        f"{found.get('seconds', 0)} s; at most {memory} GiB of host memory"
    )


def _verdict(found: dict[str, Any]) -> Iterator[str]:
    if not found["compiles"]:
        yield f"compiles     NO: {found['error'][:2000]}"
        return
    if found["fits"]:
        fraction = found["peak_bytes"] / found["usable_bytes"]
        yield f"fits         yes: {size(found['peak_bytes'])} of {size(found['usable_bytes'])} usable ({fraction:.0%})"
        return
    needed = found["needed_bytes" if "needed_bytes" in found else "peak_bytes"]
    yield f"fits         NO: {size(needed)} of {size(found['usable_bytes'])} usable"
    if not found.get("allocations"):
        yield "             the compiler does not list the parts; --largest_batch searches for the batch that fits"
    if found.get("recompute") is False:
        yield "             --config.model.recompute=true needs less, for about a third more operations"
    for each in found.get("allocations", ()):
        yield f"             {size(each['bytes']):>10}  {each['name'] or 'unnamed'}  {each['shape']}"[:_LONGEST_LINE]


def _findings(found: dict[str, Any]) -> Iterator[str]:
    for each in found["findings"]:
        times = f" x {each['times']}" if each["times"] > 1 else ""
        where = each["line"] or each["name"]
        yield f"lint         {each['kind']}: {each['operation']}{times}, {where}"[:_LONGEST_LINE]
    if found.get("float64_results"):
        yield f"lint         float64: {found['float64_results']} results in the compiled program"
    if not found["findings"] and not found.get("float64_results"):
        yield "lint         nothing on the host, no dynamic shapes, no strings, no float64"


def collectives(found: dict[str, Any]) -> str:
    """The collective operations as text: '1 all-reduce of 102.2 MB'."""
    return ", ".join(f"{each['count']} {each['kind']} of {size(each['bytes'])}" for each in found["collectives"])


def size(number: float) -> str:
    """Formats a number of bytes."""
    for unit, power in (("GB", 30), ("MB", 20), ("KB", 10)):
        if number >= 2**power:
            return f"{number / 2**power:.2f} {unit}" if unit == "GB" else f"{number / 2**power:.1f} {unit}"
    return f"{number:.0f} B"
