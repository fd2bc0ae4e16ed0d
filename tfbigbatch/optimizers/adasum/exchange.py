"""The exchange in which a strategy's replicas combine their gradients, or updates, by Adasum.

A replica holds every layer in full. Each gets a part of every layer from all others, combines the parts,
and sends the outcome back: two exchanges of (n - 1) / n of the gradients, as much as an all-reduce moves,
and the dot products of the parts between them. In one process the whole layers are combined where they are.

Each part is combined on one replica only, so that all replicas have the same bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import distribute_utils
from tensorflow.python.ops import collective_ops

from tfbigbatch.optimizers.adasum import rule
from tfbigbatch.optimizers.sharing import launchers

_Tensors = list[tf.Tensor]
_Move = Callable[[tf.Tensor], tf.Tensor]
# Combines layers [replicas, size] with a sum over replicas of dot products; see `rule.combine`.
_Combine = Callable[..., _Tensors]

# Layers are sent together up to this size.
_PACK_BYTES = 2**26


def combined(gradients: _Tensors, group_size: int = 1) -> _Tensors:
    """In a replica: Adasum of all groups' mean gradients, layer by layer.

    Args:
      gradients: list of dense tensors.
      group_size: replicas to a group, a divisor of their number; neighbours by their numbers.

    Returns:
      List of tensors of the gradients' dtypes, the same on all replicas.
    """
    return _exchanged(gradients, functools.partial(_combine_groups, group_size))


def combined_of_replicas(strategy: tf.distribute.Strategy, gradients: Sequence[Any]) -> list[Any]:
    """In cross-replica context: `combined` of the values that each replica has of every gradient, for all replicas."""
    if strategy.num_replicas_in_sync == 1:
        return list(gradients)
    return _merged(strategy)(strategy, functools.partial(_combine_groups, 1), list(gradients))


def _combine_groups(group_size: int, layers: _Tensors, total: _Move, **precision: Any) -> _Tensors:
    return rule.combine([_group_means(rows, group_size) for rows in layers], total, **precision)


def group_means(gradients: _Tensors, group_size: int) -> _Tensors:
    """In a replica: the mean of its group's gradients; arguments as for `combined`."""
    if group_size == 1:
        return list(gradients)

    def means(layers: _Tensors, total: _Move, **precision: Any) -> _Tensors:
        del total, precision
        return [tf.repeat(_group_means(rows, group_size), group_size, axis=0) for rows in layers]

    return _exchanged(gradients, means)


def _group_means(rows: tf.Tensor, group_size: int) -> tf.Tensor:
    if group_size == 1:
        return rows
    with tf.device(rows.device):
        rows = tf.cast(rows, rule.wide(rows.dtype))
        return tf.reduce_mean(tf.reshape(rows, [-1, group_size, rows.shape[-1]]), axis=1)


def _exchanged(gradients: _Tensors, function: _Combine) -> _Tensors:
    """Applies `function` to the layers of all replicas, [n, size] each and with a replica in each row.

    What it returns of a layer is [size], for all replicas, or [n, size], a row for each.
    """
    strategy = tf.distribute.get_strategy()
    context = tf.distribute.get_replica_context()
    if strategy.num_replicas_in_sync == 1 or not gradients:
        return list(gradients)
    merged = _merged(strategy)
    if merged is _on_tpus:
        return _on_tpus(strategy, function, list(gradients))
    # A function among the arguments would become one for each replica.
    return context.merge_call(
        lambda strategy, gradients: merged(strategy, function, gradients), args=(list(gradients),)
    )


def _merged(strategy: tf.distribute.Strategy) -> Callable[[Any, _Combine, _Tensors], _Tensors]:
    """The function of (strategy, function, gradients) that does it in cross-replica context."""
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return _on_tpus
    return _between_processes if launchers(strategy) else _in_process


# ---- One process --------------------------------------------------------------------------------


def _in_process(strategy: tf.distribute.Strategy, function: _Combine, gradients: _Tensors) -> _Tensors:
    replicas = [strategy.experimental_local_results(gradient) for gradient in gradients]
    layers = []
    for index, values in enumerate(replicas):
        # The layers take turns on the devices, so that each does a share.
        with tf.device(values[index % len(values)].device):
            layers.append(tf.stack([tf.reshape(value, [-1]) for value in values]))
    outcomes = []
    for values, outcome in zip(replicas, function(layers, lambda products: products)):
        shape, dtype = values[0].shape, values[0].dtype
        with tf.device(outcome.device):
            outcome = tf.cast(outcome, dtype)
            if outcome.shape.rank == 1:
                outcomes.append(tf.reshape(outcome, shape))
            else:
                rows = [tf.reshape(row, shape) for row in tf.unstack(outcome)]
                outcomes.append(distribute_utils.regroup(tuple(rows)))
    return outcomes


# ---- Parts of layers, packed ----------------------------------------------------------------------


