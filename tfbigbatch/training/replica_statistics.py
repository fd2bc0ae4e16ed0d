"""The statistics of batch normalisation of every replica, in a run's checkpoints.

Each replica moves its statistics by its own part of the batch. A checkpoint of the network holds their mean, which
other numbers of replicas begin with: they end with the same weights, but with statistics that are rounded otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tfbigbatch.optimizers.replica_state import ReplicaState, is_of_replicas
from tfbigbatch.training.checkpoints import STATISTICS, CheckpointPart


def checkpoint_parts(strategy: tf.distribute.Strategy, weights: Sequence[tf.Variable]) -> list[CheckpointPart]:
    """The checkpoint part with every replica's statistics; none where there is one replica, or there are no statistics.

    Args:
      strategy: of the replicas.
      weights: of the network.
    """
    own = [variable for variable in weights if is_of_replicas(variable)]
    if strategy.num_replicas_in_sync == 1 or not own:
        return []
    state = ReplicaState(strategy, own)
    return [CheckpointPart({STATISTICS: state.whole}, before_save=state.gather, after_restore=state.spread)]
