"""LARS, LAMB, Muon, Shampoo and AdamW as optimizers of Keras 3, on all its backends.

A class here is a rule (`lamb.LAMB`) and `Face`: Keras' optimizer, whose step is `step.step`. On TensorFlow it sums the
gradients over the replicas of a strategy first; on JAX and PyTorch they come summed (`keras.distribution`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keras

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import adamw, declared, face, lamb, lars, muon, registry, shampoo
from tfbigbatch.optimizers.declared import hyper
from tfbigbatch.optimizers.rule import Now
from tfbigbatch.optimizers.step import Pure, step

if TYPE_CHECKING or keras.config.backend() == "tensorflow":
    import tensorflow as tf

    from tfbigbatch.optimizers.checkpointing import NamedState, SavedByName
    from tfbigbatch.optimizers.sharing import one_device
    from tfbigbatch.optimizers.tensorflow import OnReplicas, arithmetic_dtype, tensor_variable

if TYPE_CHECKING:
    from tfbigbatch.optimizers.face import KerasOptimizer as _Optimizer
else:
    _Optimizer = keras.optimizers.Optimizer

__all__ = ["AdamW", "Adasum", "LAMB", "LARS", "LocalSteps", "LossScaleOptimizer", "Muon", "Shampoo"]

_registered = keras.saving.register_keras_serializable("tfbigbatch")


class _Face(face.Face, _Optimizer):
    """A rule as an optimizer of Keras 3: what all backends have in common."""

    of_keras, own, other = keras, "optimizers.keras3", "keras2"

    loss_scale_factor: float | None = hyper(declared.optional(declared.positive), "as in Keras.", default=None)

    def construct(self, learning_rate: Any, name: str | None, **of_keras: Any) -> None:
        keras.optimizers.Optimizer.__init__(self, learning_rate, name=name, weight_decay=None, **of_keras)

    @property
    def is_built(self) -> bool:
        return bool(getattr(self, "built", False))

    def build(self, variables: Sequence[Any]) -> None:
        """Makes the state of all variables; later calls change nothing."""
        if self.built:
            return
        super().build(variables)
        # Not float8's scales, which Keras overwrites with their gradients.
        trained = [each for each in variables if not self._overwrite_variable_with_gradient(each)]
        paths = [getattr(each, "path", each.name.split(":")[0]) for each in trained]
        tensors = [tensor_variable(each) for each in trained]
        may_decay = [self._use_weight_decay(each) for each in trained]
        self._place.positions = {self._var_key(each): index for index, each in enumerate(trained)}
        state = self._place.build(tensors, paths, may_decay, self._new_state)
        averages = self._model_variables_moving_average if self.use_ema else []
        averages = [tensor_variable(each) for each in averages if each is not None]
        for layer, average in zip(self._place.layers, averages):
            layer.average = average
        self._keep(paths, state, averages)

    def _keep(self, paths: Sequence[str], state: Any, averages: Sequence[Any]) -> None:
        """Takes the state for checkpoints of TensorFlow: none here."""

    def _now(self) -> Now:
        """The scalars of the next step."""
        iterations = keras.ops.convert_to_tensor(self._iterations)
        # As in Keras 3, the averages begin with the weights after the first step.
        momentum = keras.ops.cast(iterations != 0, "float32") * self.ema_momentum if self.use_ema else None
        return self.now(iterations, self._get_current_learning_rate(), momentum)


if TYPE_CHECKING or keras.config.backend() == "tensorflow":

    class Face(SavedByName, _Face):
        """A rule as an optimizer of Keras 3 on TensorFlow."""

        # Set by what wraps the optimizer: the gradients come summed over the replicas.
        _gradients_are_reduced = False

        def configure(self, values: dict[str, Any]) -> None:
            super().configure(values)
            named = {} if callable(self._learning_rate) else {"learning_rate": tensor_variable(self._learning_rate)}
            if self.accumulates:
                counter = self.add_variable((), dtype="int64", aggregation="only_first_replica", name="micro_steps")
                self.micro_steps = named["micro_steps"] = tensor_variable(counter)
            self._place = OnReplicas(self, self.micro_steps, tensor_variable(self._iterations))
            self.named_state = NamedState(type(self).__name__, iterations=tensor_variable(self._iterations), **named)

        def _keep(self, paths: Sequence[str], state: Any, averages: Sequence[Any]) -> None:
            self.named_state.add_layers(paths, state)
            self.named_state.add_averages(paths, averages)

        def _new_state(
            self, variable: tf.Variable, name: str, shape: Sequence[int], device: str | None = None
        ) -> tf.Variable:
            extended = self._distribution_strategy.extended
            with extended.colocate_vars_with(variable) if device is None else one_device(device):
                label = f"{variable.name.split(':')[0].replace('/', '_')}_{name}"
                dtype = arithmetic_dtype(variable).name
                return tensor_variable(self.add_variable(tuple(shape), dtype=dtype, name=label))

        def _backend_apply_gradients(self, grads: Sequence[Any], trainable_variables: Sequence[Any]) -> None:
            """The last part of Keras' `apply`: sums over the replicas, then steps.

            The base class clips before the sum, so that its weights depend on the number of replicas.
            """
            names = [getattr(each, "path", each.name) for each in trainable_variables]
            layers = [self._place.layer(self._var_key(each), name) for each, name in zip(trainable_variables, names)]
            if not self._gradients_are_reduced:
                variables = map(tensor_variable, trainable_variables)
                grads = [gradient for gradient, _ in self._all_reduce_sum_gradients(list(zip(grads, variables)))]
            # Sparse gradients become dense: the norms are of the whole layer.
            gradients = [tf.convert_to_tensor(gradient) for gradient in grads]

            # AutoGraph has nothing to rewrite here, and would take a third of the time of a first step to find out.
            @tf.autograph.experimental.do_not_convert
            def merged(strategy: tf.distribute.Strategy, gradients: Sequence[Any]) -> None:
                if self.has_foreign_state:
                    self.refuse_foreign_state()
                self._place.begin(strategy, layers, gradients)
                step(self._place, layers, gradients, self._now())

            interim = tf.__internal__.distribute.interim
            interim.maybe_merge_call(merged, self._distribution_strategy, gradients)

        def _overwrite_model_variables_with_average_value(self, trainable_variables: Sequence[Any]) -> None:
            """Keras' own, for models that have variables without an average too."""
            for variable, average in zip(trainable_variables, self._model_variables_moving_average):
                if average is not None:
                    self._distribution_strategy.extended.update(
                        tensor_variable(variable),
                        lambda own, mean: own.assign(mean),
                        args=(tensor_variable(average),),
                    )

