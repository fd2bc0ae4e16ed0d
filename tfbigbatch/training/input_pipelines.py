"""Input pipelines under a strategy; where the replicas are CPUs, they read the host's memory directly.

tf.data tunes the buffers of a pipeline in a thread of each iterator, and dropping an iterator waits for that thread:
as long as the iterator was in use, at most a minute. A strategy's datasets have such iterators for each device as
well, to copy batches to it, and no option disables their tuning. CPUs need no copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf


def distribute(
    strategy: tf.distribute.Strategy, batches_of: Callable[[tf.distribute.InputContext], tf.data.Dataset]
) -> tf.distribute.DistributedDataset:
    """The distributed dataset of a pipeline.

    Args:
      strategy: of the replicas.
      batches_of: returns the batches of an input context's replicas, in turn. Called once for each worker, or for
        each replica.
    """
    untuned = tf.data.Options()
    untuned.autotune.enabled = False
    pipelines: list[tf.data.Dataset] = []

    def pipeline(context: tf.distribute.InputContext) -> tf.data.Dataset:
        pipelines.append(batches_of(context).with_options(untuned))
        return pipelines[-1]

    devices = strategy.extended.worker_devices
    on_cpus = {tf.DeviceSpec.from_string(device).device_type for device in devices} == {"CPU"}
    if on_cpus and isinstance(strategy, tf.distribute.MirroredStrategy):
        per_replica = tf.distribute.InputOptions(
            experimental_fetch_to_device=False,
            experimental_replication_mode=tf.distribute.InputReplicationMode.PER_REPLICA,
        )
        return strategy.distribute_datasets_from_function(pipeline, per_replica)
    distributed = strategy.distribute_datasets_from_function(pipeline)
    return _OnHost(pipelines[0]) if on_cpus and len(devices) == 1 else distributed


def of_same_length(batches: tf.data.Dataset) -> tf.data.Dataset:
    """Declares a worker's dataset infinite: all workers have as many batches, and need not synchronise before each."""
    return batches.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))


def rounds(
    strategy: tf.distribute.Strategy,
    batches_of: Callable[[tf.distribute.InputContext], tf.data.Dataset],
    steps: int,
) -> Iterator[Any]:
    """The batches of a held-out split for any number of evaluations, the same `steps` of them for each.

    From one iterator: to make one for each evaluation takes longer than a small network takes for hundreds of examples.

    Args:
      strategy, batches_of: as in `distribute`.
      steps: the number of batches.
    """

    def pipeline(context: tf.distribute.InputContext) -> tf.data.Dataset:
        return batches_of(context).take(steps * context.num_replicas_in_sync // context.num_input_pipelines).repeat()

    return iter(distribute(strategy, pipeline))


def merged(batches: tf.data.Dataset, count: int, replicas: int) -> tf.data.Dataset:
    """Batches of `count` steps in one, for each of a worker's replicas.

    Args:
      batches: per-replica batches [n, ...] with static shapes, for `replicas` replicas in turn.
      count: steps in one.
      replicas: of this worker.

    Returns:
      Per-replica batches [count * n, ...], for the replicas in turn; the examples of a step are those of `count`
      steps before.
    """
    if count == 1:
        return batches

    def of_replicas(tensor: tf.Tensor) -> tf.Tensor:
        size = tensor.shape[1]
        by_step = tf.reshape(tensor, [count, replicas, size, *tensor.shape[2:]])
        rest = range(3, by_step.shape.rank)
        return tf.reshape(tf.transpose(by_step, [1, 0, 2, *rest]), [replicas, count * size, *tensor.shape[2:]])

    grouped = batches.batch(count * replicas, drop_remainder=True)
    return grouped.map(lambda *parts: tf.nest.map_structure(of_replicas, parts)).unbatch()


class _OnHost(tf.distribute.DistributedDataset):
    """A pipeline on the host, as a distributed dataset."""

    def __init__(self, batches: tf.data.Dataset | tf.distribute.DistributedDataset) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        return iter(self._batches)

    @property
    def element_spec(self) -> Any:
        return self._batches.element_spec
