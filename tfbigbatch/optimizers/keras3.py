"""LARS, LAMB, Muon, Shampoo and AdamW for Keras 3: their classes.

On TensorFlow `keras3_tensorflow` has what they share: kernels, strategies, and what wraps an optimizer. On JAX and
PyTorch `keras3_portable` has it; Adasum and LocalSteps are TensorFlow's, and say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

import keras

from tfbigbatch.optimizers import adamw, arguments, lamb, lars, muon, options, shampoo

if TYPE_CHECKING or keras.config.backend() == "tensorflow":
    from tfbigbatch.optimizers.adasum.keras3 import Adasum
    from tfbigbatch.optimizers.keras3_tensorflow import LayerwiseOptimizer, LossScaleOptimizer
    from tfbigbatch.optimizers.local_steps.keras3 import LocalSteps
else:
    from tfbigbatch.optimizers.keras3_portable import (
        Adasum,
        LayerwiseOptimizer,
        LocalSteps,
        LossScaleOptimizer,
    )

__all__ = ["AdamW", "Adasum", "LAMB", "LARS", "LocalSteps", "LossScaleOptimizer", "Muon", "Shampoo"]

_OF_KERAS = options.OF_KERAS3


@keras.saving.register_keras_serializable(package="tfbigbatch")
@options.with_hyperparameters(lars.LARS)
class LARS(LayerwiseOptimizer):
    __doc__ = lars.DOCSTRING

    @options.checked({**arguments.TABLES["lars"], **arguments.KERAS3}, ["learning_rate"], _OF_KERAS)
    def __init__(
        self,
        learning_rate: Any = 0.01,
        *,
        momentum: float = 0.9,
        weight_decay: Any = 0.0,
        eeta: float = 0.001,
        epsilon: float = 0.0,
        nesterov: bool = False,
        form: str = "paper",
        name: str = "LARS",
        **kwargs: Unpack[arguments.LayerwiseArgumentsKeras3],
    ) -> None:
        rule = lars.LARS(momentum, eeta, epsilon, nesterov, form)
        super().__init__(learning_rate, rule, weight_decay=weight_decay, name=name, **kwargs)


@keras.saving.register_keras_serializable(package="tfbigbatch")
@options.with_hyperparameters(lamb.LAMB)
class LAMB(LayerwiseOptimizer):
    __doc__ = lamb.DOCSTRING

    @options.checked({**arguments.TABLES["lamb"], **arguments.KERAS3}, ["learning_rate"], _OF_KERAS)
    def __init__(
        self,
        learning_rate: Any = 0.001,
        *,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        weight_decay: Any = 0.0,
        bias_correction: bool = True,
        trust_ratio_bounds: tuple[float | None, float | None] | None = None,
        pre_normalize: bool = False,
        name: str = "LAMB",
        **kwargs: Unpack[arguments.LayerwiseArgumentsKeras3],
    ) -> None:
        rule = lamb.LAMB(beta_1, beta_2, epsilon, bias_correction, trust_ratio_bounds, pre_normalize)
        super().__init__(learning_rate, rule, weight_decay=weight_decay, name=name, **kwargs)


@keras.saving.register_keras_serializable(package="tfbigbatch")
@options.with_hyperparameters(adamw.AdamW)
class AdamW(LayerwiseOptimizer):
    __doc__ = adamw.DOCSTRING

    @options.checked({**arguments.ADAMW, **arguments.KERAS3}, ["learning_rate"], _OF_KERAS)
    def __init__(
        self,
        learning_rate: Any = 0.001,
        *,
        weight_decay: Any = 0.004,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        name: str = "AdamW",
        **kwargs: Unpack[arguments.SharedArgumentsKeras3],
    ) -> None:
        rule = adamw.AdamW(beta_1, beta_2, epsilon, amsgrad)
        # As Keras' own, which decays all variables.
        kwargs.setdefault("exclude_from_weight_decay", None)
        super().__init__(learning_rate, rule, weight_decay=weight_decay, name=name, **kwargs)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        # No layer is adapted.
        del config["exclude_from_layer_adaptation"]
        return config


@keras.saving.register_keras_serializable(package="tfbigbatch")
@options.with_hyperparameters(muon.Muon)
class Muon(LayerwiseOptimizer):
    __doc__ = muon.DOCSTRING

    @options.checked({**arguments.TABLES["muon"], **arguments.KERAS3}, ["learning_rate"], _OF_KERAS)
    def __init__(
        self,
        learning_rate: Any = 0.02,
        *,
        momentum: float = 0.95,
        nesterov: bool = True,
        newton_schulz_steps: int = 5,
        coefficients: str = "quintic",
        scale: str = "rms",
        normuon_beta: float | None = None,
        matrices: Any = (),
        vectors: str = "adam",
        vector_learning_rate_ratio: float = 1.0,
        beta_1: float = 0.9,
        beta_2: float = 0.99,
        epsilon: float = 1e-8,
        weight_decay: Any = 0.0,
        product_dtype: str = "float32",
        share_work: bool | None = None,
        name: str = "Muon",
        **kwargs: Unpack[arguments.LayerwiseArgumentsKeras3],
    ) -> None:
        rule = muon.Muon(
            momentum,
            nesterov,
            newton_schulz_steps,
            coefficients,
            scale,
            normuon_beta,
            matrices,
            vectors,
            vector_learning_rate_ratio,
            beta_1,
            beta_2,
            epsilon,
            product_dtype,
            share_work,
        )
        super().__init__(learning_rate, rule, weight_decay=weight_decay, name=name, **kwargs)


@keras.saving.register_keras_serializable(package="tfbigbatch")
@options.with_hyperparameters(shampoo.Shampoo)
class Shampoo(LayerwiseOptimizer):
    __doc__ = shampoo.DOCSTRING

    @options.checked({**arguments.TABLES["shampoo"], **arguments.KERAS3}, ["learning_rate"], _OF_KERAS)
    def __init__(
        self,
        learning_rate: Any = 0.1,
        *,
        beta_1: float = 0.9,
        beta_2: float = 0.99,
        nesterov: bool = True,
        graft: str = "sgd",
        eeta: float = 0.001,
        epsilon: float = 1e-8,
        weight_decay: Any = 0.0,
        block_size: int = 128,
        largest_side: int | None = 8192,
        exponent: int = 4,
        matrix_epsilon: float = 1e-5,
        root_method: str | None = None,
        root_every: int = 1,
        graft_steps: int = 5,
        matrices: Any = (),
        vectors: str = "shampoo",
        vector_learning_rate_ratio: float = 1.0,
        share_work: bool | None = None,
        name: str = "Shampoo",
        **kwargs: Unpack[arguments.LayerwiseArgumentsKeras3],
    ) -> None:
        rule = shampoo.Shampoo(
            beta_1,
            beta_2,
            nesterov,
            graft,
            eeta,
            epsilon,
            block_size,
            largest_side,
            exponent,
            matrix_epsilon,
            root_method,
            root_every,
            graft_steps,
            matrices,
            vectors,
            vector_learning_rate_ratio,
            share_work,
        )
        super().__init__(learning_rate, rule, weight_decay=weight_decay, name=name, **kwargs)
