"""Local steps around an optimizer: rounds in which replicas train by themselves, and outer steps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import adasum
from tfbigbatch.optimizers.checkpointing import NamedState
from tfbigbatch.optimizers.groups import group_means, means
from tfbigbatch.optimizers.sharing import launchers, regrouped
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
        starts = [_new_state(strategy, each, "start") for each in weights]
        velocities = [_new_state(strategy, each, "velocity") for each in weights if self.outer_momentum]
        constraints = [variable.constraint for variable in variables]
        of_layers = zip(weights, constraints, starts, velocities or [None] * len(weights))
        self._layers = [_Layer(*each) for each in of_layers]
        self.own_variables = [self._steps, *starts, *velocities]
        for index, variable in enumerate(self.own_variables):
            # Keras 3 names a variable so in a .h5 file.
            variable.path = f"local_steps/{index}"
        paths = [getattr(variable, "path", variable.name.split(":")[0]) for variable in variables]
        self.checkpointed["local_steps"].steps = self._steps
        kinds = {"start": starts, **({"velocity": velocities} if velocities else {})}
        self.checkpointed["local_steps"].add_layers(paths, kinds)

    @property
    def of_replicas(self) -> Sequence[tf.Variable]:
        """The weights of each replica."""
        return [layer.weights for layer in self._layers]

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
        # Again in each round, so that weights that the user sets between two are taken.
        is_first = tf.equal(tf.convert_to_tensor(self._steps) % self.every, 0)
        tf.cond(is_first, lambda: self._on_each(_note_start), _nothing)

    def _end(self, strategy: Any) -> None:
        steps = tf.convert_to_tensor(self._steps.assign_add(1))
        is_last = tf.equal(steps % self.every, 0) & (steps > self.data_parallel_steps)
        tf.cond(is_last, self._combine, _nothing)

    def _combine(self) -> None:
        combine = adasum.combined if self.outer == "adasum" else means
        changes = combine(self._strategy, [self._changes(layer) for layer in self._layers])
        self._on_each(self._outer_step, changes)

    # ---- Between steps, outside of a replica ------------------------------------------------------

    def synchronize(self) -> None:
        """Combines the replicas' changes now, wherever the round is, so that all have the same weights.

        The next step begins a round. Call it outside of a replica.
        """
        if self._steps is not None:
            tf.function(self._synchronize, autograph=False)()

    def _synchronize(self) -> None:
        steps = tf.convert_to_tensor(self._steps)
        is_owed = (steps > self.data_parallel_steps) & (steps % self.every > 0)
        tf.cond(is_owed, self._combine_now, _nothing)

    def _combine_now(self) -> None:
        self._combine()
        self._steps.assign_add(-tf.convert_to_tensor(self._steps) % self.every)

    def finalize_variable_values(self, var_list: Any) -> None:
        """Keras' own method, which `fit` calls at its end: synchronises."""
        super().finalize_variable_values(var_list)
        self.synchronize()

    # ---- On each replica --------------------------------------------------------------------------

    def _on_each(self, function: Callable[..., Any], *values: Sequence[Any]) -> None:
        """In cross-replica context: calls `function(layer, *values of it)` on each replica of this process."""
        for layer, *own in zip(self._layers, *values):
            run = functools.partial(_with_weights, function, layer)
            self._strategy.extended.update(layer.weights, run, args=tuple(own), group=False)

    def _changes(self, layer: _Layer) -> Any:
        """In cross-replica context: what each replica of this process has changed of a layer in the round."""
        found: list[tf.Tensor] = []

        # Kept here rather than returned: what `update` makes of a result depends on the strategy.
        def change(weights: tf.Variable) -> None:
            found.append(tf.cast(weights, layer.start.dtype) - layer.start)

        self._strategy.extended.update(layer.weights, change, group=False)
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
        new = tf.convert_to_tensor(layer.start) + self.outer_learning_rate * step
        if layer.constraint is not None:
            new = tf.cast(layer.constraint(new), new.dtype)
        layer.start.assign(new)
        layer.weights.assign(tf.cast(new, layer.weights.dtype))


def _with_weights(function: Callable[..., Any], layer: _Layer, weights: tf.Variable, *values: Any) -> None:
    """`function` of a layer with a replica's own weights."""
    function(layer._replace(weights=weights), *values)


def _note_start(layer: _Layer) -> None:
    """Sets a layer's start to its weights; where they are those of the start rounded, it stays."""
    start, weights = tf.convert_to_tensor(layer.start), tf.convert_to_tensor(layer.weights)
    is_rounded = tf.equal(tf.cast(start, weights.dtype), weights)
    layer.start.assign(tf.where(is_rounded, start, tf.cast(weights, start.dtype)))


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
