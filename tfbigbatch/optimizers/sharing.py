"""A function of matrices that costs much, such as an orthogonalisation, shared by the replicas.

Each matrix is transformed on one replica, as `assignment` deals them, and an exchange gives all replicas the rest:

| strategy | the replicas' values here | exchange |
|---|---|---|
| one process, such as MirroredStrategy | one for each device | copies between the devices |
| MultiWorkerMirroredStrategy | one for each device of this process | all-gather, or all-reduce of disjoint parts |
| TPUStrategy | one, of a program for all replicas | all-reduce of disjoint parts |

All replicas have the same bits of a matrix that is shared. The others are transformed on each replica.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

from tfbigbatch.optimizers import assignment
from tfbigbatch.optimizers.adasum.exchange import launchers
from tfbigbatch.optimizers.assignment import Exchange, Group, Part

# [k, rows, columns] to [k, rows, columns], each matrix by itself.
Transform = Callable[[tf.Tensor], tf.Tensor]
_Tensors = list[tf.Tensor]

# Matrices of one shape are transformed together up to this size. On a CPU that gains 1.8 times the rate for 64 x 64,
# 1.1 times for 128 x 128 and nothing from 256 x 256 on (results/measurements/speed.md).
_BATCH_BYTES, _CPU_BATCH_BYTES = 2**26, 2**20
# A collective between processes results in this much at most.
_PACK_BYTES = 2**26


class _Batches(NamedTuple):
    """All batches of one shape and dtype.

    Attributes:
      group: number and shape of their matrices.
      dtype: of the matrices.
      members: (index, number of matrices) of each batch.
    """

    group: Group
    dtype: tf.DType
    members: tuple[tuple[int, int], ...]


class _Shared(NamedTuple):
    """The subject of an exchange.

    Attributes:
      apply: function of (tensors, start, stop): the transformed matrices of this range of the tensors, concatenated,
        in pieces.
      groups: numbers and shapes of the matrices.
      parts: what each replica of all processes transforms.
      inputs: for each replica of this process and each group, the batches.
    """

    apply: Callable[[_Tensors, int, int], _Tensors]
    groups: list[Group]
    parts: list[list[Part]]
    inputs: list[list[_Tensors]]


# For each replica of this process and each group, the transformed matrices in pieces.
_Pieces = list[list[_Tensors]]


def map_matrices(
    transform: Transform,
    batches: Sequence[Sequence[tf.Tensor]],
    *,
    flops: assignment.Flops,
    strategy: tf.distribute.Strategy,
    share: bool | None = None,
) -> list[list[tf.Tensor]]:
    """In cross-replica context: `transform` of all batches of matrices, on every replica of this process.

    Matrices of one shape are transformed together, up to a limited size, whatever batches they come from.

    Args:
      transform: a pure function of a batch [k, rows, columns] of independent matrices, of any k.
      batches: for each batch, its value on each replica of this process; the same on all replicas.
      flops: floating-point operations of `transform` on one matrix [rows, columns].
      strategy: the tf.distribute.Strategy.
      share: each matrix is transformed on one replica. None: where it pays, see `assignment.worthwhile`. In a step
        that XLA compiles for GPUs, where the replicas run apart, nothing is shared.

    Returns:
      The transformed batches, in the form of `batches`.
    """
    outcomes: list[list[Any]] = [[None] * len(of_replicas) for of_replicas in batches]
    by_shape = _by_shape(batches)
    exchange = _exchange(strategy, batches)
    shared: list[_Batches] = []
    if exchange is not None:
        groups = [each.group for each in by_shape]
        chosen = assignment.worthwhile(groups, flops, strategy.num_replicas_in_sync, exchange, share)
        shared = [by_shape[index] for index in chosen]
    apply = functools.partial(_transformed, transform, _batch_bytes(strategy, batches))
    unshared = [each for each in by_shape if each not in shared]
    _put(outcomes, unshared, _on_each_replica(apply, _inputs(batches, unshared)))
    for dtype in dict.fromkeys(each.dtype for each in shared):
        same = [each for each in shared if each.dtype == dtype]
        groups = [each.group for each in same]
        parts = assignment.assign(groups, flops, strategy.num_replicas_in_sync)
        work = _Shared(apply, groups, parts, _inputs(batches, same))
        _put(outcomes, same, _EXCHANGES[exchange](strategy, work))
    return outcomes


def _by_shape(batches: Sequence[Sequence[tf.Tensor]]) -> list[_Batches]:
    members: dict[tuple[tf.DType, int, int], list[tuple[int, int]]] = {}
    for index, (batch, *_) in enumerate(batches):
        count, rows, columns = batch.shape
        members.setdefault((batch.dtype, rows, columns), []).append((index, count))
    return [
        _Batches(Group(sum(count for _, count in same), rows, columns, dtype.size), dtype, tuple(same))
        for (dtype, rows, columns), same in members.items()
    ]


def _exchange(strategy: tf.distribute.Strategy, batches: Sequence[Sequence[tf.Tensor]]) -> Exchange | None:
    """The way in which the replicas get each other's results; None where they cannot, or there is one."""
    replicas = strategy.num_replicas_in_sync
    if replicas == 1 or not batches:
        return None
    here = len(batches[0])
    if isinstance(strategy, tf.distribute.TPUStrategy) and here == 1:
        return Exchange.SUM
    if launchers(strategy):
        # XLA compiles no collectives of this kind; for GPUs, a replica's step does without a merged call.
        return Exchange.COLLECTIVE if strategy.extended._use_merge_call() else None
    if here == replicas:
        on_cpu = all(_device_type(value) == "CPU" for value in batches[0])
        return Exchange.SHARED_MEMORY if on_cpu else Exchange.COPIES
    return None


