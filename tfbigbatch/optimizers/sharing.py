"""Work that replicas share: it is dealt to them by cost, each does its own, and all get the rest, in the same bits.

`map_matrices` is for a function of matrices that costs much, such as an orthogonalisation: each is transformed on one
replica. `Shards` is for sharded updates: each replica has the state of its share of the layers, and updates these. That
is the first stage of ZeRO (Rajbhandari et al. 2020, arXiv:1910.02054), or weight-update sharding (Xu et al. 2020,
arXiv:2004.13336), by whole layers: trust ratios and matrices need them. Gradients are summed over the replicas as
without it. Keras and TensorFlow have none outside XLA's for TPUs, and so this is our own.

| strategy | the replicas of this process | the others' parts come by |
|---|---|---|
| one process, such as MirroredStrategy | all, one for each device | copies between the devices |
| MultiWorkerMirroredStrategy | one for each device | rounds of an all-gather, or an all-reduce |
| TPUStrategy (`map_matrices` alone) | one, of a program for all replicas | an all-reduce of disjoint parts |
"""

from __future__ import annotations

import collections
import contextlib
import functools
import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla
from tensorflow.python.distribute import distribute_lib, distribute_utils, numpy_dataset

from tfbigbatch.errors import InputError

_Tensors = list[tf.Tensor]

# ---- Who does what: plain Python, so that all processes come to the same ---------------------------------------

# Floating-point operations of the function on one matrix [rows, columns].
Flops = Callable[[int, int], float]

# Operations in the time that a byte takes to the other replicas. At half of its peak rate a TPU does 180 (v3) to 2,300
# (v6e) in an all-reduce's time for a byte (`tpu.chips`), an A100 500 over NVLink; 16 cores of 100 GFLOP/s do 500 at
# 25 Gb/s.
_OPERATIONS_PER_BYTE = 500.0
# Less than this saved is not worth a collective: 1 ms over gRPC is 1e8 operations of a core.
_LEAST_OPERATIONS = 5e8


def deal(costs: Sequence[float], replicas: int) -> list[int]:
    """Deals things of different costs to the replicas: for each, the number of its replica.

    The costliest first, each to the replica with the least so far (longest processing time first: Graham 1969, SIAM J.
    Appl. Math. 17(2), at most 4/3 of the shortest makespan).
    """
    owners = [0] * len(costs)
    loads = [(0.0, replica) for replica in range(replicas)]
    for index in sorted(range(len(costs)), key=lambda index: -costs[index]):
        load, owners[index] = heapq.heappop(loads)
        heapq.heappush(loads, (load + costs[index], owners[index]))
    return owners


def _edges(groups: Sequence[tf.TensorSpec], flops: Flops, replicas: int) -> list[list[int]]:
    """Deals the matrices of groups [number, rows, columns]: for each, where each replica's begin, and the end."""
    group_of = [index for index, group in enumerate(groups) for _ in range(group.shape[0])]
    owners = deal([flops(*groups[index].shape[1:]) for index in group_of], replicas)
    counts = collections.Counter(zip(group_of, owners))
    every = range(replicas)
    return [list(itertools.accumulate([0, *(counts[index, each] for each in every)])) for index in range(len(groups))]


def worthwhile(groups: Sequence[tf.TensorSpec], flops: Flops, replicas: int, is_free: bool) -> list[int]:
    """Indices of the groups [number, rows, columns] that are worth sharing.

    A matrix is worth sharing if working on it takes longer than sending it; all of these together, if that saves more
    than the fixed time of a collective. Everything is where sending is free, as within one CPU.
    """
    if is_free:
        return list(range(len(groups)))
    chosen, saved = [], 0.0
    for index, group in enumerate(groups):
        number, rows, columns = group.shape
        cost = flops(rows, columns)
        if cost > _OPERATIONS_PER_BYTE * rows * columns * group.dtype.size:
            chosen.append(index)
            saved += number * cost * (1.0 - 1.0 / replicas)
    return chosen if saved > _LEAST_OPERATIONS else []


# ---- Between the replicas --------------------------------------------------------------------------------------

# Rounds are of about this many bytes, up to a number of them: each holds its temporaries only as long as it lasts.
# Between two processes 4 MB took 90 MB less than 32 MB, and no longer.
_ROUND_BYTES = 2**22
_MOST_ROUNDS = 64

