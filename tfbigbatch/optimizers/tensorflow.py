"""The parts of a step on TensorFlow: on each replica of a strategy, and on CPUs in place, through its fused kernels.

On a CPU the plain formulas of the rules are bound by memory: each operation streams a whole layer through it. There
`KERNELS` has the same steps in the fewest passes that TensorFlow's own training kernels allow, with at most one
temporary of the layer's size; a test holds the two together.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import sharing
from tfbigbatch.optimizers.checkpointing import ShardedVariable
from tfbigbatch.optimizers.rule import (
    Layer,
    LayerStatistics,
    MatrixRule,
    Now,
    Rule,
    corrections,
    lars_ratio,
    norm,
    trust_ratio,
)
from tfbigbatch.optimizers.sharing import regrouped
from tfbigbatch.optimizers.step import NewState, Place, Shapes, Transformed

# Layers of 256 KB and more are updated in place in an order, on a CPU: `LayersInFlight`.
_LARGE = 2**16
# The name that TensorFlow gives to resources without one: the resource lives as long as its handle.
_ANONYMOUS = "cd2c89b7-88b7-44c8-ad83-06c2a9158347"
# The statistics of a layer's step, as `rule.LayerStatistics` has them; None where none are kept.
_Row = tuple[Any, Any, Any] | None


def compiled_by_xla() -> bool:
    """True while a function with jit_compile=True, or a TPU's, is being traced."""
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    while graph is not None:
        context = graph._get_control_flow_context()
        while context is not None:
            if context.IsXLAContext():
                return True
            context = context.outer_context
        graph = getattr(graph, "outer_graph", None)
    return False


def arithmetic_dtype(variable: tf.Variable | tf.Tensor) -> tf.DType:
    """The dtype of a step's arithmetic: bfloat16(0.999) is 1.0, and moments in bfloat16 would never change."""
    return tf.float64 if variable.dtype == tf.float64 else tf.float32


def tensor_variable(variable: Any) -> tf.Variable:
    """The tf.Variable within a keras.Variable; a tf.Variable as it is."""
    return variable if isinstance(variable, tf.Variable) else variable.value


