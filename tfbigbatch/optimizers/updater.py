"""The order of one step of a layer-wise optimizer: accumulate, clip, then decay, trust ratio and weights of each layer.

Gradients come summed over the replicas, from the adapter. Each layer is updated on its device.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfbigbatch.optimizers import rules
from tfbigbatch.optimizers.accumulation import mean_of
from tfbigbatch.optimizers.accumulation_schedule import AccumulationSchedule
from tfbigbatch.optimizers.base import Adapter, MatrixRule, Rule
from tfbigbatch.optimizers.layers import Layer, Layers, arithmetic_dtype
from tfbigbatch.optimizers.matrix_transforms import MatrixTransforms
from tfbigbatch.optimizers.ops_tensorflow import compiled_by_xla
from tfbigbatch.optimizers.options import LayerOptions, check_gradient
from tfbigbatch.optimizers.replica_state import regrouped

# Layers of 256 KB and more are updated in place in an order, on a CPU: `LayersInFlight`.
_LARGE = 2**16


class _Step(NamedTuple):
    """The scalars of one step, and the layers that are updated in place on each device.

    Attributes:
      micro_batches: number of micro-batches in the summed gradients; an int or an int64 tensor.
    """

    learning_rate: tf.Tensor
    number: tf.Tensor
    weight_decay: Any
    kernel_scalars: Any
    in_flight: dict[str, LayersInFlight]
    micro_batches: Any = 1


class LayerwiseUpdater:
    """Applies a rule to all layers.

    Args:
      rule: the formula and its hyperparameters.
      options: what LARS and LAMB have in common.
      adapter: the Keras optimizer that holds this updater.
      micro_steps: int64 variable that counts micro-batches; None without accumulation.

    Attributes:
      layers: what applies to each, and its state.
    """

    def __init__(
        self, rule: Rule, options: LayerOptions, adapter: Adapter, micro_steps: tf.Variable | None = None
    ) -> None:
        self.rule = rule
        self.options = options
        self.micro_steps = micro_steps
        self.has_foreign_state = False
        self._adapter = adapter
        self.layers = Layers(rule, options, adapter)
        self._transforms = (
            MatrixTransforms(rule, adapter, self.layers, self._clipped) if isinstance(rule, MatrixRule) else None
        )
        self._compiled = tf.function(self._apply_compiled, jit_compile=True, autograph=False)

    @property
    def is_built(self) -> bool:
        """True once the layers have their state."""
        return self.layers.is_built

    # ---- One step -----------------------------------------------------------------------------

    # AutoGraph has nothing to rewrite here, and would take a third of the time of a first step to find out.
    @tf.autograph.experimental.do_not_convert
    def apply(
        self, strategy: tf.distribute.Strategy, gradients: Sequence[tf.Tensor], variables: Sequence[tf.Variable]
    ) -> None:
        """Applies the gradients of one batch: dense, summed over replicas, in cross-replica context."""
        label = self.layers.label
        if self.has_foreign_state:
            raise ValueError(
                f"The checkpoint that was restored into this {label} holds the state of another "
                "optimizer: nothing of it was taken. To start afresh, leave the optimizer out: "
                "tf.train.Checkpoint(model=model)."
            )
        self.layers.check_step(strategy)
        layers = [self.layers.of(variable) for variable in variables]
        for gradient, variable, layer in zip(gradients, variables, layers):
            check_gradient(label, layer.path, strategy.experimental_local_results(gradient)[0], variable)
        if self.micro_steps is None:
            self._apply_to_all(strategy, gradients, variables, self._apply_to_layer, 1)
            return
        micro_batches = self.micro_batches()
        accumulators = [layer.accumulator for layer in layers]
        for layer, gradient in zip(layers, gradients):
            self.layers.on_replicas(strategy, layer, layer.accumulator, _add, gradient)
        # The condition must be inside the merged call of all replicas: TensorFlow does not allow it around the call.
        tf.cond(
            self.micro_steps.assign_add(1) >= micro_batches,
            lambda: self._apply_accumulated(strategy, accumulators, variables, micro_batches),
            lambda: self._count(-1) if self._adapter.counts_calls else None,
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
        factor = self._factor_of_replicas(strategy, gradients, variables, micro_batches)
        step = self._step()._replace(micro_batches=micro_batches)
        transformed: Sequence[Any] = [None] * len(variables)
        if self._transforms is not None:
            transformed = self._transforms.transformed(
                strategy, gradients, variables, factor, step=step.number, micro_batches=micro_batches
            )
        for variable, gradient, of_layer in zip(variables, gradients, transformed):

            @tf.autograph.experimental.do_not_convert
            def run(variable: Any, gradient: Any, factor: Any, of_layer: Any) -> None:
                apply_to_layer(variable, gradient, step, factor, of_layer)

            layer = self.layers.of(variable)
            self.layers.on_replicas(strategy, layer, variable, run, gradient, factor, of_layer)
        self.layers.send_new_weights(variables)
        self._adapter.update_averages(variables)
        if not self._adapter.counts_calls:
            self._count(1)

    def _count(self, steps: int) -> None:
        self._adapter.iterations.assign_add(steps)

    # ---- Clipping: every replica clips the same gradient, so that 1 and N replicas end with the same weights ----

    def _factor_of_replicas(
        self, strategy: tf.distribute.Strategy, gradients: Sequence[Any], variables: Sequence[Any], micro_batches: Any
    ) -> Any:
        """The factor of all gradients, on each replica; None where nothing is scaled."""
        if not self.rule.pre_normalize and not self._adapter.global_clipnorm:
            return None
        if self.layers.shards is not None and self.micro_steps is not None:
            norm = self.layers.shards.global_norm(self.layers.owners(variables), gradients)
            return self._factor(norm, micro_batches)
        by_replica = list(zip(*(strategy.experimental_local_results(each) for each in gradients)))
        if not self._adapter.replicas_differ:
            by_replica = by_replica[:1]
        wide = [[tf.cast(gradient, tf.float32) for gradient in own] for own in by_replica]
        return regrouped([self._factor(tf.linalg.global_norm(own), micro_batches) for own in wide])

    def _factor(self, norm: tf.Tensor, micro_batches: Any) -> tf.Tensor:
        """The factor of global clipping or pre-normalisation; `norm` is that of sums over the micro-batches."""
        norm = mean_of(1.0, micro_batches) * norm
        if self.rule.pre_normalize:
            return tf.where(norm > 0.0, 1.0 / norm, 1.0)
        limit = self._adapter.global_clipnorm
        assert limit is not None
        # A gradient that is not finite makes all weights so, where it is noticed, rather than being scaled to zero.
        return limit / tf.maximum(norm, limit) + (norm - norm)

    def _clipped(self, gradient: tf.Tensor, factor: tf.Tensor | None) -> tf.Tensor:
        """A layer's gradient, multiplied by the factor and clipped by itself."""
        if factor is not None:
            gradient *= tf.cast(factor, gradient.dtype)
        if self._adapter.clipnorm:
            return tf.clip_by_norm(gradient, self._adapter.clipnorm)
        if self._adapter.clipvalue:
            return tf.clip_by_value(gradient, -self._adapter.clipvalue, self._adapter.clipvalue)
        return gradient

    # ---- The scalars of a step ----------------------------------------------------------------

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
            in_flight={},
        )

    # ---- One layer, on one replica ------------------------------------------------------------

    def _apply_to_layer(self, variable: Any, gradient: Any, step: _Step, factor: Any, transformed: Any) -> None:
        layer = self.layers.of(variable)
        if self._adapter.jit_compile:
            # The Python number makes one trace for each layer, also for two of the same shape.
            self._compiled(variable, gradient, factor, transformed, layer.index)
        else:
            self._apply_rule(layer, variable, gradient, step, factor, transformed)

    def _apply_accumulator_to_layer(
        self, variable: Any, accumulator: Any, step: _Step, factor: Any, transformed: Any
    ) -> None:
        self._apply_to_layer(variable, mean_of(accumulator, step.micro_batches), step, factor, transformed)
        accumulator.assign(tf.zeros(accumulator.shape, accumulator.dtype))

    def _apply_compiled(self, variable: Any, gradient: Any, factor: Any, transformed: Any, index: int) -> None:
        del index
        self._apply_rule(self.layers.of(variable), variable, gradient, self._step(), factor, transformed)

    def _apply_rule(
        self, layer: Layer, variable: Any, gradient: Any, step: _Step, factor: Any, transformed: Any
    ) -> None:
        in_place = transformed is None and self._can_update_in_place(variable)
        elements = variable.shape.num_elements() or 0
        in_flight = None
        if in_place and elements >= _LARGE and not tf.executing_eagerly():
            in_flight = step.in_flight.setdefault(variable.device, LayersInFlight(self.layers.largest))
        with tf.control_dependencies([] if in_flight is None else in_flight.before(elements)):
            gradient = self._clipped(tf.cast(gradient, arithmetic_dtype(variable)), factor)
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
                if in_flight is not None:
                    in_flight.add(elements, operation)
            else:
                options["step"] = tf.cast(step.number, gradient.dtype)
                row = self._assign_new_values(layer, variable, gradient, transformed, options)
            if layer.statistics is not None and row is not None:
                layer.statistics.assign(tf.stack([tf.cast(each, tf.float32) for each in row]))

    def _assign_new_values(
        self, layer: Layer, variable: Any, gradient: Any, transformed: Any, options: dict[str, Any]
    ) -> tuple[Any, Any, Any] | None:
        weight = tf.cast(tf.convert_to_tensor(variable), gradient.dtype)
        slots = layer.read_slots()
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
        layer.assign_slots(slots, new_slots)
        variable.assign(tf.cast(new_weight, variable.dtype))
        return row

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


class LayersInFlight:
    """Orders the in-place steps of one device's large layers in a graph, so that few temporaries are alive at a time.

    One after the other, each layer would wait for the last thread of the one before, five kernels and a dozen scalars
    long. All at once, a temporary of each would be alive.

    Args:
      room: number of elements that the layers in flight may have together; a larger layer is alone.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._running: collections.deque[tuple[int, tf.Operation]] = collections.deque()
        self._elements = 0
        # Runs when all layers that are no longer in flight have ended.
        self._ended: tf.Operation | None = None

    def before(self, elements: int) -> list[tf.Operation]:
        """The control dependencies of a layer of that many elements."""
        ended = []
        while self._running and self._elements + elements > self._room:
            count, operation = self._running.popleft()
            self._elements -= count
            ended.append(operation)
        if ended:
            with tf.control_dependencies(ended if self._ended is None else [self._ended, *ended]):
                self._ended = tf.no_op()
        return [] if self._ended is None else [self._ended]

    def add(self, elements: int, last_operation: tf.Operation) -> None:
        """Counts a layer as in flight until its last operation."""
        self._running.append((elements, last_operation))
        self._elements += elements
