"""Rounds of local steps: the weights at their start, what the replicas make of them, and the outer steps."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers.adasum import exchange as adasum
from tfbigbatch.optimizers.checkpointing import NamedState
from tfbigbatch.optimizers.local_steps import exchange
from tfbigbatch.optimizers.replica_state import regrouped

# Learning rate and momentum of each outer step, unless they are given: DiLoCo's published numbers for 'nesterov'.
OUTER_STEPS = {"average": (1.0, 0.0), "nesterov": (0.7, 0.9), "adasum": (1.0, 0.0)}


@dataclasses.dataclass(frozen=True)
class RoundOptions:
    """The arguments of LocalSteps after their checks; see `optimizer.LocalStepsMixin`.

    The outer step is SGD with Nesterov momentum on minus the combined change, Douillard et al. 2023 (arXiv:2311.08105),
    algorithm 1; with a learning rate of 1 and a momentum of 0 it takes over the combined change as it is.
    """

    every: int
    outer: str
    outer_learning_rate: float
    outer_momentum: float
    delay: int
    data_parallel_steps: int

    @property
    def is_plain_mean(self) -> bool:
        """True if the weights become the mean of the replicas', so that one replica's stay as they are."""
        return self.outer_learning_rate == 1.0 and self.outer_momentum == 0.0

    def outer_step(
        self, start: tf.Tensor, change: tf.Tensor, velocity: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        """(The new weights, the new velocity) of one layer.

        Args:
          start: the weights at the start of the round.
          change: the replicas' changes of them, combined.
          velocity: that of the step before; None without momentum.
        """
        if velocity is None:
            return start + self.outer_learning_rate * change, None
        velocity = self.outer_momentum * velocity + change
        return start + self.outer_learning_rate * (self.outer_momentum * velocity + change), velocity


class Rounds:
    """The state beside the inner optimizer's, and what happens before and after each of its steps.

    With delay=0 a round ends with the exchange of the replicas' changes, and all have the same weights. With delay=1
    the changes of the round before are sent a part at a step, while the replicas compute; at the end, each adds its
    own change of this round to the outer step of the last:

        weights = outer(start, combined changes of the round before) + own change of this round

    Args:
      options: of the rounds.
      strategy: the tf.distribute.Strategy.
      variables: the trainable variables, as tf.Variables.
      constraints: for each variable, a function of its new value, or None.
    """

    def __init__(
        self,
        options: RoundOptions,
        strategy: tf.distribute.Strategy,
        variables: Sequence[tf.Variable],
        constraints: Sequence[Callable[[tf.Tensor], tf.Tensor] | None],
    ) -> None:
        self.options = options
        self._strategy = strategy
        self._variables = list(variables)
        self._constraints = list(constraints)

        def variables_like(name: str) -> list[tf.Variable]:
            return [_new_state(strategy, variable, name) for variable in variables]

        # Local steps so far.
        self.steps = _new_state(strategy, variables[0], "local_steps", (), tf.int64)
        self.start = variables_like("start")
        self.velocity = variables_like("velocity") if options.outer_momentum else []
        # Of delay=1: each replica's change in the round before, and all of them combined, as far as it has arrived.
        self.own = variables_like("own_change") if options.delay else []
        self.arrived = variables_like("combined_change") if options.delay else []
        self._parts = _parts(variables, options.every) if options.delay else []

    def add_to(self, state: NamedState, paths: Sequence[str]) -> None:
        """Adds what all replicas have alike to the state in a checkpoint; `paths` are those of the variables."""
        state.steps = self.steps
        kinds = {"start": self.start, "velocity": self.velocity, "combined_change": self.arrived}
        state.add_layers(paths, {kind: list(variables) for kind, variables in kinds.items() if variables})

    @property
    def variables(self) -> list[tf.Variable]:
        """All state."""
        return [self.steps, *self.start, *self.velocity, *self.own, *self.arrived]

    @property
    def of_replicas(self) -> list[tf.Variable]:
        """The state that each replica has of its own, its weights too."""
        return [*self._variables, *self.own]

    # ---- One step, in cross-replica context ---------------------------------------------------

    def is_data_parallel(self) -> tf.Tensor:
        """True if the replicas still average their gradients."""
        return tf.convert_to_tensor(self.steps) < self.options.data_parallel_steps

    def begin(self, strategy: tf.distribute.Strategy) -> None:
        """Before the inner optimizer's step."""
        steps = tf.convert_to_tensor(self.steps)
        if self.options.delay:
            self._send_in_turn(steps)
            is_first = steps <= self.options.data_parallel_steps
        else:
            # Again in each round, so that weights that the user sets between two are taken.
            is_first = tf.equal(steps % self.options.every, 0)
        tf.cond(is_first, self._note_start, _nothing)

    def end(self, strategy: tf.distribute.Strategy) -> None:
        """After the inner optimizer's step."""
        steps = tf.convert_to_tensor(self.steps.assign_add(1))
        is_last = tf.equal(steps % self.options.every, 0) & (steps > self.options.data_parallel_steps)
        tf.cond(is_last, self._adopt if self.options.delay else self._combine_all, _nothing)

    def _note_start(self) -> None:
        for start, variable in zip(self.start, self._variables):
            self._update(start, _note, variable)

    def _combine_all(self) -> None:
        changes = [
            self._of_replicas(start, lambda start, variable: tf.cast(variable, start.dtype) - start, variable)
            for start, variable in zip(self.start, self._variables)
        ]
        combined = self._combined(changes)
        for index, (variable, change) in enumerate(zip(self._variables, combined)):
            self._update(variable, functools.partial(self._step_to, index), *self._common(index), change)

    def _step_to(self, index: int, variable: Any, start: Any, velocity: Any, change: tf.Tensor) -> None:
        """On a replica: the outer step of one layer, from the change of all."""
        new, new_velocity = self.options.outer_step(
            tf.convert_to_tensor(start), change, None if velocity is None else tf.convert_to_tensor(velocity)
        )
        if velocity is not None:
            velocity.assign(new_velocity)
        new = self._constrained(index, new)
        start.assign(new)
        variable.assign(tf.cast(new, variable.dtype))

    def _common(self, index: int) -> tuple[Any, Any]:
        """(start, velocity) of a layer, the second None without momentum."""
        return self.start[index], self.velocity[index] if self.velocity else None

    def _combined(self, changes: Sequence[Any]) -> list[Any]:
        if self.options.outer == "adasum":
            return adasum.combined_of_replicas(self._strategy, changes)
        return exchange.means(self._strategy, changes)

    def _constrained(self, index: int, value: tf.Tensor) -> tf.Tensor:
        constraint = self._constraints[index]
        return value if constraint is None else tf.cast(constraint(value), value.dtype)

    def _update(self, variable: Any, function: Callable[..., Any], *args: Any) -> None:
        @tf.autograph.experimental.do_not_convert
        def run(*values: Any) -> None:
            function(*values)

        self._strategy.extended.update(variable, run, args=args, group=False)

    def _of_replicas(self, variable: Any, function: Callable[..., tf.Tensor], *args: Any) -> Any:
        """The results of a function of a variable on each replica of this process."""
        found: list[tf.Tensor] = []
        # Kept here rather than returned: what `update` makes of a result depends on the strategy.
        self._update(variable, lambda *values: found.append(function(*values)), *args)
        return regrouped(found)

    # ---- delay=1 --------------------------------------------------------------------------------

    def _send_in_turn(self, steps: tf.Tensor) -> None:
        """The exchange of this step's part of the changes: it waits for nothing that the step computes."""
        branches = [_nothing, *(functools.partial(self._send, part) for part in self._parts if part)]
        filled = [position for position, part in enumerate(self._parts) if part]
        branch_of = [filled.index(position) + 1 if part else 0 for position, part in enumerate(self._parts)]
        branch = tf.gather(tf.constant(branch_of), steps % self.options.every)
        tf.switch_case(tf.where(steps < self.options.data_parallel_steps, 0, branch), branches)

    def _send(self, part: Sequence[int]) -> None:
        own = [self._of_replicas(self.own[index], tf.identity) for index in part]
        for index, combined in zip(part, self._combined(own)):
            self._update(self.arrived[index], lambda arrived, value: arrived.assign(value), combined)

    def _adopt(self) -> None:
        for index, variable in enumerate(self._variables):
            self._update(
                variable,
                functools.partial(self._adopt_one, index),
                *self._common(index),
                self.own[index],
                self.arrived[index],
            )

    def _adopt_one(self, index: int, variable: Any, start: Any, velocity: Any, own: Any, arrived: Any) -> None:
        """On a replica: the outer step of the round before, and its own change of this one on top."""
        change = tf.cast(variable, start.dtype) - (start + own)
        self._step_to(index, variable, start, velocity, tf.convert_to_tensor(arrived))
        own.assign(change)
        self._add_own(index, variable, start, own)

    def _add_own(self, index: int, variable: Any, start: Any, own: Any) -> None:
        variable.assign(tf.cast(self._constrained(index, start + own), variable.dtype))

    # ---- Between steps, outside of a replica ------------------------------------------------------

    def synchronize(self) -> None:
        """Ends the round now, with all changes: all replicas have the same weights."""
        tf.function(self._synchronize, autograph=False)()

    def _synchronize(self) -> None:
        steps = tf.convert_to_tensor(self.steps)
        is_owed = steps > self.options.data_parallel_steps
        if not self.options.delay:
            is_owed &= steps % self.options.every > 0
        tf.cond(is_owed, self._combine_now, _nothing)

    def _combine_now(self) -> None:
        every = self.options.every
        if not self.options.delay:
            self._combine_all()
            self.steps.assign_add(-tf.convert_to_tensor(self.steps) % every)
            return
        for part in self._parts:
            self._send(part)
        self._adopt()
        for part in self._parts:
            self._send(part)
        for index, variable in enumerate(self._variables):
            self._update(variable, functools.partial(self._step_to, index), *self._common(index), self.arrived[index])
        for state in (*self.own, *self.arrived):
            self._update(state, lambda state: state.assign(tf.zeros_like(state)))
        # As at the first local step: the replicas agree, and nothing is on its way.
        self.steps.assign(tf.constant(self.options.data_parallel_steps, tf.int64))

    @contextlib.contextmanager
    def common_weights(self) -> Iterator[None]:
        """Between two rounds: the weights are those that all replicas agree on; afterwards each has its own again.

        Raises:
          ValueError: in the middle of a round.
        """
        steps, every = int(self.steps.numpy()), self.options.every
        if steps % every and steps > self.options.data_parallel_steps:
            raise InputError(
                f"LocalSteps(every={every}): {steps % every} steps into a round, the replicas have weights of their "
                f"own. Evaluate at multiples of {every} steps, or call synchronize() first."
            )
        if not self.options.delay or steps <= self.options.data_parallel_steps:
            yield
            return
        self.take_common()
        try:
            yield
        finally:
            for index, variable in enumerate(self._variables):
                self._update(variable, functools.partial(self._add_own, index), self.start[index], self.own[index])

    def take_common(self) -> None:
        """Gives all replicas the weights of the last outer step; their own are lost unless they are kept elsewhere."""
        if int(self.steps.numpy()) > self.options.data_parallel_steps:
            for variable, start in zip(self._variables, self.start):
                self._update(variable, lambda variable, start: variable.assign(tf.cast(start, variable.dtype)), start)


