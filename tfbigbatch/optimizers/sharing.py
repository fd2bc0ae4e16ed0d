"""A function of matrices that costs much, such as an orthogonalisation, shared by the replicas.

Each matrix is transformed on one replica, as `assignment` deals them, and an exchange gives all replicas the rest:

| strategy | the replicas' values here | exchange |
|---|---|---|
| one process, such as MirroredStrategy | one for each device | copies between the devices |
| MultiWorkerMirroredStrategy | one for each device of this process | `exchange.between_processes` |
| TPUStrategy | one, of a program for all replicas | all-reduce of disjoint parts |

All replicas have the same bits of a matrix that is shared. The others are transformed on each replica.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

from tfbigbatch.optimizers import assignment, exchange
from tfbigbatch.optimizers.assignment import Group, Part

# [k, rows, columns] to [k, rows, columns], each matrix by itself.
Transform = Callable[[tf.Tensor], tf.Tensor]
_Tensors = list[tf.Tensor]
# Function of (tensors, start, stop): the transformed matrices of this range of their concatenation, in pieces.
_Apply = Callable[[_Tensors, int, int], _Tensors]
# For each replica of this process and each shape of matrices, tensors of them.
_OfReplicas = list[list[_Tensors]]

# Matrices of one shape are transformed together up to this size. On a CPU that gains 1.8 times the rate for 64 x 64,
# 1.1 times for 128 x 128 and nothing from 256 x 256 on (results/measurements/speed.md).
_BATCH_BYTES, _CPU_BATCH_BYTES = 2**26, 2**20


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
    if not batches:
        return []
    members: dict[tuple[tf.DType, int, int], list[int]] = {}
    for index, (batch, *_) in enumerate(batches):
        members.setdefault((batch.dtype, *batch.shape[1:]), []).append(index)
    groups = [
        Group(sum(batches[index][0].shape[0] for index in same), rows, columns, dtype.size)
        for (dtype, rows, columns), same in members.items()
    ]
    inputs: _OfReplicas = [
        [[batches[index][replica] for index in same] for same in members.values()] for replica in range(len(batches[0]))
    ]
    apply = functools.partial(_transformed, transform, _batch_bytes(strategy, batches))
    exchanged, is_free = _exchange(strategy, batches)
    replicas = strategy.num_replicas_in_sync
    shared = assignment.worthwhile(groups, flops, replicas, share, is_free) if exchanged else []
    found: _OfReplicas = [[[] for _ in groups] for _ in inputs]
    for own, results in zip(inputs, found):
        for group in (group for group in range(len(groups)) if group not in shared):
            with tf.device(own[group][0].device):
                results[group] = apply(own[group], 0, groups[group].number)
    if shared:
        parts = assignment.assign([groups[group] for group in shared], flops, replicas)
        pieces = exchanged(strategy, apply, [[own[group] for group in shared] for own in inputs], parts)
        for results, own in zip(found, pieces):
            for group, of_group in zip(shared, own):
                results[group] = of_group
    outcomes: list[list[Any]] = [[] for _ in batches]
    for results in found:
        for same, of_group in zip(members.values(), results):
            start = 0
            for index in same:
                count = batches[index][0].shape[0]
                outcomes[index].append(_rows(of_group, start, start + count))
                start += count
    return outcomes


def _exchange(strategy: tf.distribute.Strategy, batches: Sequence[Sequence[tf.Tensor]]) -> tuple[Any, bool]:
    """The function by which replicas get each other's results, None where they cannot; and True if nothing moves."""
    replicas = strategy.num_replicas_in_sync
    if replicas == 1:
        return None, False
    here = len(batches[0])
    if isinstance(strategy, tf.distribute.TPUStrategy) and here == 1:
        return _in_one_program, False
    if exchange.launchers(strategy):
        # XLA compiles no collectives of this kind; for GPUs, a replica's step does without a merged call.
        return _between_processes if strategy.extended._use_merge_call() else None, False
    if here == replicas:
        return _between_devices, all(_device_type(value) == "CPU" for value in batches[0])
    return None, False


def _device_type(tensor: tf.Tensor) -> str | None:
    return tf.DeviceSpec.from_string(tensor.device or "").device_type


def _batch_bytes(strategy: tf.distribute.Strategy, batches: Sequence[Sequence[tf.Tensor]]) -> int:
    on_cpu = any(_device_type(value) in ("CPU", None) for of_replicas in batches for value in of_replicas)
    return _CPU_BATCH_BYTES if on_cpu and not isinstance(strategy, tf.distribute.TPUStrategy) else _BATCH_BYTES


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


