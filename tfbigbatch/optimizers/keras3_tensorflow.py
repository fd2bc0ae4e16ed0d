"""The optimizers of Keras 3 on TensorFlow: variables, distribution, wrappers and loss scaling."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfbigbatch import keras_version
from tfbigbatch.optimizers import options
from tfbigbatch.optimizers.adasum.optimizer import AdasumMixin
from tfbigbatch.optimizers.base import LayerStatistics, Rule
from tfbigbatch.optimizers.checkpointing import NamedState, SavedByName, load_by_position
from tfbigbatch.optimizers.keras3_config import ConfiguredOptimizer
from tfbigbatch.optimizers.local_steps.optimizer import LocalStepsMixin
from tfbigbatch.optimizers.sharded_updates import one_device
from tfbigbatch.optimizers.updater import LayerwiseUpdater
from tfbigbatch.optimizers.wrapper import WrapperMixin, of_inner


class LayerwiseOptimizer(SavedByName, ConfiguredOptimizer):
    """The `base.Adapter` of Keras 3: an optimizer that applies a rule layer by layer, through its `updater`."""

    replicas_differ = False
    counts_calls = True

    def __init__(self, *, rule: Rule, **arguments: Any) -> None:
        layer_options = options.LayerOptions.taken_from(arguments)
        super().__init__(**arguments)
        self._gradients_are_reduced = False
        jit_compile = layer_options.jit_compile
        # As tf_keras does: XLA for each variable where a GPU is visible.
        self.jit_compile = bool(tf.config.list_physical_devices("GPU")) if jit_compile is None else jit_compile
        self.accumulation_steps = layer_options.accumulation_steps
        named = {} if callable(self._learning_rate) else {"learning_rate": _tensor_variable(self._learning_rate)}
        micro_steps = None
        if layer_options.accumulates:
            counter = self.add_variable((), dtype="int64", aggregation="only_first_replica", name="micro_steps")
            micro_steps = named["micro_steps"] = _tensor_variable(counter)
        self._micro_steps: Any = micro_steps
        self.updater = LayerwiseUpdater(rule, layer_options, self, micro_steps)
        self.named_state = NamedState(type(self).__name__, iterations=_tensor_variable(self._iterations), **named)

    def build(self, variables: Sequence[Any]) -> None:
        """Makes the state of all variables; later calls change nothing."""
        if self.built:
            return
        super().build(variables)
        overwritten = [variable for variable in variables if self._overwrite_variable_with_gradient(variable)]
        trained = [variable for variable in variables if not self._overwrite_variable_with_gradient(variable)]
        paths = [getattr(variable, "path", variable.name.split(":")[0]) for variable in trained]
        trained = [_tensor_variable(variable) for variable in trained]
        self.named_state.add_layers(paths, self.updater.layers.build(trained, paths))
        if self.use_ema:
            averages = [_tensor_variable(each) for each in self._model_variables_moving_average if each is not None]
            self.named_state.add_others("average", paths, averages)
        if self._micro_steps is not None:
            largest = [self.new_state(_tensor_variable(variable), "largest") for variable in overwritten]
            self.named_state.add_others("largest", [variable.path for variable in overwritten], largest)
            self._largest = dict(zip(map(self._var_key, overwritten), largest))

    def new_state(
        self, variable: tf.Variable, name: str, shape: Sequence[int] | None = None, device: str | None = None
    ) -> tf.Variable:
        extended = self._distribution_strategy.extended
        with extended.colocate_vars_with(variable) if device is None else one_device(device):
            # Not the variable's own dtype: bfloat16(0.999) is 1.0, and moments in bfloat16 would never change.
            dtype = "float64" if variable.dtype == tf.float64 else "float32"
            label = variable.name.split(":")[0].replace("/", "_")
            shape = tuple(variable.shape if shape is None else shape)
            return _tensor_variable(self.add_variable(shape, dtype=dtype, name=f"{label}_{name}"))

    def layer_key(self, variable: tf.Variable) -> Hashable:
        return self._var_key(variable)

    def is_decayed(self, variable: tf.Variable) -> bool:
        return self._use_weight_decay(variable)

    def layer_statistics(self) -> dict[str, LayerStatistics]:
        """Each layer's trust ratio and norms at the last step, by path; see `Layers.statistics`."""
        return self.updater.layers.statistics()

    # ---- One step -----------------------------------------------------------------------------

    def _backend_apply_gradients(self, grads: Sequence[Any], trainable_variables: Sequence[Any]) -> None:
        """The last part of Keras' `apply_gradients`: sums over the replicas, then steps.

        The base class clips before the sum, so that its weights depend on the number of replicas.
        """
        variables = [_tensor_variable(variable) for variable in trainable_variables]
        if not self._gradients_are_reduced:
            grads = [gradient for gradient, _ in self._all_reduce_sum_gradients(list(zip(grads, variables)))]
        # Sparse gradients become dense: the norms are of the whole layer.
        gradients = [tf.convert_to_tensor(gradient) for gradient in grads]
        tf.__internal__.distribute.interim.maybe_merge_call(
            self.updater.apply, self._distribution_strategy, gradients, variables
        )

    def update_averages(self, variables: Sequence[tf.Variable]) -> None:
        if not self.use_ema:
            return
        self._update_model_variables_moving_average(self._trainable_variables)
        if self.ema_overwrite_frequency:
            tf.cond(
                tf.convert_to_tensor(self.iterations + 1) % self.ema_overwrite_frequency == 0,
                lambda: self._overwrite_model_variables_with_average_value(self._trainable_variables),
                lambda: None,
            )

    def _overwrite_model_variables_with_average_value(self, trainable_variables: Sequence[Any]) -> None:
        """Keras' own, for models that have variables without an average too."""
        for variable, average in zip(trainable_variables, self._model_variables_moving_average):
            if average is not None:
                self._distribution_strategy.extended.update(
                    _tensor_variable(variable), lambda own, mean: own.assign(mean), args=(_tensor_variable(average),)
                )


