"""Sharded updates: each replica has the state of its share of the layers, updates these, and sends them to the others.

The first stage of ZeRO (Rajbhandari et al. 2020, arXiv:1910.02054), or weight-update sharding (Xu et al. 2020,
arXiv:2004.13336), by whole layers: trust ratios and matrices need them. Gradients are summed over the replicas as
without it. Keras and TensorFlow have none outside XLA's for TPUs, and so this is our own.

| strategy | a layer's state | the new weights reach the other replicas by |
|---|---|---|
| MirroredStrategy | on the device of its replica | copies between the devices |
| MultiWorkerMirroredStrategy | in the process of its replica | `exchange.between_processes` |
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import distribute_lib, distribute_utils, numpy_dataset

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import assignment, exchange


class Shards:
    """The replicas' shares of the layers.

    Args:
      label: name of the optimizer, for messages.
      strategy: the tf.distribute.Strategy of the variables.
      costs: of each layer, in any unit; the shares' sums are about equal.

    Attributes:
      owners: for each layer, the number of the replica that updates it.

    Raises:
      ValueError: the strategy is neither MirroredStrategy nor MultiWorkerMirroredStrategy.
    """

    def __init__(self, label: str, strategy: tf.distribute.Strategy, costs: Sequence[float]) -> None:
        if isinstance(strategy, tf.distribute.TPUStrategy):
            raise InputError(
                f"{label}(shard_updates=True) under TPUStrategy: the compiler for TPUs shards updates by itself where "
                "it finds that it pays. Leave shard_updates out."
            )
        if not isinstance(strategy, (tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy)):
            raise InputError(
                f"{label}(shard_updates=True) is for MirroredStrategy and MultiWorkerMirroredStrategy, not for "
                f"{type(strategy).__name__}: leave shard_updates out."
            )
        self._label = label
        self._strategy = strategy
        self.owners = assignment.deal(costs, strategy.num_replicas_in_sync)
        devices = strategy.extended.worker_devices
        self._here = {strategy.extended._get_replica_id_in_sync_group(index): index for index in range(len(devices))}

    @property
    def between_processes(self) -> bool:
        """True where other processes have some of the replicas, and so of the state."""
        return len(self._here) < self._strategy.num_replicas_in_sync

    def device(self, owner: int, variable: Any) -> str | None:
        """Device of a variable's copy on a replica; None where another process has it."""
        copies = self._strategy.experimental_local_results(variable)
        return copies[self._here[owner]].device if owner in self._here else None

    def check_step(self, strategy: tf.distribute.Strategy) -> None:
        """Raises ValueError where a step is taken in another way than the state was made for."""
        if strategy.num_replicas_in_sync != self._strategy.num_replicas_in_sync:
            raise InputError(
                f"{self._label}(shard_updates=True) was built for {self._strategy.num_replicas_in_sync} replicas, and "
                f"is used with {strategy.num_replicas_in_sync}. Build and use it in the same strategy."
            )
        if not strategy.extended._use_merge_call():
            raise InputError(
                f"{self._label}(shard_updates=True): in a step that XLA compiles as a whole, replicas cannot divide "
                "the layers. Compile the model with jit_compile=False; the optimizer's own jit_compile=True works."
            )

    def run(self, owner: int, function: Callable[..., None], variable: Any, *arguments: Any) -> None:
        """Calls `function` with a replica's own values of a variable and arguments, if it is one of this process.

        `variable` may be of one replica already.
        """
        if owner not in self._here:
            return
        index = self._here[owner]
        copies = self._strategy.experimental_local_results(variable)
        own = copies[index] if len(copies) > 1 else copies[0]
        # As strategy.extended.update, for one of the replicas.
        with tf.device(own.device), distribute_lib.UpdateContext(index):
            function(own, *distribute_utils.select_replica(index, arguments))

    def global_norm(self, owners: Sequence[int], tensors: Sequence[Any]) -> tf.Tensor:
        """Euclidean norm of tensors that their owners alone have; None stands for those of other processes."""
        if not self.between_processes:
            return tf.linalg.global_norm([tf.cast(tensor, tf.float32) for tensor in tensors])

        def halves_of(replica: int) -> tf.Tensor:
            return tf.stack(
                [
                    tf.nn.l2_loss(tf.cast(tensor, tf.float32)) if owner == replica else tf.zeros([])
                    for owner, tensor in zip(owners, tensors)
                ]
            )

        # One sum in the order of the layers, as that of a replica which has all of them.
        return tf.sqrt(2.0 * tf.reduce_sum(exchange.in_graph(lambda: self._summed(halves_of))))

    def _summed(self, value_of: Callable[[int], tf.Tensor]) -> tf.Tensor:
        """The sum over the replicas of all processes of what a function gives for each; not to be called eagerly."""
        sums = []
        for replica, launcher in zip(self._here, exchange.launchers(self._strategy)):
            with tf.device(launcher._device):
                sums.append(launcher.all_reduce(value_of(replica)))
        return sums[0]

    def gather(
        self, owner: int, variable: tf.Variable | None, shape: Sequence[int], dtype: tf.DType
    ) -> Callable[[], tf.Tensor]:
        """A function, for all processes to call together, that gives the value of a variable of the owner's process.

        `variable` is None in the others. The function is traced once.
        """

        def value_of(replica: int) -> tf.Tensor:
            return tf.zeros(shape, dtype) if replica != owner else tf.convert_to_tensor(variable)

        return tf.function(lambda: self._summed(value_of), autograph=False)

    def send(self, owners: Sequence[int], variables: Sequence[Any]) -> None:
        """Gives all replicas the values that the owners' copies of variables have."""
        copies = [self._strategy.experimental_local_results(variable) for variable in variables]
        if not self.between_processes:
            for owner, of_variable in zip(owners, copies):
                with tf.device(of_variable[owner].device):
                    value = of_variable[owner].read_value()
                for copy in of_variable[:owner] + of_variable[owner + 1 :]:
                    with tf.device(copy.device):
                        copy.assign(value)
            return

        def read(index: int, number: int) -> tf.Tensor:
            return tf.reshape(copies[number][index].read_value(), [-1])

        def write(index: int, number: int, value: tf.Tensor) -> Any:
            copy = copies[number][index]
            return copy.assign(tf.reshape(value, copy.shape), read_value=False)

        sizes = [variable.shape.num_elements() for variable in variables]
        dtypes = [variable.dtype for variable in variables]
        exchange.in_graph(lambda: exchange.between_processes(self._strategy, owners, sizes, dtypes, read, write))


def strategy_of(variables: Sequence[tf.Variable]) -> tf.distribute.Strategy:
    """The strategy that variables were made in; the current one where they were made in none."""
    for variable in variables:
        strategy = getattr(variable, "distribute_strategy", None)
        if strategy is not None:
            return strategy
    return tf.distribute.get_strategy()


@contextlib.contextmanager
def one_device(device: str) -> Iterator[None]:
    """Variables made in this context are on one device, and of one replica, also in a strategy's scope."""

    def made(next_creator: Callable[..., Any], **options: Any) -> Any:
        return next_creator(**{**options, "colocate_with": numpy_dataset.SingleDevice(device)})

    with tf.device(device), tf.variable_creator_scope(made):
        yield