else:

    class Face(_Face):
        """A rule as an optimizer of Keras 3 on JAX or PyTorch."""

        def configure(self, values: dict[str, Any]) -> None:
            backend, label = keras.config.backend(), type(self).__name__
            for argument, is_given, why in (
                ("layer_statistics", values["layer_statistics"], "they are read from TensorFlow's variables"),
                ("shard_updates", values["shard_updates"], "keras.distribution lays out the variables"),
                (
                    "jit_compile",
                    values["jit_compile"] is not None,
                    "model.compile(jit_compile=...) is for the whole step",
                ),
            ):
                if is_given:
                    raise InputError(
                        f"{label}: {argument} is for Keras' TensorFlow backend, and Keras runs on {backend}: {why}. "
                        "Leave it out."
                    )
            super().configure(values)
            if self.accumulates:
                self.micro_steps = self.add_variable((), dtype="int32", name="micro_steps")
            self._place = Pure(self, self.micro_steps, self._iterations)

        def _new_state(self, variable: Any, name: str, shape: Sequence[int], device: str | None = None) -> Any:
            layout = getattr(variable, "_layout", None) if tuple(shape) == tuple(variable.shape) else None
            label = f"{variable.path.replace('/', '_')}_{name}"
            return self.add_variable(tuple(shape), dtype=_wide(variable), layout=layout, name=label)

        def _backend_apply_gradients(self, grads: Sequence[Any], trainable_variables: Sequence[Any]) -> None:
            """The last part of Keras' `apply`: one step of all layers, or one micro-batch."""
            layers, gradients = [self._place.layer(self._var_key(each), each.path) for each in trainable_variables], []
            for gradient, layer in zip(grads, layers):
                # Sparse gradients become dense: the norms are of the whole layer.
                gradient = keras.ops.convert_to_tensor(gradient, sparse=False)
                self.check_gradient(layer, gradient)
                gradients.append(keras.ops.cast(gradient, _wide(layer.variable)))
            step(self._place, layers, gradients, self._now())

    def tensor_variable(variable: Any) -> Any:
        """What the step assigns: the variable itself."""
        return variable

    def _wide(variable: Any) -> str:
        """The dtype of a step's arithmetic: as `tensorflow.arithmetic_dtype`."""
        return "float64" if keras.backend.standardize_dtype(variable.dtype) == "float64" else "float32"


@_registered
class LARS(lars.LARS, Face): ...


@_registered
class LAMB(lamb.LAMB, Face): ...


@_registered
class AdamW(adamw.AdamW, Face): ...


@_registered
class Muon(muon.Muon, Face): ...


@_registered
class Shampoo(shampoo.Shampoo, Face): ...


if TYPE_CHECKING or keras.config.backend() == "tensorflow":
    from tfbigbatch.optimizers.wrapper_keras3 import Adasum, LocalSteps, LossScaleOptimizer
else:

    class _OfTensorFlow:
        """Refuses to be made: it needs TensorFlow's collectives and strategies."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            raise InputError(
                f"{type(self).__name__} is for Keras' TensorFlow backend, and Keras runs on {keras.config.backend()}: "
                "set KERAS_BACKEND=tensorflow before Keras is imported, or take LARS, LAMB, Muon, Shampoo or AdamW."
            )

    class Adasum(_OfTensorFlow):
        """Adasum on another backend than TensorFlow."""

    class LocalSteps(_OfTensorFlow):
        """LocalSteps on another backend than TensorFlow."""

    # Keras' own serves: gradients come summed over the devices.
    LossScaleOptimizer = keras.optimizers.LossScaleOptimizer

for _rule in registry.own_rules():
    Face.of_rule(_rule)
