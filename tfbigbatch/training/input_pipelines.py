"""Input pipelines under a strategy; where the replicas are CPUs, they read the host's memory directly.

tf.data tunes a pipeline's buffers in a thread of each iterator, and an iterator that is dropped waits until that thread
looks up: for as long as the iterator was in use, at most a minute. A strategy's data sets have such iterators for each
device as well, whose tuning no option turns off, to copy batches to it. CPUs need no copy.
"""

import tensorflow as tf


def distribute(strategy, batches_of):
    """The distributed data set of a pipeline, for `fit`, `evaluate` and `for`.

    Args:
      strategy: tf.distribute.Strategy.
      batches_of: function of a tf.distribute.InputContext that gives a tf.data.Dataset of replicas' batches, which
        take turns. Called once for each worker, or for each replica.
    """
    untuned = tf.data.Options()
    untuned.autotune.enabled = False
    made = []

    def pipeline(context):
        made.append(batches_of(context).with_options(untuned))
        return made[-1]

    devices = [tf.DeviceSpec.from_string(device).device_type for device in strategy.extended.worker_devices]
    if set(devices) == {"CPU"} and isinstance(strategy, tf.distribute.MirroredStrategy):
        each_its_own = tf.distribute.InputOptions(
            experimental_fetch_to_device=False,
            experimental_replication_mode=tf.distribute.InputReplicationMode.PER_REPLICA,
        )
        return strategy.distribute_datasets_from_function(pipeline, each_its_own)
    distributed = strategy.distribute_datasets_from_function(pipeline)
    return _OnHost(made[0]) if devices == ["CPU"] else distributed


class _OnHost(tf.distribute.DistributedDataset):
    """A pipeline as it is, which Keras takes for a distributed one."""

    def __init__(self, batches):
        self._batches = batches

    def __iter__(self):
        return iter(self._batches)

    @property
    def element_spec(self):
        return self._batches.element_spec