def _device_type(tensor: tf.Tensor) -> str | None:
    return tf.DeviceSpec.from_string(tensor.device or "").device_type


def _batch_bytes(strategy: tf.distribute.Strategy, batches: Sequence[Sequence[tf.Tensor]]) -> int:
    on_cpu = any(_device_type(value) in ("CPU", None) for of_replicas in batches for value in of_replicas)
    return _CPU_BATCH_BYTES if on_cpu and not isinstance(strategy, tf.distribute.TPUStrategy) else _BATCH_BYTES


def _inputs(batches: Sequence[Sequence[tf.Tensor]], by_shape: list[_Batches]) -> list[list[_Tensors]]:
    """For each replica of this process and each shape, the batches."""
    replicas = len(batches[0]) if batches else 0
    return [
        [[batches[index][replica] for index, _ in each.members] for each in by_shape] for replica in range(replicas)
    ]


def _put(outcomes: list[list[Any]], by_shape: list[_Batches], pieces: _Pieces) -> None:
    """Makes batches of the transformed pieces, on each replica's device."""
    for replica, of_replica in enumerate(pieces):
        for each, of_shape in zip(by_shape, of_replica):
            start = 0
            for index, count in each.members:
                outcomes[index][replica] = _rows(of_shape, start, start + count)
                start += count


def _rows(tensors: _Tensors, start: int, stop: int) -> tf.Tensor:
    """A range of the tensors' concatenation, of which only that is made."""
    picked, offset = [], 0
    for tensor in tensors:
        low, high = max(start - offset, 0), min(stop - offset, tensor.shape[0])
        if low < high:
            picked.append(tensor if high - low == tensor.shape[0] else tensor[low:high])
        offset += tensor.shape[0]
    return picked[0] if len(picked) == 1 else tf.concat(picked, axis=0)