def _tensor_variable(variable: Any) -> tf.Variable:
    """The tf.Variable within a keras.Variable; a tf.Variable as it is."""
    return variable.value if isinstance(variable, keras.Variable) else variable


class Wrapper(WrapperMixin, keras.optimizers.Optimizer):
    """An optimizer of Keras 3 around another one: what `WrapperMixin` leaves to each Keras."""

    def __init__(self, optimizer: Any) -> None:
        own = type(self).__name__
        keras_version.require_tensorflow(self, own)
        self._check_inner(optimizer, keras, "keras2")
        if optimizer.gradient_accumulation_steps:
            raise ValueError(
                f"{own}: gradient_accumulation_steps={optimizer.gradient_accumulation_steps} is Keras' own, which "
                "fails under MirroredStrategy. Accumulate in the training step: optimizers.accumulate_gradients."
            )
        super().__init__(learning_rate=0.0, name=optimizer.name)
        self.inner_optimizer = optimizer
        # The gradients come exchanged: the sum over the replicas must not be taken again.
        optimizer._all_reduce_sum_gradients = list
        optimizer._gradients_are_reduced = True
        self._gradients_are_reduced = False

    # ---- One step -------------------------------------------------------------------------------

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """Exchanges between the replicas what the wrapper is for, and updates the variables.

        Args:
          grads: list of gradients.
          trainable_variables: list of their variables; those of `build` where left out.

        Raises:
          ValueError: the call is not in a replica's context.
        """
        self._check_in_replica("apply")
        if trainable_variables is None:
            trainable_variables = self.inner_optimizer._trainable_variables
        elif not self.built:
            with tf.init_scope():
                self.build(trainable_variables)
        pairs = self._present(zip(grads, trainable_variables))
        if not pairs:
            return
        # Of each replica's own: the optimizer writes them into their variables as they are.
        overwritten = [pair for pair in pairs if self._overwrite_variable_with_gradient(pair[1])]
        pairs = [pair for pair in pairs if not self._overwrite_variable_with_gradient(pair[1])]
        gradients, variables = [gradient for gradient, _ in pairs], [variable for _, variable in pairs]
        if not self._gradients_are_reduced:
            gradients = self._received(gradients)
        all_pairs = [*zip(gradients, variables), *overwritten]
        self._apply_wrapped(
            variables,
            lambda: self.inner_optimizer.apply(
                [gradient for gradient, _ in all_pairs], [variable for _, variable in all_pairs]
            ),
        )

    @staticmethod
    def _tensor_variable(variable: Any) -> tf.Variable:
        return _tensor_variable(variable)

    # ---- Attributes of the inner optimizer ------------------------------------------------------

    def build(self, variables: Sequence[Any]) -> None:
        """Makes the optimizer's state."""
        self.inner_optimizer.build(variables)
        self._trainable_variables = self.inner_optimizer._trainable_variables
        self.built = True

    layer_statistics = of_inner("layer_statistics")
    scale_loss = of_inner("scale_loss")

    # ---- Serialisation --------------------------------------------------------------------------

    def get_config(self) -> dict[str, Any]:
        return {"optimizer": keras.saving.serialize_keras_object(self.inner_optimizer), **self._options()}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
        config = dict(config)
        optimizer = keras.saving.deserialize_keras_object(config.pop("optimizer"), custom_objects=custom_objects)
        return cls(optimizer, **config)


