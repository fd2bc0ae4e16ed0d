"""Evaluation on held-out examples: metrics batch by batch, or scores of all outputs together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from tfbigbatch.tasks.base import Task
from tfbigbatch.training import local_steps
from tfbigbatch.training.input_pipelines import KeptBatches
from tfbigbatch.training.train_step import TrainingModel


def evaluate(
    model: TrainingModel,
    task: Task,
    held_out: Any,
    batches: tf.data.Dataset | KeptBatches,
    steps: int,
    *,
    prepare: Callable[[], object] | None = None,
    on_texts: Callable[[list[str]], None] | None = None,
    callbacks: Sequence[tf_keras.callbacks.Callback] = (),
) -> dict[str, float]:
    """The metrics, or the scores of a task with `has_scores`, by name.

    Args:
      model: compiled; it is evaluated with the moving averages of its weights, where it keeps them.
      task: where it has scores, the outputs of all examples are gathered, and the metrics are computed only with
        `metrics_with_scores`.
      held_out: the held-out split; its `len` is the number of its examples, for a task with scores.
      batches, steps: the split's batches, every example once and then padding, and their number. Those that are kept
        in memory are evaluated without Keras' `evaluate`, which makes an iterator each time; to the same bits.
      prepare: called first, when the network has the weights that are evaluated.
      on_texts: called with the task's `texts` of the outputs, where it has them.
      callbacks: of Keras' `evaluate` and `predict`.

    Raises:
      ValueError: a check of the task failed.
    """
    results: dict[str, float] = {}
    with local_steps.common_weights(model.optimizer), model.evaluated_weights():
        if prepare is not None:
            prepare()
        if not task.has_scores or task.metrics_with_scores:
            results = _metrics(model, batches, steps, callbacks)
        if task.has_scores:
            read = batches.batches if isinstance(batches, KeptBatches) else batches
            outputs = model.predict(read, steps=steps, verbose=0, callbacks=list(callbacks))
    if task.has_scores:
        outputs = tf.nest.map_structure(lambda array: np.asarray(array)[: len(held_out)], outputs)
        outputs = task.in_order(held_out, outputs)
        results = {**results, **task.scores(held_out, outputs)}
        texts = task.texts(outputs)
        if on_texts is not None and texts is not None:
            on_texts(texts)
    for check in task.checks:
        check()
    return results


def _metrics(
    model: TrainingModel,
    batches: tf.data.Dataset | KeptBatches,
    steps: int,
    callbacks: Sequence[tf_keras.callbacks.Callback],
) -> dict[str, float]:
    if isinstance(batches, KeptBatches):
        return model.evaluate_kept(batches, callbacks)
    return model.evaluate(batches, steps=steps, verbose=0, return_dict=True, callbacks=list(callbacks))
