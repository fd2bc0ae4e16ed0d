"""Sharded updates: each replica has the state of its share of the layers, updates these, and sends them to the others.

The first stage of ZeRO (Rajbhandari et al. 2020, arXiv:1910.02054), or weight-update sharding (Xu et al. 2020,
arXiv:2004.13336), by whole layers: trust ratios and matrices need them. Gradients are summed over the replicas as
without it. Keras and TensorFlow have none outside XLA's for TPUs, and so this is our own.

| strategy | a layer's state | the new weights reach the other replicas by |
|---|---|---|
| MirroredStrategy | on the device of its replica | copies between the devices |
| MultiWorkerMirroredStrategy | in the process of its replica | all-gather, or all-reduce of disjoint parts |
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.python.distribute import distribute_lib, distribute_utils, numpy_dataset

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import assignment, sharing
from tfbigbatch.optimizers.adasum.exchange import launchers

# The exchange between processes is cut into parts of about this many bytes, up to a number of them: each holds its
# temporaries only as long as it lasts. Between two processes 4 MB took 90 MB less than 32 MB, and no longer.
_ROUND_BYTES = 2**22
_MOST_ROUNDS = 64


class _Piece(NamedTuple):
    """Entries `start` to `stop` of a flat variable, by its index."""

    variable: int
    start: int
    stop: int


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
        _check_strategy(label, strategy)
        self._label = label
        self._strategy = strategy
        self.owners = assignment.deal(costs, strategy.num_replicas_in_sync)
        devices = strategy.extended.worker_devices
        self._here = {strategy.extended._get_replica_id_in_sync_group(index): index for index in range(len(devices))}

    @property
    def between_processes(self) -> bool:
        """True where other processes have some of the replicas, and so of the state."""
        return len(self._here) < self._strategy.num_replicas_in_sync

    def is_here(self, owner: int) -> bool:
        """True if a replica is one of this process."""
        return owner in self._here

    def device(self, owner: int, variable: Any) -> str | None:
        """Device of a variable's copy on a replica; None where another process has it."""
        return self._copy(owner, variable).device if self.is_here(owner) else None

    def _copy(self, owner: int, variable: Any) -> tf.Variable:
        return self._strategy.experimental_local_results(variable)[self._here[owner]]

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
        if not self.is_here(owner):
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
        return tf.sqrt(2.0 * tf.reduce_sum(_in_graph(lambda: self._summed(halves_of))))

    def _summed(self, value_of: Callable[[int], tf.Tensor]) -> tf.Tensor:
        """The sum over the replicas of all processes of what a function gives for each; not to be called eagerly."""
        sums = []
        for replica, launcher in zip(self._here, launchers(self._strategy)):
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

    # ---- The new weights ------------------------------------------------------------------------

    def send(self, owners: Sequence[int], variables: Sequence[Any]) -> None:
        """Gives all replicas the values that the owners' copies of variables have."""
        if not self.between_processes:
            for owner, variable in zip(owners, variables):
                self._copy_between_devices(owner, variable)
            return
        for dtype in dict.fromkeys(variable.dtype for variable in variables):
            pairs = [pair for pair in zip(owners, variables) if pair[1].dtype == dtype]
            self._send_between_processes([owner for owner, _ in pairs], [variable for _, variable in pairs])

    def _copy_between_devices(self, owner: int, variable: Any) -> None:
        copies = self._strategy.experimental_local_results(variable)
        with tf.device(copies[owner].device):
            value = copies[owner].read_value()
        for index, copy in enumerate(copies):
            if index != owner:
                with tf.device(copy.device):
                    copy.assign(value)

    def _send_between_processes(self, owners: Sequence[int], variables: Sequence[Any]) -> None:
        replicas = self._strategy.num_replicas_in_sync
        sizes = [variable.shape.num_elements() for variable in variables]
        rounds = cut(owners, sizes, replicas, variables[0].dtype.size)
        totals = [sum(size for size, owner in zip(sizes, owners) if owner == each) for each in range(replicas)]
        is_gathered = assignment.is_gathered(totals)

        def sent() -> None:
            for index, (replica, launcher) in enumerate(zip(self._here, launchers(self._strategy))):
                copies = [self._strategy.experimental_local_results(variable)[index] for variable in variables]
                with tf.device(launcher._device):
                    _send_rounds(launcher, replica, copies, rounds, is_gathered)

        _in_graph(sent)


