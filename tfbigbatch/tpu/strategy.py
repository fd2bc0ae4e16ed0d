"""A TPUStrategy without TPUs: steps are traced in it as one replica of many would trace them, and are never run."""

import tensorflow as tf
from tensorflow.python.distribute import distribute_lib, one_device_strategy, reduce_util

_CPU = "/cpu:0"


class AheadOfTimeStrategy(tf.distribute.TPUStrategy):
    """Counts as a TPUStrategy of `replicas` in sync, with reductions over all of them, on a machine without a TPU.

    What tells by the strategy's type that it is on a TPU (Keras, Adasum) does as it would there. Variables are made
    on the CPU, with zeros for their first values: of a step that is compiled only the shapes count.

    Args:
      replicas: in sync, one or more.
    """

    def __init__(self, replicas):
        # TPUStrategy's own constructor would look for the TPU.
        tf.distribute.Strategy.__init__(self, _Extended(self, replicas))

    def run(self, fn, args=(), kwargs=None, options=None):
        """Traces `fn` once, in a replica's context."""
        del options
        return self.extended.call_for_each_replica(fn, args, kwargs or {})


class _Extended(one_device_strategy.OneDeviceExtended):
    def __init__(self, strategy, replicas):
        super().__init__(strategy, _CPU)
        self._replicas = replicas

    @property
    def _num_replicas_in_sync(self):
        return self._replicas

    def _create_variable(self, next_creator, **kwargs):
        shape, dtype = kwargs.get("shape"), kwargs.get("dtype")
        if callable(kwargs.get("initial_value")) and shape is not None and dtype is not None:
            if tf.TensorShape(shape).is_fully_defined():
                kwargs["initial_value"] = lambda: tf.zeros(shape, dtype)
        return super()._create_variable(next_creator, **kwargs)

    def _call_for_each_replica(self, fn, args, kwargs):
        with distribute_lib.ReplicaContext(self._container_strategy(), replica_id_in_sync_group=0):
            return fn(*args, **kwargs)

    def _reduce_to(self, reduce_op, value, destinations, options):
        del destinations, options
        value = tf.convert_to_tensor(value)
        if self._replicas == 1:
            return value
        total = tf.raw_ops.CrossReplicaSum(input=value, group_assignment=[list(range(self._replicas))])
        if reduce_op == reduce_util.ReduceOp.MEAN:
            return total / tf.cast(self._replicas, total.dtype)
        return total

    def _update_non_slot(self, colocate_with, fn, args, kwargs, group):
        del colocate_with
        with distribute_lib.UpdateContext(_CPU):
            result = fn(*args, **kwargs)
        return result if group else tf.nest.map_structure(self._local_results, result)
