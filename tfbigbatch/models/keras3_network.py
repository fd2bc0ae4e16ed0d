"""A Keras 3 model as a network of the trainer, which fits models of Keras 2 (tf_keras)."""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf
import tf_keras

from tfbigbatch.errors import InputError


class Keras3Network(tf_keras.Model):
    """Calls a Keras 3 model, and tracks its variables for the optimizer, strategies and checkpoints.

    All variables are the model's own: weights, statistics of batch normalisation, and the seeds of dropout. Losses that
    its layers add, such as regularisation, become losses of this network. In a checkpoint the variables are listed
    in the order of `model.variables`.

    Args:
      model: a built keras.Model, on TensorFlow; created in the strategy's scope.

    Attributes:
      keras3_model: the model.

    Raises:
      ValueError: Keras 3 computes with another backend, or the model has no variables yet.
    """

    def __init__(self, model: Any) -> None:
        import keras

        if keras.backend.backend() != "tensorflow":
            raise InputError(
                f"the network is a Keras 3 model on {keras.backend.backend()}; expected TensorFlow. Set the "
                "environment variable KERAS_BACKEND=tensorflow, or unset it."
            )
        super().__init__(name=model.name)
        # Keras 2 would look for layers in it, and find none that it knows.
        object.__setattr__(self, "keras3_model", model)
        self._of_model = [variable.value for variable in model.variables]
        # Of a functional model of Keras 2, the layers that its inputs and outputs come from.
        for names, attribute in (("input_names", "inputs"), ("output_names", "outputs")):
            # Of a subclassed model there are none.
            tensors = getattr(model, attribute, None)
            found = [each._keras_history.operation.name for each in tensors or ()]
            object.__setattr__(self, names, found or None)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        outputs = self.keras3_model(inputs, training=bool(training))
        for loss in self.keras3_model.losses:
            self.add_loss(loss)
        return outputs

    @property
    def trainable_weights(self) -> list[tf.Variable]:
        return [variable.value for variable in self.keras3_model.trainable_variables]

    @property
    def non_trainable_weights(self) -> list[tf.Variable]:
        return [variable.value for variable in self.keras3_model.non_trainable_variables]

    @property
    def input(self) -> Any:
        """The inputs of a functional or sequential model, in its structure.

        Raises:
          AttributeError: the model is subclassed.
        """
        return self._structure("input")

    @property
    def output(self) -> Any:
        """The outputs of a functional or sequential model, in its structure; raises as `input`."""
        return self._structure("output")

    def _structure(self, which: str) -> Any:
        import keras

        model = self.keras3_model
        return getattr(model, f"{which}s")[0] if isinstance(model, keras.Sequential) else getattr(model, which)

    def get_config(self) -> dict[str, Any]:
        raise NotImplementedError("a Keras 3 model is described by Keras 3: see `keras3_model`.")


def of_keras2(model: Any, what: str) -> tf_keras.Model:
    """A user's model as the trainer takes it: of Keras 2 as it is, of Keras 3 as a `Keras3Network`.

    Args:
      model: built, if it is of Keras 3.
      what: returned it, for errors.

    Raises:
      ValueError: it is no Keras model.
    """
    if is_keras3(model, "Model"):
        return Keras3Network(model)
    if not isinstance(model, tf_keras.Model):
        raise InputError(f"{what} returned {type(model).__name__}; expected a model of keras or tf_keras.")
    return model


def forget_names() -> None:
    """Gives the layers of Keras 3 the names that they have in a new process: 'dense', not 'dense_1'.

    Call it outside of a strategy's scope: it also resets TensorFlow's default graph.
    """
    keras = sys.modules.get("keras")
    if keras is not None:
        keras.utils.clear_session(free_memory=False)


def set_policy(policy: str) -> None:
    """Gives Keras 3 a precision policy by the name of Keras 2's, as 'mixed_bfloat16'."""
    import keras

    keras.config.set_dtype_policy(policy)


def is_keras3(value: Any, name: str) -> bool:
    """True if a value is of the Keras 3 class `name`: 'Model', 'Loss', 'Metric'. Does not import Keras 3."""
    keras = sys.modules.get("keras")
    holder = {"Loss": "losses", "Metric": "metrics"}.get(name)
    if keras is None:
        return False
    cls = getattr(getattr(keras, holder), name) if holder else getattr(keras, name)
    return isinstance(value, cls) and not isinstance(value, tf_keras.layers.Layer)
