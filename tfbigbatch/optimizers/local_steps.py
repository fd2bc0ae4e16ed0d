"""Local steps around an optimizer: rounds in which replicas train by themselves, and outer steps."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import adasum
from tfbigbatch.optimizers.checkpointing import NamedState
from tfbigbatch.optimizers.groups import group_means, means
from tfbigbatch.optimizers.sharing import deal, launchers, regrouped
from tfbigbatch.optimizers.tensorflow import arithmetic_dtype, tensor_variable
from tfbigbatch.optimizers.wrapper import Wrapper
from tfbigbatch.optimizers.wrapper_arguments import LocalStepsArguments

# Learning rate and momentum of each outer step, unless they are given: DiLoCo's published numbers for 'nesterov'.
_OUTER_STEPS = {"average": (1.0, 0.0), "nesterov": (0.7, 0.9), "adasum": (1.0, 0.0)}
# In a replica: calls a function of (strategy, *values) in cross-replica context.
_merge_call = tf.__internal__.distribute.interim.maybe_merge_call


class _Layer(NamedTuple):
    """A layer's weights and its state: those of all replicas, or of one within `LocalSteps._on_each`."""

    weights: tf.Variable
    constraint: Callable[[tf.Tensor], tf.Tensor] | None
    # The weights at the start of the round.
    start: tf.Variable
    # With momentum.
    velocity: tf.Variable | None
    # Of delay=1: each replica's change in the round before, and all of them combined, as far as it has arrived.
    own: Any
    arrived: Any


