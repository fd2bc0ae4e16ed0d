"""LocalSteps for Keras 3 on TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import arguments, options
from tfbigbatch.optimizers.local_steps import optimizer as local_steps
from tfbigbatch.optimizers.wrapper_keras3 import Wrapper


@keras.saving.register_keras_serializable(package="tfbigbatch")
class LocalSteps(local_steps.LocalStepsMixin, Wrapper):
    __doc__ = local_steps.LocalStepsMixin.__doc__

    @options.checked(arguments.LOCAL_STEPS, ["optimizer", "every"])
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
        """Makes the state of the optimizer and of the rounds.

        Raises:
          ValueError: there are no variables, as where Keras reads a `.h5` file.
        """
        if not variables:
            raise InputError(
                "LocalSteps: there are no variables to build it for. Keras 3 restores no optimizer from a .h5 file: "
                "save the model as .keras, or read it with load_model(path, compile=False) and compile it again."
            )
        super().build(variables)
        self._build_rounds(variables)
        for index, variable in enumerate(self.rounds.variables if self.rounds else ()):
            # Keras names a variable so in a .h5 file.
            variable.path = f"local_steps/{index}"
