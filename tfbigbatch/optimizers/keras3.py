"""LARS, LAMB, Muon, Shampoo and AdamW as optimizers of Keras 3, on all its backends.

A class here is a rule (`lamb.LAMB`) and `Face`: Keras' optimizer, whose step is `step.step`. On TensorFlow it sums the
gradients over the replicas of a strategy first; on JAX and PyTorch they come summed (`keras.distribution`).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keras

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import adamw, declared, lamb, lars, muon, registry, shampoo
from tfbigbatch.optimizers.declared import DESCRIPTION, check_schedules, hyper
from tfbigbatch.optimizers.rule import Averaging, LayerStatistics, Now, Rule
from tfbigbatch.optimizers.step import Pure, step

if TYPE_CHECKING or keras.config.backend() == "tensorflow":
    import tensorflow as tf

    from tfbigbatch.optimizers.checkpointing import NamedState, SavedByName
    from tfbigbatch.optimizers.sharing import one_device
    from tfbigbatch.optimizers.tensorflow import OnReplicas, arithmetic_dtype

if TYPE_CHECKING:
    from tfbigbatch.optimizers.declared import KerasOptimizer as _Optimizer
else:
    _Optimizer = keras.optimizers.Optimizer

__all__ = ["AdamW", "Adasum", "LAMB", "LARS", "LocalSteps", "LossScaleOptimizer", "Muon", "Shampoo"]

_Schedule = keras.optimizers.schedules.LearningRateSchedule
_registered = keras.saving.register_keras_serializable("tfbigbatch")
# The hyperparameters that Keras' own constructor takes.
_OF_KERAS = (
    "clipnorm",
    "clipvalue",
    "global_clipnorm",
    "use_ema",
    "ema_momentum",
    "ema_overwrite_frequency",
    "loss_scale_factor",
)


class _Face(Rule, _Optimizer):
    """A rule as an optimizer of Keras 3: what all backends have in common."""

    loss_scale_factor: float | None = hyper(declared.optional(declared.positive), "as in Keras.", default=None)

    # Counts micro-batches; None without accumulation.
    micro_steps = None

    def configure(self, values: dict[str, Any]) -> None:
        of_keras = {name: values.pop(name) for name in _OF_KERAS}
        label, name, learning_rate = type(self).__name__, values.pop("name"), values.pop("learning_rate")
        check_schedules(label, _Schedule, learning_rate=learning_rate, weight_decay=values["weight_decay"])
        # The base class would apply the decay by itself, outside the trust ratio.
        keras.optimizers.Optimizer.__init__(
            self, learning_rate=learning_rate, name=label if name == "" else name, weight_decay=None, **of_keras
        )
        super().configure(values)
        # Of variables that a step overwrites with their gradients, by their keys, where it accumulates.
        self._largest: dict[Any, Any] = {}

    def __str__(self) -> str:
        return DESCRIPTION.format(type(self).__name__, own="optimizers.keras3", other="keras2")

    @property
    def is_built(self) -> bool:
        return bool(getattr(self, "built", False))

    def build(self, variables: Sequence[Any]) -> None:
        """Makes the state of all variables; later calls change nothing."""
        if self.built:
            return
        super().build(variables)
        overwritten = [each for each in variables if self._overwrite_variable_with_gradient(each)]
        trained = [each for each in variables if not self._overwrite_variable_with_gradient(each)]
        paths = [getattr(each, "path", each.name.split(":")[0]) for each in trained]
        tensors = [_tensor_variable(each) for each in trained]
        may_decay = [self._use_weight_decay(each) for each in trained]
        self._place.positions = {self._var_key(each): index for index, each in enumerate(trained)}
        state = self._place.build(tensors, paths, may_decay, self._new_state)
        averages, largest = [], []
        if self.use_ema:
            averages = [_tensor_variable(each) for each in self._model_variables_moving_average if each is not None]
            for layer, average in zip(self._place.layers, averages):
                layer.average = average
        if self.accumulates:
            largest = [self._new_state(_tensor_variable(each), "largest", each.shape) for each in overwritten]
            self._largest = dict(zip(map(self._var_key, overwritten), largest))
        self._keep(paths, state, average=(paths, averages), largest=([each.path for each in overwritten], largest))

    def _keep(self, paths: Sequence[str], state: Any, **others: tuple[Sequence[str], Sequence[Any]]) -> None:
        """Takes the state for checkpoints of TensorFlow: none here."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Refused: a step is of all layers."""
        raise InputError(f"{type(self).__name__}.update_step: call apply, or stateless_apply, with all gradients.")

    def _now(self) -> Now:
        """The scalars of the next step."""
        iterations = keras.ops.convert_to_tensor(self._iterations)
        weight_decay = self.weight_decay
        if callable(weight_decay):
            weight_decay = weight_decay(iterations) if isinstance(weight_decay, _Schedule) else weight_decay()
            weight_decay = keras.ops.cast(weight_decay, "float32")
        averaging = None
        if self.use_ema:
            momentum = keras.ops.cast(iterations != 0, "float32") * self.ema_momentum
            every = self.ema_overwrite_frequency
            averaging = Averaging(momentum, (iterations + 1) % every == 0 if every else None)
        return Now(
            number=keras.ops.cast(iterations, "float32") + 1.0,
            learning_rate=keras.ops.cast(self._get_current_learning_rate(), "float32"),
            weight_decay=weight_decay,
            micro_batches=self._micro_batches(),
            averaging=averaging,
        )

    def _micro_batches(self) -> Any:
        """The micro-batches of the next step: a number, or a tensor where there is a schedule of them."""
        steps = self.accumulation_steps
        return steps(keras.ops.convert_to_tensor(self._iterations)) if callable(steps) else steps

    def _overwrite_variables_directly_with_gradients(
        self, grads: Sequence[Any], vars: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Keras' own part of `apply`: variables that a step overwrites with their gradients, such as float8's scales.

        With accumulation they take the largest of the micro-batches' at the last, as Keras' own accumulation does.
        """
        if not self._largest:
            return super()._overwrite_variables_directly_with_gradients(grads, vars)
        tensor = keras.ops.convert_to_tensor
        is_last = tensor(self.micro_steps) + 1 >= self._micro_batches()
        kept = []
        for gradient, variable in zip(grads, vars):
            if not self._overwrite_variable_with_gradient(variable):
                kept.append((gradient, variable))
                continue
            largest = self._largest[self._var_key(variable)]
            value = keras.ops.maximum(keras.ops.cast(gradient, largest.dtype), tensor(largest))
            variable.assign(keras.ops.where(is_last, keras.ops.cast(value, variable.dtype), tensor(variable)))
            largest.assign(keras.ops.where(is_last, keras.ops.zeros_like(value), value))
        return [gradient for gradient, _ in kept], [variable for _, variable in kept]

    # ---- Serialisation ------------------------------------------------------------------------

    def get_config(self) -> dict[str, Any]:
        own = self.config(without=("learning_rate", "weight_decay"))
        with warnings.catch_warnings():
            # Keras would serialise the code of a callable, and warns that this is unsafe: its value is kept.
            warnings.filterwarnings("ignore", "The object being serialized includes a `lambda`")
            config = super().get_config()
        del config["gradient_accumulation_steps"]
        for name, value in (("learning_rate", self._learning_rate), ("weight_decay", self.weight_decay)):
            if isinstance(value, _Schedule):
                config[name] = keras.optimizers.schedules.serialize(value)
            elif callable(value):
                config[name] = float(value())
            elif name == "weight_decay":
                config[name] = value
        return {**own, **config}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
        config = dict(config)
        for name in ("learning_rate", "weight_decay"):
            if isinstance(config.get(name), dict):
                config[name] = keras.optimizers.schedules.deserialize(config[name], custom_objects=custom_objects)
        return cls(**config)


if TYPE_CHECKING or keras.config.backend() == "tensorflow":

    class Face(SavedByName, _Face):
        """A rule as an optimizer of Keras 3 on TensorFlow."""

        # Set by what wraps the optimizer: the gradients come summed over the replicas.
        _gradients_are_reduced = False

        def configure(self, values: dict[str, Any]) -> None:
            super().configure(values)
            named = {} if callable(self._learning_rate) else {"learning_rate": _tensor_variable(self._learning_rate)}
            if self.accumulates:
                counter = self.add_variable((), dtype="int64", aggregation="only_first_replica", name="micro_steps")
                self.micro_steps = named["micro_steps"] = _tensor_variable(counter)
            self._place = OnReplicas(self, self.micro_steps, _tensor_variable(self._iterations))
            self.named_state = NamedState(type(self).__name__, iterations=_tensor_variable(self._iterations), **named)

        def _keep(self, paths: Sequence[str], state: Any, **others: tuple[Sequence[str], Sequence[Any]]) -> None:
            self.named_state.add_layers(paths, state)
            for kind, named in others.items():
                self.named_state.add_others(kind, *named)

        def _new_state(
            self, variable: tf.Variable, name: str, shape: Sequence[int], device: str | None = None
        ) -> tf.Variable:
            extended = self._distribution_strategy.extended
            with extended.colocate_vars_with(variable) if device is None else one_device(device):
                label = f"{variable.name.split(':')[0].replace('/', '_')}_{name}"
                dtype = arithmetic_dtype(variable).name
                return _tensor_variable(self.add_variable(tuple(shape), dtype=dtype, name=label))

        def layer_statistics(self) -> dict[str, LayerStatistics]:
            """Each layer's trust ratio and norms at the last step, by path.

            Raises:
              ValueError: the optimizer was made without `layer_statistics=True`, or has not been used.
            """
            return self._place.statistics()

        def _backend_apply_gradients(self, grads: Sequence[Any], trainable_variables: Sequence[Any]) -> None:
            """The last part of Keras' `apply`: sums over the replicas, then steps.

            The base class clips before the sum, so that its weights depend on the number of replicas.
            """
            variables = [_tensor_variable(variable) for variable in trainable_variables]
            if not self._gradients_are_reduced:
                grads = [gradient for gradient, _ in self._all_reduce_sum_gradients(list(zip(grads, variables)))]
            # Sparse gradients become dense: the norms are of the whole layer.
            gradients = [tf.convert_to_tensor(gradient) for gradient in grads]
            layers = [self._place.layer(self._var_key(each), each.name) for each in variables]

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
                        _tensor_variable(variable),
                        lambda own, mean: own.assign(mean),
                        args=(_tensor_variable(average),),
                    )

    def _tensor_variable(variable: Any) -> tf.Variable:
        """The tf.Variable within a keras.Variable; a tf.Variable as it is."""
        return variable.value if isinstance(variable, keras.Variable) else variable

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

        def layer_statistics(self) -> Any:
            """Refused: see `LAMB` on TensorFlow."""
            raise InputError(
                f"{type(self).__name__}.layer_statistics is for Keras' TensorFlow backend, and Keras runs on "
                f"{keras.config.backend()}."
            )

        def _backend_apply_gradients(self, grads: Sequence[Any], trainable_variables: Sequence[Any]) -> None:
            """The last part of Keras' `apply`: one step of all layers, or one micro-batch."""
            layers, gradients = [self._place.layer(self._var_key(each), each.path) for each in trainable_variables], []
            for gradient, layer in zip(grads, layers):
                # Sparse gradients become dense: the norms are of the whole layer.
                gradient = keras.ops.convert_to_tensor(gradient, sparse=False)
                self.check_gradient(layer, gradient)
                gradients.append(keras.ops.cast(gradient, _wide(layer.variable)))
            step(self._place, layers, gradients, self._now())

    def _tensor_variable(variable: Any) -> Any:
        """What the step assigns: the variable itself."""
        return variable

    def _wide(variable: Any) -> str:
        """The dtype of a step's arithmetic: as `tensorflow.arithmetic_dtype`."""
        return "float64" if keras.backend.standardize_dtype(variable.dtype) == "float64" else "float32"


@functools.cache
def of_rule(rule: type[Rule]) -> type[Rule]:
    """The optimizer of a rule: a class of this module, or one made for a rule from elsewhere, registered for saving."""
    own = globals().get(rule.__name__)
    if isinstance(own, type) and issubclass(own, rule):
        return own
    # Under another package: its name may be that of one of ours.
    registered = keras.saving.register_keras_serializable("tfbigbatch.own")
    return registered(type(rule.__name__, (rule, Face), {"__module__": rule.__module__}))


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
    of_rule(_rule)