# A function of (index of a replica in this process, number of a tensor that it owns) that computes the tensor.
_Own = Callable[[int, int], tf.Tensor]
# A function of (index of a replica here, the number of a tensor that another owns, the tensor).
_Take = Callable[[int, int, tf.Tensor], Any]


def launchers(strategy: tf.distribute.Strategy) -> Any:
    """TensorFlow's collectives of each device of this process, among several processes; None for one process."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return None
    return strategy.extended._cross_device_ops._launchers


def _replicas_here(strategy: tf.distribute.Strategy) -> list[int]:
    """The numbers of this process's replicas, in the order of its devices."""
    extended = strategy.extended
    return [extended._get_replica_id_in_sync_group(index) for index in range(len(extended.worker_devices))]


def _on_all(
    strategy: tf.distribute.Strategy,
    owners: Sequence[int],
    specs: Sequence[tf.TensorSpec],
    own: _Own,
    take: _Take = lambda index, number, tensor: tensor,
) -> list[list[Any]]:
    """For each replica of this process all tensors, of which each is computed on the replica that owns it.

    `specs` are their shapes and dtypes; the strategy is not TPUStrategy. In place of a tensor that another replica owns
    stands what `take` makes of it.
    """
    here = _replicas_here(strategy)
    if len(here) < strategy.num_replicas_in_sync:
        exchanged = functools.partial(_between_processes, strategy, owners, specs, own, take)
        # Eagerly, one device's collective would wait for another's that is called later.
        return tf.function(exchanged, autograph=False)() if tf.executing_eagerly() else exchanged()
    tensors = []
    for number, owner in enumerate(owners):
        with tf.device(strategy.extended.worker_devices[owner]):
            tensors.append(own(owner, number))
    copies = []
    for index, device in enumerate(strategy.extended.worker_devices):
        with tf.device(device):
            copies.append(
                [
                    tensor if owner == index else take(index, number, tf.identity(tensor))
                    for number, (owner, tensor) in enumerate(zip(owners, tensors))
                ]
            )
    return copies


def _between_processes(
    strategy: tf.distribute.Strategy, owners: Sequence[int], specs: Sequence[tf.TensorSpec], own: _Own, take: _Take
) -> list[list[Any]]:
    """`_on_all` by collectives."""
    found: list[list[Any]] = []
    for index, (replica, launcher) in enumerate(zip(_replicas_here(strategy), launchers(strategy))):
        with tf.device(launcher._device):
            tensors = {number: own(index, number) for number, owner in enumerate(owners) if owner == replica}
            for dtype in dict.fromkeys(spec.dtype for spec in specs):
                # Of each replica: the tensors of this dtype that it owns, in order.
                shares = [
                    [number for number, spec in enumerate(specs) if spec.dtype == dtype and owners[number] == each]
                    for each in range(strategy.num_replicas_in_sync)
                ]
                flat = [tf.zeros([0], dtype), *(tf.reshape(tensors[number], [-1]) for number in shares[replica])]
                tensors.update(_in_rounds(launcher, replica, shares, specs, flat, functools.partial(take, index)))
        found.append([tensors[number] for number in range(len(owners))])
    return found


