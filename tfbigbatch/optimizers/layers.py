"""The layers of a layer-wise optimizer: what applies to each, its state, and the replica that steps it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import tensorflow as tf

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import sharded_updates
from tfbigbatch.optimizers.base import Adapter, LayerStatistics, Rule, View
from tfbigbatch.optimizers.checkpointing import ShardedVariable
from tfbigbatch.optimizers.options import LayerOptions


@dataclasses.dataclass(eq=False)
class Layer:
    """One model variable: what applies to it, and its state.

    Attributes:
      index: its position among the variables.
      path: its name in the model.
      decay, adapt: whether weight decay and layer adaptation apply to it.
      view: how the rule reads it as matrices; None for a vector.
      slots, accumulator: empty and None where another process has them.
      statistics: those of the last step; None where none are kept.
      owner: number of the replica that updates it; None: all do.
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

    def read_slots(self) -> list[tf.Tensor]:
        """The values of the slots."""
        return [tf.convert_to_tensor(slot) for slot in self.slots]

    def assign_slots(self, values: Sequence[tf.Tensor], new_values: Sequence[tf.Tensor]) -> None:
        """Assigns what differs from the values that were read: a part of a step leaves the other part's slots alone."""
        for slot, value, new_value in zip(self.slots, values, new_values):
            if new_value is not value:
                slot.assign(new_value)