def _check_strategy(label: str, strategy: tf.distribute.Strategy) -> None:
    if isinstance(strategy, tf.distribute.TPUStrategy):
        raise InputError(
            f"{label}(shard_updates=True) under TPUStrategy: the compiler for TPUs shards updates by itself where it "
            "finds that it pays. Leave shard_updates out."
        )
    known = (tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy)
    if strategy.num_replicas_in_sync > 1 and not isinstance(strategy, known):
        raise InputError(
            f"{label}(shard_updates=True) is for MirroredStrategy and MultiWorkerMirroredStrategy, not for "
            f"{type(strategy).__name__}: leave shard_updates out."
        )


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


def cut(owners: Sequence[int], sizes: Sequence[int], replicas: int, itemsize: int) -> list[list[list[_Piece]]]:
    """Cuts the replicas' shares, each its flat variables one after the other, into rounds of about equal sizes.

    Args:
      owners: of the variables.
      sizes: their entries.
      replicas: their number.
      itemsize: bytes of an entry.

    Returns:
      For each round and replica, the pieces of its variables, in order.
    """
    shares = [[index for index, owner in enumerate(owners) if owner == each] for each in range(replicas)]
    longest = max(sum(sizes[index] for index in share) for share in shares)
    number = min(_MOST_ROUNDS, max(1, -(-longest * replicas * itemsize // _ROUND_BYTES)))
    step = max(1, -(-longest // number))
    rounds: list[list[list[_Piece]]] = []
    for low in range(0, max(longest, 1), step):
        rounds.append([])
        for share in shares:
            pieces, begin = [], 0
            for index in share:
                start, stop = max(low - begin, 0), min(low + step - begin, sizes[index])
                if start < stop:
                    pieces.append(_Piece(index, start, stop))
                begin += sizes[index]
            rounds[-1].append(pieces)
    return rounds


def _send_rounds(
    launcher: Any, replica: int, copies: Sequence[tf.Variable], rounds: list[list[list[_Piece]]], is_gathered: bool
) -> None:
    """On one replica: one round after the other, so that their temporaries are not there together."""
    everyone = sharing.gathered if is_gathered else sharing.summed
    parts: dict[int, list[tf.Tensor]] = {}
    before: list[Any] = []
    for pieces_of in rounds:
        with tf.control_dependencies(before):
            own = _flat(copies, pieces_of[replica])
        sizes = [sum(piece.stop - piece.start for piece in pieces) for pieces in pieces_of]
        shares = everyone(launcher, own, replica, sizes)
        before = [own]
        for other, (pieces, share) in enumerate(zip(pieces_of, shares)):
            # A sum loses the sign of zeros: its owner takes it too, so that all replicas have the same bits.
            if other == replica and is_gathered:
                continue
            begin = 0
            for index, start, stop in pieces:
                parts.setdefault(index, []).append(share[begin : begin + stop - start])
                begin += stop - start
                if stop == copies[index].shape.num_elements():
                    before.append(_assign(copies[index], parts.pop(index)))
        before = [each for each in before if each is not None]


def _flat(copies: Sequence[tf.Variable], pieces: Sequence[_Piece]) -> tf.Tensor:
    """The pieces' entries, one after the other."""
    values = [tf.reshape(copies[index].read_value(), [-1])[start:stop] for index, start, stop in pieces]
    return tf.concat(values, axis=0) if values else tf.zeros([0], copies[0].dtype)


def _assign(copy: tf.Variable, parts: Sequence[tf.Tensor]) -> Any:
    value = parts[0] if len(parts) == 1 else tf.concat(parts, axis=0)
    return copy.assign(tf.reshape(value, copy.shape), read_value=False)


def _in_graph(function: Callable[[], Any]) -> Any:
    """Calls a function of collectives; eagerly, one device's would wait for another's that is called later."""
    return tf.function(function, autograph=False)() if tf.executing_eagerly() else function()
