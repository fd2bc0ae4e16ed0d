"""A check's outcome in words."""

_LONGEST_LINE = 150


def lines(found):
    """The lines of a report, for what `check.check` gave."""
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
            yield f"             more than that: of {found['uncounted_loops']} of its loops one turn is counted"
        yield f"collectives  {collectives(found) or 'none'}"
    yield from _findings(found)
    memory = max(found["lower_gib"], found.get("compile_gib", 0))
    yield (
        f"took         traced {found['trace_seconds']} s, lowered {found.get('lower_seconds', 0)} s, compiled "
        f"{found.get('seconds', 0)} s; at most {memory} GiB of host memory"
    )


def _verdict(found):
    if not found["compiles"]:
        yield f"compiles     NO: {found['error'][:2000]}"
        return
    if found["fits"]:
        share = found["peak_bytes"] / found["usable_bytes"]
        yield f"fits         yes: {size(found['peak_bytes'])} of {size(found['usable_bytes'])} usable ({share:.0%})"
        return
    needed = found.get("needed_bytes", found.get("peak_bytes"))
    yield f"fits         NO: {size(needed)} of {size(found['usable_bytes'])} usable"
    if not found.get("allocations"):
        yield "             of which parts the compiler does not tell; --largest_batch looks for the batch that fits"
    for each in found.get("allocations", ()):
        yield f"             {size(each['bytes']):>10}  {each['name'] or 'unnamed'}  {each['shape']}"[:_LONGEST_LINE]


def _findings(found):
    for each in found["findings"]:
        times = f" x {each['times']}" if each["times"] > 1 else ""
        where = each["line"] or each["name"]
        yield f"lint         {each['kind']}: {each['operation']}{times}, {where}"[:_LONGEST_LINE]
    if found.get("float64_results"):
        yield f"lint         float64: {found['float64_results']} results in the compiled program"
    if not found["findings"] and not found.get("float64_results"):
        yield "lint         nothing on the host, no dynamic shapes, no strings, no float64"


def collectives(found):
    """The collective operations in words: '1 all-reduce of 102.2 MB'."""
    return ", ".join(f"{each['count']} {each['kind']} of {size(each['bytes'])}" for each in found["collectives"])


def size(number):
    """Bytes in words."""
    for unit, power in (("GB", 30), ("MB", 20), ("KB", 10)):
        if number >= 2**power:
            return f"{number / 2**power:.2f} {unit}" if unit == "GB" else f"{number / 2**power:.1f} {unit}"
    return f"{number:.0f} B"