@keras.saving.register_keras_serializable("tfbigbatch")
class Adasum(AdasumMixin, Wrapper):
    __doc__ = AdasumMixin.__doc__


@keras.saving.register_keras_serializable("tfbigbatch")
class LocalSteps(LocalStepsMixin, Wrapper):
    __doc__ = LocalStepsMixin.__doc__


@keras.saving.register_keras_serializable(package="tfbigbatch")
class LossScaleOptimizer(keras.optimizers.LossScaleOptimizer):
    """Keras' dynamic loss scaling for float16, around an optimizer of this module, on any number of replicas.

    Keras' own asks each replica for its own gradients and takes the first one's word: an infinity
    on another is applied to all. Here they are added up first, so that all see the same and skip
    the same steps. Under a policy of mixed_float16, wrap the optimizer in this one before `compile`.

    Raises:
      ValueError: the optimizer is not one of this module.
    """

    def __init__(self, inner_optimizer: Any, **kwargs: Any) -> None:
        keras_version.require_tensorflow(self, type(self).__name__)
        if not isinstance(inner_optimizer, (LayerwiseOptimizer, Wrapper)):
            raise ValueError(
                f"LossScaleOptimizer is for the optimizers of tfbigbatch.optimizers.keras3, not "
                f"{inner_optimizer!r}: take keras.optimizers.LossScaleOptimizer."
            )
        super().__init__(inner_optimizer, **kwargs)
        inner_optimizer._gradients_are_reduced = True

    def load_own_variables(self, store: Any) -> None:
        """Loads a file's loss scale and state by position; see `checkpointing.load_by_position`."""
        load_by_position(self, store, super().load_own_variables, self.built)

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """Combines the gradients of the replicas, and applies them unless one is not finite."""
        if trainable_variables is None:
            trainable_variables = self.inner_optimizer._trainable_variables
        pairs = list(zip(grads, trainable_variables))
        overwritten = [pair for pair in pairs if self._overwrite_variable_with_gradient(pair[1])]
        pairs = [pair for pair in pairs if not self._overwrite_variable_with_gradient(pair[1])]
        if isinstance(self.inner_optimizer, Wrapper):
            pairs = self.inner_optimizer.aggregate_gradients(pairs)
        else:
            reduced = self._all_reduce_sum_gradients([(gradient, _tensor_variable(each)) for gradient, each in pairs])
            pairs = [(gradient, variable) for (gradient, _), (_, variable) in zip(reduced, pairs)]
        pairs += overwritten
        super().apply([gradient for gradient, _ in pairs], [variable for _, variable in pairs])
