"""The statistics of batch normalisation in few steps: a warning, and statistics computed anew for an evaluation.

The averages that training keeps hold much of their first values in a run of few steps, and they are of weights that
have changed since; with averages of the weights they are of other weights altogether.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbigbatch.instruments import time_constants
from tfbigbatch.instruments.probe.model import changeable, untouched
from tfbigbatch.training import input_pipelines
from tfbigbatch.training.options import Heartbeat
from tfbigbatch.training.phases import Phase
from tfbigbatch.training.step import outputs_of

MOST_BATCHES = 200
"""Micro-batches of a phase that the statistics are computed from; an epoch of them where that is less."""


def warning_lines(network: keras.Model, phases: Sequence[Phase], recomputes: bool) -> list[str]:
    """Lines on state that the run leaves near its first value; see `time_constants.check`.

    Args:
      network: compiled.
      phases: of the run.
      recomputes: whether the statistics of batch normalisation are recomputed for evaluations.
    """
    found = time_constants.findings(
        None if recomputes else network,
        network.optimizer,
        batches=sum(phase.total_steps * phase.config.accumulation_steps for phase in phases),
        updates=phases[-1].last_step,
    )
    found = [
        f"{each} Or evaluate_with_fresh_statistics=True." if each.startswith("batch norm") else each for each in found
    ]
    return [f"warning    {each}" for each in found]


def batches_of(phase: Phase, strategy: tf.distribute.Strategy) -> Callable[[], Iterable[Any]]:
    """A function that gives the first training batches of a phase, in the size of a micro-batch."""
    config, train = phase.config, phase.task.train
    size = config.batch_size // config.accumulation_steps
    count = min(MOST_BATCHES, max(1, phase.examples_in_epoch // size))
    batches = input_pipelines.rounds(
        strategy,
        lambda context: train.training_batches(
            context, batch_size=size, seed=config.seed, first_step=0, last_step=count
        ),
        count,
    )
    return lambda: itertools.islice(batches, count)


class FreshStatistics:
    """Means of the statistics of a network's batch normalisations over training batches, at the weights of the moment.

    They stay in the network: training does not read them, and a checkpoint then has those that were evaluated. Nothing
    else changes, nor the seeds of dropout.

    Args:
      network: keras.Model, compiled; of the features of a batch.
      strategy: of the replicas.
      heartbeat: called after each batch.
    """

    def __init__(self, network: Any, strategy: tf.distribute.Strategy, heartbeat: Heartbeat) -> None:
        self._network, self._strategy, self._heartbeat = network, strategy, heartbeat
        self._layers = time_constants.normalisations(network)
        moving = (each for layer in self._layers for each in (layer.moving_mean, layer.moving_variance))
        self._statistics = [variable.value for variable in moving]
        self._of_batch = tf.function(self._statistics_of_batch, autograph=False)

    def recompute(self, batches: Iterable[Any]) -> None:
        """Puts the statistics into the network.

        Args:
          batches: of the strategy, in the size of a micro-batch; one at least.
        """
        if not self._layers:
            return
        own = {id(variable) for variable in self._statistics}
        others = [variable for variable in changeable(self._network) if id(variable) not in own]
        sums: list[Any] = [0.0] * len(self._statistics)
        with self._strategy.scope(), untouched(others), self._without_memory():
            for count, batch in enumerate(batches, 1):
                sums = [total + np.asarray(each, np.float64) for total, each in zip(sums, self._of_batch(batch))]
                self._heartbeat(f"statistics of batch {count:,}")
        for variable, total in zip(self._statistics, sums):
            variable.assign(tf.cast(total / count, variable.dtype))

    @contextlib.contextmanager
    def _without_memory(self) -> Iterator[None]:
        """A context in which a moving average is the value of the batch; the layers read it where a step is traced."""
        momenta = [layer.momentum for layer in self._layers]
        try:
            for layer in self._layers:
                layer.momentum = 0.0
            yield
        finally:
            for layer, momentum in zip(self._layers, momenta):
                layer.momentum = momentum

    def _statistics_of_batch(self, batch: Any) -> list[tf.Tensor]:
        @tf.autograph.experimental.do_not_convert
        def in_replica(data: Any) -> list[tf.Tensor]:
            outputs_of(self._network, data[0], None, training=True)
            return [tf.identity(variable) for variable in self._statistics]

        of_replicas = self._strategy.run(in_replica, args=(batch,))
        return [self._strategy.reduce("MEAN", each, axis=None) for each in of_replicas]
