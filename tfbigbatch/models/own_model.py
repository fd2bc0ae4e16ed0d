"""A user's Keras 3 model, which the trainer trains as it is."""

from __future__ import annotations

from typing import Any

import keras
from keras.src.utils import naming

from tfbigbatch.errors import InputError


def checked(model: Any, what: str) -> keras.Model:
    """The model, as a user's function returned it.

    Args:
      model: what was returned.
      what: returned it, for errors.

    Raises:
      ValueError: it is no Keras 3 model, or Keras 3 computes with another backend than TensorFlow.
    """
    if any(each.__module__.partition(".")[0] == "tf_keras" for each in type(model).__mro__):
        raise InputError(
            f"{what} returned {type(model).__name__} of tf_keras (Keras 2); expected a keras.Model of Keras 3. Write "
            "import keras in its place; or train it by its own model.fit, with an optimizer of tfbigbatch.keras2, as "
            "LAMB, and ExactResume: docs/exact_resume.md."
        )
    if not isinstance(model, keras.Model):
        raise InputError(f"{what} returned {type(model).__name__}; expected a keras.Model.")
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            f"{what} returned a model on {keras.backend.backend()}; expected TensorFlow. Set the environment variable "
            "KERAS_BACKEND=tensorflow, or unset it; on another backend train it by its own model.fit."
        )
    return model


def fresh_names() -> None:
    """Gives layers the names that they have in a new process, 'dense' and not 'dense_1': checkpoints have weights by
    their paths. Call it before a network is built."""
    # keras.utils.clear_session does more: it resets the seed, the precision, and TensorFlow's default graph.
    naming.reset_uids()
