"""What a run measures on held-out examples: metrics batch by batch, or scores of all outputs together."""

import numpy as np
import tensorflow as tf


def measured(model, task, held_out, dataset, steps, keep=None, callbacks=()):
    """Dictionary from the metrics' or scores' names to floats.

    Args:
      model: the compiled Keras model.
      task: the task; where it `has_scores`, the network's outputs are gathered for them, and its metrics are
        measured too where it says so (`metrics_with_scores`).
      held_out: its set of examples.
      dataset, steps: that set's batches, every example once and then padding, and their number.
      keep: None, or a function that is called with the task's `texts` of the outputs, where it has such.
      callbacks: Keras', of each batch.

    Raises:
      ValueError: a check of the task's finds something wrong.
    """
    found = {}
    if not task.has_scores or task.metrics_with_scores:
        found = model.evaluate(dataset, steps=steps, verbose=0, return_dict=True, callbacks=list(callbacks))
    if task.has_scores:
        outputs = model.predict(dataset, steps=steps, verbose=0, callbacks=list(callbacks))
        outputs = tf.nest.map_structure(lambda array: np.asarray(array)[: len(held_out)], outputs)
        found = {**found, **task.scores(held_out, outputs)}
        texts = task.texts(outputs) if keep is not None else None
        if texts is not None:
            keep(texts)
    for check in task.checks:
        check()
    return found
