"""The assignment of matrices to replicas, its costs, and where it pays: plain Python.

Matrices are dealt by cost, the costliest first, each to the replica with the least so far (longest processing time
first: Graham 1969, SIAM J. Appl. Math. 17(2), at most 4/3 of the shortest makespan).
"""

from __future__ import annotations

import enum
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


class Exchange(enum.Enum):
    """A way in which the replicas get each other's results."""

    # One process whose devices are parts of one CPU: nothing moves.
    SHARED_MEMORY = "shared memory"
    # Copies between the devices of one process.
    COPIES = "copies"
    # Several processes: an all-gather, or an all-reduce of disjoint parts, whichever receives fewer bytes.
    COLLECTIVE = "collective"
    # TPUs: an all-reduce of disjoint parts; TensorFlow makes an all-gather of that too.
    SUM = "sum"


class Group(typing.NamedTuple):
    """A number of matrices of one shape.

    Attributes:
      count: their number.
      rows, columns: their shape.
      itemsize: bytes of an entry.
    """

    count: int  # type: ignore[assignment]
    rows: int
    columns: int
    itemsize: int = 4

    @property
    def size(self) -> int:
        """Entries of one matrix."""
        return self.rows * self.columns


class Part(typing.NamedTuple):
    """Matrices `start` to `stop` of a group, given by its index."""

    group: int
    start: int
    stop: int


class Work(typing.NamedTuple):
    """The cost of one call for a replica.

    Attributes:
      matrices: number of those that are shared.
      flops: floating-point operations of the busiest replica.
      flops_unshared: of every replica if each works on all matrices.
      received_bytes: of the other replicas' results, at most.
    """

    matrices: int
    flops: float
    flops_unshared: float
    received_bytes: float


def assign(groups: Sequence[Group], flops: Flops, replicas: int) -> list[list[Part]]:
    """Deals all matrices to the replicas: for each, a range of each group in which it has matrices.

    The same on all processes: a function of the arguments alone.
    """
    costs = [flops(group.rows, group.columns) for group in groups]
    counts = [[0] * len(groups) for _ in range(replicas)]
    loads = [(0.0, replica) for replica in range(replicas)]
    for index in sorted(range(len(groups)), key=lambda index: -costs[index]):
        for _ in range(groups[index].count):
            load, replica = heapq.heappop(loads)
            counts[replica][index] += 1
            heapq.heappush(loads, (load + costs[index], replica))
    parts: list[list[Part]] = []
    starts = [0] * len(groups)
    for own in counts:
        parts.append([Part(index, starts[index], starts[index] + count) for index, count in enumerate(own) if count])
        starts = [start + count for start, count in zip(starts, own)]
    return parts


def deal(costs: Sequence[float], replicas: int) -> list[int]:
    """Deals things of different costs to the replicas: for each, the number of its replica.

    The same on all processes: a function of the arguments alone.
    """
    owners = [0] * len(costs)
    loads = [(0.0, replica) for replica in range(replicas)]
    for index in sorted(range(len(costs)), key=lambda index: -costs[index]):
        load, owners[index] = heapq.heappop(loads)
        heapq.heappush(loads, (load + costs[index], owners[index]))
    return owners


def elements(groups: Sequence[Group], parts: Sequence[Sequence[Part]]) -> list[int]:
    """Numbers of entries of each replica's matrices."""
    return [sum((part.stop - part.start) * groups[part.group].size for part in own) for own in parts]


def is_gathered(sizes: Sequence[int]) -> bool:
    """True where an all-gather, padded to the largest of `sizes`, receives fewer bytes than an all-reduce."""
    return _gathered(sizes) < _summed(sizes)


def _gathered(sizes: Sequence[int]) -> float:
    return (len(sizes) - 1) * max(sizes)


def _summed(sizes: Sequence[int]) -> float:
    return 2 * (len(sizes) - 1) / len(sizes) * sum(sizes)


def worthwhile(
    groups: Sequence[Group], flops: Flops, replicas: int, exchange: Exchange, share: bool | None = None
) -> list[int]:
    """Indices of the groups that are shared.

    A matrix is worth sharing if working on it takes longer than sending it; all of these together, if that saves more
    than the fixed time of a collective. Within one CPU everything is.

    Args:
      groups: the matrices.
      flops: see `Flops`.
      replicas: their number.
      exchange: how they get the results.
      share: True for all groups, False for none, None for those that are worth it.
    """
    if replicas == 1 or share is False:
        return []
    if share or exchange is Exchange.SHARED_MEMORY:
        return list(range(len(groups)))
    chosen, saved = [], 0.0
    for index, group in enumerate(groups):
        cost = flops(group.rows, group.columns)
        if cost > _OPERATIONS_PER_BYTE * group.size * group.itemsize:
            chosen.append(index)
            saved += group.count * cost * (1.0 - 1.0 / replicas)
    return chosen if saved > _LEAST_OPERATIONS else []


def work(
    groups: Sequence[Group],
    flops: Flops,
    replicas: int,
    *,
    exchange: Exchange = Exchange.COLLECTIVE,
    share: bool | None = None,
) -> Work:
    """The operations of a replica with and without sharing, and the bytes that it receives.

    Args:
      groups: matrices of float32.
      flops, replicas, exchange, share: see `worthwhile`.
    """
    shared = worthwhile(groups, flops, replicas, exchange, share)
    costs = [group.count * flops(group.rows, group.columns) for group in groups]
    chosen = [groups[index] for index in shared]
    parts = assign(chosen, flops, replicas)
    busiest = max(
        sum((stop - start) * flops(chosen[group].rows, chosen[group].columns) for group, start, stop in own)
        for own in parts
    )
    sizes = elements(chosen, parts)
    received = {
        Exchange.SHARED_MEMORY: 0.0,
        Exchange.COPIES: float(sum(sizes) - min(sizes)),
        Exchange.COLLECTIVE: min(_gathered(sizes), _summed(sizes)),
        Exchange.SUM: _summed(sizes),
    }
    return Work(
        matrices=sum(group.count for group in chosen),
        flops=sum(costs) - sum(costs[index] for index in shared) + busiest,
        flops_unshared=sum(costs),
        received_bytes=4 * received[exchange],
    )