class OnReplicas(Place):
    """The variables of a `tf.distribute.Strategy`, each stepped where it is; and their layers.

    In cross-replica context: gradients are values of all replicas.

    Attributes:
      shards: the replicas' shares of the layers; None where each updates all.
    """

    def __init__(self, rule: Rule, micro_steps: tf.Variable | None, iterations: tf.Variable) -> None:
        super().__init__(rule, micro_steps, iterations)
        self.shards: sharing.Shards | None = None
        self._strategy: Any = None
        self._largest = 0
        self._compiled = tf.function(self._apply_compiled, jit_compile=True, autograph=False)

    # ---- State --------------------------------------------------------------------------------

    def deal(self, shapes: Sequence[Shapes]) -> None:
        """Where layers are divided: by their part of all bytes and of all operations."""
        rule, variables = self.rule, [layer.variable for layer in self.layers]
        self._largest = max((variable.shape.num_elements() or 0 for variable in variables), default=0)
        for layer in self.layers if rule.keeps_statistics else ():
            # Not one of the optimizer's variables: no later step depends on it.
            layer.statistics = tf.Variable(tf.zeros([3]), trainable=False)
        strategy = sharing.strategy_of(variables)
        if not rule.shard_updates or strategy.num_replicas_in_sync == 1:
            return
        self._check_that_replicas_agree()
        entries = [
            float(sum(map(math.prod, [tuple(variable.shape), *own.values()])))
            for variable, own in zip(variables, shapes)
        ]
        flops = [0.0 if layer.view is None else rule.matrix_flops(layer.view) for layer in self.layers]
        all_entries, all_flops = max(sum(entries), 1.0), max(sum(flops), 1.0)
        costs = [count / all_entries + each / all_flops for count, each in zip(entries, flops)]
        self.shards = sharing.Shards(type(rule).__name__, strategy, costs)
        for layer, owner in zip(self.layers, self.shards.owners):
            layer.owner = owner

    def make(self, layer: Layer, name: str, shape: tuple[int, ...], new_state: NewState) -> tuple[Any, Any]:
        """Where layers are divided: on the device, or in the process, of the owner; gathered there at a save."""
        shards = self.shards
        if shards is None or layer.owner is None:
            return super().make(layer, name, shape, new_state)
        device = shards.device(layer.owner, layer.variable)
        variable = None if device is None else new_state(layer.variable, name, shape, device)
        if not shards.between_processes:
            return variable, variable
        dtype = arithmetic_dtype(layer.variable)
        return variable, ShardedVariable(variable, shape, dtype, shards.gather(layer.owner, variable, shape, dtype))

    @property
    def is_in_other_processes(self) -> bool:
        """True where other processes have a part of the state."""
        return self.shards is not None and self.shards.between_processes

    def statistics(self) -> dict[str, LayerStatistics]:
        """Each layer's statistics of the last step, by path.

        Raises:
          ValueError: the optimizer has not been used.
        """
        if not self.layers:
            raise ValueError(f"{type(self.rule).__name__} has made no update yet: there are no statistics to read.")
        return {layer.path: LayerStatistics(*layer.statistics.numpy().tolist()) for layer in self.layers}

    # ---- Replicas -----------------------------------------------------------------------------

    def begin(self, strategy: tf.distribute.Strategy, layers: Sequence[Layer], gradients: Sequence[Any]) -> None:
        """Begins a step in a strategy; raises ValueError where it cannot be, as of gradients of other shapes."""
        self._strategy = strategy
        if self.shards is not None:
            self.shards.check_step(strategy)
            self._check_that_replicas_agree()
        for layer, gradient in zip(layers, gradients):
            self.rule.check_gradient(layer, strategy.experimental_local_results(gradient)[0])

    def _check_that_replicas_agree(self) -> None:
        if self.rule.replicas_differ:
            raise InputError(
                f"{type(self.rule).__name__}(shard_updates=True): with LocalSteps, and Adasum of updates, the "
                "replicas take steps of their own, and cannot divide the layers. Leave shard_updates out; "
                "Adasum(..., combine='gradients') works with it."
            )

    def _on_replicas(self, layer: Layer, variable: Any, function: Callable[..., Any], *args: Any) -> list[Any]:
        """What a function of each replica's values of a variable and the arguments gives, for those of this process.

        Where a layer has an owner, the owner's alone.
        """
        # Kept here rather than returned: what `update` makes of a result depends on the strategy.
        found: list[Any] = []

        # AutoGraph has nothing to rewrite, and would take a third of the time of a first step to find out.
        @tf.autograph.experimental.do_not_convert
        def run(*values: Any) -> None:
            found.append(function(layer, *values))

        if layer.owner is None:
            self._strategy.extended.update(variable, run, args=args, group=False)
        else:
            assert self.shards is not None
            self.shards.run(layer.owner, run, variable, *args)
        return found

    # ---- The order of a step ------------------------------------------------------------------

    def accumulate(self, layers: Sequence[Layer], gradients: Sequence[Any]) -> Sequence[Any]:
        for layer, gradient in zip(layers, gradients):
            self._on_replicas(layer, layer.accumulator, _add, gradient)
        return [layer.accumulator for layer in layers]

    def when_last(self, now: Now, apply: Callable[[], None]) -> None:
        micro_steps = self._micro_steps
        assert micro_steps is not None

        def last() -> None:
            apply()
            micro_steps.assign(tf.zeros_like(micro_steps))

        def earlier() -> None:
            # Keras counts each call as a step.
            self._iterations.assign_add(-1)

        tf.cond(micro_steps.assign_add(1) >= now.micro_batches, last, earlier)

    def clip_factor(self, layers: Sequence[Layer], gradients: Sequence[Any], now: Now) -> Any:
        rule = self.rule
        # Every replica clips the same gradient, so that 1 and N replicas end with the same weights.
        if self.shards is not None and rule.accumulates:
            owners = [layer.owner for layer in layers if layer.owner is not None]
            return rule.clip_factor(now.mean(1.0) * self.shards.global_norm(owners, gradients))
        by_replica = list(zip(*(self._strategy.experimental_local_results(each) for each in gradients)))
        if not rule.replicas_differ:
            by_replica = by_replica[:1]
        wide = [[tf.cast(gradient, tf.float32) for gradient in own] for own in by_replica]
        return regrouped([rule.clip_factor(now.mean(1.0) * tf.linalg.global_norm(own)) for own in wide])

    def transform(self, layers: Sequence[Layer], gradients: Sequence[Any], factor: Any, now: Now) -> Transformed:
        rule = self.rule
        assert isinstance(rule, MatrixRule)
        every = rule.transform_every()

        def before(layer: Layer, variable: Any, gradient: Any, factor: Any) -> tuple[list[Any], list[Any]]:
            """A layer's batches on one replica, and what takes their place in a step without."""
            gradient = now.mean(tf.cast(gradient, arithmetic_dtype(variable)))
            slots = [tf.convert_to_tensor(slot) for slot in layer.slots]
            own, new_slots = rule.before_transform(rule.clipped(gradient, factor), slots, layer.view)
            _assign(layer.slots, slots, new_slots)
            return own, rule.kept(slots, layer.view) if every > 1 else []

        batches: list[list[tf.Tensor]] = []
        kept: list[list[tf.Tensor]] = []
        owners: list[int | None] = []
        places: dict[int, tuple[int, int]] = {}
        for layer, gradient in zip(layers, gradients):
            if layer.view is None:
                continue
            of_replicas = self._on_replicas(layer, layer.variable, before, gradient, factor)
            if not of_replicas:
                # Another process has the layer.
                continue
            start = len(batches)
            batches.extend(map(list, zip(*(own for own, _ in of_replicas))))
            kept.extend(map(list, zip(*(own for _, own in of_replicas))))
            places[layer.index] = (start, len(batches))
            owners += [layer.owner] * (len(batches) - start)
        if not batches:
            return {}
        if every > 1:
            is_due = tf.equal(tf.math.floormod(now.number - 1.0, float(every)), 0.0)
            outcomes = tf.cond(is_due, lambda: self._shared(rule, batches, owners), lambda: kept)
        else:
            outcomes = self._shared(rule, batches, owners)
        return {index: [regrouped(each) for each in outcomes[start:stop]] for index, (start, stop) in places.items()}

    def _shared(
        self, rule: MatrixRule, batches: Sequence[list[tf.Tensor]], owners: Sequence[int | None]
    ) -> list[list[tf.Tensor]]:
        """The transformed batches, by the replicas together; of a layer with an owner on the owner's device."""
        # With gradients of their own, the replicas have nothing in common to share, and layers with an owner neither.
        alone = rule.replicas_differ or self.shards is not None
        outcomes: list[list[tf.Tensor]] = [[] for _ in batches]
        for owner in dict.fromkeys(owners):
            own = [index for index, each in enumerate(owners) if each == owner]
            found = sharing.map_matrices(
                rule.transform,
                [batches[index] for index in own],
                flops=rule.transform_flops,
                strategy=self._strategy,
                share=not alone,
            )
            for index, transformed in zip(own, found):
                outcomes[index] = transformed
        return outcomes

    def apply(
        self, layers: Sequence[Layer], gradients: Sequence[Any], factor: Any, transformed: Transformed, now: Now
    ) -> None:
        rule = self.rule
        jit_compile = bool(tf.config.list_physical_devices("GPU")) if rule.jit_compile is None else rule.jit_compile
        shared = _OfStep()

        def run(layer: Layer, variable: Any, gradient: Any, factor: Any, whole: Any) -> None:
            mean = now.mean(gradient)
            if jit_compile:
                # The Python number makes one trace for each layer, also for two of the same shape.
                self._compiled(variable, mean, factor, whole, now._replace(averaging=None), layer.index)
            else:
                self._apply_one(layer, variable, mean, factor, whole, now, shared)
            if rule.accumulates:
                gradient.assign(tf.zeros(gradient.shape, gradient.dtype))

        for layer, gradient in zip(layers, gradients):
            self._on_replicas(layer, layer.variable, run, gradient, factor, transformed.get(layer.index))

    def _apply_compiled(self, variable: Any, gradient: Any, factor: Any, whole: Any, now: Now, index: int) -> None:
        self._apply_one(self.layers[index], variable, gradient, factor, whole, now, _OfStep())

    def _apply_one(
        self, layer: Layer, variable: Any, gradient: Any, factor: Any, whole: Any, now: Now, shared: _OfStep
    ) -> None:
        """The step of one layer on one replica."""
        rule, own_layer, dtype = self.rule, layer, arithmetic_dtype(variable)
        own_now, kernel = now.of_layer(layer, dtype), None
        if whole is None:
            rule, own_layer, own_now = rule.for_entries(layer, own_now)
            kernel = _kernel(rule, variable)
        elements = variable.shape.num_elements() or 0
        in_flight = None
        if kernel is not None and elements >= _LARGE and not tf.executing_eagerly():
            in_flight = shared.in_flight.setdefault(variable.device, LayersInFlight(self._largest))
        if kernel is not None and shared.scalars is None:
            shared.scalars = adam_scalars(rule, now.number)
        with tf.control_dependencies([] if in_flight is None else in_flight.before(elements)):
            gradient = self.rule.clipped(tf.cast(gradient, dtype), factor)
            if kernel is not None:
                operation, row = kernel(rule, gradient, variable, own_layer, own_now, shared.scalars)
                if in_flight is not None:
                    in_flight.add(elements, operation)
            else:
                row = _assign_updated(rule, own_layer, variable, gradient, whole, own_now)
            if row is not None:
                layer.statistics.assign(tf.stack([tf.cast(each, tf.float32) for each in row]))

    def publish(self, layers: Sequence[Layer]) -> None:
        if self.shards is None:
            return
        sent = [(layer.owner, layer.variable) for layer in layers]
        sent += [(layer.owner, layer.statistics) for layer in layers if layer.statistics is not None]
        self.shards.send([owner for owner, _ in sent if owner is not None], [variable for _, variable in sent])

    def average(self, now: Now) -> None:
        assert now.averaging is not None
        momentum, overwrites = now.averaging
        averaged = [(layer.average, layer.variable) for layer in self.layers if layer.average is not None]
        update = self._strategy.extended.update

        @tf.autograph.experimental.do_not_convert
        def follow(average: Any, weight: Any) -> None:
            weight = tf.convert_to_tensor(weight)
            decay = tf.cast(momentum, weight.dtype) if tf.is_tensor(momentum) else momentum
            average.assign(decay * average + (1 - decay) * weight)

        @tf.autograph.experimental.do_not_convert
        def take_over(weight: Any, average: Any) -> None:
            weight.assign(average)

        def overwrite() -> None:
            for average, variable in averaged:
                update(variable, take_over, args=(average,), group=False)

        for average, variable in averaged:
            update(average, follow, args=(variable,), group=False)
        if overwrites is not None:
            tf.cond(overwrites, overwrite, lambda: None)