def _transformed(transform: Transform, limit: int, tensors: _Tensors, start: int, stop: int) -> _Tensors:
    """`transform` of a range of the tensors' concatenation, in batches of up to `limit` bytes."""
    rows, columns = tensors[0].shape[1:]
    most = max(1, limit // (rows * columns * tensors[0].dtype.size))
    return [transform(_rows(tensors, first, min(first + most, stop))) for first in range(start, stop, most)]


def _on_each_replica(apply: Callable[..., _Tensors], inputs: list[list[_Tensors]]) -> _Pieces:
    pieces: _Pieces = []
    for of_replica in inputs:
        pieces.append([])
        for tensors in of_replica:
            with tf.device(tensors[0].device):
                pieces[-1].append(apply(tensors, 0, sum(tensor.shape[0] for tensor in tensors)))
    return pieces


# ---- Exchanges: functions of (strategy, shared), for matrices of one dtype -----------------------------------


def _between_devices(strategy: tf.distribute.Strategy, shared: _Shared) -> _Pieces:
    del strategy
    devices = [of_replica[0][0].device for of_replica in shared.inputs]
    pieces: list[_Tensors] = [[] for _ in shared.groups]
    for device, of_replica, own in zip(devices, shared.inputs, shared.parts):
        with tf.device(device):
            for part in own:
                pieces[part.group] += shared.apply(of_replica[part.group], part.start, part.stop)
    copies: _Pieces = []
    for device in devices:
        with tf.device(device):
            copies.append([[tf.identity(piece) for piece in of_group] for of_group in pieces])
    return copies


def _between_processes(strategy: tf.distribute.Strategy, shared: _Shared) -> _Pieces:
    sizes = assignment.elements(shared.groups, shared.parts)
    everyone = gathered if assignment.is_gathered(sizes) else summed

    def exchanged() -> _Pieces:
        pieces: _Pieces = []
        for index, (launcher, inputs) in enumerate(zip(launchers(strategy), shared.inputs)):
            replica = strategy.extended._get_replica_id_in_sync_group(index)
            with tf.device(launcher._device):
                own = _share(shared, inputs, shared.parts[replica])
                pieces.append(_unpacked(shared, everyone(launcher, own, replica, sizes)))
        return pieces

    # Eagerly, the first device's collective would wait for that of the second, which is called later.
    return tf.function(exchanged, autograph=False)() if tf.executing_eagerly() else exchanged()


def gathered(launcher: Any, own: tf.Tensor, replica: int, sizes: list[int]) -> _Tensors:
    """All replicas' shares, by an all-gather of rows: the replica's number, its share, zeros."""
    row = tf.concat(
        [tf.constant([replica], own.dtype), own, tf.zeros([max(sizes) - sizes[replica]], own.dtype)], axis=0
    )
    packs = _packs(row, _PACK_BYTES // len(sizes))
    rows = tf.concat([launcher._all_gather(pack[tf.newaxis], launcher._options) for pack in packs], axis=1)
    rows = tf.ensure_shape(rows, [len(sizes), 1 + max(sizes)])
    # TensorFlow orders the GPUs of a process by their links, and not by the replicas' numbers.
    places = tf.argsort(rows[:, 0])
    return [tf.reshape(tf.slice(rows, [places[each], 1], [1, size]), [size]) for each, size in enumerate(sizes)]


def summed(launcher: Any, own: tf.Tensor, replica: int, sizes: list[int]) -> _Tensors:
    """All replicas' shares, by an all-reduce of vectors that are zero but for the replica's share."""
    before, after = sum(sizes[:replica]), sum(sizes[replica + 1 :])
    packs = _packs(tf.pad(own, [[before, after]]), _PACK_BYTES)
    return tf.split(tf.concat([launcher.all_reduce(pack) for pack in packs], axis=0), sizes)


def _packs(vector: tf.Tensor, limit: int) -> _Tensors:
    """A vector in equal parts of up to `limit` bytes, the last one shorter."""
    size, most = vector.shape[0], max(1, limit // vector.dtype.size)
    return [vector] if size <= most else tf.split(vector, [most] * (size // most) + [size % most] * bool(size % most))


def _in_one_program(strategy: tf.distribute.Strategy, shared: _Shared) -> _Pieces:
    """Replicas with as many matrices of each shape run the same branch, each on matrices of its own.

    Nothing is flattened: a TPU's layout pads the last axis to 128, and XLA would see the whole of a flat vector as
    [.., 2] to cut a matrix of two columns out of it.
    """
    replicas, [inputs] = strategy.num_replicas_in_sync, shared.inputs
    whole = [_rows(tensors, 0, group.count) for tensors, group in zip(inputs, shared.groups)]
    kinds = [tuple((part.group, part.stop - part.start) for part in own) for own in shared.parts]
    replica = _replica_id()
    starts = tf.gather([[_start(own, index) for index in range(len(whole))] for own in shared.parts], replica)

    def branch(kind: tuple[tuple[int, int], ...]) -> _Tensors:
        """All groups, zero but for the replica's own matrices."""
        placed = [tf.zeros_like(tensor) for tensor in whole]
        for group, count in kind:
            place = [starts[group], 0, 0]
            picked = tf.slice(whole[group], place, [count, *whole[group].shape[1:]])
            own = _rows(shared.apply([picked], 0, count), 0, count)
            placed[group] = xla.dynamic_update_slice(placed[group], own, tf.stack(place))
        return placed

    different = list(dict.fromkeys(kinds))
    placed = tf.switch_case(
        tf.gather([different.index(kind) for kind in kinds], replica),
        [functools.partial(branch, kind) for kind in different],
    )
    return [[[_sum_over_replicas(tensor, replicas)] for tensor in tf.nest.flatten(placed)]]


def _start(own: list[Part], group: int) -> int:
    return next((part.start for part in own if part.group == group), 0)


def _replica_id() -> tf.Tensor:
    return xla.replica_id()


def _sum_over_replicas(tensor: tf.Tensor, replicas: int) -> tf.Tensor:
    return tf.raw_ops.CrossReplicaSum(input=tensor, group_assignment=[list(range(replicas))])


def _share(shared: _Shared, inputs: list[_Tensors], own: list[Part]) -> tf.Tensor:
    """The transformed matrices of one replica, flat."""
    if not own:
        return tf.zeros([0], inputs[0][0].dtype)
    pieces = [piece for part in own for piece in shared.apply(inputs[part.group], part.start, part.stop)]
    return tf.concat([tf.reshape(piece, [-1]) for piece in pieces], axis=0)


def _unpacked(shared: _Shared, shares: _Tensors) -> list[_Tensors]:
    """The transformed matrices of all replicas' shares, for each group in pieces."""
    pieces: list[_Tensors] = [[] for _ in shared.groups]
    for share, own in zip(shares, shared.parts):
        shapes = [(stop - start, shared.groups[group].rows, shared.groups[group].columns) for group, start, stop in own]
        values = tf.split(share, [count * rows * columns for count, rows, columns in shapes]) if own else []
        for part, value, shape in zip(own, values, shapes):
            pieces[part.group].append(tf.reshape(value, shape))
    return pieces


_EXCHANGES: dict[Exchange | None, Callable[[tf.distribute.Strategy, _Shared], _Pieces]] = {
    Exchange.SHARED_MEMORY: _between_devices,
    Exchange.COPIES: _between_devices,
    Exchange.COLLECTIVE: _between_processes,
    Exchange.SUM: _in_one_program,
}
