"""Adasum: the wrapper, the combination of what a strategy's replicas have, and the formula.

Maleki et al. 2020 (arXiv:2006.02924), equation 2: the vectors a and b of two workers become

    (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b,

their sum where they are orthogonal and their mean where they are equal, layer by layer. More vectors are combined in
a binary tree, ((01)(23)); the last of an odd number waits for the next level.

All coefficients of a tree follow from the dot products of its leaves. So a worker needs a part of every
vector only: the parts' dot products are added up, a few numbers for each layer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import collective_ops

from tfbigbatch.optimizers.groups import collective, group_means
from tfbigbatch.optimizers.sharing import launchers, regrouped
from tfbigbatch.optimizers.tensorflow import arithmetic_dtype, tensor_variable
from tfbigbatch.optimizers.wrapper import Wrapper
from tfbigbatch.optimizers.wrapper_arguments import AdasumArguments

# Leaves of one tree of dot products, a power of 2; more vectors are combined tree by tree. Those of n leaves grow as
# n^2, and what rounding does to them with its depth: in float32 opposite vectors would cancel.
_LEAVES = {tf.float64: 8, tf.float32: 2}
# |a|^2 below which a counts as zero; in float64 as Horovod has it.
_ZERO = {tf.float64: 1.5e-154, tf.float32: 1.2e-38}
# Layers are sent together up to this size.
_PACK_BYTES = 2**26
# Optimizers with a step linear in the gradient but for a factor: there the two forms differ by the momentum alone.
_OF_GRADIENTS = ("SGD", "LARS")

_Tensors = list[tf.Tensor]
_Move = Callable[[tf.Tensor], tf.Tensor]


class Adasum(AdasumArguments, Wrapper):
    """Adaptive summation of the replicas' gradients, Maleki et al. 2020 (arXiv:2006.02924), around an optimizer.

    Layer by layer, gradients that are orthogonal are added and equal ones are averaged, in a binary tree over
    the replicas: `adasum.py` has the formula. In place of `model.compile(optimizer=LAMB(...))` write
    `model.compile(optimizer=Adasum(LAMB(...)))`. On one replica it changes nothing.

    The gradients are expected as Keras gives them: each replica's is of its part of the loss, so that their
    sum is the gradient of the mean over the global batch. What is combined is n times these.

    With `combine='updates'` each replica first takes the optimizer's step by itself, from the same weights; what is
    combined are the changes of the weights, and moments stay each replica's own. A checkpoint then holds those of
    the first replica, and is refused when it is restored, unless what `checkpointing()` gives is saved and restored
    with it.

    Raises:
      ValueError: an argument cannot be used; or, at the first update, the replicas do not divide into groups.
    """

    def configure(self, values: dict[str, Any]) -> None:
        optimizer = values["optimizer"]
        self.check_inner(optimizer)
        name = type(optimizer).__name__
        if values["combine"] is None:
            is_linear = any(cls.__name__ in _OF_GRADIENTS for cls in type(optimizer).__mro__)
            values["combine"] = "gradients" if is_linear else "updates"
        if values["combine"] == "updates" and optimizer.use_ema:
            raise ValueError(
                f"Adasum({name}(use_ema=True), combine='updates'): the averages would be of each replica's own "
                "weights. Take combine='gradients', or keep the averages in a callback."
            )
        if values["combine"] == "gradients" and getattr(optimizer, "accumulation_steps", 1) != 1:
            raise ValueError(
                f"Adasum({name}(accumulation_steps={optimizer.accumulation_steps}), combine='gradients'): each "
                "micro-batch would be combined by itself. Accumulate in the training step "
                "(optimizers.accumulate_gradients), or take combine='updates'."
            )
        super().configure(values)

    @property
    def replicas_differ(self) -> bool:
        """True for updates."""
        return self.combine == "updates"

    def received(self, gradients: _Tensors) -> _Tensors:
        """Of updates the mean of the replica's group, else the combination of all groups' means."""
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        if replicas % self.group_size:
            raise ValueError(f"Adasum: {replicas} replicas do not divide into groups of group_size={self.group_size}.")
        if replicas == 1 or (self.replicas_differ and self.group_size == 1):
            return gradients
        function = group_means if self.replicas_differ else combined
        # A function among the arguments would become one for each replica.
        return tf.distribute.get_replica_context().merge_call(
            lambda strategy, gradients: function(strategy, gradients, self.group_size), args=(gradients,)
        )

    def around(self, variables: Sequence[Any], apply: Callable[[], Any]) -> None:
        """Runs `apply`; of updates, combines the changes of the variables over the replicas."""
        if not self.replicas_differ or tf.distribute.get_strategy().num_replicas_in_sync == 1:
            apply()
            return
        weights = [tensor_variable(variable) for variable in variables]

        def values() -> _Tensors:
            return [tf.cast(tf.identity(weight), arithmetic_dtype(weight)) for weight in weights]

        before = values()
        apply()
        changes = [after - start for start, after in zip(before, values())]

        def merged(strategy: tf.distribute.Strategy, before: _Tensors, changes: _Tensors) -> None:
            for variable, weight, *new in zip(variables, weights, before, combined(strategy, changes, self.group_size)):
                assign = functools.partial(_assign, variable.constraint)
                strategy.extended.update(weight, assign, args=tuple(new), group=False)

        tf.distribute.get_replica_context().merge_call(merged, args=(before, changes))


def _assign(constraint: Any, weight: tf.Variable, start: tf.Tensor, change: tf.Tensor) -> None:
    new = tf.cast(start + change, weight.dtype)
    # Each replica's own step kept to the constraint; their combination need not.
    weight.assign(new if constraint is None else constraint(new))


# ---- Between replicas ---------------------------------------------------------------------------


def combined(strategy: tf.distribute.Strategy, layers: Sequence[Any], group_size: int = 1) -> list[Any]:
    """In cross-replica context: Adasum of what the replicas have of each layer, the same bits for all replicas.

    A replica holds every layer in full. Among several processes, and on TPUs, each gets a part of every layer from all
    others, combines the parts, and sends the outcome back: two exchanges of (n - 1) / n of the layers, as much as an
    all-reduce moves, and the dot products of the parts between them. In one process the whole layers are combined
    where they are.

    Args:
      layers: dense tensors of each replica.
      group_size: replicas to a group, a divisor of their number; neighbours by their numbers. Combined are the
        groups' means.

    Returns:
      List of tensors of the layers' dtypes.
    """
    replicas = strategy.num_replicas_in_sync
    if replicas == 1 or not layers:
        return list(layers)
    if isinstance(strategy, tf.distribute.TPUStrategy):
        group = [list(range(replicas))]

        def all_to_all(rows: tf.Tensor) -> tf.Tensor:
            return tf.raw_ops.AllToAll(
                input=rows, group_assignment=group, concat_dimension=0, split_dimension=0, split_count=replicas
            )

        def total(products: tf.Tensor) -> tf.Tensor:
            return tf.raw_ops.CrossReplicaSum(input=products, group_assignment=group)

        # A TPU has no float64 of its own.
        return _by_parts(layers, replicas, group_size, all_to_all, total, tf.float32)
    rows = [strategy.experimental_local_results(layer) for layer in layers]
    collectives = launchers(strategy)
    if not collectives:
        return _in_one_process(rows, group_size)
    outcomes = []
    for launcher, own in zip(collectives, zip(*rows)):
        with tf.device(launcher._device):
            move = functools.partial(_all_to_all, launcher, replicas)
            outcomes.append(_by_parts(own, replicas, group_size, move, launcher.all_reduce))
    return [regrouped(values) for values in zip(*outcomes)]


def _in_one_process(layers: Sequence[Sequence[tf.Tensor]], group_size: int) -> _Tensors:
    rows = []
    for number, values in enumerate(layers):
        # The layers take turns on the devices, so that each does a share.
        with tf.device(values[number % len(values)].device):
            rows.append(_group_rows(tf.stack([tf.reshape(value, [-1]) for value in values]), group_size))
    outcomes = []
    for (first, *_), outcome in zip(layers, combine(rows)):
        with tf.device(outcome.device):
            outcomes.append(tf.reshape(tf.cast(outcome, first.dtype), first.shape))
    return outcomes


def _by_parts(
    layers: Sequence[tf.Tensor],
    replicas: int,
    group_size: int,
    all_to_all: _Move,
    total: _Move,
    dtype: tf.DType = tf.float64,
) -> _Tensors:
    """On one replica: the layers' outcomes, of which each replica combines a part.

    Args:
      all_to_all: function of [replicas, S] that sends each row to its replica, and returns the row from each.
      total: function that adds a tensor up over the replicas.
    """
    outcomes = []
    for pack in _packs(layers):
        sizes = [-(-layer.shape.num_elements() // replicas) for layer in pack]
        parts = tf.concat([_parts(layer, replicas) for layer in pack], axis=1)
        received = tf.split(tf.ensure_shape(all_to_all(parts), parts.shape), sizes, axis=1)
        own = combine([_group_rows(rows, group_size) for rows in received], total, dtype)
        row = tf.concat([tf.cast(part, parts.dtype) for part in own], axis=0)
        everyone = tf.ensure_shape(all_to_all(tf.repeat(row[tf.newaxis], replicas, axis=0)), parts.shape)
        for layer, whole in zip(pack, tf.split(everyone, sizes, axis=1)):
            outcomes.append(tf.reshape(tf.reshape(whole, [-1])[: layer.shape.num_elements()], layer.shape))
    return outcomes


def _packs(layers: Sequence[tf.Tensor]) -> Iterator[_Tensors]:
    """The layers in lists of one dtype that fit in `_PACK_BYTES`."""
    pack: _Tensors = []
    for layer in layers:
        size = sum(each.shape.num_elements() for each in pack) * layer.dtype.size
        if pack and (size >= _PACK_BYTES or layer.dtype != pack[0].dtype):
            yield pack
            pack = []
        pack.append(layer)
    yield pack


def _parts(layer: tf.Tensor, replicas: int) -> tf.Tensor:
    """[replicas, S]: a layer cut into as many parts, filled up with zeros."""
    flat = tf.reshape(layer, [-1])
    return tf.reshape(tf.pad(flat, [[0, -flat.shape[0] % replicas]]), [replicas, -1])


def _group_rows(rows: tf.Tensor, group_size: int) -> tf.Tensor:
    """[replicas, S] to [groups, S], the groups' means."""
    if group_size == 1:
        return rows
    rows = tf.cast(rows, arithmetic_dtype(rows))
    return tf.reduce_mean(tf.reshape(rows, [-1, group_size, rows.shape[-1]]), axis=1)


