"""The order of one step, for all optimizers and backends: accumulate, clip, transform, apply, publish, average.

How to read this. `keras3` and `keras2` (the faces) sum the gradients over the replicas, read the scalars of the step
into a `rule.Now`, and call `step`. `step` and `_apply` below are the whole order. What a part of it does to one layer
is a formula: of `rule` for clipping, of the optimizer's own file for the rest (`lamb.LAMB.update`). Where it happens is
a `Place`: `Pure`, at the end of this file, computes values and assigns them, on JAX and PyTorch;
`tensorflow.OnReplicas` does it on the device of each replica, in place where TensorFlow has a kernel, and shares
matrices and layers between the replicas (`sharing`). Nothing calls back: a place calls the rule, and the rule calls
nothing of these.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfbigbatch.optimizers.rule import Layer, MatrixRule, Now, Rule, Tensor, of

# By a layer's index its transformed batches.
Transformed = Mapping[int, Any]
# The shapes of a layer's state by name.
Shapes = Mapping[str, tuple[int, ...]]
# (variable of the model, name, shape, device or None for that of the variable) -> a zero variable of the optimizer.
NewState = Callable[[Any, str, tuple[int, ...], str | None], Any]


class Place(abc.ABC):
    """Where the parts of a step happen.

    Args:
      rule: the optimizer.
      micro_steps: variable that counts micro-batches; None without accumulation.
      iterations: variable, which Keras counts up after each call.

    Attributes:
      rule: the optimizer.
      layers: all of the optimizer, in the order of its variables.
      positions: their positions by Keras' keys of the variables.
    """

    def __init__(self, rule: Rule, micro_steps: Any, iterations: Any) -> None:
        self.rule = rule
        self.layers: list[Layer] = []
        self.positions: dict[Any, int] = {}
        self._micro_steps = micro_steps
        self._iterations = iterations

    def layer(self, key: Any, name: str) -> Layer:
        """The layer of a variable, by Keras' key.

        Raises:
          ValueError: the optimizer was built for other variables.
        """
        if key not in self.positions:
            raise ValueError(
                f"{type(self.rule).__name__} was built for other variables than {name}. Call build() with all "
                "variables before the first update, or make one optimizer for each part of the model."
            )
        return self.layers[self.positions[key]]

    def build(
        self, variables: Sequence[Any], paths: Sequence[str], may_decay: Sequence[bool], new_state: NewState
    ) -> dict[str, list[Any]]:
        """Makes the layers, and their state.

        Args:
          variables: of the model.
          paths: their names.
          may_decay: False for those that Keras' own method excluded from weight decay.
          new_state: makes a zero variable of the optimizer.

        Returns:
          The state for a checkpoint, by name: a list with a variable or None for each layer.
        """
        rule, sizes = self.rule, [tuple(variable.shape) for variable in variables]
        made = enumerate(zip(paths, variables, may_decay, rule.views(paths, sizes)))
        self.layers = [
            Layer(index, path, variable, *rule.applies_to(path, decays), view=view)
            for index, (path, variable, decays, view) in made
        ]
        shapes = [
            {**rule.state_shapes(size, layer.view), **({"accumulator": size} if rule.accumulates else {})}
            for size, layer in zip(sizes, self.layers)
        ]
        self.deal(shapes)
        state: dict[str, list[Any]] = {}
        # Name by name, in the same order on all backends, so that a file of one loads in the other.
        for name in [*rule.slot_names, *(["accumulator"] if rule.accumulates else [])]:
            state[name] = [None] * len(self.layers)
            for layer, own in zip(self.layers, shapes):
                if name in own:
                    variable, state[name][layer.index] = self.make(layer, name, own[name], new_state)
                    if name == "accumulator":
                        layer.accumulator = variable
                    elif variable is not None:
                        layer.slots.append(variable)
        rule.warn_of_idle_patterns(paths)
        return state

    def deal(self, shapes: Sequence[Shapes]) -> None:
        """Gives the layers, with these shapes of state, their owners, where not all replicas update all layers."""
        del shapes

    def make(self, layer: Layer, name: str, shape: tuple[int, ...], new_state: NewState) -> tuple[Any, Any]:
        """(A state variable of a layer, or None where another process has it; what a checkpoint takes for it)."""
        variable = new_state(layer.variable, name, shape, None)
        return variable, variable

    @abc.abstractmethod
    def accumulate(self, layers: Sequence[Layer], gradients: Sequence[Any]) -> Sequence[Any]:
        """Adds a micro-batch's gradients to the layers' sums, and gives these."""

    @abc.abstractmethod
    def when_last(self, now: Now, apply: Callable[[], None]) -> None:
        """Counts a micro-batch; at the last of a step calls `apply` and sets the sums to zero."""

    @abc.abstractmethod
    def clip_factor(self, layers: Sequence[Layer], gradients: Sequence[Any], now: Now) -> Any:
        """`rule.clip_factor` of the global norm of the gradients."""

    @abc.abstractmethod
    def transform(self, layers: Sequence[Layer], gradients: Sequence[Any], factor: Any, now: Now) -> Transformed:
        """`before_transform` of a `MatrixRule` for each layer with a view, then `transform` of their batches."""

    @abc.abstractmethod
    def apply(
        self, layers: Sequence[Layer], gradients: Sequence[Any], factor: Any, transformed: Transformed, now: Now
    ) -> None:
        """`rule.update` of each layer, or `rule.update_matrices`: new weights and slots."""

    @abc.abstractmethod
    def publish(self, layers: Sequence[Layer]) -> None:
        """Sends the new weights of layers that one replica stepped to the others."""

    @abc.abstractmethod
    def average(self, now: Now) -> None:
        """Updates the moving averages of all weights, and takes them over where that is due."""


def step(place: Place, layers: Sequence[Layer], gradients: Sequence[Any], now: Now) -> None:
    """Applies one batch's gradients, or adds those of a micro-batch to the others of its step.

    Args:
      place: of the optimizer's variables.
      layers: those that have a gradient.
      gradients: of each layer; dense, and summed over the replicas.
      now: the scalars of the step.
    """
    if not place.rule.accumulates:
        _apply(place, layers, gradients, now)
        return
    sums = place.accumulate(layers, gradients)
    place.when_last(now, lambda: _apply(place, layers, sums, now))


def _apply(place: Place, layers: Sequence[Layer], gradients: Sequence[Any], now: Now) -> None:
    factor = place.clip_factor(layers, gradients, now) if place.rule.scales_gradients else None
    transformed: Transformed = {}
    if isinstance(place.rule, MatrixRule):
        transformed = place.transform(layers, gradients, factor, now)
    place.apply(layers, gradients, factor, transformed, now)
    place.publish(layers)
    if now.averaging is not None:
        place.average(now)


# ---- JAX and PyTorch ----------------------------------------------------------------------------


# Matrices of one shape are transformed together up to this size.
_BATCH_BYTES = 2**26


class Pure(Place):
    """A step as values, by functions of Keras 3's backend: variables are assigned at its end.

    There a step is one program for all devices, and JAX's compiler fuses it: nothing is in place, or shared by hand.
    """

    def __init__(self, rule: Rule, micro_steps: Any, iterations: Any) -> None:
        super().__init__(rule, micro_steps, iterations)
        # In a branch of a condition: the values of variables by their ids, which are assigned after it.
        self._values: dict[int, Tensor] | None = None

    def _read(self, variable: Any) -> Tensor:
        return variable.value if self._values is None else self._values[id(variable)]

    def _write(self, variable: Any, value: Tensor) -> None:
        value = of(value).cast(value, variable.dtype)
        if self._values is None:
            variable.assign(value)
        else:
            self._values[id(variable)] = value

    def accumulate(self, layers: Sequence[Layer], gradients: Sequence[Tensor]) -> Sequence[Tensor]:
        self._sums = [
            (layer.accumulator, layer.accumulator.value + gradient) for layer, gradient in zip(layers, gradients)
        ]
        return [total for _, total in self._sums]

    def when_last(self, now: Now, apply: Callable[[], None]) -> None:
        ops = of(self._sums[0][1])
        count = self._micro_steps.value + 1
        is_last = count >= now.micro_batches
        changing = [variable for layer in self.layers for variable in (layer.variable, *layer.slots, layer.average)]
        changing = [variable for variable in changing if variable is not None]
        before = [variable.value for variable in changing]

        def last() -> list[Tensor]:
            self._values = {id(variable): value for variable, value in zip(changing, before)}
            apply()
            found, self._values = self._values, None
            return [found[id(variable)] for variable in changing]

        for variable, value in zip(changing, ops.cond(is_last, last, lambda: list(before))):
            variable.assign(value)
        for accumulator, total in self._sums:
            accumulator.assign(ops.where(is_last, ops.zeros_like(total), total))
        self._micro_steps.assign(ops.where(is_last, ops.zeros_like(count), count))
        iterations = self._iterations.value
        self._iterations.assign(iterations - ops.cast(ops.logical_not(is_last), iterations.dtype))

    def clip_factor(self, layers: Sequence[Layer], gradients: Sequence[Tensor], now: Now) -> Tensor:
        ops = of(gradients[0])
        squares = [ops.sum(ops.square(ops.cast(now.mean(each), "float32"))) for each in gradients]
        return self.rule.clip_factor(ops.sqrt(sum(squares[1:], start=squares[0])))

    def transform(self, layers: Sequence[Layer], gradients: Sequence[Tensor], factor: Any, now: Now) -> Transformed:
        rule = self.rule
        assert isinstance(rule, MatrixRule)
        batches: list[Tensor] = []
        kept: list[Tensor] = []
        places: dict[int, tuple[int, int]] = {}
        every = rule.transform_every()
        for layer, gradient in zip(layers, gradients):
            if layer.view is None:
                continue
            slots = [self._read(slot) for slot in layer.slots]
            own, new_slots = rule.before_transform(rule.clipped(now.mean(gradient), factor), slots, layer.view)
            for slot, value in zip(layer.slots, new_slots):
                self._write(slot, value)
            places[layer.index] = (len(batches), len(batches) + len(own))
            batches += own
            kept += rule.kept(slots, layer.view) if every > 1 else []
        if kept:
            ops = of(kept[0])
            is_due = ops.mod(now.number - 1.0, every) == 0.0
            outcomes = ops.cond(is_due, lambda: _mapped(rule.transform, batches), lambda: list(kept))
        else:
            outcomes = _mapped(rule.transform, batches)
        return {index: outcomes[start:stop] for index, (start, stop) in places.items()}

    def apply(
        self, layers: Sequence[Layer], gradients: Sequence[Tensor], factor: Any, transformed: Transformed, now: Now
    ) -> None:
        rule = self.rule
        for layer, gradient in zip(layers, gradients):
            gradient = rule.clipped(now.mean(gradient), factor)
            weight = of(gradient).cast(self._read(layer.variable), gradient.dtype)
            slots = [self._read(slot) for slot in layer.slots]
            own_now = now.of_layer(layer, weight.dtype)
            if layer.index in transformed:
                assert isinstance(rule, MatrixRule)
                found = rule.update_matrices(gradient, weight, slots, transformed[layer.index], layer, own_now)
            else:
                of_entries, own_layer, own_now = rule.for_entries(layer, own_now)
                found = of_entries.update(gradient, weight, slots, own_layer, own_now)
            for variable, value in zip([layer.variable, *layer.slots], [found[0], *found[1]]):
                self._write(variable, value)

    def publish(self, layers: Sequence[Layer]) -> None:
        """Nothing: `keras.distribution` lays out the variables."""

    def average(self, now: Now) -> None:
        assert now.averaging is not None
        momentum, overwrites = now.averaging
        for layer in self.layers:
            if layer.average is None:
                continue
            weight = self._read(layer.variable)
            new = momentum * self._read(layer.average) + (1.0 - momentum) * weight
            self._write(layer.average, new)
            if overwrites is not None:
                self._write(layer.variable, of(new).where(overwrites, new, weight))


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
                together = of(together).concatenate([batches[index] for index in part], axis=0)
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
