"""The layer-wise optimizers of Keras 3 on JAX and PyTorch: variables, and the order of one step.

There a step is one program for all devices, and gradients come summed over them (`keras.distribution`). The order is
that of `updater.LayerwiseUpdater`, which is for TensorFlow's strategies: accumulate, clip, then each layer by the same
rules. Shared work, sharded updates and in-place kernels are TensorFlow's; JAX's compiler fuses a step by itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import keras

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import rules
from tfbigbatch.optimizers.base import MatrixRule, Rule, View
from tfbigbatch.optimizers.keras3_config import ConfiguredOptimizer
from tfbigbatch.optimizers.ops import Tensor
from tfbigbatch.optimizers.options import LayerOptions, check_gradient

# Matrices of one shape are transformed together up to this size.
_BATCH_BYTES = 2**26


@dataclasses.dataclass(eq=False)
class _Layer:
    """One model variable: what applies to it, and its state."""

    path: str
    decay: bool
    adapt: bool
    view: View | None
    slots: list[Any]
    accumulator: Any = None


@dataclasses.dataclass
class PortableUpdater:
    """The rule, its options, and the layers, once they are known; pure functions of tensors.

    Attributes:
      rule: the formula and its hyperparameters.
      options: what the optimizers have in common.
      layers: by the key of the variable.
    """

    rule: Rule
    options: LayerOptions
    layers: dict[Any, _Layer] = dataclasses.field(default_factory=dict)

    @property
    def is_built(self) -> bool:
        """True once the layers have their state."""
        return bool(self.layers)

    def clipped(self, gradients: Sequence[Tensor], optimizer: Any) -> list[Tensor]:
        """The gradients after clipping or pre-normalisation, as the arguments of `optimizer` ask."""
        found, limit = list(gradients), optimizer.global_clipnorm
        if self.rule.pre_normalize or limit:
            norm = _global_norm(found)
            if self.rule.pre_normalize:
                factor = keras.ops.where(norm > 0.0, 1.0 / keras.ops.where(norm > 0.0, norm, 1.0), 1.0)
            else:
                # A gradient that is not finite makes all weights so, where it is noticed.
                factor = limit / keras.ops.maximum(norm, limit) + (norm - norm)
            found = [gradient * keras.ops.cast(factor, gradient.dtype) for gradient in found]
        if optimizer.clipnorm:
            limit = optimizer.clipnorm
            return [gradient * (limit / keras.ops.maximum(rules.norm(gradient), limit)) for gradient in found]
        if optimizer.clipvalue:
            return [keras.ops.clip(gradient, -optimizer.clipvalue, optimizer.clipvalue) for gradient in found]
        return found

    def step(
        self,
        layers: Sequence[_Layer],
        gradients: Sequence[Tensor],
        weights: Sequence[Tensor],
        slots: Sequence[Sequence[Tensor]],
        *,
        number: Tensor,
        learning_rate: Tensor,
        weight_decay: Tensor | float,
    ) -> tuple[list[Tensor], list[list[Tensor]]]:
        """(New weights, new slots) of the layers; `number` counts the steps from 1."""
        rule, state_of = self.rule, [list(each) for each in slots]
        transformed: list[list[Tensor] | None] = [None] * len(layers)
        if isinstance(rule, MatrixRule):
            batches: list[Tensor] = []
            kept: list[Tensor] = []
            every = rule.transform_every()
            counts = [0] * len(layers)
            for index, layer in enumerate(layers):
                if layer.view is not None:
                    own, state_of[index] = rule.before_transform(gradients[index], state_of[index], layer.view)
                    counts[index] = len(own)
                    batches += own
                    kept += rule.kept(slots[index], layer.view) if every > 1 else []
            outcomes = iter(_mapped_when_due(rule.transform, batches, kept, keras.ops.mod(number - 1.0, every) == 0.0))
            transformed = [[next(outcomes) for _ in range(count)] if count else None for count in counts]
        new_weights, new_slots = [], []
        for layer, gradient, weight, own, of_layer in zip(layers, gradients, weights, state_of, transformed):
            options = {
                "step": keras.ops.cast(number, weight.dtype),
                "learning_rate": keras.ops.cast(learning_rate, weight.dtype),
                "weight_decay": weight_decay if layer.decay else 0.0,
                "adapt": layer.adapt,
            }
            if of_layer is None:
                new, *state, _ = rule.apply(gradient, weight, own, **options)
            else:
                assert isinstance(rule, MatrixRule)
                new, *state, _ = rule.apply_transformed(gradient, weight, own, of_layer, layer.view, **options)
            new_weights.append(new)
            new_slots.append(state)
        return new_weights, new_slots


class LayerwiseOptimizer(ConfiguredOptimizer):
    """An optimizer that applies a rule layer by layer, through its `updater`, on JAX or PyTorch."""

    updater: PortableUpdater

    def __init__(self, *, rule: Rule, name: str, **arguments: Any) -> None:
        layer_options = LayerOptions.taken_from(arguments)
        backend = keras.config.backend()
        for argument, is_given, why in (
            ("layer_statistics", layer_options.layer_statistics, "they are read from TensorFlow's variables"),
            ("shard_updates", layer_options.shard_updates, "keras.distribution lays out the variables"),
            (
                "jit_compile",
                layer_options.jit_compile is not None,
                "model.compile(jit_compile=...) is for the whole step",
            ),
        ):
            if is_given:
                raise InputError(
                    f"{name}: {argument} is for Keras' TensorFlow backend, and Keras runs on {backend}: {why}. Leave "
                    "it out."
                )
        super().__init__(name=name, **arguments)
        self.accumulation_steps = layer_options.accumulation_steps
        self._micro_steps = (
            self.add_variable((), dtype="int32", name="micro_steps") if layer_options.accumulates else None
        )
        self.updater = PortableUpdater(rule, layer_options)

    def build(self, variables: Sequence[Any]) -> None:
        """Makes the state of all variables; later calls change nothing."""
        if self.built:
            return
        super().build(variables)
        trained = [each for each in variables if not self._overwrite_variable_with_gradient(each)]
        overwritten = [each for each in variables if self._overwrite_variable_with_gradient(each)]
        options, rule = self.updater.options, self.updater.rule
        paths = [variable.path for variable in trained]
        views = rule.views(paths, [tuple(variable.shape) for variable in trained])
        shapes = [rule.state_shapes(tuple(variable.shape), view) for variable, view in zip(trained, views)]
        # In the order of the same optimizer on TensorFlow, so that files of one load in the other.
        state = {
            name: [
                self._new_state(variable, name, own[name]) if name in own else None
                for variable, own in zip(trained, shapes)
            ]
            for name in rule.slot_names
        }
        accumulators = [
            self._new_state(variable, "accumulator", variable.shape) if options.accumulates else None
            for variable in trained
        ]
        for index, (variable, path) in enumerate(zip(trained, paths)):
            decay, adapt = options.of_layer(path, self._use_weight_decay(variable))
            self.updater.layers[self._var_key(variable)] = _Layer(
                path=path,
                decay=decay,
                adapt=adapt,
                view=views[index],
                slots=[each for name in rule.slot_names if (each := state[name][index]) is not None],
                accumulator=accumulators[index],
            )
        options.warn_of_idle_patterns(paths)
        if options.accumulates:
            self._largest = {
                self._var_key(variable): self._new_state(variable, "largest", variable.shape)
                for variable in overwritten
            }

    def _new_state(self, variable: Any, name: str, shape: Sequence[int]) -> Any:
        # Not the variable's own dtype: bfloat16(0.999) is 1.0, and moments in bfloat16 would never change.
        layout = getattr(variable, "_layout", None) if tuple(shape) == tuple(variable.shape) else None
        return self.add_variable(
            tuple(shape), dtype=_wide(variable), layout=layout, name=f"{variable.path.replace('/', '_')}_{name}"
        )

    def layer_statistics(self) -> Any:
        """Refused: see `LAMB` on TensorFlow."""
        raise InputError(
            f"{type(self).__name__}.layer_statistics is for Keras' TensorFlow backend, and Keras runs on "
            f"{keras.config.backend()}."
        )

    # ---- One step -----------------------------------------------------------------------------

    def _backend_apply_gradients(self, grads: Sequence[Any], trainable_variables: Sequence[Any]) -> None:
        """The last part of Keras' `apply`: one step of all layers, or one micro-batch."""
        layers = [self._layer_of(variable) for variable in trainable_variables]
        gradients = []
        for gradient, variable, layer in zip(grads, trainable_variables, layers):
            # Sparse gradients become dense: the norms are of the whole layer.
            gradient = keras.ops.convert_to_tensor(gradient, sparse=False)
            check_gradient(type(self).__name__, layer.path, gradient, variable)
            gradients.append(keras.ops.cast(gradient, _wide(variable)))
        # Those without a gradient have an average as well, which Keras writes over them.
        variables = [*trainable_variables, *self._only_averaged(trainable_variables)]
        averages = self._averages_of(variables)
        changing = [*variables, *(slot for layer in layers for slot in layer.slots)]
        changing += [average for average in averages if average is not None]
        if self._micro_steps is None:
            new = self._after_step(layers, gradients, variables, averages)
        else:
            new = self._after_micro_batch(layers, gradients, variables, averages, changing)
        for variable, value in zip(changing, new):
            variable.assign(value)

    def _layer_of(self, variable: Any) -> _Layer:
        return self.updater.layers[self._var_key(variable)]

    def _only_averaged(self, stepped: Sequence[Any]) -> list[Any]:
        """The variables that have a moving average and no gradient in this step."""
        if not self.use_ema:
            return []
        keys = {self._var_key(each) for each in stepped}
        averaged = zip(self._trainable_variables, self._model_variables_moving_average)
        return [each for each, average in averaged if average is not None and self._var_key(each) not in keys]

    def _averages_of(self, variables: Sequence[Any]) -> list[Any]:
        if not self.use_ema:
            return [None] * len(variables)
        return [self._model_variables_moving_average[self._get_variable_index(each)] for each in variables]

    def _after_step(
        self,
        layers: Sequence[_Layer],
        gradients: Sequence[Tensor],
        variables: Sequence[Any],
        averages: Sequence[Any],
    ) -> list[Tensor]:
        """The new weights, slots and averages, as tensors of their dtypes.

        `variables` are those of `layers`, then those that are averaged alone.
        """
        wide = [keras.ops.cast(variable.value, _wide(variable)) for variable in variables]
        iterations = keras.ops.convert_to_tensor(self._iterations)
        weights, slots = self.updater.step(
            layers,
            self.updater.clipped(gradients, self),
            wide[: len(layers)],
            [[slot.value for slot in layer.slots] for layer in layers],
            number=keras.ops.cast(iterations, "float32") + 1.0,
            learning_rate=keras.ops.cast(self._get_current_learning_rate(), "float32"),
            weight_decay=self._current_weight_decay(iterations),
        )
        weights = [*weights, *wide[len(layers) :]]
        new_averages = []
        if self.use_ema:
            momentum = keras.ops.cast(iterations != 0, "float32") * self.ema_momentum
            every = self.ema_overwrite_frequency
            overwrites = (iterations + 1) % every == 0 if every else None
            for index, average in enumerate(averages):
                if average is not None:
                    new = momentum * average.value + (1.0 - momentum) * weights[index]
                    new_averages.append(keras.ops.cast(new, average.dtype))
                    if overwrites is not None:
                        weights[index] = keras.ops.where(overwrites, new, weights[index])
        new_weights = [keras.ops.cast(weight, variable.dtype) for weight, variable in zip(weights, variables)]
        return [*new_weights, *(slot for own in slots for slot in own), *new_averages]

    def _after_micro_batch(
        self,
        layers: Sequence[_Layer],
        gradients: Sequence[Tensor],
        variables: Sequence[Any],
        averages: Sequence[Any],
        changing: Sequence[Any],
    ) -> list[Tensor]:
        """The result of `_after_step` at the last micro-batch of a step, else the current values."""
        assert self._micro_steps is not None
        micro_batches = self._micro_batches()
        sums = [layer.accumulator.value + gradient for layer, gradient in zip(layers, gradients)]
        count = self._micro_steps.value + 1
        is_last = count >= micro_batches

        def last() -> list[Tensor]:
            means = [each / keras.ops.cast(micro_batches, each.dtype) for each in sums]
            return self._after_step(layers, means, variables, averages)

        new = keras.ops.cond(is_last, last, lambda: [keras.ops.convert_to_tensor(each.value) for each in changing])
        for layer, total in zip(layers, sums):
            layer.accumulator.assign(keras.ops.where(is_last, keras.ops.zeros_like(total), total))
        self._micro_steps.assign(keras.ops.where(is_last, keras.ops.zeros_like(count), count))
        # `iterations` counts steps: the base class adds one after each call.
        self._iterations.assign(self._iterations.value - keras.ops.cast(~is_last, self._iterations.dtype))
        return new

    def _current_weight_decay(self, iterations: Tensor) -> Any:
        decay = self.weight_decay
        if not callable(decay):
            return decay
        return keras.ops.cast(decay(iterations) if self.is_schedule(decay) else decay(), "float32")