class _OfStep:
    """Shared by the layers of one step: the scalars of Adam's kernel, and the layers in flight on each device."""

    def __init__(self) -> None:
        self.scalars: dict[str, Any] | None = None
        self.in_flight: dict[str, LayersInFlight] = {}


def _add(_: Layer, accumulator: tf.Variable, gradient: tf.Tensor) -> None:
    accumulator.assign_add(tf.cast(gradient, accumulator.dtype))


def _assign(slots: Sequence[tf.Variable], values: Sequence[tf.Tensor], new_values: Sequence[tf.Tensor]) -> None:
    """Assigns what differs from the values that were read: a part of a step leaves the other part's slots alone."""
    for slot, value, new_value in zip(slots, values, new_values):
        if new_value is not value:
            slot.assign(new_value)


def _assign_updated(rule: Rule, layer: Layer, variable: Any, gradient: Any, whole: Any, now: Now) -> _Row:
    """Assigns a layer what the rule makes of it; the step's statistics."""
    weight = tf.cast(tf.convert_to_tensor(variable), gradient.dtype)
    slots = [tf.convert_to_tensor(slot) for slot in layer.slots]
    if whole is None:
        new_weight, new_slots, ratio = rule.update(gradient, weight, slots, layer, now)
    else:
        assert isinstance(rule, MatrixRule)
        new_weight, new_slots, ratio = rule.update_matrices(gradient, weight, slots, whole, layer, now)
    row = None if layer.statistics is None else (ratio, norm(weight), norm(new_weight - weight))
    _assign(layer.slots, slots, new_slots)
    variable.assign(tf.cast(new_weight, variable.dtype))
    return row


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


