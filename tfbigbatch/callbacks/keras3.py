"""ExactResume as a callback of Keras 3."""

from __future__ import annotations

from typing import Any

import keras
from keras.src.random import seed_generator

from tfbigbatch.callbacks.exact_resume import ExactResumeMixin


class ExactResume(ExactResumeMixin, keras.callbacks.Callback):
    __doc__ = ExactResumeMixin.__doc__

    def _of_keras(self) -> dict[str, tuple[Any, bool]]:
        with self.model.distribute_strategy.scope():
            # Of keras.random without a seed, in all layers.
            return {"keras.random": (seed_generator.global_seed_generator(), False)}