# ---- Exchanges: functions of (strategy, apply, inputs, each replica's parts) ---------------------------------


def _between_devices(_: tf.distribute.Strategy, apply: _Apply, inputs: _OfReplicas, parts: list[list[Part]]) -> Any:
    devices = [of_replica[0][0].device for of_replica in inputs]
    pieces: list[_Tensors] = [[] for _ in inputs[0]]
    for device, of_replica, own in zip(devices, inputs, parts):
        with tf.device(device):
            for part in own:
                pieces[part.group] += apply(of_replica[part.group], part.start, part.stop)
    copies: _OfReplicas = []
    for device in devices:
        with tf.device(device):
            copies.append([[tf.identity(piece) for piece in of_group] for of_group in pieces])
    return copies


def _between_processes(
    strategy: tf.distribute.Strategy, apply: _Apply, inputs: _OfReplicas, parts: list[list[Part]]
) -> Any:
    owned = [(replica, part) for replica, own in enumerate(parts) for part in own]
    shapes = [(part.stop - part.start, *inputs[0][part.group][0].shape[1:]) for _, part in owned]

    def exchanged() -> _OfReplicas:
        # For each replica of this process, the transformed matrices of each part, flat.
        found: list[dict[int, tf.Tensor]] = []
        for index, (launcher, of_groups) in enumerate(zip(exchange.launchers(strategy), inputs)):
            found.append({})
            with tf.device(launcher._device):
                for number, (replica, part) in enumerate(owned):
                    if replica == strategy.extended._get_replica_id_in_sync_group(index):
                        own = apply(of_groups[part.group], part.start, part.stop)
                        found[-1][number] = tf.concat([tf.reshape(piece, [-1]) for piece in own], axis=0)
        exchange.between_processes(
            strategy,
            [replica for replica, _ in owned],
            [count * rows * columns for count, rows, columns in shapes],
            [inputs[0][part.group][0].dtype for _, part in owned],
            read=lambda index, number: found[index][number],
            write=lambda index, number, value: found[index].update({number: value}),
        )
        pieces: _OfReplicas = [[[] for _ in inputs[0]] for _ in inputs]
        for index, of_replica in enumerate(pieces):
            for number, (_, part) in enumerate(owned):
                of_replica[part.group].append(tf.reshape(found[index][number], shapes[number]))
        return pieces

    return exchange.in_graph(exchanged)


def _in_one_program(
    strategy: tf.distribute.Strategy, apply: _Apply, inputs: _OfReplicas, parts: list[list[Part]]
) -> Any:
    """Replicas with as many matrices of each shape run the same branch, each on matrices of its own.

    Nothing is flattened: a TPU's layout pads the last axis to 128, and XLA would see the whole of a flat vector as
    [.., 2] to cut a matrix of two columns out of it.
    """
    [of_groups] = inputs
    whole = [_rows(tensors, 0, sum(tensor.shape[0] for tensor in tensors)) for tensors in of_groups]
    kinds = [tuple((part.group, part.stop - part.start) for part in own) for own in parts]
    replica = xla.replica_id()
    begins = [{part.group: part.start for part in own} for own in parts]
    starts = tf.gather([[own.get(group, 0) for group in range(len(whole))] for own in begins], replica)

    def branch(kind: tuple[tuple[int, int], ...]) -> _Tensors:
        """All groups, zero but for the replica's own matrices."""
        placed = [tf.zeros_like(tensor) for tensor in whole]
        for group, count in kind:
            place = [starts[group], 0, 0]
            picked = tf.slice(whole[group], place, [count, *whole[group].shape[1:]])
            own = _rows(apply([picked], 0, count), 0, count)
            placed[group] = xla.dynamic_update_slice(placed[group], own, tf.stack(place))
        return placed

    different = list(dict.fromkeys(kinds))
    placed = tf.switch_case(
        tf.gather([different.index(kind) for kind in kinds], replica),
        [functools.partial(branch, kind) for kind in different],
    )
    return [[[_sum_over_replicas(tensor, strategy.num_replicas_in_sync)] for tensor in tf.nest.flatten(placed)]]


def _sum_over_replicas(tensor: tf.Tensor, replicas: int) -> tf.Tensor:
    return tf.raw_ops.CrossReplicaSum(input=tensor, group_assignment=[list(range(replicas))])
