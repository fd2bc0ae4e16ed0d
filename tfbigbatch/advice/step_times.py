"""The time of a training step against batch size: measured in turns, and planned for several replicas."""

from __future__ import annotations

import dataclasses
import logging
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

Step = Callable[[], None]
"""Makes one training step, and returns when it is done."""

# Of the time in seconds: for the first step at each size, which is traced.
_TRACING = 0.6
_TURNS = 9
_FEWEST_TURNS = 3
# Measured in any case, if the memory suffices.
_FEWEST_SIZES = 3
# Seconds of one size in a turn, and its most steps.
_VISIT, _STEPS = 0.15, 50


@dataclasses.dataclass(frozen=True)
class StepTimes:
    """Seconds of a step at each batch of one replica.

    Attributes:
      turns: batch of a replica to the mean seconds of a step in each turn.
      stopped: why no larger batch was measured.
    """

    turns: Mapping[int, Sequence[float]]
    stopped: str

    def median(self, size: int) -> float:
        """The median over the turns at a measured size."""
        return statistics.median(self.turns[size])

    def planned(self, batch_size: int, replicas: int = 1) -> tuple[float, int]:
        """(seconds, accumulation steps) of a step at a global batch: the fastest micro-batch of those measured.

        Args:
          batch_size: examples in one step.
          replicas: equal devices; what they exchange is not counted.
        """
        own = -(-batch_size // replicas)
        fitting = [size for size in self.turns if size <= own] or [min(self.turns)]
        choices = [(-(-own // size) * self.median(size), -(-own // size)) for size in fitting]
        return min(choices)


def measure(
    step_at: Callable[[int], Step], sizes: Iterable[int], *, seconds: float, say: Callable[[str], None]
) -> StepTimes:
    """Times steps at growing batch sizes, all in turn, so that other work on the machine slows all of them.

    Args:
      step_at: from a batch size to its step.
      sizes: ascending. Larger ones are left out when the time or the memory would not suffice.
      seconds: for all; three sizes are measured in any case.
      say: called with a line for each size.
    """
    began = time.perf_counter()
    steps: dict[int, Step] = {}
    single: dict[int, float] = {}
    stopped = "the next would be larger than the dataset"
    memory, growth = _peak_memory(), 0.0
    # TensorFlow takes a trace for each size for a mistake, and warns.
    logging.getLogger("tensorflow").addFilter(_is_no_warning)
    try:
        for size in sizes:
            used = time.perf_counter() - began
            # Twice the batch takes about twice the time, after a trace of about the same length.
            expected = 2 * max(single.values(), default=0.0) * (1 + _FEWEST_TURNS)
            if len(steps) >= _FEWEST_SIZES and (used > _TRACING * seconds or used + expected > seconds):
                stopped = f"the next would take longer than the {seconds:.0f} s for this part"
                break
            if steps and 2.5 * growth > _free_memory():
                stopped = "the next would take more memory than is free"
                break
            try:
                step = step_at(size)
                step()
                started = time.perf_counter()
                step()
            except Exception as error:
                is_memory = isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError"
                if not steps or not is_memory:
                    raise
                stopped = f"{size:,} took more memory than there is"
                break
            single[size], steps[size] = time.perf_counter() - started, step
            growth, memory = max(0.0, _peak_memory() - memory), _peak_memory()
            say(f"speed      batch {size:,}: {single[size] * 1000:,.1f} ms a step")
        return StepTimes(_turns(steps, single, began + seconds), stopped)
    finally:
        logging.getLogger("tensorflow").removeFilter(_is_no_warning)


def _is_no_warning(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR


def _turns(steps: Mapping[int, Step], single: Mapping[int, float], deadline: float) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {size: [] for size in steps}
    for turn in range(_TURNS):
        if turn >= _FEWEST_TURNS and time.perf_counter() > deadline:
            break
        for size, step in steps.items():
            count = max(1, min(_STEPS, int(_VISIT / max(single[size], 1e-6))))
            started = time.perf_counter()
            for _ in range(count):
                step()
            found[size].append((time.perf_counter() - started) / count)
    return found


def _peak_memory() -> float:
    """The most bytes that this process used."""
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def _free_memory() -> float:
    """Bytes of the machine's memory that are available now."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        return float(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
