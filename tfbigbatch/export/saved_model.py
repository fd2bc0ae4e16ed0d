"""The SavedModel of a run: a serving signature that takes what a user has, and gives probabilities and class names."""

from __future__ import annotations

import tensorflow as tf

from tfbigbatch.export import signatures
from tfbigbatch.runs.load import LoadedRun


def write(run: LoadedRun, path: str, classes: list[str] | None) -> str:
    """Writes a SavedModel with the signature 'serving_default'; returns a sentence on what that takes and gives."""
    served = signatures.served(run, classes)
    module = tf.Module()
    # The variables alone: a Keras model would be saved with all its layers' functions, traced once more.
    module.variables_ = run.network.variables
    module.serve = served.function
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(module, path, signatures={"serving_default": served.function}, options=options)
    return served.description
