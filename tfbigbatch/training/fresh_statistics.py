"""Batch normalisation in few steps: a warning, or statistics recomputed for an evaluation.

The averages that training keeps hold much of their first values then, and they are of weights that have changed since;
with averages of the weights they are of other weights altogether.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbigbatch.instruments import time_constants
from tfbigbatch.instruments.probe.model import changeable, tensor_variable, untouched
from tfbigbatch.training import input_pipelines
from tfbigbatch.training.options import Heartbeat
from tfbigbatch.training.phases import Phase

MOST_BATCHES = 200


def warning_lines(network: keras.Model, phases: Sequence[Phase], recomputes: bool) -> list[str]:
    """Lines on state that the run leaves near its first value; see `time_constants.check`.

    Args:
      network: compiled.
      phases: of the run.
      recomputes: whether the statistics of batch normalisation are recomputed for evaluations.
    """
    has_statistics = bool(time_constants.normalisations(network))
    found = time_constants.findings(
        None if recomputes else network,
        network.optimizer,
        batches=sum(phase.plan.total_steps * phase.config.accumulation_steps for phase in phases),
        updates=phases[-1].last_step,
    )
    found = [
        f"{each} Or evaluate_with_fresh_statistics=True." if each.startswith("batch norm") else each for each in found
    ]
    if recomputes and not has_statistics:
        found.append(
            "evaluate_with_fresh_statistics=True has no effect: the network has no batch normalisation that trains."
        )
    return [f"warning    {each}" for each in found]


class FreshStatistics:
    """The statistics of a network's batch normalisations: means over training batches, at the weights of the moment.

    They stay in the network: training does not read them, and a checkpoint then has those that were evaluated. Nothing
    else changes.

    Args:
      network: compiled.
      phase: whose training batches are read, from the first step on: MOST_BATCHES micro-batches, or an epoch of them
        where that is less.
      strategy: of the replicas.
      heartbeat: called after each batch.
    """

    def __init__(
        self, network: keras.Model, phase: Phase, strategy: tf.distribute.Strategy, heartbeat: Heartbeat
    ) -> None:
        self._network, self._strategy, self._heartbeat = network, strategy, heartbeat
        self._layers = time_constants.normalisations(network)
        self._statistics = [
            tensor_variable(each) for layer in self._layers for each in (layer.moving_mean, layer.moving_variance)
        ]
        config, train = phase.config, phase.task.train
        size = config.batch_size // config.accumulation_steps
        self._count = min(MOST_BATCHES, max(1, phase.examples_in_epoch // size))
        self._batches = input_pipelines.held_out(
            strategy,
            lambda context: train.training_batches(
                context, batch_size=size, seed=config.seed, first_step=0, last_step=self._count
            ),
            self._count,
        )
        self._of_batch = tf.function(self._statistics_of_batch)

    def recompute(self) -> None:
        """Puts the statistics into the network."""
        if not self._layers:
            return
        own = {id(variable) for variable in self._statistics}
        others = [variable for variable in changeable(self._network) if id(variable) not in own]
        momenta = [layer.momentum for layer in self._layers]
        sums: list[Any] = [0.0] * len(self._statistics)
        with self._strategy.scope(), untouched(others):
            try:
                for layer in self._layers:
                    # The moving average is then that of the batch; read where a step is traced.
                    layer.momentum = 0.0
                for number, batch in enumerate(itertools.islice(self._batches, self._count)):
                    sums = [total + np.asarray(each, np.float64) for total, each in zip(sums, self._of_batch(batch))]
                    self._heartbeat(f"statistics of batch {number + 1:,}")
            finally:
                for layer, momentum in zip(self._layers, momenta):
                    layer.momentum = momentum
            for variable, total in zip(self._statistics, sums):
                variable.assign(tf.cast(total / self._count, variable.dtype))

    def _statistics_of_batch(self, batch: Any) -> list[tf.Tensor]:
        def in_replica(data: Any) -> list[tf.Tensor]:
            self._network(data[0], training=True)
            return [tf.identity(variable) for variable in self._statistics]

        of_replicas = self._strategy.run(in_replica, args=(batch,))
        return [self._strategy.reduce("MEAN", each, axis=None) for each in of_replicas]