def _all_to_all(launcher: Any, replicas: int, rows: tf.Tensor) -> tf.Tensor:
    if rows.dtype == tf.bfloat16:
        # The collectives do not support it; nothing is computed here.
        return tf.bitcast(_all_to_all(launcher, replicas, tf.bitcast(rows, tf.float16)), tf.bfloat16)
    return collective(collective_ops.all_to_all_v2, launcher, rows, replicas, launcher._group_key)


# ---- The formula --------------------------------------------------------------------------------


def combine(
    layers: list[tf.Tensor],
    total: Callable[[tf.Tensor], tf.Tensor] = lambda products: products,
    dtype: tf.DType = tf.float64,
) -> list[tf.Tensor]:
    """Combines the vectors of n workers, or equal parts of them, layer by layer.

    Args:
      layers: list of [n, size], a worker's vector in each row; a layer's rows may be parts.
      total: function that adds dot products up over all parts.
      dtype: of the dot products.

    Returns:
      List of [size], float32 or wider.
    """
    layers = [tf.cast(rows, arithmetic_dtype(rows)) for rows in layers]
    while (workers := layers[0].shape[0]) > 1:
        width = min(_LEAVES[dtype], 1 << (workers - 1).bit_length())
        trees, products = [], []
        for rows in layers:
            with tf.device(rows.device):
                if workers % width:
                    # Vectors of zeros complete the last tree, and change nothing.
                    rows = tf.pad(rows, [[0, -workers % width], [0, 0]])
                tree = tf.reshape(rows, [-1, width, rows.shape[1]])
                leaves = tf.cast(tree, dtype)
                trees.append(tree)
                products.append(tf.linalg.matmul(leaves, leaves, transpose_b=True))
        factors = tf.unstack(_coefficients(total(tf.stack(products))))
        layers = []
        for tree, own in zip(trees, factors):
            with tf.device(tree.device):
                layers.append(tf.linalg.matmul(tf.cast(own, tree.dtype)[:, tf.newaxis], tree)[:, 0])
    return [rows[0] for rows in layers]


