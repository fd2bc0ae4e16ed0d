"""LARS, LAMB, Muon, Shampoo and AdamW for `tf_keras` (Keras 2): variables, distribution, serialisation."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Unpack

import tensorflow as tf
import tf_keras

from tfbigbatch.optimizers import adamw, arguments, lamb, lars, muon, options, shampoo
from tfbigbatch.optimizers.accumulation_schedule import AccumulationSchedule
from tfbigbatch.optimizers.adasum.keras2 import Adasum
from tfbigbatch.optimizers.base import LayerStatistics, Rule
from tfbigbatch.optimizers.checkpointing import NamedState, SavedByName
from tfbigbatch.optimizers.local_steps.keras2 import LocalSteps
from tfbigbatch.optimizers.sharded_updates import one_device
from tfbigbatch.optimizers.updater import LayerwiseUpdater

__all__ = ["AdamW", "Adasum", "LAMB", "LARS", "LocalSteps", "Muon", "Shampoo"]

_Schedule = tf_keras.optimizers.schedules.LearningRateSchedule
# Arguments that are passed to Keras, or refused, without a check of their own.
_OF_KERAS = ("name", "mesh", "is_legacy_optimizer")


class LayerwiseOptimizer(SavedByName, tf_keras.optimizers.Optimizer):
    """The `base.Adapter` of tf_keras: an optimizer that applies a rule layer by layer, through its `updater`."""

    replicas_differ = False

    def __init__(
        self,
        learning_rate: Any,
        rule: Rule,
        *,
        weight_decay: Any = 0.0,
        exclude_from_weight_decay: Sequence[str] | str | None = "norm_and_bias",
        exclude_from_layer_adaptation: Sequence[str] | str | None = None,
        accumulation_steps: int | AccumulationSchedule = 1,
        layer_statistics: bool = False,
        shard_updates: bool = False,
        jit_compile: bool | None = None,
        name: str,
        **kwargs: Any,
    ) -> None:
        # The base class would apply the decay by itself, outside the trust ratio.
        super().__init__(name=name, weight_decay=None, jit_compile=jit_compile is not False, **kwargs)
        # None leaves the base class' choice: XLA where a GPU is visible.
        if jit_compile is not None:
            self.jit_compile = jit_compile
        label = type(self).__name__
        self.weight_decay = weight_decay
        options.check_schedules(label, self.is_schedule, learning_rate=learning_rate, weight_decay=weight_decay)
        layer_options = options.LayerOptions(
            exclude_from_weight_decay,
            exclude_from_layer_adaptation,
            accumulation_steps,
            layer_statistics,
            jit_compile,
            shard_updates,
        )
        self.accumulation_steps = accumulation_steps
        if callable(learning_rate) and not isinstance(learning_rate, _Schedule):
            self._learning_rate = learning_rate
            named = {}
        else:
            self._learning_rate = self._build_learning_rate(learning_rate)
            named = {} if callable(self._learning_rate) else {"learning_rate": self._learning_rate}
        micro_steps = None
        if layer_options.accumulates:
            with tf.init_scope():
                micro_steps = tf.Variable(0, name="micro_steps", dtype=tf.int64, trainable=False)
            self._variables.append(micro_steps)
            named["micro_steps"] = micro_steps
        self.updater = LayerwiseUpdater(rule, layer_options, self, micro_steps)
        self.named_state = NamedState(label, iterations=self._iterations, **named)

    def __str__(self) -> str:
        return options.DESCRIPTION.format(type(self).__name__, own="keras2", other="keras3")

    def build(self, var_list: Sequence[tf.Variable]) -> None:
        """Makes the state of all variables; later calls change nothing."""
        if getattr(self, "_built", False):
            return
        keras = sys.modules.get("keras")
        for variable in var_list:
            if keras is not None and hasattr(keras, "Variable") and isinstance(variable, keras.Variable):
                raise ValueError(
                    options.WRONG_KERAS.format(type(self).__name__, other="keras3", variable=variable.path)
                )
        super().build(var_list)
        paths = [variable.name.split(":")[0] for variable in var_list]
        self.named_state.add_layers(paths, self.updater.build(var_list, paths))
        if self.use_ema:
            self.named_state.add_others("average", paths, self._model_variables_moving_average)
        self._built = True

    def new_state(
        self, variable: tf.Variable, name: str, shape: Sequence[int] | None = None, device: str | None = None
    ) -> tf.Variable:
        # Not the variable's own dtype: bfloat16(0.999) is 1.0, and moments in bfloat16 would never change.
        extended = tf.distribute.get_strategy().extended
        with extended.colocate_vars_with(variable) if device is None else one_device(device):
            dtype = tf.float64 if variable.dtype == tf.float64 else tf.float32
            state = tf.Variable(
                tf.zeros(variable.shape if shape is None else shape, dtype),
                name=f"{name}/{variable._shared_name}",
                trainable=False,
            )
        self._variables.append(state)
        return state

    def layer_key(self, variable: tf.Variable) -> Hashable:
        return self._var_key(variable)

    def is_decayed(self, variable: tf.Variable) -> bool:
        return self._use_weight_decay(variable)

    def layer_statistics(self) -> dict[str, LayerStatistics]:
        """Each layer's trust ratio and norms at the last step, by path; see `LayerwiseUpdater.layer_statistics`."""
        return self.updater.layer_statistics()

    # ---- The learning rate --------------------------------------------------------------------

    @property
    def learning_rate(self) -> Any:
        rate = self._learning_rate
        if callable(rate) and not isinstance(rate, _Schedule):
            return rate()
        return super().learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: Any) -> None:
        if callable(self._learning_rate) and not isinstance(self._learning_rate, _Schedule):
            self._learning_rate = learning_rate
        else:
            tf_keras.optimizers.Optimizer.learning_rate.fset(self, learning_rate)

    def is_schedule(self, value: Any) -> bool:
        return isinstance(value, _Schedule)

    # ---- One step -----------------------------------------------------------------------------

    def _clip_gradients(self, grads: Iterable[Any]) -> list[tf.Tensor]:
        """Does not clip: the updater does, after the micro-batches are added up.

        Sparse gradients become dense, with duplicate rows added up: the norms are of the whole
        layer, and the moments of rows without a gradient decay as well.
        """
        return [tf.convert_to_tensor(gradient) for gradient in grads]

    def _apply_weight_decay(self, variables: Sequence[tf.Variable]) -> None:
        """Does nothing: the decay is part of the rule."""

    @tf.autograph.experimental.do_not_convert
    def _distributed_apply_gradients_fn(self, distribution: Any, grads_and_vars: Any, **kwargs: Any) -> Any:
        """The last part of Keras' `apply_gradients`, after the sum over the replicas."""
        gradients, variables = zip(*grads_and_vars)
        self.updater.apply(distribution, gradients, variables)
        return self.iterations

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable) -> None:
        """The step of one variable, for callers that do not use `apply_gradients`."""
        self.updater.apply_to_variable(gradient, variable)

    def update_averages(self, variables: Sequence[tf.Variable]) -> None:
        if not self.use_ema:
            return
        self._update_model_variables_moving_average(variables)
        if self.ema_overwrite_frequency:
            tf.cond(
                (self.iterations + 1) % self.ema_overwrite_frequency == 0,
                lambda: self._overwrite_model_variables_with_average_value(variables),
                lambda: None,
            )

    def end_step(self) -> None:
        self.iterations.assign_add(1)

    def skip_step(self) -> None:
        """Does nothing: only `end_step` counts."""

    # ---- Serialisation ------------------------------------------------------------------------

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        for name, value in (("learning_rate", self._learning_rate), ("weight_decay", self.weight_decay)):
            config[name] = self._serialize_hyperparameter(value)
            if callable(value) and not self.is_schedule(value):
                config[name] = float(config[name])
        return {**config, **self.updater.options.config(), **self.updater.rule.config()}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
        config = dict(config)
        for name in ("learning_rate", "weight_decay"):
            if isinstance(config.get(name), dict):
                config[name] = tf_keras.optimizers.schedules.deserialize(config[name], custom_objects=custom_objects)
        config.pop("is_legacy_optimizer", None)
        return cls(**config)