def _in_packs(gradients: _Tensors, exchange: Callable[[_Tensors], _Tensors]) -> _Tensors:
    """Applies `exchange` to lists of gradients of one dtype that fit in `_PACK_BYTES`."""
    outcomes: _Tensors = []
    start = size = 0
    for stop, gradient in enumerate(gradients):
        size += gradient.shape.num_elements() * gradient.dtype.size
        following = gradients[stop + 1] if stop + 1 < len(gradients) else None
        if following is None or size >= _PACK_BYTES or following.dtype != gradient.dtype:
            outcomes += exchange(gradients[start : stop + 1])
            start, size = stop + 1, 0
    return outcomes


def _packed(gradients: _Tensors, replicas: int) -> tf.Tensor:
    """[replicas, S]: the parts of all gradients, each cut into as many and filled up with zeros."""
    columns = []
    for gradient in gradients:
        flat = tf.reshape(gradient, [-1])
        flat = tf.pad(flat, [[0, -flat.shape[0] % replicas]])
        columns.append(tf.reshape(flat, [replicas, -1]))
    return tf.concat(columns, axis=1)


def _part_sizes(gradients: _Tensors, replicas: int) -> list[int]:
    return [-(-gradient.shape.num_elements() // replicas) for gradient in gradients]


def _unpacked(parts: tf.Tensor, gradients: _Tensors) -> _Tensors:
    """The reverse of `_packed`."""
    columns = tf.split(parts, _part_sizes(gradients, parts.shape[0]), axis=1)
    return [
        tf.reshape(tf.reshape(column, [-1])[: gradient.shape.num_elements()], gradient.shape)
        for column, gradient in zip(columns, gradients)
    ]


def _exchange_parts(
    function: _Combine,
    replicas: int,
    gradients: _Tensors,
    all_to_all: _Move,
    total: _Move,
    everyone: _Move,
    **precision: Any,
) -> _Tensors:
    """On one replica: the layers' outcomes, by exchanging parts of them.

    Args:
      all_to_all: function of [replicas, S] that sends each row to its replica, and returns the row from each.
      total: function that adds a tensor up over the replicas.
      everyone: function of [S] that returns [replicas, S], what each replica has.
    """
    packed = _packed(gradients, replicas)
    received = tf.ensure_shape(all_to_all(packed), packed.shape)
    layers = tf.split(received, _part_sizes(gradients, replicas), axis=1)
    outcomes = [tf.cast(outcome, received.dtype) for outcome in function(layers, total, **precision)]
    if outcomes[0].shape.rank == 1:
        returned = everyone(tf.concat(outcomes, axis=0))
    else:
        returned = all_to_all(tf.concat(outcomes, axis=1))
    return _unpacked(tf.ensure_shape(returned, packed.shape), gradients)


def _on_tpus(strategy: tf.distribute.Strategy, function: _Combine, gradients: _Tensors) -> _Tensors:
    return _in_packs(gradients, functools.partial(_on_tpu, function, strategy.num_replicas_in_sync))


def _on_tpu(function: _Combine, replicas: int, gradients: _Tensors) -> _Tensors:
    group = [list(range(replicas))]

    def all_to_all(rows: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.AllToAll(
            input=rows, group_assignment=group, concat_dimension=0, split_dimension=0, split_count=replicas
        )

    def total(products: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.CrossReplicaSum(input=products, group_assignment=group)

    # A TPU has no float64 of its own.
    precision: dict[str, Any] = {"dtype": tf.float32, "leaves": 2}
    return _exchange_parts(
        function,
        replicas,
        gradients,
        all_to_all,
        total,
        lambda part: all_to_all(tf.repeat(part[tf.newaxis], replicas, axis=0)),
        **precision,
    )


# ---- Several processes ----------------------------------------------------------------------------


def _between_processes(strategy: tf.distribute.Strategy, function: _Combine, gradients: _Tensors) -> _Tensors:
    replicas = strategy.num_replicas_in_sync
    local = map(list, zip(*(strategy.experimental_local_results(gradient) for gradient in gradients)))
    outcomes = [
        _in_packs(of_device, functools.partial(_over_collectives, function, replicas, launcher))
        for launcher, of_device in zip(launchers(strategy), local)
    ]
    return [distribute_utils.regroup(tuple(values)) for values in zip(*outcomes)]


def _over_collectives(function: _Combine, replicas: int, launcher: Any, gradients: _Tensors) -> _Tensors:
    options = launcher._options

    def all_to_all(rows: tf.Tensor) -> tf.Tensor:
        return _moved(rows, exchanged)

    def exchanged(rows: tf.Tensor) -> tf.Tensor:
        return collective_ops.all_to_all_v2(
            rows,
            replicas,
            launcher._group_key,
            launcher._next_instance_key(),
            communication_hint=options.implementation.value,
            timeout=options.timeout_seconds or 0,
            ordering_token=launcher._get_ordering_token(),
        )

    with tf.device(launcher._device):
        return _exchange_parts(
            function,
            replicas,
            gradients,
            all_to_all,
            lambda products: launcher.all_reduce(products),
            lambda part: _moved(part[tf.newaxis], lambda row: launcher._all_gather(row, options)),
        )


def _moved(tensor: tf.Tensor, move: _Move) -> tf.Tensor:
    """`move` of a tensor without arithmetic: the collectives do not support bfloat16."""
    if tensor.dtype != tf.bfloat16:
        return move(tensor)
    return tf.bitcast(move(tf.bitcast(tensor, tf.float16)), tf.bfloat16)