def _wide(variable: Any) -> str:
    """The dtype of the arithmetic: bfloat16(0.999) is 1.0, and moments in bfloat16 would never change."""
    return "float64" if keras.backend.standardize_dtype(variable.dtype) == "float64" else "float32"


def _global_norm(gradients: Sequence[Tensor]) -> Tensor:
    squares = [keras.ops.sum(keras.ops.square(keras.ops.cast(each, "float32"))) for each in gradients]
    return keras.ops.sqrt(sum(squares[1:], start=squares[0]))


def _mapped_when_due(
    transform: Callable[[Tensor], Tensor], batches: Sequence[Tensor], kept: Sequence[Tensor], is_due: Tensor
) -> Sequence[Tensor]:
    """`_mapped`; where something is kept, that in the steps between those that are due."""
    if not kept:
        return _mapped(transform, batches)
    found: Sequence[Tensor] = keras.ops.cond(is_due, lambda: _mapped(transform, batches), lambda: list(kept))
    return found


def _mapped(transform: Callable[[Tensor], Tensor], batches: Sequence[Tensor]) -> list[Tensor]:
    """`transform` of batches of matrices [k, rows, columns], those of one shape together up to a limited size."""
    outcomes: list[Any] = [None] * len(batches)
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for index, batch in enumerate(batches):
        by_shape.setdefault(tuple(batch.shape[1:]), []).append(index)
    for (rows, columns), members in by_shape.items():
        most = max(1, _BATCH_BYTES // (4 * rows * columns))
        for part in _parts(members, [int(batches[index].shape[0]) for index in members], most):
            together = batches[part[0]]
            if len(part) > 1:
                together = keras.ops.concatenate([batches[index] for index in part], axis=0)
            outcome, start = transform(together), 0
            for index in part:
                stop = start + int(batches[index].shape[0])
                outcomes[index] = outcome[start:stop] if len(part) > 1 else outcome
                start = stop
    return outcomes


def _parts(members: Sequence[int], counts: Sequence[int], most: int) -> list[list[int]]:
    """The members in order, in parts of up to `most` matrices together; one alone may be of more."""
    parts: list[list[int]] = []
    total = 0
    for member, count in zip(members, counts):
        if parts and total + count <= most:
            parts[-1].append(member)
            total += count
        else:
            parts.append([member])
            total = count
    return parts


class _OfTensorFlow:
    """Refuses to be made: it needs TensorFlow's collectives and strategies."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name = type(self).__name__
        raise InputError(
            f"{name} is for Keras' TensorFlow backend, and Keras runs on {keras.config.backend()}: set "
            "KERAS_BACKEND=tensorflow before Keras is imported, or take LARS, LAMB, Muon, Shampoo or AdamW."
        )


class Adasum(_OfTensorFlow):
    """Adasum on another backend than TensorFlow."""


class LocalSteps(_OfTensorFlow):
    """LocalSteps on another backend than TensorFlow."""


# Keras' own serves: gradients come summed over the devices.
LossScaleOptimizer = keras.optimizers.LossScaleOptimizer
