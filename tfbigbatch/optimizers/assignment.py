"""The assignment of layers and matrices to replicas, and where it pays: plain Python.

They are dealt by cost, the costliest first, each to the replica with the least so far (longest processing time first:
Graham 1969, SIAM J. Appl. Math. 17(2), at most 4/3 of the shortest makespan). All processes come to the same, a
function of the arguments alone.
"""

from __future__ import annotations

import collections
import heapq
import typing
from collections.abc import Callable, Sequence

# Floating-point operations of the function on one matrix [rows, columns].
Flops = Callable[[int, int], float]

# Operations in the time that a byte takes to the other replicas. At half of its peak rate a TPU does 180 (v3) to 2,300
# (v6e) in an all-reduce's time for a byte (`tpu.chips`), an A100 500 over NVLink; 16 cores of 100 GFLOP/s do 500 at
# 25 Gb/s.
_OPERATIONS_PER_BYTE = 500.0
# Less than this saved is not worth a collective: 1 ms over gRPC is 1e8 operations of a core.
_LEAST_OPERATIONS = 5e8


class Group(typing.NamedTuple):
    """`number` matrices [rows, columns], of `itemsize` bytes an entry."""

    number: int
    rows: int
    columns: int
    itemsize: int = 4


class Part(typing.NamedTuple):
    """Matrices `start` to `stop` of a group, given by its index."""

    group: int
    start: int
    stop: int


def deal(costs: Sequence[float], replicas: int) -> list[int]:
    """Deals things of different costs to the replicas: for each, the number of its replica."""
    owners = [0] * len(costs)
    loads = [(0.0, replica) for replica in range(replicas)]
    for index in sorted(range(len(costs)), key=lambda index: -costs[index]):
        load, owners[index] = heapq.heappop(loads)
        heapq.heappush(loads, (load + costs[index], owners[index]))
    return owners


def assign(groups: Sequence[Group], flops: Flops, replicas: int) -> list[list[Part]]:
    """Deals all matrices to the replicas: for each, a range of each group in which it has matrices."""
    group_of = [index for index, group in enumerate(groups) for _ in range(group.number)]
    owners = deal([flops(groups[index].rows, groups[index].columns) for index in group_of], replicas)
    counts = collections.Counter(zip(owners, group_of))
    starts = [0] * len(groups)
    parts: list[list[Part]] = [[] for _ in range(replicas)]
    for (replica, index), count in sorted(counts.items()):
        parts[replica].append(Part(index, starts[index], starts[index] + count))
        starts[index] += count
    return parts


def worthwhile(groups: Sequence[Group], flops: Flops, replicas: int, share: bool | None, is_free: bool) -> list[int]:
    """Indices of the groups that are shared.

    A matrix is worth sharing if working on it takes longer than sending it; all of these together, if that saves more
    than the fixed time of a collective.

    Args:
      groups: the matrices.
      flops: see `Flops`.
      replicas: their number.
      share: True for all groups, False for none, None for those that are worth it.
      is_free: results need not be sent, as within one CPU, where everything is worth it.
    """
    if share is False:
        return []
    if share or is_free:
        return list(range(len(groups)))
    chosen, saved = [], 0.0
    for index, group in enumerate(groups):
        cost = flops(group.rows, group.columns)
        if cost > _OPERATIONS_PER_BYTE * group.rows * group.columns * group.itemsize:
            chosen.append(index)
            saved += group.number * cost * (1.0 - 1.0 / replicas)
    return chosen if saved > _LEAST_OPERATIONS else []