def _coefficients(products: tf.Tensor) -> tf.Tensor:
    """The coefficient of each vector in their sum.

    Args:
      products: [..., n, n], dot products of n vectors; n is a power of 2. A vector of zeros changes nothing.

    Returns:
      [..., n], of the same dtype.
    """
    n = products.shape[-1]
    # A node of the tree as its coefficients over the leaves.
    nodes = tf.eye(n, batch_shape=products.shape[:-2], dtype=products.dtype)
    while nodes.shape[-2] > 1:
        dots = tf.linalg.matmul(nodes @ products, nodes, transpose_b=True)
        squares = tf.linalg.diag_part(dots)
        between = tf.linalg.diag_part(dots, k=1)[..., 0::2]
        left, right = (_coefficient(between, squares[..., side::2]) for side in (0, 1))
        nodes = left[..., tf.newaxis] * nodes[..., 0::2, :] + right[..., tf.newaxis] * nodes[..., 1::2, :]
    return nodes[..., 0, :]


def _coefficient(dot: tf.Tensor, square: tf.Tensor) -> tf.Tensor:
    is_zero = square < _ZERO[square.dtype]
    one = tf.ones_like(square)
    return tf.where(is_zero, one, 1.0 - dot / (2.0 * tf.where(is_zero, one, square)))
