"""The order of one step of a layer-wise optimizer: accumulate, clip, then decay, trust ratio and weights of each layer.

Gradients come summed over the replicas, from the adapter. Every replica clips the same gradient, so that 1 and N
replicas end with the same weights. Each layer is updated on its device.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.python.distribute import distribute_utils

from tfbigbatch.optimizers import exclusions, rules, sharing
from tfbigbatch.optimizers.accumulation_schedule import AccumulationSchedule
from tfbigbatch.optimizers.base import Adapter, LayerStatistics, MatrixRule, Rule, View
from tfbigbatch.optimizers.options import LayerOptions, check_gradient
from tfbigbatch.optimizers.tracing import compiled_by_xla

# Layers of 256 KB and more are updated in place one after the other on a CPU: one temporary at a time.
_LARGE = 2**16


@dataclasses.dataclass(eq=False)
class _Layer:
    """One model variable: what applies to it, and its state."""

    index: int
    path: str
    decay: bool
    adapt: bool
    view: View | None
    slots: list[tf.Variable]
    accumulator: tf.Variable | None
    statistics: tf.Variable | None


class _Step(NamedTuple):
    """The scalars of one step, and the last in-place operation on each device.

    Attributes:
      micro_batches: number of micro-batches in the summed gradients; an int or an int64 tensor.
    """

    learning_rate: tf.Tensor
    number: tf.Tensor
    weight_decay: Any
    kernel_scalars: Any
    last_operation: dict[str, tf.Operation]
    micro_batches: Any = 1


class LayerwiseUpdater:
    """Applies a rule to all layers; keeps the layers' state and what applies to each.

    Args:
      rule: the formula and its hyperparameters.
      options: what LARS and LAMB have in common.
      adapter: the Keras optimizer that holds this updater.
      micro_steps: int64 variable that counts micro-batches; None without accumulation.
    """

    def __init__(
        self, rule: Rule, options: LayerOptions, adapter: Adapter, micro_steps: tf.Variable | None = None
    ) -> None:
        self.rule = rule
        self.options = options
        self.has_foreign_state = False
        self._adapter = adapter
        self._name = type(adapter).__name__
        self.micro_steps = micro_steps
        self._layers: dict[Hashable, _Layer] = {}
        self._compiled = tf.function(self._apply_compiled, jit_compile=True, autograph=False)

    # ---- State --------------------------------------------------------------------------------

    @property
    def is_built(self) -> bool:
        """True once the layers have their state."""
        return bool(self._layers)

    def build(self, variables: Sequence[tf.Variable], paths: Sequence[str]) -> dict[str, list[tf.Variable | None]]:
        """Creates the state of all layers and matches the exclusion patterns; returns the state by name."""
        options = self.options
        views = self.rule.views(paths, [tuple(variable.shape) for variable in variables])
        state = self._new_state(variables, views)
        for index, (variable, path) in enumerate(zip(variables, paths)):
            decay = self._adapter.is_decayed(variable) and not exclusions.is_excluded(
                path, options.exclude_from_weight_decay
            )
            # None means the same layers as weight decay; an empty list means that none is excluded.
            adapted = options.exclude_from_layer_adaptation
            self._layers[self._adapter.layer_key(variable)] = _Layer(
                index=index,
                path=path,
                decay=decay,
                adapt=decay if adapted is None else not exclusions.is_excluded(path, adapted),
                view=views[index],
                slots=[each for name in self.rule.slot_names if (each := state[name][index]) is not None],
                accumulator=state["accumulator"][index] if "accumulator" in state else None,
                # Not one of the optimizer's variables: no later step depends on it.
                statistics=tf.Variable(tf.zeros([3]), trainable=False) if options.layer_statistics else None,
            )
        exclusions.warn_of_idle("exclude_from_weight_decay", options.exclude_from_weight_decay, paths)
        exclusions.warn_of_idle("exclude_from_layer_adaptation", options.exclude_from_layer_adaptation, paths)
        return state

    def _new_state(
        self, variables: Sequence[tf.Variable], views: Sequence[View | None]
    ) -> dict[str, list[tf.Variable | None]]:
        """The state of all layers by name; None for a layer that has no such state."""
        new_state = self._adapter.new_state
        shapes = [self.rule.state_shapes(tuple(variable.shape), view) for variable, view in zip(variables, views)]
        state = {
            name: [
                new_state(variable, name, own[name]) if name in own else None
                for variable, own in zip(variables, shapes)
            ]
            for name in self.rule.slot_names
        }
        if self.options.accumulates:
            state["accumulator"] = [new_state(variable, "accumulator") for variable in variables]
        return state

    def layer_statistics(self) -> dict[str, LayerStatistics]:
        """Each layer's statistics of the last step, by path.

        Raises:
          ValueError: the optimizer was made without `layer_statistics=True`, or has not been used.
        """
        if not self.options.layer_statistics:
            raise ValueError(
                f"{self._name} keeps no statistics: make it with {self._name}(..., layer_statistics=True)."
            )
        if not self._layers:
            raise ValueError(f"{self._name} has made no update yet: there are no statistics to read.")
        return {
            layer.path: LayerStatistics(*layer.statistics.numpy().tolist())  # type: ignore[union-attr]
            for layer in self._layers.values()
        }

    def _layer_of(self, variable: tf.Variable) -> _Layer:
        key = self._adapter.layer_key(variable)
        if key not in self._layers:
            raise ValueError(
                f"{self._name} was built for other variables than {variable.name}. Call build() with all "
                "variables before the first update, or make one optimizer for each part of the model."
            )
        return self._layers[key]

    # ---- One step -----------------------------------------------------------------------------

    # AutoGraph has nothing to rewrite here, and would take a third of the time of a first step to find out.
    @tf.autograph.experimental.do_not_convert
    def apply(
        self, strategy: tf.distribute.Strategy, gradients: Sequence[tf.Tensor], variables: Sequence[tf.Variable]
    ) -> None:
        """Applies the gradients of one batch: dense, summed over replicas, in cross-replica context."""
        if self.has_foreign_state:
            raise ValueError(
                f"The checkpoint that was restored into this {self._name} holds the state of another "
                "optimizer: nothing of it was taken. To start afresh, leave the optimizer out: "
                "tf.train.Checkpoint(model=model)."
            )
        for gradient, variable in zip(gradients, variables):
            check_gradient(
                self._name, self._layer_of(variable).path, strategy.experimental_local_results(gradient)[0], variable
            )
        if self.micro_steps is None:
            self._apply_to_all(strategy, gradients, variables, self._apply_to_layer, 1)
            return
        micro_batches = self.micro_batches()
        accumulators = [self._layer_of(variable).accumulator for variable in variables]
        for accumulator, gradient in zip(accumulators, gradients):
            strategy.extended.update(accumulator, _add, args=(gradient,), group=False)
        # The condition must be inside the merged call of all replicas: TensorFlow does not allow it around the call.
        tf.cond(
            self.micro_steps.assign_add(1) >= micro_batches,
            lambda: self._apply_accumulated(strategy, accumulators, variables, micro_batches),
            self._adapter.skip_step,
        )

    def micro_batches(self) -> Any:
        """The micro-batches of the current step: a number, or an int64 tensor where there is a schedule of them."""
        steps = self.options.accumulation_steps
        return steps(self._adapter.iterations) if isinstance(steps, AccumulationSchedule) else steps

    def _apply_accumulated(
        self, strategy: Any, accumulators: Sequence[Any], variables: Sequence[Any], micro_batches: Any
    ) -> None:
        assert self.micro_steps is not None
        self._apply_to_all(strategy, accumulators, variables, self._apply_accumulator_to_layer, micro_batches)
        self.micro_steps.assign(tf.zeros_like(self.micro_steps))

    def _apply_to_all(
        self,
        strategy: tf.distribute.Strategy,
        gradients: Sequence[Any],
        variables: Sequence[tf.Variable],
        apply_to_layer: Callable[..., None],
        micro_batches: Any,
    ) -> None:
        by_replica = list(zip(*(strategy.experimental_local_results(each) for each in gradients)))
        factor = self._clipping_factor(by_replica[0], micro_batches)
        if factor is not None and self._adapter.replicas_differ:
            others = [self._clipping_factor(each, micro_batches) for each in by_replica[1:]]
            factor = distribute_utils.regroup((factor, *others))
        step = self._step()._replace(micro_batches=micro_batches)
        transformed = self._transformed(strategy, gradients, variables, factor, step)
        for variable, gradient, of_layer in zip(variables, gradients, transformed):

            @tf.autograph.experimental.do_not_convert
            def run(variable: Any, gradient: Any, factor: Any, of_layer: Any) -> None:
                apply_to_layer(variable, gradient, step, factor, of_layer)

            strategy.extended.update(variable, run, args=(gradient, factor, of_layer), group=False)
        self._adapter.update_averages(variables)
        self._adapter.end_step()

    def _transformed(
        self,
        strategy: tf.distribute.Strategy,
        gradients: Sequence[Any],
        variables: Sequence[Any],
        factor: Any,
        step: _Step,
    ) -> list[list[Any] | None]:
        """What the rule makes of each layer's matrices, by the replicas together; None for a layer of a vector."""
        rule = self.rule
        if not isinstance(rule, MatrixRule):
            return [None] * len(variables)
        counts: list[int | None] = []
        batches: list[list[tf.Tensor]] = []
        kept: list[list[tf.Tensor]] = []
        for variable, gradient in zip(variables, gradients):
            if self._layer_of(variable).view is None:
                counts.append(None)
                continue
            of_replicas = self._before_transform_on_replicas(strategy, variable, gradient, factor, step.micro_batches)
            counts.append(len(of_replicas[0][0]))
            batches.extend(map(list, zip(*(each for each, _ in of_replicas))))
            kept.extend(map(list, zip(*(each for _, each in of_replicas))))
        outcomes = iter(
            self._transform_when_due(
                step,
                lambda: sharing.map_matrices(
                    rule.transform,
                    batches,
                    flops=rule.transform_flops,
                    strategy=strategy,
                    # With gradients of their own, the replicas have nothing in common to share.
                    share=False if self._adapter.replicas_differ else rule.share_work,
                ),
                kept,
            )
        )
        return [None if count is None else [_regrouped(next(outcomes)) for _ in range(count)] for count in counts]

    def _transform_when_due(self, step: _Step, transform: Callable[[], Any], kept: Any) -> Any:
        """The transformed batches; in steps between those of `transform_every` what was kept."""
        assert isinstance(self.rule, MatrixRule)
        every = self.rule.transform_every()
        if every == 1:
            return transform()
        is_due = tf.equal(tf.math.floormod(step.number - 1.0, float(every)), 0.0)
        return tf.cond(is_due, transform, lambda: kept)

    def _before_transform_on_replicas(
        self, strategy: tf.distribute.Strategy, variable: Any, gradient: Any, factor: Any, micro_batches: Any
    ) -> list[tuple[list[tf.Tensor], list[tf.Tensor]]]:
        """What the first part of the step gives on each replica of this process."""
        found: list[tuple[list[tf.Tensor], list[tf.Tensor]]] = []

        @tf.autograph.experimental.do_not_convert
        def run(variable: Any, gradient: Any, factor: Any) -> None:
            # Kept here rather than returned: what `update` makes of a result depends on the strategy.
            found.append(self._before_transform(variable, gradient, factor, micro_batches))

        strategy.extended.update(variable, run, args=(gradient, factor), group=False)
        return found

    def _before_transform(
        self, variable: Any, gradient: Any, factor: Any, micro_batches: Any = 1
    ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """The batches of one layer to transform, and what takes their place in a step without.

        `gradient` is the sum over the micro-batches.
        """
        layer = self._layer_of(variable)
        assert isinstance(self.rule, MatrixRule) and layer.view is not None
        gradient = self._clipped(_mean(tf.cast(gradient, _wide(variable)), micro_batches), factor)
        slots = [tf.convert_to_tensor(slot) for slot in layer.slots]
        batches, new_slots = self.rule.before_transform(gradient, slots, layer.view)
        _assign_changed(layer.slots, slots, new_slots)
        return batches, self.rule.kept(slots, layer.view) if self.rule.transform_every() > 1 else []

    def _step(self) -> _Step:
        iterations = tf.convert_to_tensor(self._adapter.iterations)
        decay = self._adapter.weight_decay
        if callable(decay):
            decay = tf.cast(decay(iterations) if self._adapter.is_schedule(decay) else decay(), tf.float32)
        number = tf.cast(iterations + 1, tf.float32)
        return _Step(
            learning_rate=tf.cast(tf.convert_to_tensor(self._adapter.learning_rate), tf.float32),
            number=number,
            weight_decay=decay,
            kernel_scalars=self.rule.kernel_scalars(number),
            last_operation={},
        )

    def _clipping_factor(self, gradients: Sequence[Any], micro_batches: Any) -> tf.Tensor | None:
        """What all gradients are multiplied by: global clipping or pre-normalisation; None for neither.

        `gradients` are sums over the micro-batches.
        """
        limit = self._adapter.global_clipnorm
        if not self.rule.pre_normalize and not limit:
            return None
        norm = _mean(1.0, micro_batches) * tf.linalg.global_norm(
            [tf.cast(gradient, tf.float32) for gradient in gradients]
        )
        if self.rule.pre_normalize:
            return tf.where(norm > 0.0, 1.0 / norm, 1.0)
        # A gradient that is not finite makes all weights so, where it is noticed, rather than being scaled to zero.
        return limit / tf.maximum(norm, limit) + (norm - norm)

    # ---- One layer, on one replica ------------------------------------------------------------

    def apply_to_variable(
        self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor | None = None
    ) -> None:
        """The step of one variable without accumulation or global clipping, for `update_step` of Keras."""
        check_gradient(self._name, self._layer_of(variable).path, gradient, variable)
        step = self._step()
        if learning_rate is not None:
            step = step._replace(learning_rate=tf.cast(learning_rate, tf.float32))
        transformed = None
        if isinstance(self.rule, MatrixRule) and self._layer_of(variable).view is not None:
            transform, (batches, kept) = self.rule.transform, self._before_transform(variable, gradient, None)
            transformed = self._transform_when_due(step, lambda: [transform(batch) for batch in batches], kept)
        self._apply_to_layer(variable, gradient, step, None, transformed)

    def _apply_to_layer(self, variable: Any, gradient: Any, step: _Step, factor: Any, transformed: Any) -> None:
        layer = self._layer_of(variable)
        if self._adapter.jit_compile:
            # The Python number makes one trace for each layer, also for two of the same shape.
            self._compiled(variable, gradient, factor, transformed, layer.index)
        else:
            self._apply_rule(layer, variable, gradient, step, factor, transformed)

    def _apply_accumulator_to_layer(
        self, variable: Any, accumulator: Any, step: _Step, factor: Any, transformed: Any
    ) -> None:
        self._apply_to_layer(variable, _mean(accumulator, step.micro_batches), step, factor, transformed)
        accumulator.assign(tf.zeros(accumulator.shape, accumulator.dtype))

    def _apply_compiled(self, variable: Any, gradient: Any, factor: Any, transformed: Any, index: int) -> None:
        del index
        self._apply_rule(self._layer_of(variable), variable, gradient, self._step(), factor, transformed)

    def _apply_rule(
        self, layer: _Layer, variable: Any, gradient: Any, step: _Step, factor: Any, transformed: Any
    ) -> None:
        in_place = transformed is None and self._can_update_in_place(variable)
        device = variable.device
        large = in_place and (variable.shape.num_elements() or 0) >= _LARGE and not tf.executing_eagerly()
        with tf.control_dependencies([step.last_operation[device]] if large and device in step.last_operation else []):
            gradient = self._clipped(tf.cast(gradient, _wide(variable)), factor)
            weight_decay = step.weight_decay if layer.decay else 0.0
            options = {
                "learning_rate": tf.cast(step.learning_rate, gradient.dtype),
                "weight_decay": tf.cast(weight_decay, gradient.dtype) if tf.is_tensor(weight_decay) else weight_decay,
                "adapt": layer.adapt,
            }
            if in_place:
                operation, row = self.rule.apply_in_place(
                    gradient,
                    variable,
                    layer.slots,
                    scalars=step.kernel_scalars,
                    statistics=layer.statistics is not None,
                    **options,
                )
                if large:
                    step.last_operation[device] = operation
            else:
                options["step"] = tf.cast(step.number, gradient.dtype)
                row = self._assign_new_values(layer, variable, gradient, transformed, options)
            if layer.statistics is not None and row is not None:
                layer.statistics.assign(tf.stack([tf.cast(each, tf.float32) for each in row]))

    def _assign_new_values(
        self, layer: _Layer, variable: Any, gradient: Any, transformed: Any, options: dict[str, Any]
    ) -> tuple[Any, Any, Any] | None:
        weight = tf.cast(tf.convert_to_tensor(variable), gradient.dtype)
        slots = [tf.convert_to_tensor(slot) for slot in layer.slots]
        if layer.view is None:
            new_weight, *new_slots, ratio = self.rule.apply(gradient, weight, slots, **options)
        else:
            assert isinstance(self.rule, MatrixRule)
            new_weight, *new_slots, ratio = self.rule.apply_transformed(
                gradient, weight, slots, transformed, layer.view, **options
            )
        row = None
        if layer.statistics is not None:
            row = (ratio, rules.norm(weight), rules.norm(new_weight - weight))
        _assign_changed(layer.slots, slots, new_slots)
        variable.assign(tf.cast(new_weight, variable.dtype))
        return row

    def _clipped(self, gradient: tf.Tensor, factor: tf.Tensor | None) -> tf.Tensor:
        if factor is not None:
            gradient *= tf.cast(factor, gradient.dtype)
        if self._adapter.clipnorm:
            return tf.clip_by_norm(gradient, self._adapter.clipnorm)
        if self._adapter.clipvalue:
            return tf.clip_by_value(gradient, -self._adapter.clipvalue, self._adapter.clipvalue)
        return gradient

    def _can_update_in_place(self, variable: tf.Variable) -> bool:
        """The one switch between `cpu_kernels` and `rules`: by device, dtype and compiler."""
        return (
            self.rule.has_kernels()
            and variable.dtype == tf.float32
            and tf.DeviceSpec.from_string(variable.device or "").device_type == "CPU"
            and not compiled_by_xla()
        )


def _add(accumulator: tf.Variable, gradient: tf.Tensor) -> None:
    accumulator.assign_add(tf.cast(gradient, accumulator.dtype))


def _mean(total: Any, micro_batches: Any) -> Any:
    """A sum over micro-batches, divided by their number: one of Python's, or an int64 tensor."""
    if tf.is_tensor(micro_batches):
        micro_batches = tf.cast(micro_batches, total.dtype if hasattr(total, "dtype") else tf.float32)
    return total / micro_batches


def _assign_changed(
    variables: Sequence[tf.Variable], values: Sequence[tf.Tensor], new_values: Sequence[tf.Tensor]
) -> None:
    """Assigns what differs from the values that were read: a part of a step leaves the other part's slots as given."""
    for variable, value, new_value in zip(variables, values, new_values):
        if new_value is not value:
            variable.assign(new_value)


def _regrouped(of_replicas: Sequence[tf.Tensor]) -> Any:
    """Values of this process's replicas as what `strategy.extended.update` takes for each its own."""
    return of_replicas[0] if len(of_replicas) == 1 else distribute_utils.regroup(tuple(of_replicas))


def _wide(variable: tf.Variable) -> tf.DType:
    """The dtype of the arithmetic: bfloat16(0.999) is 1.0, and moments in bfloat16 would never change."""
    return tf.float64 if variable.dtype == tf.float64 else tf.float32