# ---- In place, on a CPU -------------------------------------------------------------------------


def _kernel(rule: Rule, variable: tf.Variable) -> Callable[..., Any] | None:
    """The one switch between a rule's `update` and its kernel: by device, dtype and compiler."""
    name = rule.kernel()
    is_for_cpu = variable.dtype == tf.float32 and tf.DeviceSpec.from_string(variable.device or "").device_type == "CPU"
    return KERNELS[name] if name is not None and is_for_cpu and not compiled_by_xla() else None


def _norm(tensor: tf.Tensor) -> tf.Tensor:
    """Euclidean norm, by the one-pass kernel behind `tf.nn.l2_loss` (half the sum of squares)."""
    return tf.sqrt(2.0 * tf.nn.l2_loss(tensor))


def _has_none(weight_decay: Any) -> bool:
    return isinstance(weight_decay, float) and weight_decay == 0.0


def adam_scalars(rule: Any, number: tf.Tensor) -> dict[str, Any]:
    """The scalar arguments of Adam's kernel at a step, but for the learning rate: the same for all layers.

    With a learning rate of 1 the kernel subtracts m sqrt(1 - b2^t) / (1 - b1^t) / (sqrt(v) + eps'), which for
    eps' = eps sqrt(1 - b2^t) is LAMB's bias-corrected direction. Empty for a rule that has no such moments.
    """
    if not hasattr(rule, "beta_1"):
        return {}
    # The kernel's moments decay by the betas as float32 has them.
    beta_1, beta_2 = float(np.float32(rule.beta_1)), float(np.float32(rule.beta_2))
    first, second = corrections(number, beta_1, beta_2, getattr(rule, "bias_correction", True))
    return {
        "beta1_power": 1.0 - first,
        "beta2_power": 1.0 - second,
        "beta1": beta_1,
        "beta2": beta_2,
        "epsilon": rule.epsilon * tf.sqrt(second),
    }