class Layers:
    """All layers of an optimizer, by variable.

    Args:
      rule: the formula and its hyperparameters.
      options: what LARS and LAMB have in common.
      adapter: the Keras optimizer.

    Attributes:
      label: name of the optimizer, for messages.
      shards: the replicas' shares of the layers; None where each updates all.
      largest: number of elements of the largest layer.
    """

    def __init__(self, rule: Rule, options: LayerOptions, adapter: Adapter) -> None:
        self.label = type(adapter).__name__
        self.shards: sharded_updates.Shards | None = None
        self.largest = 0
        self._rule = rule
        self._options = options
        self._adapter = adapter
        self._layers: dict[Hashable, Layer] = {}

    # ---- State --------------------------------------------------------------------------------

    @property
    def is_built(self) -> bool:
        """True once the layers have their state."""
        return bool(self._layers)

    @property
    def is_in_other_processes(self) -> bool:
        """True where other processes have a part of the state."""
        return self.shards is not None and self.shards.between_processes

    def build(self, variables: Sequence[tf.Variable], paths: Sequence[str]) -> dict[str, list[Any]]:
        """Creates the state of all layers and matches the exclusion patterns.

        Returns:
          The state for a checkpoint, by name: a list with a variable, or a `ShardedVariable`, or None, for each layer.
        """
        options = self._options
        self.largest = max((variable.shape.num_elements() or 0 for variable in variables), default=0)
        views = self._rule.views(paths, [tuple(variable.shape) for variable in variables])
        shapes = [self._rule.state_shapes(tuple(variable.shape), view) for variable, view in zip(variables, views)]
        if options.accumulates:
            for variable, own in zip(variables, shapes):
                own["accumulator"] = tuple(variable.shape)
        owners: list[int | None] = [None] * len(variables)
        strategy = sharded_updates.strategy_of(variables)
        if options.shard_updates and strategy.num_replicas_in_sync > 1:
            self._check_that_replicas_agree()
            costs = self._costs(variables, views, shapes)
            self.shards = sharded_updates.Shards(self.label, strategy, costs)
            owners = list(self.shards.owners)
        names = [*self._rule.slot_names, *(["accumulator"] if options.accumulates else [])]
        state = {
            name: [
                self._new_state(variable, name, own[name], owner) if name in own else None
                for variable, own, owner in zip(variables, shapes, owners)
            ]
            for name in names
        }
        for index, (variable, path) in enumerate(zip(variables, paths)):
            decay, adapt = options.of_layer(path, self._adapter.is_decayed(variable))
            self._layers[self._adapter.layer_key(variable)] = Layer(
                index=index,
                path=path,
                decay=decay,
                adapt=adapt,
                view=views[index],
                slots=[each for name in self._rule.slot_names if (each := state[name][index]) is not None],
                accumulator=state["accumulator"][index] if options.accumulates else None,
                # Not one of the optimizer's variables: no later step depends on it.
                statistics=tf.Variable(tf.zeros([3]), trainable=False) if options.layer_statistics else None,
                owner=owners[index],
            )
        options.warn_of_idle_patterns(paths)
        return self._for_checkpoint(variables, shapes, state)

    def _costs(self, variables: Sequence[tf.Variable], views: Sequence[Any], shapes: Sequence[Any]) -> list[float]:
        """For each layer, its part of all bytes, of weights and state, and its part of all operations on matrices."""
        entries = [
            float(sum(map(math.prod, [tuple(variable.shape), *own.values()])))
            for variable, own in zip(variables, shapes)
        ]
        flops = [0.0 if view is None else self._rule.matrix_flops(view) for view in views]
        all_entries, all_flops = max(sum(entries), 1.0), max(sum(flops), 1.0)
        return [count / all_entries + each / all_flops for count, each in zip(entries, flops)]

    def _new_state(
        self, variable: tf.Variable, name: str, shape: tuple[int, ...], owner: int | None
    ) -> tf.Variable | None:
        """A state variable of a layer; None where another process has it."""
        if owner is None:
            return self._adapter.new_state(variable, name, shape)
        assert self.shards is not None
        device = self.shards.device(owner, variable)
        return None if device is None else self._adapter.new_state(variable, name, shape, device)

    def _for_checkpoint(
        self, variables: Sequence[tf.Variable], shapes: Sequence[Any], state: dict[str, list[Any]]
    ) -> dict[str, list[Any]]:
        """The state as a checkpoint takes it: what one process of several has is gathered at a save."""
        if not self.is_in_other_processes:
            return state
        shards = self.shards
        assert shards is not None
        found: dict[str, list[Any]] = {name: [] for name in state}
        for name, own in state.items():
            for index, variable in enumerate(own):
                shape, dtype = shapes[index].get(name), arithmetic_dtype(variables[index])
                if shape is None:
                    found[name].append(None)
                    continue
                gather = shards.gather(shards.owners[index], variable, shape, dtype)
                found[name].append(ShardedVariable(variable, shape, dtype, gather))
        return found

    # ---- One layer ----------------------------------------------------------------------------

    def of(self, variable: tf.Variable) -> Layer:
        """The layer of a variable.

        Raises:
          ValueError: the optimizer was built for other variables.
        """
        key = self._adapter.layer_key(variable)
        if key not in self._layers:
            raise ValueError(
                f"{self.label} was built for other variables than {variable.name}. Call build() with all "
                "variables before the first update, or make one optimizer for each part of the model."
            )
        return self._layers[key]

    def owners(self, variables: Sequence[Any]) -> list[int]:
        """The numbers of the replicas that update the variables."""
        owners = [self.of(variable).owner for variable in variables]
        return [owner for owner in owners if owner is not None]

    def statistics(self) -> dict[str, LayerStatistics]:
        """Each layer's statistics of the last step, by path.

        Raises:
          ValueError: the optimizer was made without `layer_statistics=True`, or has not been used.
        """
        if not self._options.layer_statistics:
            raise ValueError(
                f"{self.label} keeps no statistics: make it with {self.label}(..., layer_statistics=True)."
            )
        if not self._layers:
            raise ValueError(f"{self.label} has made no update yet: there are no statistics to read.")
        return {
            layer.path: LayerStatistics(*layer.statistics.numpy().tolist())  # type: ignore[union-attr]
            for layer in self._layers.values()
        }

    # ---- Replicas -----------------------------------------------------------------------------

    def check_step(self, strategy: tf.distribute.Strategy) -> None:
        """Raises ValueError where the layers are divided and the step cannot be."""
        if self.shards is None:
            return
        self.shards.check_step(strategy)
        self._check_that_replicas_agree()

    def _check_that_replicas_agree(self) -> None:
        if self._adapter.replicas_differ:
            raise InputError(
                f"{self.label}(shard_updates=True): with LocalSteps, and Adasum of updates, the replicas take steps of "
                "their own, and cannot divide the layers. Leave shard_updates out; Adasum(..., combine='gradients') "
                "works with it."
            )

    def on_replicas(
        self, strategy: tf.distribute.Strategy, layer: Layer, variable: Any, function: Callable[..., None], *args: Any
    ) -> None:
        """Calls a function with each replica's values of a variable and the arguments: where a layer has an owner,
        with the owner's."""
        if layer.owner is None:
            strategy.extended.update(variable, function, args=args, group=False)
        else:
            assert self.shards is not None
            self.shards.run(layer.owner, function, variable, *args)

    def send_new_weights(self, variables: Sequence[Any]) -> None:
        """Sends what the owners stepped, and its statistics, to the other replicas."""
        if self.shards is None:
            return
        sent = [*zip(self.owners(variables), variables)]
        sent += [
            (owner, layer.statistics)
            for owner, layer in zip(self.owners(variables), map(self.of, variables))
            if layer.statistics is not None
        ]
        self.shards.send([owner for owner, _ in sent], [variable for _, variable in sent])


def arithmetic_dtype(variable: tf.Variable) -> tf.DType:
    """The dtype of a step's arithmetic: bfloat16(0.999) is 1.0, and moments in bfloat16 would never change."""
    return tf.float64 if variable.dtype == tf.float64 else tf.float32