def _in_rounds(
    launcher: Any,
    replica: int,
    shares: list[list[int]],
    specs: Sequence[tf.TensorSpec],
    flat: _Tensors,
    take: Callable[[int, tf.Tensor], Any],
) -> dict[int, Any]:
    """What `take` makes of the other replicas' tensors, by number, on one that sends the flat tensors which it owns.

    One round is after the other, and after what was taken in it, so that their temporaries are not there together.
    Where the tensors are summed, its own are among them: a sum loses the sign of zeros.
    """
    ends = [list(itertools.accumulate(specs[number].shape.num_elements() for number in share)) for share in shares]
    totals = [each[-1] if each else 0 for each in ends]
    # An all-gather is padded to the largest share; an all-reduce receives all of them twice.
    is_gathered = max(totals) < 2 / len(shares) * sum(totals)
    everyones = _gathered if is_gathered else _summed
    rounds = min(_MOST_ROUNDS, max(1, -(-max(totals) * len(shares) * flat[0].dtype.size // _ROUND_BYTES)))
    step = max(1, -(-max(totals) // rounds))
    parts: list[_Tensors] = [[] for _ in shares]
    arrived: dict[int, Any] = {}
    before: list[Any] = []
    for low in range(0, max(*totals, 1), step):
        with tf.control_dependencies(before):
            sent = tf.identity(_rows(flat, low, low + step))
        before = [sent]
        sizes = [min(max(total - low, 0), step) for total in totals]
        for owner, part in enumerate(everyones(launcher, sent, replica, sizes)):
            parts[owner].append(part)
            for number, end in zip(shares[owner], ends[owner]):
                is_whole = low < end <= low + step or low == end == 0
                if is_whole and not (owner == replica and is_gathered):
                    shape = specs[number].shape
                    whole = tf.reshape(_rows(parts[owner], end - shape.num_elements(), end), shape)
                    arrived[number] = take(number, whole)
                    before.append(arrived[number])
    return arrived


def _gathered(launcher: Any, own: tf.Tensor, replica: int, sizes: list[int]) -> _Tensors:
    """All replicas' shares, by an all-gather of rows: the replica's number, its share, zeros."""
    filled = tf.zeros([max(sizes) - sizes[replica]], own.dtype)
    row = tf.concat([tf.constant([replica], own.dtype), own, filled], axis=0)
    rows = launcher._all_gather(row[tf.newaxis], launcher._options)
    rows = tf.ensure_shape(rows, [len(sizes), 1 + max(sizes)])
    # TensorFlow orders the GPUs of a process by their links, and not by the replicas' numbers.
    places = tf.argsort(rows[:, 0])
    return [tf.reshape(tf.slice(rows, [places[each], 1], [1, size]), [size]) for each, size in enumerate(sizes)]


def _summed(launcher: Any, own: tf.Tensor, replica: int, sizes: list[int]) -> _Tensors:
    """All replicas' shares, by an all-reduce of vectors that are zero but for the replica's share."""
    before, after = sum(sizes[:replica]), sum(sizes[replica + 1 :])
    return tf.split(launcher.all_reduce(tf.pad(own, [[before, after]])), sizes)


def _rows(tensors: _Tensors, start: int, stop: int) -> tf.Tensor:
    """A range of the tensors' concatenation, of which only that is made."""
    picked, offset = [], 0
    for tensor in tensors:
        low, high = max(start - offset, 0), min(stop - offset, tensor.shape[0])
        if low < high:
            picked.append(tensor if high - low == tensor.shape[0] else tensor[low:high])
        offset += tensor.shape[0]
    return picked[0] if len(picked) == 1 else tf.concat(picked or [tensors[0][:0]], axis=0)


# ---- Matrices --------------------------------------------------------------------------------------------------

# [k, rows, columns] to [k, rows, columns], each matrix by itself.
Transform = Callable[[tf.Tensor], tf.Tensor]
# For each group of matrices, and each replica of this process, tensors of them.
_OfGroups = list[list[_Tensors]]
# Matrices of one shape are transformed together up to this size. On a CPU that gains 1.8 times the rate for 64 x 64,
# 1.1 times for 128 x 128 and nothing from 256 x 256 on (results/measurements/speed.md).
_BATCH_BYTES, _CPU_BATCH_BYTES = 2**26, 2**20


def map_matrices(
    transform: Transform,
    batches: Sequence[Sequence[tf.Tensor]],
    *,
    flops: Flops,
    strategy: tf.distribute.Strategy,
    share: bool = True,
) -> list[list[tf.Tensor]]:
    """In cross-replica context: `transform` of all batches of matrices, on every replica of this process.

    Matrices of one shape are transformed together, up to a limited size, whatever batches they come from.

    Args:
      transform: a pure function of a batch [k, rows, columns] of independent matrices, of any k.
      batches: for each batch, its value on each replica of this process; the same on all replicas.
      flops: floating-point operations of `transform` on one matrix [rows, columns].
      strategy: the tf.distribute.Strategy.
      share: each matrix is transformed on one replica, and not on all, where it pays (`worthwhile`). In a step that
        XLA compiles for GPUs, where the replicas run apart, nothing is shared.

    Returns:
      The transformed batches, in the form of `batches`.
    """
    if not batches:
        return []
    members: dict[tuple[tf.DType, int, int], list[int]] = {}
    for index, (batch, *_) in enumerate(batches):
        members.setdefault((batch.dtype, *batch.shape[1:]), []).append(index)
    groups = [
        tf.TensorSpec([sum(batches[index][0].shape[0] for index in same), *shape], dtype)
        for (dtype, *shape), same in members.items()
    ]
    inputs: _OfGroups = [list(map(list, zip(*(batches[index] for index in same)))) for same in members.values()]
    devices = {tf.DeviceSpec.from_string(value.device or "").device_type for each in batches for value in each}
    on_cpu = bool(devices & {"CPU", None}) and not isinstance(strategy, tf.distribute.TPUStrategy)
    apply = _Apply(transform, _CPU_BATCH_BYTES if on_cpu else _BATCH_BYTES)
    here, replicas = len(batches[0]), strategy.num_replicas_in_sync
    exchange = _exchange(strategy, here)
    is_free = here == replicas and devices == {"CPU"}
    shared = worthwhile(groups, flops, replicas, is_free) if exchange and share else []
    found: dict[int, list[_Tensors]] = {}
    if shared:
        edges = _edges([groups[group] for group in shared], flops, replicas)
        found = dict(zip(shared, exchange(strategy, apply, [inputs[group] for group in shared], edges)))
    outcomes: list[_Tensors] = [[] for _ in batches]
    for group, same in enumerate(members.values()):
        if group not in found:
            found[group] = [apply(tensors, 0, groups[group].shape[0]) for tensors in inputs[group]]
        start = 0
        for index in same:
            stop = start + batches[index][0].shape[0]
            outcomes[index] = [_rows(tensors, start, stop) for tensors in found[group]]
            start = stop
    return outcomes


def _exchange(strategy: tf.distribute.Strategy, here: int) -> Any:
    """The function by which replicas, so many of them in this process, share groups; None where they cannot."""
    if strategy.num_replicas_in_sync == 1:
        return None
    if isinstance(strategy, tf.distribute.TPUStrategy) and here == 1:
        return _in_one_program
    # XLA compiles no collectives of this kind; for GPUs, a replica's step does without a merged call.
    has_collectives = launchers(strategy) and strategy.extended._use_merge_call()
    return _on_devices if here == strategy.num_replicas_in_sync or has_collectives else None


class _Apply(NamedTuple):
    """The transform of ranges of matrices, in batches of up to a number of bytes."""

    transform: Transform
    limit: int

    def ranges(self, like: tf.Tensor, start: int, stop: int) -> list[tuple[int, int]]:
        """A range of matrices such as those of a tensor, cut into batches."""
        rows, columns = like.shape[1:]
        most = max(1, self.limit // (rows * columns * like.dtype.size))
        return [(first, min(first + most, stop)) for first in range(start, stop, most)]

    def __call__(self, tensors: _Tensors, start: int, stop: int) -> _Tensors:
        """The transformed matrices of a range of the tensors' concatenation, in batches."""
        with tf.device(tensors[0].device):
            return [self.transform(_rows(tensors, *each)) for each in self.ranges(tensors[0], start, stop)]


def _on_devices(
    strategy: tf.distribute.Strategy, apply: _Apply, inputs: _OfGroups, edges: Sequence[Sequence[int]]
) -> _OfGroups:
    """The transformed groups, the part of each replica from its device."""
    like = [of_replicas[0][0] for of_replicas in inputs]
    # By batches: joined, those of a replica would be there twice.
    parts = [
        (owner, group, first, last)
        for group, of_group in enumerate(edges)
        for owner, (start, stop) in enumerate(itertools.pairwise(of_group))
        for first, last in apply.ranges(like[group], start, stop)
    ]
    specs = [
        tf.TensorSpec([last - first, *like[group].shape[1:]], like[group].dtype) for _, group, first, last in parts
    ]

    def own(index: int, number: int) -> tf.Tensor:
        _, group, first, last = parts[number]
        [batch] = apply(inputs[group][index], first, last)
        return batch

    found = _on_all(strategy, [owner for owner, *_ in parts], specs, own)
    return [
        [[tensor for tensor, part in zip(tensors, parts) if part[1] == group] for tensors in found]
        for group in range(len(inputs))
    ]


def _in_one_program(
    strategy: tf.distribute.Strategy, apply: _Apply, inputs: _OfGroups, edges: Sequence[Sequence[int]]
) -> _OfGroups:
    """The transformed groups on TPUs: replicas with as many matrices of each run the same branch, on their own ones.

    Nothing is flattened: a TPU's layout pads the last axis to 128, and XLA would see the whole of a flat vector as
    [.., 2] to cut a matrix of two columns out of it.
    """
    whole = [_rows(tensors, 0, sum(tensor.shape[0] for tensor in tensors)) for [tensors] in inputs]
    kinds = list(zip(*([stop - start for start, stop in itertools.pairwise(of_group)] for of_group in edges)))
    replica = xla.replica_id()
    starts = tf.gather(list(zip(*edges)), replica)

    def branch(kind: Sequence[int]) -> _Tensors:
        """All groups, zero but for the replica's own matrices."""
        placed = [tf.zeros_like(tensor) for tensor in whole]
        for group, count in ((group, count) for group, count in enumerate(kind) if count):
            place = [starts[group], 0, 0]
            picked = tf.slice(whole[group], place, [count, *whole[group].shape[1:]])
            own = _rows(apply([picked], 0, count), 0, count)
            placed[group] = xla.dynamic_update_slice(placed[group], own, tf.stack(place))
        return placed

    different = list(dict.fromkeys(kinds))
    branches = [functools.partial(branch, kind) for kind in different]
    placed = tf.switch_case(tf.gather([different.index(kind) for kind in kinds], replica), branches)
    total = functools.partial(tf.raw_ops.CrossReplicaSum, group_assignment=[list(range(len(kinds)))])
    return [[[total(input=tensor)]] for tensor in tf.nest.flatten(placed)]


# ---- Layers ----------------------------------------------------------------------------------------------------


class Shards:
    """The replicas' shares of the layers.

    Args:
      label: name of the optimizer, for messages.
      strategy: the tf.distribute.Strategy of the variables.
      costs: of each layer, in any unit; the shares' sums are about equal.

    Attributes:
      owners: for each layer, the number of the replica that updates it.
      between_processes: True where other processes have some of the replicas, and so of the state.

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
        self.owners = deal(costs, strategy.num_replicas_in_sync)
        self._here = {replica: index for index, replica in enumerate(_replicas_here(strategy))}
        self.between_processes = len(self._here) < strategy.num_replicas_in_sync

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

        def half(_: int, number: int) -> tf.Tensor:
            return tf.nn.l2_loss(tf.cast(tensors[number], tf.float32))

        # One sum in the order of the layers, as that of a replica which has all of them.
        halves = _on_all(self._strategy, owners, [tf.TensorSpec([], tf.float32)] * len(owners), half)[0]
        return tf.sqrt(2.0 * tf.reduce_sum(tf.stack(halves)))

    def gather(
        self, owner: int, variable: tf.Variable | None, shape: Sequence[int], dtype: tf.DType
    ) -> Callable[[], tf.Tensor]:
        """A function, for all processes to call together, that gives the value of a variable of the owner's process.

        `variable` is None in the others. The function is traced once.
        """

        specs = [tf.TensorSpec(shape, dtype)]
        values = functools.partial(_on_all, self._strategy, [owner], specs, lambda *_: tf.convert_to_tensor(variable))
        return tf.function(lambda: values()[0][0], autograph=False)

    def send(self, owners: Sequence[int], variables: Sequence[Any]) -> None:
        """Gives all replicas the values that the owners' copies of variables have."""
        copies = [self._strategy.experimental_local_results(variable) for variable in variables]
        specs = [tf.TensorSpec(variable.shape, variable.dtype) for variable in variables]

        def own(index: int, number: int) -> tf.Tensor:
            return copies[number][index].read_value()

        def take(index: int, number: int, value: tf.Tensor) -> Any:
            return copies[number][index].assign(value, read_value=False)

        _on_all(self._strategy, owners, specs, own, take)


def regrouped(of_replicas: Sequence[tf.Tensor]) -> Any:
    """Values of this process's replicas as what `strategy.extended.update` takes for each its own."""
    return of_replicas[0] if len(of_replicas) == 1 else distribute_utils.regroup(tuple(of_replicas))


def strategy_of(variables: Sequence[tf.Variable]) -> tf.distribute.Strategy:
    """The strategy that variables were made in; the current one where they were made in none."""
    found = (getattr(variable, "distribute_strategy", None) for variable in variables)
    return next(filter(None, found), tf.distribute.get_strategy())


@contextlib.contextmanager
def one_device(device: str) -> Iterator[None]:
    """Variables made in this context are on one device, and of one replica, also in a strategy's scope."""

    def made(next_creator: Callable[..., Any], **options: Any) -> Any:
        return next_creator(**{**options, "colocate_with": numpy_dataset.SingleDevice(device)})

    with tf.device(device), tf.variable_creator_scope(made):
        yield