def _lamb(
    rule: Any, gradient: tf.Tensor, weight: tf.Variable, layer: Layer, now: Now, scalars: dict[str, Any]
) -> tuple[tf.Operation, _Row]:
    """`lamb.LAMB.update` in place: the last operation, and the step's statistics.

    Adam's kernel is given a temporary that already holds minus the decay, so that one kernel leaves
    minus the whole update there.
    """
    m, v = layer.slots
    adam = dict(m=m.handle, v=v.handle, grad=gradient, **scalars)
    no_decay, statistics = _has_none(now.weight_decay), layer.statistics is not None
    if no_decay and not layer.adapt:
        # The weights are small where nothing adapts them: biases, and normalisation.
        before = tf.identity(weight) if statistics else None
        operation = tf.raw_ops.ResourceApplyAdam(var=weight.handle, lr=now.learning_rate, **adam)
        return operation, (1.0, _norm(before), _norm(weight - before)) if statistics else None

    update = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=weight.shape, shared_name=_ANONYMOUS)
    start = tf.zeros(weight.shape) if no_decay else -now.weight_decay * weight
    tf.raw_ops.AssignVariableOp(resource=update, value=start)
    tf.raw_ops.ResourceApplyAdam(var=update, lr=1.0, **adam)
    update = tf.ensure_shape(tf.raw_ops.ReadVariableOp(resource=update, dtype=tf.float32), weight.shape)
    rate, ratio = now.learning_rate, 1.0
    if layer.adapt or statistics:
        weight_norm, update_norm = _norm(weight), _norm(update)
    if layer.adapt:
        ratio = trust_ratio(weight_norm, update_norm, weight_norm, update_norm, rule.trust_ratio_bounds)
        rate *= ratio
    operation = tf.raw_ops.ResourceApplyGradientDescent(var=weight.handle, alpha=-rate, delta=update)
    return operation, (ratio, weight_norm, tf.abs(rate) * update_norm) if statistics else None


