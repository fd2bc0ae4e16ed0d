"""What replicas of several processes have each a part of, sent to all of them: sharded updates, and shared matrices.

The parts go in rounds of a few megabytes, by an all-gather, or by an all-reduce of disjoint parts where that receives
fewer bytes; all replicas end with the same bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

# Rounds are of about this many bytes, up to a number of them: each holds its temporaries only as long as it lasts.
# Between two processes 4 MB took 90 MB less than 32 MB, and no longer.
_ROUND_BYTES = 2**22
_MOST_ROUNDS = 64


def launchers(strategy: tf.distribute.Strategy) -> Any:
    """TensorFlow's collectives of each device of this process, among several processes; None for one process."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return None
    return strategy.extended._cross_device_ops._launchers


def in_graph(function: Callable[[], Any]) -> Any:
    """Calls a function of collectives; eagerly, one device's would wait for another's that is called later."""
    return tf.function(function, autograph=False)() if tf.executing_eagerly() else function()


def between_processes(
    strategy: tf.distribute.Strategy,
    owners: Sequence[int],
    sizes: Sequence[int],
    dtypes: Sequence[tf.DType],
    read: Callable[[int, int], tf.Tensor],
    write: Callable[[int, int, tf.Tensor], Any],
) -> None:
    """Gives all replicas the flat tensors that one replica each has; within `in_graph`.

    Args:
      strategy: MultiWorkerMirroredStrategy.
      owners: for each tensor, the number of its replica.
      sizes, dtypes: its entries, and their dtype.
      read: function of (index of a replica in this process, a tensor's number) that gives a tensor that it owns.
      write: function of (the same, the tensor), called for what the replica does not own; its result, if it has one, is
        waited for before the next round. Also for its own where they are summed: a sum loses the sign of zeros.
    """
    for dtype in dict.fromkeys(dtypes):
        # Of each replica: the tensors of this dtype that it owns, in order.
        shares = [
            [number for number, each in enumerate(dtypes) if each == dtype and owners[number] == replica]
            for replica in range(strategy.num_replicas_in_sync)
        ]
        for index, launcher in enumerate(launchers(strategy)):
            replica = strategy.extended._get_replica_id_in_sync_group(index)
            own = functools.partial(read, index), functools.partial(write, index)
            with tf.device(launcher._device):
                _send_rounds(launcher, replica, shares, sizes, dtype, *own)


def _send_rounds(
    launcher: Any,
    replica: int,
    shares: Sequence[Sequence[int]],
    sizes: Sequence[int],
    dtype: tf.DType,
    read: Callable[[int], tf.Tensor],
    write: Callable[[int, tf.Tensor], Any],
) -> None:
    """On one replica: one round after the other, so that their temporaries are not there together."""
    totals = [sum(sizes[number] for number in share) for share in shares]
    # An all-gather is padded to the largest share; an all-reduce receives all of them twice.
    is_gathered = max(totals) < 2 / len(shares) * sum(totals)
    everyone = _gathered if is_gathered else _summed
    rounds = min(_MOST_ROUNDS, max(1, -(-max(totals) * len(shares) * dtype.size // _ROUND_BYTES)))
    step = max(1, -(-max(totals) // rounds))
    arrived: dict[int, list[tf.Tensor]] = {}
    before: list[Any] = []
    for low in range(0, max(*totals, 1), step):
        pieces_of = [_pieces(share, sizes, low, low + step) for share in shares]
        with tf.control_dependencies(before):
            values = [read(number)[start:stop] for number, start, stop in pieces_of[replica]]
            own = tf.concat(values, axis=0) if values else tf.zeros([0], dtype)
        lengths = [sum(stop - start for _, start, stop in pieces) for pieces in pieces_of]
        before = [own]
        for owner, (pieces, share) in enumerate(zip(pieces_of, everyone(launcher, own, replica, lengths))):
            if owner == replica and is_gathered:
                continue
            begin = 0
            for number, start, stop in pieces:
                arrived.setdefault(number, []).append(share[begin : begin + stop - start])
                begin += stop - start
                if stop == sizes[number]:
                    parts = arrived.pop(number)
                    before.append(write(number, parts[0] if len(parts) == 1 else tf.concat(parts, axis=0)))
        before = [each for each in before if each is not None]


def _pieces(share: Sequence[int], sizes: Sequence[int], low: int, high: int) -> list[tuple[int, int, int]]:
    """The parts of a replica's tensors in a range of their concatenation: (number, start, stop) of each."""
    pieces, begin = [], 0
    for number in share:
        start, stop = max(low - begin, 0), min(high - begin, sizes[number])
        if start < stop:
            pieces.append((number, start, stop))
        begin += sizes[number]
    return pieces


def _gathered(launcher: Any, own: tf.Tensor, replica: int, sizes: list[int]) -> list[tf.Tensor]:
    """All replicas' shares, by an all-gather of rows: the replica's number, its share, zeros."""
    filled = tf.zeros([max(sizes) - sizes[replica]], own.dtype)
    row = tf.concat([tf.constant([replica], own.dtype), own, filled], axis=0)
    rows = launcher._all_gather(row[tf.newaxis], launcher._options)
    rows = tf.ensure_shape(rows, [len(sizes), 1 + max(sizes)])
    # TensorFlow orders the GPUs of a process by their links, and not by the replicas' numbers.
    places = tf.argsort(rows[:, 0])
    return [tf.reshape(tf.slice(rows, [places[each], 1], [1, size]), [size]) for each, size in enumerate(sizes)]


def _summed(launcher: Any, own: tf.Tensor, replica: int, sizes: list[int]) -> list[tf.Tensor]:
    """All replicas' shares, by an all-reduce of vectors that are zero but for the replica's share."""
    before, after = sum(sizes[:replica]), sum(sizes[replica + 1 :])
    return tf.split(launcher.all_reduce(tf.pad(own, [[before, after]])), sizes)