@tf_keras.saving.register_keras_serializable(package="tfbigbatch")
@options.with_hyperparameters(lars.LARS)
class LARS(LayerwiseOptimizer):
    __doc__ = lars.DOCSTRING

    @options.checked(arguments.TABLES["lars"], ["learning_rate"], _OF_KERAS)
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
        **kwargs: Unpack[arguments.LayerwiseArguments],
    ) -> None:
        rule = lars.LARS(momentum, eeta, epsilon, nesterov, form)
        super().__init__(learning_rate, rule, weight_decay=weight_decay, name=name, **kwargs)


@tf_keras.saving.register_keras_serializable(package="tfbigbatch")
@options.with_hyperparameters(lamb.LAMB)
class LAMB(LayerwiseOptimizer):
    __doc__ = lamb.DOCSTRING

    @options.checked(arguments.TABLES["lamb"], ["learning_rate"], _OF_KERAS)
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
        **kwargs: Unpack[arguments.LayerwiseArguments],
    ) -> None:
        rule = lamb.LAMB(beta_1, beta_2, epsilon, bias_correction, trust_ratio_bounds, pre_normalize)
        super().__init__(learning_rate, rule, weight_decay=weight_decay, name=name, **kwargs)


@tf_keras.saving.register_keras_serializable(package="tfbigbatch")
@options.with_hyperparameters(adamw.AdamW)
class AdamW(LayerwiseOptimizer):
    __doc__ = adamw.DOCSTRING

    @options.checked(arguments.ADAMW, ["learning_rate"], _OF_KERAS)
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
        **kwargs: Unpack[arguments.SharedArguments],
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


@tf_keras.saving.register_keras_serializable(package="tfbigbatch")
@options.with_hyperparameters(muon.Muon)
class Muon(LayerwiseOptimizer):
    __doc__ = muon.DOCSTRING

    @options.checked(arguments.TABLES["muon"], ["learning_rate"], _OF_KERAS)
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
        **kwargs: Unpack[arguments.LayerwiseArguments],
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


@tf_keras.saving.register_keras_serializable(package="tfbigbatch")
@options.with_hyperparameters(shampoo.Shampoo)
class Shampoo(LayerwiseOptimizer):
    __doc__ = shampoo.DOCSTRING

    @options.checked(arguments.TABLES["shampoo"], ["learning_rate"], _OF_KERAS)
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
        **kwargs: Unpack[arguments.LayerwiseArguments],
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