def _adamw(
    rule: Any, gradient: tf.Tensor, weight: tf.Variable, layer: Layer, now: Now, scalars: dict[str, Any]
) -> tuple[tf.Operation, _Row]:
    """`adamw.AdamW.update` in place; the result as of `_lamb`."""
    m, v = layer.slots
    before = tf.identity(weight) if layer.statistics is not None else None
    if not _has_none(now.weight_decay):
        tf.raw_ops.ResourceApplyGradientDescent(
            var=weight.handle, alpha=now.learning_rate * now.weight_decay, delta=tf.convert_to_tensor(weight)
        )
    adam = {**scalars, "epsilon": rule.epsilon}
    operation = tf.raw_ops.ResourceApplyAdam(
        var=weight.handle, m=m.handle, v=v.handle, lr=now.learning_rate, grad=gradient, **adam
    )
    return operation, None if before is None else (1.0, _norm(before), _norm(weight - before))


def _lars(
    rule: Any, gradient: tf.Tensor, weight: tf.Variable, layer: Layer, now: Now, scalars: dict[str, Any]
) -> tuple[tf.Operation, _Row]:
    """`lars.LARS.update` in place, for the forms 'paper' and 'tfm'; the result as of `_lamb`."""
    del scalars
    [velocity], statistics = layer.slots, layer.statistics is not None
    no_decay, weight_decay = _has_none(now.weight_decay), now.weight_decay
    # The decay is added to the velocity separately where the sum with the gradient is not needed.
    apart = rule.form == "paper" and not rule.nesterov and rule.momentum > 0.0
    decayed = gradient if no_decay or apart else gradient + weight_decay * weight
    rate, ratio = now.learning_rate, 1.0
    if layer.adapt or statistics:
        weight_norm = _norm(weight)
    if layer.adapt:
        gradient_norm = _norm(gradient if rule.form == "paper" else decayed)
        ratio = lars_ratio(weight_norm, gradient_norm, weight_decay, rule.eeta, rule.epsilon, rule.form)
        rate *= ratio
    if apart and not no_decay:
        # These parentheses: TensorFlow folds a chain of two scalars in an order that depends on the graph.
        tf.raw_ops.ResourceApplyGradientDescent(
            var=velocity.handle, alpha=rate * (weight_decay / rule.momentum), delta=tf.convert_to_tensor(weight)
        )
    # Nesterov's change of the weights is in no variable; computed from the kernel's inputs, it would be rounded
    # differently.
    before = tf.identity(weight) if statistics and rule.nesterov else None
    operation = tf.raw_ops.ResourceApplyKerasMomentum(
        var=weight.handle,
        accum=velocity.handle,
        lr=rate,
        grad=decayed,
        momentum=rule.momentum,
        use_nesterov=rule.nesterov,
    )
    if not statistics:
        return operation, None
    change = weight - before if rule.nesterov else tf.convert_to_tensor(velocity)
    return operation, (ratio, weight_norm, _norm(change))


# By the name that `Rule.kernel` gives; for float32 variables.
KERNELS = {"adamw": _adamw, "lamb": _lamb, "lars": _lars}
