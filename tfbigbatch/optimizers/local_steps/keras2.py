"""LocalSteps for `tf_keras` (Keras 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import arguments, options
from tfbigbatch.optimizers.local_steps import optimizer as local_steps
from tfbigbatch.optimizers.wrapper_keras2 import Wrapper


@tf_keras.saving.register_keras_serializable(package="tfbigbatch")
class LocalSteps(local_steps.LocalStepsMixin, Wrapper):
    __doc__ = local_steps.LocalStepsMixin.__doc__

    @options.checked(arguments.LOCAL_STEPS, ["optimizer", "every"])
    @tf.__internal__.tracking.no_automatic_dependency_tracking
    def __init__(
        self,
        optimizer: Any,
        every: int,
        *,
        outer: str = "average",
        outer_learning_rate: float | None = None,
        outer_momentum: float | None = None,
        delay: int = 0,
        group_size: int = 1,
        data_parallel_steps: int = 0,
    ) -> None:
        super().__init__(optimizer)
        self._set_local_steps(
            optimizer,
            every=every,
            outer=outer,
            outer_learning_rate=outer_learning_rate,
            outer_momentum=outer_momentum,
            delay=delay,
            group_size=group_size,
            data_parallel_steps=data_parallel_steps,
        )

    def build(self, variables: Sequence[Any]) -> None:
        """Makes the state of the optimizer and of the rounds."""
        super().build(variables)
        self._build_rounds(variables)

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Assigns all state, as Keras does from a `.h5` file.

        Args:
          weights: arrays, one for each of `variables`.

        Raises:
          ValueError: they are of other variables.
        """
        variables, shapes = self.variables, [tuple(weight.shape) for weight in weights]
        expected = [tuple(variable.shape) for variable in variables]
        if shapes != expected:
            raise InputError(f"LocalSteps: arrays of shapes {shapes}; expected those of its variables, {expected}.")
        for variable, weight in zip(variables, weights):
            variable.assign(np.asarray(weight))
