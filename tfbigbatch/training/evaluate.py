"""Evaluation on held-out examples: metrics batch by batch, or scores of all outputs together."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tfbigbatch.training.averages import WeightAverages
from tfbigbatch.training.evaluation_step import EvaluationStep
from tfbigbatch.training.fresh_statistics import FreshStatistics, batches_of
from tfbigbatch.training.phases import Phase
from tfbigbatch.training.streams import StreamStates


class Evaluator:
    """Evaluates a network on the held-out split of a phase, whose input pipeline is built once.

    The network has the moving averages of its weights meanwhile, where it keeps them. Where the task has scores, the
    outputs of all examples are gathered, and the metrics are computed only with `metrics_with_scores`.

    Args:
      network: keras.Model, compiled.
      phase: whose held-out split is read: every example once, and then padding.
      strategy: of the replicas.
      jit_compile: whether XLA compiles the step.
      averages: None, or the averages of the weights.
      streams: None, or what carries a recurrent state from batch to batch.
      fresh_statistics: None, or what computes the statistics of batch normalisation anew before.
    """

    def __init__(
        self,
        network: keras.Model,
        phase: Phase,
        strategy: tf.distribute.Strategy,
        *,
        jit_compile: bool = False,
        averages: WeightAverages | None = None,
        streams: StreamStates | None = None,
        fresh_statistics: FreshStatistics | None = None,
    ) -> None:
        self.phase = phase
        self._network = network
        self._averages = averages
        self._fresh = fresh_statistics
        self._training_batches = batches_of(phase, strategy) if fresh_statistics else tuple
        self._batches = phase.evaluation_set(strategy)
        self._step = EvaluationStep(
            network,
            strategy=strategy,
            jit_compile=jit_compile,
            streams=streams,
            # Shapes that vary would be compiled each by itself.
            real_examples=None if jit_compile else phase.task.real_examples,
            predictions=phase.task.predictions if phase.task.has_scores else None,
        )

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
        task, steps = self.phase.task, self.phase.evaluation_steps
        held_out: Any = self.phase.held_out  # its `len` is the number of its examples, where a task has scores
        results: dict[str, float] = {}
        averages = self._averages.in_place_of_weights() if self._averages else contextlib.nullcontext()
        with averages:
            if self._fresh:
                self._fresh.recompute(self._training_batches())
            if not task.has_scores or task.metrics_with_scores:
                results = self._step.metrics(self._read(steps), after_batch)
            if task.has_scores:
                outputs = self._step.outputs(self._read(steps), after_batch)
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
        return itertools.islice(self._batches, steps)