def _nothing() -> None:
    """The other branch of a condition."""


def _note(start: Any, variable: Any) -> None:
    """On a replica: sets a layer's start to its weights; where they are those of the start rounded, it stays."""
    is_rounded = tf.equal(tf.cast(start, variable.dtype), tf.convert_to_tensor(variable))
    start.assign(tf.where(is_rounded, tf.convert_to_tensor(start), tf.cast(variable, start.dtype)))


def _new_state(
    strategy: Any, variable: tf.Variable, name: str, shape: Sequence[int] | None = None, dtype: tf.DType | None = None
) -> tf.Variable:
    """A zero variable of each replica on the device of `variable`, and of its shape unless one is given."""
    wide = tf.float64 if variable.dtype == tf.float64 else tf.float32
    with strategy.extended.colocate_vars_with(variable):
        return tf.Variable(
            tf.zeros(variable.shape if shape is None else shape, dtype or wide),
            name=f"{name}/{variable.name.split(':')[0]}",
            trainable=False,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )


def _parts(variables: Sequence[tf.Variable], count: int) -> list[list[int]]:
    """The variables' positions in `count` parts of about as many bytes, the largest variables dealt first."""
    sizes = [variable.shape.num_elements() for variable in variables]
    parts: list[list[int]] = [[] for _ in range(count)]
    totals = [0] * count
    for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
        least = totals.index(min(totals))
        parts[least].append(index)
        totals[least] += sizes[index]
    return parts
