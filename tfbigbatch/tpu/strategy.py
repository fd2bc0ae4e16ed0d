"""A TPUStrategy without TPUs, in which steps are traced as one of many replicas traces them, but never run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import distribute_lib, one_device_strategy, reduce_util

_CPU = "/cpu:0"


class AheadOfTimeStrategy(tf.distribute.TPUStrategy):
    """A TPUStrategy of `replicas` in sync, with reductions over all of them, on a machine without a TPU.

    Keras and Adasum recognise the strategy by its type and behave as on a TPU. Variables are made on the CPU.

    Args:
      replicas: in sync, one or more.
    """

    def __init__(self, replicas: int) -> None:
        # TPUStrategy's own constructor would look for the TPU.
        tf.distribute.Strategy.__init__(self, _Extended(self, replicas))

    def run(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        options: Any = None,
    ) -> Any:
        """Traces `fn` once, in a replica's context."""
        del options
        return self.extended.call_for_each_replica(fn, args, kwargs or {})


class _Extended(one_device_strategy.OneDeviceExtended):
    def __init__(self, strategy: tf.distribute.Strategy, replicas: int) -> None:
        super().__init__(strategy, _CPU)
        self._replicas = replicas

    @property
    def _num_replicas_in_sync(self) -> int:
        return self._replicas

    def _call_for_each_replica(self, fn: Any, args: Any, kwargs: Any) -> Any:
        with distribute_lib.ReplicaContext(self._container_strategy(), replica_id_in_sync_group=0):
            return fn(*args, **kwargs)

    def _reduce_to(self, reduce_op: Any, value: Any, destinations: Any, options: Any) -> Any:
        del destinations, options
        value = tf.convert_to_tensor(value)
        if self._replicas == 1:
            return value
        total = tf.raw_ops.CrossReplicaSum(input=value, group_assignment=[list(range(self._replicas))])
        if reduce_op == reduce_util.ReduceOp.MEAN:
            return total / tf.cast(self._replicas, total.dtype)
        return total

    def _update_non_slot(self, colocate_with: Any, fn: Any, args: Any, kwargs: Any, group: bool) -> Any:
        del colocate_with
        with distribute_lib.UpdateContext(_CPU):
            result = fn(*args, **kwargs)
        return result if group else tf.nest.map_structure(self._local_results, result)
