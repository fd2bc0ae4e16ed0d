"""The order of one step of a layer-wise optimizer: accumulate, clip, then decay, trust ratio and weights of each layer.

Gradients come summed over the replicas, from the adapter. Every replica clips the same gradient, so that 1 and N
replicas end with the same weights. Each layer is updated on its device.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import exclusions, rules, sharded_updates, sharing
from tfbigbatch.optimizers.accumulation_schedule import AccumulationSchedule
from tfbigbatch.optimizers.base import Adapter, LayerStatistics, MatrixRule, Rule, View
from tfbigbatch.optimizers.checkpointing import ShardedVariable
from tfbigbatch.optimizers.layers_in_flight import LayersInFlight
from tfbigbatch.optimizers.options import LayerOptions, check_gradient
from tfbigbatch.optimizers.replica_state import regrouped
from tfbigbatch.optimizers.tracing import compiled_by_xla

# Layers of 256 KB and more are updated in place in an order, on a CPU: `LayersInFlight`.
_LARGE = 2**16


@dataclasses.dataclass(eq=False)
class _Layer:
    """One model variable: what applies to it, and its state.

    Attributes:
      owner: number of the replica that updates it; None: all do.
      slots, accumulator: empty and None where another process has them.
    """

    index: int
    path: str
    decay: bool
    adapt: bool
    view: View | None
    slots: list[tf.Variable]
    accumulator: tf.Variable | None
    statistics: tf.Variable | None
    owner: int | None = None


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
        # The number of elements of the largest layer.
        self._largest = 0
        # The replicas' shares of the layers; None where each updates all.
        self._shards: sharded_updates.Shards | None = None
        self._compiled = tf.function(self._apply_compiled, jit_compile=True, autograph=False)

    # ---- State --------------------------------------------------------------------------------

    @property
    def is_built(self) -> bool:
        """True once the layers have their state."""
        return bool(self._layers)

    @property
    def is_in_other_processes(self) -> bool:
        """True where other processes have a part of the state."""
        return self._shards is not None and self._shards.between_processes

    def build(self, variables: Sequence[tf.Variable], paths: Sequence[str]) -> dict[str, list[Any]]:
        """Creates the state of all layers and matches the exclusion patterns.

        Returns:
          The state for a checkpoint, by name: a list with a variable, or a `ShardedVariable`, or None, for each layer.
        """
        options = self.options
        self._largest = max((variable.shape.num_elements() or 0 for variable in variables), default=0)
        views = self.rule.views(paths, [tuple(variable.shape) for variable in variables])
        shapes = [self.rule.state_shapes(tuple(variable.shape), view) for variable, view in zip(variables, views)]
        if options.accumulates:
            for variable, own in zip(variables, shapes):
                own["accumulator"] = tuple(variable.shape)
        owners: list[int | None] = [None] * len(variables)
        strategy = sharded_updates.strategy_of(variables)
        if options.shard_updates and strategy.num_replicas_in_sync > 1:
            self._check_that_replicas_agree()
            costs = self._costs(variables, views, shapes)
            self._shards = sharded_updates.Shards(self._name, strategy, costs)
            owners = list(self._shards.owners)
        names = [*self.rule.slot_names, *(["accumulator"] if options.accumulates else [])]
        state = {
            name: [
                self._new_state(variable, name, own[name], owner) if name in own else None
                for variable, own, owner in zip(variables, shapes, owners)
            ]
            for name in names
        }
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
                accumulator=state["accumulator"][index] if options.accumulates else None,
                # Not one of the optimizer's variables: no later step depends on it.
                statistics=tf.Variable(tf.zeros([3]), trainable=False) if options.layer_statistics else None,
                owner=owners[index],
            )
        exclusions.warn_of_idle("exclude_from_weight_decay", options.exclude_from_weight_decay, paths)
        exclusions.warn_of_idle("exclude_from_layer_adaptation", options.exclude_from_layer_adaptation, paths)
        return self._for_checkpoint(variables, shapes, state)

    def _costs(self, variables: Sequence[tf.Variable], views: Sequence[Any], shapes: Sequence[Any]) -> list[float]:
        """Of each layer: its part of all bytes, of weights and state, and its part of all operations on matrices."""
        entries = [
            float(sum(map(math.prod, [tuple(variable.shape), *own.values()])))
            for variable, own in zip(variables, shapes)
        ]
        flops = [0.0 if view is None else self.rule.matrix_flops(view) for view in views]
        all_entries, all_flops = max(sum(entries), 1.0), max(sum(flops), 1.0)
        return [count / all_entries + each / all_flops for count, each in zip(entries, flops)]

    def _new_state(
        self, variable: tf.Variable, name: str, shape: tuple[int, ...], owner: int | None
    ) -> tf.Variable | None:
        """A state variable of a layer; None where another process has it."""
        if owner is None:
            return self._adapter.new_state(variable, name, shape)
        assert self._shards is not None
        device = self._shards.device(owner, variable)
        return None if device is None else self._adapter.new_state(variable, name, shape, device)

    def _for_checkpoint(
        self, variables: Sequence[tf.Variable], shapes: Sequence[Any], state: dict[str, list[Any]]
    ) -> dict[str, list[Any]]:
        """The state as a checkpoint takes it: what one process of several has is gathered at a save."""
        if not self.is_in_other_processes:
            return state
        shards = self._shards
        assert shards is not None
        found: dict[str, list[Any]] = {name: [] for name in state}
        for name, own in state.items():
            for index, variable in enumerate(own):
                shape, dtype = shapes[index].get(name), _wide(variables[index])
                if shape is None:
                    found[name].append(None)
                    continue
                gather = shards.gather(shards.owners[index], variable, shape, dtype)
                found[name].append(ShardedVariable(variable, shape, dtype, gather))
        return found

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
        self._check_shards(strategy)
        for gradient, variable in zip(gradients, variables):
            check_gradient(
                self._name, self._layer_of(variable).path, strategy.experimental_local_results(gradient)[0], variable
            )
        if self.micro_steps is None:
            self._apply_to_all(strategy, gradients, variables, self._apply_to_layer, 1)
            return
        micro_batches = self.micro_batches()
        layers = [self._layer_of(variable) for variable in variables]
        accumulators = [layer.accumulator for layer in layers]
        for layer, gradient in zip(layers, gradients):
            self._on_replicas(strategy, layer, layer.accumulator, _add, gradient)
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
        factor = self._factor_of_replicas(strategy, gradients, variables, micro_batches)
        step = self._step()._replace(micro_batches=micro_batches)
        transformed = self._transformed(strategy, gradients, variables, factor, step)
        for variable, gradient, of_layer in zip(variables, gradients, transformed):

            @tf.autograph.experimental.do_not_convert
            def run(variable: Any, gradient: Any, factor: Any, of_layer: Any) -> None:
                apply_to_layer(variable, gradient, step, factor, of_layer)

            self._on_replicas(strategy, self._layer_of(variable), variable, run, gradient, factor, of_layer)
        self._send_new_weights(variables)
        self._adapter.update_averages(variables)
        self._adapter.end_step()

    def _check_shards(self, strategy: tf.distribute.Strategy) -> None:
        if self._shards is None:
            return
        self._shards.check_step(strategy)
        self._check_that_replicas_agree()

    def _check_that_replicas_agree(self) -> None:
        if self._adapter.replicas_differ:
            raise InputError(
                f"{self._name}(shard_updates=True): with LocalSteps, and Adasum of updates, the replicas take steps of "
                "their own, and cannot divide the layers. Leave shard_updates out; Adasum(..., combine='gradients') "
                "works with it."
            )

    def _on_replicas(
        self, strategy: tf.distribute.Strategy, layer: _Layer, variable: Any, function: Callable[..., None], *args: Any
    ) -> None:
        """Calls a function with each replica's values of a variable and the arguments: where a layer has an owner,
        with the owner's."""
        if layer.owner is None:
            strategy.extended.update(variable, function, args=args, group=False)
        else:
            assert self._shards is not None
            self._shards.run(layer.owner, function, variable, *args)

    def _send_new_weights(self, variables: Sequence[Any]) -> None:
        if self._shards is None:
            return
        layers = [self._layer_of(variable) for variable in variables]
        sent = [*zip(self._owners(variables), variables)]
        sent += [
            (owner, layer.statistics)
            for owner, layer in zip(self._owners(variables), layers)
            if layer.statistics is not None
        ]
        self._shards.send([owner for owner, _ in sent], [variable for _, variable in sent])

    def _owners(self, variables: Sequence[Any]) -> list[int]:
        """The numbers of the replicas that update the variables."""
        owners = [self._layer_of(variable).owner for variable in variables]
        return [owner for owner in owners if owner is not None]

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
        owners: list[int | None] = []
        for variable, gradient in zip(variables, gradients):
            if self._layer_of(variable).view is None:
                counts.append(None)
                continue
            of_replicas = self._before_transform_on_replicas(strategy, variable, gradient, factor, step.micro_batches)
            if not of_replicas:
                # Another process updates it.
                counts.append(None)
                continue
            counts.append(len(of_replicas[0][0]))
            owners += [self._layer_of(variable).owner] * len(of_replicas[0][0])
            batches.extend(map(list, zip(*(each for each, _ in of_replicas))))
            kept.extend(map(list, zip(*(each for _, each in of_replicas))))
        if not batches:
            return [None] * len(variables)
        outcomes = iter(
            self._transform_when_due(step, lambda: self._map_matrices(strategy, rule, batches, owners), kept)
        )
        return [None if count is None else [regrouped(next(outcomes)) for _ in range(count)] for count in counts]

    def _map_matrices(
        self,
        strategy: tf.distribute.Strategy,
        rule: MatrixRule,
        batches: Sequence[list[tf.Tensor]],
        owners: Sequence[int | None],
    ) -> list[list[tf.Tensor]]:
        """The transformed batches; where layers have owners, each on the device of its own."""
        # With gradients of their own, the replicas have nothing in common to share, and layers with an owner neither.
        share = False if self._adapter.replicas_differ or self._shards is not None else rule.share_work
        outcomes: list[list[tf.Tensor]] = [[] for _ in batches]
        for owner in dict.fromkeys(owners):
            own = [index for index, each in enumerate(owners) if each == owner]
            found = sharing.map_matrices(
                rule.transform,
                [batches[index] for index in own],
                flops=rule.transform_flops,
                strategy=strategy,
                share=share,
            )
            for index, transformed in zip(own, found):
                outcomes[index] = transformed
        return outcomes

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

        self._on_replicas(strategy, self._layer_of(variable), variable, run, gradient, factor)
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
            in_flight={},
        )

    def _factor_of_replicas(
        self, strategy: tf.distribute.Strategy, gradients: Sequence[Any], variables: Sequence[Any], micro_batches: Any
    ) -> Any:
        """`_clipping_factor` on each replica; None where nothing is scaled."""
        if not self.rule.pre_normalize and not self._adapter.global_clipnorm:
            return None
        if self._shards is not None and self.micro_steps is not None:
            # Accumulators, each with its owner.
            norm = self._shards.global_norm(self._owners(variables), gradients)
            return self._clipping_factor(norm, micro_batches)
        by_replica = list(zip(*(strategy.experimental_local_results(each) for each in gradients)))
        if not self._adapter.replicas_differ:
            by_replica = by_replica[:1]
        factors = [self._clipping_factor(_global_norm(each), micro_batches) for each in by_replica]
        return regrouped(factors)

    def _clipping_factor(self, norm: tf.Tensor, micro_batches: Any) -> tf.Tensor:
        """What all gradients are multiplied by: global clipping or pre-normalisation.

        `norm` is that of sums over the micro-batches.
        """
        norm = _mean(1.0, micro_batches) * norm
        if self.rule.pre_normalize:
            return tf.where(norm > 0.0, 1.0 / norm, 1.0)
        limit = self._adapter.global_clipnorm
        assert limit is not None
        # A gradient that is not finite makes all weights so, where it is noticed, rather than being scaled to zero.
        return limit / tf.maximum(norm, limit) + (norm - norm)

    # ---- One layer, on one replica ------------------------------------------------------------

    def apply_to_variable(
        self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor | None = None
    ) -> None:
        """The step of one variable without accumulation or global clipping, for `update_step` of Keras."""
        check_gradient(self._name, self._layer_of(variable).path, gradient, variable)
        if self._shards is not None:
            raise InputError(
                f"{self._name}(shard_updates=True): update_step steps one variable on one replica, and the others "
                "would not have it. Call apply_gradients with all of them."
            )
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
        elements = variable.shape.num_elements() or 0
        in_flight = None
        if in_place and elements >= _LARGE and not tf.executing_eagerly():
            in_flight = step.in_flight.setdefault(variable.device, LayersInFlight(self._largest))
        with tf.control_dependencies([] if in_flight is None else in_flight.before(elements)):
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
                if in_flight is not None:
                    in_flight.add(elements, operation)
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


def _global_norm(gradients: Sequence[Any]) -> tf.Tensor:
    return tf.linalg.global_norm([tf.cast(gradient, tf.float32) for gradient in gradients])


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


def _wide(variable: tf.Variable) -> tf.DType:
    """The dtype of the arithmetic: bfloat16(0.999) is 1.0, and moments in bfloat16 would never change."""
    return tf.float64 if variable.dtype == tf.float64 else tf.float32
