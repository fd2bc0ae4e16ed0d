"""Evaluation on held-out examples: metrics batch by batch, or scores of all outputs together.

Batch normalisation in few steps needs a warning, or statistics recomputed for an evaluation: the averages that training
keeps hold much of their first values then, and they are of weights that have changed since; with averages of the
weights they are of other weights altogether.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfbigbatch.instruments import time_constants
from tfbigbatch.instruments.probe.model import changeable, tensor_variable, untouched
from tfbigbatch.training import input_pipelines, local_steps
from tfbigbatch.training.options import Heartbeat, no_heartbeat
from tfbigbatch.training.phases import Phase
from tfbigbatch.training.train_step import TrainingModel


class Evaluator:
    """Evaluates a network on the held-out split of a phase, whose input pipeline is built once.

    The network has the moving averages of its weights meanwhile, where it keeps them. Where the task has scores, the
    outputs of all examples are gathered, and the metrics are computed only with `metrics_with_scores`.

    Args:
      model: compiled.
      phase: whose held-out split is read: every example once, and then padding.
      strategy: of the replicas.
      fresh_statistics: whether the statistics of batch normalisation are computed anew before.
      heartbeat: called after each batch of these.
    """

    def __init__(
        self,
        model: TrainingModel,
        phase: Phase,
        strategy: tf.distribute.Strategy,
        *,
        fresh_statistics: bool = False,
        heartbeat: Heartbeat = no_heartbeat,
    ) -> None:
        self.phase = phase
        self._model = model
        self._strategy = strategy
        self._batches = phase.evaluation_set(strategy)
        self._fresh = FreshStatistics(model, phase, strategy, heartbeat) if fresh_statistics else None

    def __call__(
        self, after_batch: Callable[[int], None], on_texts: Callable[[list[str]], None] | None = None
    ) -> dict[str, float]:
        """The metrics, or the scores of a task with `has_scores`, by name.

        Args:
          after_batch: called before the first batch with 0, and after each with their number.
          on_texts: called with the task's `texts` of the outputs, where it has them.

        Raises:
          ValueError: a check of the task failed.
        """
        task, held_out, steps = self.phase.task, self.phase.held_out, self.phase.evaluation_steps
        results: dict[str, float] = {}
        with local_steps.common_weights(self._model.optimizer), self._model.evaluated_weights():
            if self._fresh:
                self._fresh.recompute()
            if not task.has_scores or task.metrics_with_scores:
                results = self._model.evaluate_batches(self._read(steps), after_batch)
            if task.has_scores:
                outputs = self._model.predict_batches(self._read(steps), after_batch)
        if task.has_scores:
            outputs = tf.nest.map_structure(lambda array: array[: len(held_out)], outputs)
            outputs = task.in_order(held_out, outputs)
            results = {**results, **task.scores(held_out, outputs)}
            texts = task.texts(outputs)
            if on_texts is not None and texts is not None:
                on_texts(texts)
        for check in task.checks:
            check()
        return results

    def _read(self, steps: int) -> Iterator[Any]:
        return itertools.islice(iter(self._batches), steps)


MOST_BATCHES = 200


def warning_lines(model: TrainingModel, phases: Sequence[Phase], recomputes: bool) -> list[str]:
    """Lines on state that the run leaves near its first value; see `time_constants.check`.

    Args:
      model: compiled.
      phases: of the run.
      recomputes: whether the statistics of batch normalisation are recomputed for evaluations.
    """
    network = keras_model(model)
    has_statistics = bool(time_constants.normalisations(network))
    found = time_constants.findings(
        None if recomputes else network,
        model.optimizer,
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


def keras_model(model: TrainingModel) -> Any:
    """The network of a run as its user made it, of Keras 2 or 3."""
    return getattr(model.network, "keras3_model", model.network)


class FreshStatistics:
    """The statistics of a network's batch normalisations: means over training batches, at the weights of the moment.

    They stay in the network: training does not read them, and a checkpoint then has those that were evaluated. Nothing
    else changes, nor the generators of dropout.

    Args:
      model: compiled.
      phase: whose training batches are read, from the first step on: MOST_BATCHES micro-batches, or an epoch of them
        where that is less.
      strategy: of the replicas.
      heartbeat: called after each batch.
    """

    def __init__(
        self, model: TrainingModel, phase: Phase, strategy: tf.distribute.Strategy, heartbeat: Heartbeat
    ) -> None:
        self._model, self._strategy, self._heartbeat = model, strategy, heartbeat
        self._layers = time_constants.normalisations(keras_model(model))
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
        others = [variable for variable in changeable(self._model) if id(variable) not in own]
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
            self._model(data[0], training=True)
            return [tf.identity(variable) for variable in self._statistics]

        of_replicas = self._strategy.run(in_replica, args=(batch,))
        return [self._strategy.reduce("MEAN", each, axis=None) for each in of_replicas]