class LocalSteps(LocalStepsArguments, Wrapper):
    """Local steps: each replica trains by itself, and the replicas exchange what they changed every H steps.

    Local SGD (Stich 2019, arXiv:1805.09767) with outer='average', DiLoCo (Douillard et al. 2023, arXiv:2311.08105) with
    outer='nesterov', around any optimizer: in place of `model.compile(optimizer=AdamW(...))` write
    `model.compile(optimizer=LocalSteps(AdamW(...), every=32, outer="nesterov"))`. The replicas send 1/H of the bytes
    that data parallelism sends. Moments stay each replica's own, and the learning rate is that of one replica's batch.

    Between two outer steps the replicas have different weights: evaluate and save at multiples of `every`, and call
    `synchronize()` where a training ends elsewhere. `fit` does so at its end. A checkpoint holds the weights and the
    state of the first replica, and is refused when it is restored, unless what `checkpointing()` gives is saved and
    restored with it, as the trainers do.

    Raises:
      ValueError: an argument cannot be used; or, at the first update, the replicas do not divide into groups.
    """

    # `fit` ends with all changes combined; a trainer that calls `fit` for parts of a run does it at the run's end.
    synchronizes_after_fit = True

    def configure(self, values: dict[str, Any]) -> None:
        optimizer, every, outer = values["optimizer"], values["every"], values["outer"]
        self.check_inner(optimizer)
        name = type(optimizer).__name__
        if optimizer.use_ema:
            raise InputError(
                f"LocalSteps({name}(use_ema=True)): the averages would be of each replica's own weights. Keep the "
                "averages in a callback, at multiples of every."
            )
        if getattr(optimizer, "accumulation_steps", 1) != 1:
            raise InputError(
                f"LocalSteps({name}(accumulation_steps={optimizer.accumulation_steps})): a round is of {every} steps, "
                "and not of micro-batches. Accumulate in the training step (optimizers.accumulate_gradients)."
            )
        if values["data_parallel_steps"] % every:
            raise InputError(
                f"LocalSteps: data_parallel_steps={values['data_parallel_steps']}; expected a multiple of "
                f"every={every}."
            )
        for field, usual in zip(("outer_learning_rate", "outer_momentum"), _OUTER_STEPS[outer]):
            values[field] = usual if values[field] is None else values[field]
        super().configure(values)
        # Steps so far; None before `build`, and where one group with a plain mean has nothing to combine.
        self._steps: Any = None
        self._layers: list[_Layer] = []
        self.checkpointed = {"local_steps": NamedState("LocalSteps")}

    # ---- State ------------------------------------------------------------------------------------

    def build_own(self, strategy: tf.distribute.Strategy, variables: Sequence[Any]) -> None:
        """Makes the state of the rounds.

        Raises:
          ValueError: there are no variables, as where Keras 3 reads a `.h5` file; or the replicas do not divide into
            groups, or a group would be of parts of two processes.
        """
        if not variables:
            raise InputError(
                "LocalSteps: there are no variables to build it for. Keras 3 restores no optimizer from a .h5 file: "
                "save the model as .keras, or read it with load_model(path, compile=False) and compile it again."
            )
        if self._steps is not None:
            return
        size, replicas, here = self.group_size, strategy.num_replicas_in_sync, len(launchers(strategy) or ())
        if replicas % size:
            raise InputError(f"LocalSteps: {replicas} replicas do not divide into groups of group_size={size}.")
        if here and here % size and size % here:
            raise InputError(
                f"LocalSteps: group_size={size}, and each worker has {here} replicas: a group would cut through a "
                f"worker. Expected a divisor or a multiple of {here}."
            )
        if replicas == size and self.outer_learning_rate == 1.0 and self.outer_momentum == 0.0:
            return
        self._strategy = strategy
        weights = [tensor_variable(variable) for variable in variables]
        self._steps = _new_state(strategy, weights[0], "local_steps", tf.zeros((), tf.int64))
        delayed, has_momentum = bool(self.delay), bool(self.outer_momentum)
        is_needed = {"start": True, "velocity": has_momentum, "own_change": delayed, "combined_change": delayed}
        kinds = {
            name: [_new_state(strategy, each, name) if needed else None for each in weights]
            for name, needed in is_needed.items()
        }
        constraints = [variable.constraint for variable in variables]
        self._layers = [_Layer(*each) for each in zip(weights, constraints, *kinds.values())]
        self.own_variables = [self._steps, *(each for kind in kinds.values() for each in kind if each is not None)]
        for index, variable in enumerate(self.own_variables):
            # Keras 3 names a variable so in a .h5 file.
            variable.path = f"local_steps/{index}"
        paths = [getattr(variable, "path", variable.name.split(":")[0]) for variable in variables]
        # Each replica's own changes are among `of_replicas`.
        del kinds["own_change"]
        self.checkpointed["local_steps"].steps = self._steps
        self.checkpointed["local_steps"].add_layers(paths, kinds)

    @property
    def of_replicas(self) -> Sequence[tf.Variable]:
        """The weights of each replica and, with delay=1, their changes."""
        own = [layer.own for layer in self._layers if layer.own is not None]
        return [*(layer.weights for layer in self._layers), *own]

    def have_parted(self) -> bool:
        """True after the first local step."""
        return self._steps is not None and int(self._steps.numpy()) > self.data_parallel_steps

    # ---- One step, in a replica -------------------------------------------------------------------

    def received(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        """The replica's own gradients; the mean of its group's, or of all replicas'."""
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        if replicas == 1 or (self.group_size == 1 and not self.data_parallel_steps):
            return gradients
        return _merge_call(self._averaged, tf.distribute.get_strategy(), gradients)

    def _averaged(self, strategy: Any, gradients: list[Any]) -> list[Any]:
        if self._steps is None or not self.data_parallel_steps:
            return group_means(strategy, gradients, self.group_size)

        def local(values: Sequence[Any]) -> list[list[tf.Tensor]]:
            return [list(strategy.experimental_local_results(value)) for value in values]

        rows = tf.cond(
            tf.convert_to_tensor(self._steps) < self.data_parallel_steps,
            lambda: local(means(strategy, gradients)),
            lambda: local(group_means(strategy, gradients, self.group_size)),
        )
        return [regrouped(row) for row in rows]

    def around(self, variables: Sequence[Any], apply: Callable[[], Any]) -> None:
        """Runs `apply` on the replica's own weights; at the end of a round, all replicas' changes are combined."""
        if self._steps is None:
            apply()
            return
        _merge_call(self._begin, tf.distribute.get_strategy())
        apply()
        _merge_call(self._end, tf.distribute.get_strategy())

    # ---- Before and after it, in cross-replica context --------------------------------------------

    def _begin(self, strategy: Any) -> None:
        steps = tf.convert_to_tensor(self._steps)
        if self.delay:
            self._send_in_turn(steps)
            is_first = steps <= self.data_parallel_steps
        else:
            # Again in each round, so that weights that the user sets between two are taken.
            is_first = tf.equal(steps % self.every, 0)
        tf.cond(is_first, lambda: self._on_each(self._layers, _note_start), _nothing)

    def _end(self, strategy: Any) -> None:
        steps = tf.convert_to_tensor(self._steps.assign_add(1))
        is_last = tf.equal(steps % self.every, 0) & (steps > self.data_parallel_steps)
        adopt = functools.partial(self._on_each, self._layers, self._adopt)
        tf.cond(is_last, adopt if self.delay else self._combine_all, _nothing)

    def _combine_all(self) -> None:
        changes = [self._from_each(layer, _change) for layer in self._layers]
        self._on_each(self._layers, self._outer_step, self._combined(changes))

    def _combined(self, changes: Sequence[Any]) -> list[Any]:
        return (adasum.combined if self.outer == "adasum" else means)(self._strategy, changes)

    # ---- delay=1 --------------------------------------------------------------------------------

    def _send_in_turn(self, steps: tf.Tensor) -> None:
        """The exchange of this step's part of the changes: it waits for nothing that the step computes."""
        # In parts of about as many bytes.
        sizes = [layer.start.shape.num_elements() for layer in self._layers]
        owners = deal(sizes, min(self.every, len(sizes)))
        parts = [[self._layers[index] for index, each in enumerate(owners) if each == part] for part in set(owners)]
        turn = tf.cast(steps % self.every, tf.int32)
        is_mine = (steps >= self.data_parallel_steps) & (turn < len(parts))
        branches = [_nothing, *(functools.partial(self._send, part) for part in parts)]
        tf.switch_case(tf.where(is_mine, turn + 1, 0), branches)

    def _send(self, layers: Sequence[_Layer]) -> None:
        own = [self._from_each(layer, lambda layer: tf.identity(layer.own)) for layer in layers]
        self._on_each(layers, lambda layer, value: layer.arrived.assign(value), self._combined(own))

    # ---- Between steps, outside of a replica ------------------------------------------------------

    def synchronize(self) -> None:
        """Combines the replicas' changes now, wherever the round is, so that all have the same weights.

        The next step begins a round. Call it outside of a replica.
        """
        if self._steps is not None:
            tf.function(self._synchronize, autograph=False)()

    def _synchronize(self) -> None:
        steps = tf.convert_to_tensor(self._steps)
        is_owed = steps > self.data_parallel_steps
        if not self.delay:
            is_owed &= steps % self.every > 0
        tf.cond(is_owed, self._combine_now, _nothing)

    def _combine_now(self) -> None:
        if not self.delay:
            self._combine_all()
            self._steps.assign_add(-tf.convert_to_tensor(self._steps) % self.every)
            return
        self._send(self._layers)
        self._on_each(self._layers, self._adopt)
        self._send(self._layers)
        self._on_each(self._layers, lambda layer: self._outer_step(layer, tf.convert_to_tensor(layer.arrived)))
        self._on_each(self._layers, lambda layer: [each.assign(tf.zeros_like(each)) for each in layer[-2:]])
        # As at the first local step: the replicas agree, and nothing is on its way.
        self._steps.assign(tf.constant(self.data_parallel_steps, tf.int64))

    @contextlib.contextmanager
    def common_weights(self) -> Iterator[None]:
        """A context in which the weights are those of the last outer step, which all replicas have.

        With delay=1 each replica has its own change on top of them otherwise, and afterwards again.

        Raises:
          ValueError: in the middle of a round.
        """
        steps, every = 0 if self._steps is None else int(self._steps.numpy()), self.every
        if steps % every and steps > self.data_parallel_steps:
            raise InputError(
                f"LocalSteps(every={every}): {steps % every} steps into a round, the replicas have weights of their "
                f"own. Evaluate at multiples of {every} steps, or call synchronize() first."
            )
        if not self.delay or steps <= self.data_parallel_steps:
            yield
            return
        self.take_common()
        try:
            yield
        finally:
            self._on_each(self._layers, _add_own)

    def take_common(self) -> None:
        """Gives all replicas the weights of the last outer step; their own are lost unless they are kept elsewhere."""
        if self.have_parted():
            self._on_each(self._layers, lambda layer: layer.weights.assign(tf.cast(layer.start, layer.weights.dtype)))

    def finalize_variable_values(self, var_list: Any) -> None:
        """Keras' own method, which `fit` calls at its end: synchronises."""
        super().finalize_variable_values(var_list)
        if self.synchronizes_after_fit:
            self.synchronize()

    # ---- On each replica --------------------------------------------------------------------------

    def _on_each(self, layers: Sequence[_Layer], function: Callable[..., Any], *values: Sequence[Any]) -> None:
        """In cross-replica context: calls `function(layer, *values of it)` on each replica of this process."""
        for layer, *own in zip(layers, *values):

            def run(weights: Any, *own: Any, layer: _Layer = layer) -> None:
                function(layer._replace(weights=weights), *own)

            self._strategy.extended.update(layer.weights, run, args=tuple(own), group=False)

    def _from_each(self, layer: _Layer, function: Callable[[_Layer], tf.Tensor]) -> Any:
        """In cross-replica context: the results of `function(layer)` on each replica of this process."""
        found: list[tf.Tensor] = []
        # Kept here rather than returned: what `update` makes of a result depends on the strategy.
        self._on_each([layer], lambda layer: found.append(function(layer)))
        return regrouped(found)

    def _outer_step(self, layer: _Layer, change: tf.Tensor) -> None:
        """The outer step of a layer, from the combined change of its weights.

        SGD with Nesterov momentum on minus the change, Douillard et al. 2023 (arXiv:2311.08105), algorithm 1; with a
        learning rate of 1 and a momentum of 0 it takes over the change as it is.
        """
        if layer.velocity is None:
            step = change
        else:
            velocity = self.outer_momentum * tf.convert_to_tensor(layer.velocity) + change
            layer.velocity.assign(velocity)
            step = self.outer_momentum * velocity + change
        new = _constrained(layer, tf.convert_to_tensor(layer.start) + self.outer_learning_rate * step)
        layer.start.assign(new)
        layer.weights.assign(tf.cast(new, layer.weights.dtype))

    def _adopt(self, layer: _Layer) -> None:
        """outer(start, combined change of the round before), and the replica's own change of this one on top."""
        change = _change(layer)
        self._outer_step(layer, tf.convert_to_tensor(layer.arrived))
        layer.own.assign(change)
        _add_own(layer)


def _change(layer: _Layer) -> tf.Tensor:
    """What the weights have changed by in the round."""
    start = layer.start if layer.own is None else layer.start + layer.own
    return tf.cast(layer.weights, layer.start.dtype) - start


def _add_own(layer: _Layer) -> None:
    layer.weights.assign(tf.cast(_constrained(layer, layer.start + layer.own), layer.weights.dtype))


def _note_start(layer: _Layer) -> None:
    """Sets a layer's start to its weights; where they are those of the start rounded, it stays."""
    start, weights = tf.convert_to_tensor(layer.start), tf.convert_to_tensor(layer.weights)
    is_rounded = tf.equal(tf.cast(start, weights.dtype), weights)
    layer.start.assign(tf.where(is_rounded, start, tf.cast(weights, start.dtype)))


def _constrained(layer: _Layer, value: tf.Tensor) -> tf.Tensor:
    return value if layer.constraint is None else tf.cast(layer.constraint(value), value.dtype)


def _nothing() -> None:
    """The other branch of a condition."""


def _new_state(strategy: Any, variable: tf.Variable, name: str, zeros: tf.Tensor | None = None) -> tf.Variable:
    """A zero variable of each replica on the device of `variable`, and of its shape unless zeros are given."""
    with strategy.extended.colocate_vars_with(variable):
        return tf.Variable(
            tf.zeros(variable.shape, arithmetic_dtype(variable)) if zeros is None else zeros,
            name=f"{name}/{variable.name.split(':')[0]}",
            trainable=False,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )
