"""LocalSteps around an optimizer: its options and its part of one step, the same for Keras 2 and Keras 3."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import arguments, options
from tfbigbatch.optimizers.checkpointing import NamedState, load_by_position
from tfbigbatch.optimizers.local_steps.exchange import Groups, means
from tfbigbatch.optimizers.local_steps.rounds import OUTER_STEPS, RoundOptions, Rounds
from tfbigbatch.optimizers.replica_state import ReplicaState, regrouped
from tfbigbatch.optimizers.wrapper import ReplicaCheck, WrapperMixin


class LocalStepsMixin(WrapperMixin):
    """Local steps: each replica trains by itself, and the replicas exchange what they changed every H steps.

    Local SGD (Stich 2019, arXiv:1805.09767) with outer='average', DiLoCo (Douillard et al. 2023, arXiv:2311.08105) with
    outer='nesterov', around any optimizer: in place of `model.compile(optimizer=AdamW(...))` write
    `model.compile(optimizer=LocalSteps(AdamW(...), every=32, outer="nesterov"))`. The replicas send 1/H of the bytes
    that data parallelism sends. Moments stay each replica's own, and the learning rate is that of one replica's batch.

    Between two outer steps the replicas have different weights: evaluate and save at multiples of `every`, and call
    `synchronize()` where a training ends elsewhere. `fit` does so at its end. A checkpoint holds the weights and the
    state of the first replica, and is refused when it is restored, unless what `checkpointing()` gives is saved and
    restored with it, as the trainers do.

    Args:
      optimizer: any optimizer of this Keras: ours or its own.
      every: H, steps of a round.
      outer: what becomes of the replicas' changes of the weights. 'average': their mean is taken over.
        'nesterov': their mean is a step of SGD with Nesterov momentum. 'adasum': they are combined by Adasum.
      outer_learning_rate, outer_momentum: of the outer step. None: 1 and 0; for 'nesterov' 0.7 and 0.9.
      delay: 0, or 1: the combined change takes effect a round late, and is sent during that round, a part at each
        step, while the replicas compute. Each replica's own change takes effect at once.
      group_size: replicas that average their gradients at every step, and so take their steps together: neighbours
        by their numbers, such as those of a host.
      data_parallel_steps: steps at the beginning in which all replicas average their gradients, a multiple of
        `every` (post-local SGD, Lin et al. 2020, arXiv:1808.07217).

    Raises:
      ValueError: an argument cannot be used; or, at the first update, the replicas do not divide into groups.
    """

    rounds: Rounds | None = None
    # `fit` ends with all changes combined; a trainer that calls `fit` for parts of a run does it at the run's end.
    synchronizes_after_fit = True
    _exchanges_gradients = False
    _groups: Groups | None = None

    @options.checked(arguments.LOCAL_STEPS, ["optimizer", "every"])
    def __init__(
        self,
        optimizer: Any,
        every: int,
        *,
        outer: str = "average",
        outer_learning_rate: float | None = None,
        outer_momentum: float | None = None,
        delay: int = 0,
        group_size: int = 1,
        data_parallel_steps: int = 0,
    ) -> None:
        super().__init__(optimizer)
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
        if data_parallel_steps % every:
            raise InputError(
                f"LocalSteps: data_parallel_steps={data_parallel_steps}; expected a multiple of every={every}."
            )
        usual_rate, usual_momentum = OUTER_STEPS[outer]
        self.options = RoundOptions(
            every,
            outer,
            usual_rate if outer_learning_rate is None else outer_learning_rate,
            usual_momentum if outer_momentum is None else outer_momentum,
            delay,
            data_parallel_steps,
        )
        self.group_size = group_size
        self._round_state = NamedState(type(self).__name__)
        self._replica_check = ReplicaCheck(self)
        # LARS and LAMB clip by the norm of the first replica's gradients, unless this is set.
        optimizer.replicas_differ = True

    def _options(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self.options), "group_size": self.group_size}

    def build(self, variables: Sequence[Any]) -> None:
        """Makes the state of the optimizer and of the rounds.

        Raises:
          ValueError: there are no variables, as where Keras 3 reads a `.h5` file.
        """
        if not variables:
            raise InputError(
                "LocalSteps: there are no variables to build it for. Keras 3 restores no optimizer from a .h5 file: "
                "save the model as .keras, or read it with load_model(path, compile=False) and compile it again."
            )
        super().build(variables)  # type: ignore[misc]
        if self.rounds is not None:
            return
        strategy = self.inner_optimizer._distribution_strategy
        self._groups = Groups(strategy, self.group_size)
        if strategy.num_replicas_in_sync == self.group_size and self.options.is_plain_mean:
            # All take their steps together: there is nothing to combine.
            return
        tensors = [self._tensor_variable(variable) for variable in variables]
        self.rounds = Rounds(self.options, strategy, tensors, [variable.constraint for variable in variables])
        paths = [getattr(variable, "path", variable.name.split(":")[0]) for variable in variables]
        self.rounds.add_to(self._round_state, paths)
        for index, variable in enumerate(self.rounds.variables):
            # Keras 3 names a variable so in a .h5 file.
            variable.path = f"local_steps/{index}"

    # ---- State ------------------------------------------------------------------------------------

    @property
    def variables(self) -> Any:
        """The inner optimizer's, and those of the rounds."""
        return [*self.inner_optimizer.variables, *(self.rounds.variables if self.rounds else ())]

    def save_own_variables(self, store: Any) -> None:
        """Keras' own method: what a `.keras` file holds of the optimizer, the state of the first replica."""
        self._warn_of_replicas()
        for position, variable in enumerate(self.variables):
            store[str(position)] = variable.numpy()

    def load_own_variables(self, store: Any) -> None:
        """Loads the state that a file of Keras has for this optimizer, by position; see `load_by_position`."""

        def load(store: Any) -> None:
            for position, variable in enumerate(self.variables):
                variable.assign(store[str(position)])

        inner = self.inner_optimizer
        # The name of the flag in Keras 3, and in tf_keras.
        load_by_position(self, store, load, bool(getattr(inner, "built", getattr(inner, "_built", False))))

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        children = super()._trackable_children(save_type, **kwargs)
        return {**children, "local_steps": self._round_state} if save_type == "checkpoint" else children

    def _lookup_dependency(self, name: str, *args: Any, **kwargs: Any) -> Any:
        # The base class' constructor asks too.
        if name == "local_steps" and "_round_state" in vars(self):
            return self._round_state
        return super()._lookup_dependency(name, *args, **kwargs)

    def checkpointing(self) -> dict[str, Any]:
        """The parts of a checkpoint beside the optimizer, to restore the weights and moments of every replica.

        Call it after `build`, outside the strategy's scope.

        Returns:
          Dictionary: 'more', variables [replicas, ...] by name; 'before_save', 'after_save' and 'after_restore',
          functions without arguments to call then. In between the first two, the weights are those of the last outer
          step. Empty where all replicas are the same.
        """
        rounds = self.rounds
        if rounds is None or not self._has_replica_state():
            return {}
        self._replica_check.is_whole = True
        strategy = self.inner_optimizer._distribution_strategy
        own = [self._tensor_variable(each) for each in self.inner_optimizer.variables]
        state = ReplicaState(strategy, [*rounds.of_replicas, *own])

        def before_save() -> None:
            state.gather()
            rounds.take_common()

        return {
            "more": {"of_replicas": state.whole},
            "before_save": before_save,
            "after_save": state.spread,
            "after_restore": state.spread,
        }

    def _has_replica_state(self) -> bool:
        return self.inner_optimizer._distribution_strategy.num_replicas_in_sync > self.group_size

    def _replicas_differ(self) -> bool:
        return self.rounds is not None and int(self.rounds.steps.numpy()) > self.options.data_parallel_steps

    # ---- Between steps, outside of a replica ------------------------------------------------------

    def synchronize(self) -> None:
        """Combines the replicas' changes now, wherever the round is, so that all have the same weights.

        The next step begins a round.
        """
        if self.rounds:
            self.rounds.synchronize()

    def common_weights(self) -> contextlib.AbstractContextManager[None]:
        """A context in which the weights are those of the last outer step, which all replicas have.

        With delay=1 each replica has its own change on top of them otherwise.

        Raises:
          ValueError: in the middle of a round.
        """
        return self.rounds.common_weights() if self.rounds else contextlib.nullcontext()

    def finalize_variable_values(self, var_list: Any) -> None:
        """Keras' own method, which `fit` calls at its end: synchronises."""
        super().finalize_variable_values(var_list)
        if self.synchronizes_after_fit:
            self.synchronize()

    # ---- One step -------------------------------------------------------------------------------

    @tf.autograph.experimental.do_not_convert
    def _received(self, gradients: Sequence[Any]) -> list[tf.Tensor]:
        """The replica's own gradients, of its own batch; the mean of its group's, or of all replicas'."""
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        dense = [tf.convert_to_tensor(gradient) * tf.cast(replicas, gradient.dtype) for gradient in gradients]
        if replicas == 1 or (self.group_size == 1 and not self.options.data_parallel_steps):
            return dense
        return _merge_call(self._averaged, dense)

    def _averaged(self, strategy: Any, gradients: list[Any]) -> list[Any]:
        assert self._groups is not None
        if self.rounds is None or not self.options.data_parallel_steps:
            return self._groups.means(strategy, gradients)
        groups, local = self._groups, strategy.experimental_local_results

        def flat(values: Sequence[Any]) -> list[list[tf.Tensor]]:
            return [list(local(value)) for value in values]

        rows = tf.cond(
            self.rounds.is_data_parallel(),
            lambda: flat(means(strategy, gradients)),
            lambda: flat(groups.means(strategy, gradients)),
        )
        return [regrouped(row) for row in rows]

    @tf.autograph.experimental.do_not_convert
    def _apply_wrapped(self, variables: Sequence[Any], apply: Callable[[], Any]) -> None:
        """Runs `apply` on the replica's own weights; at the end of a round, all replicas' changes are combined."""
        del variables
        if self.rounds is None:
            apply()
            return
        _merge_call(self.rounds.begin)
        apply()
        _merge_call(self.rounds.end)


def _merge_call(function: Callable[..., Any], *args: Any) -> Any:
    @tf.autograph.experimental.do_not_convert
    def merged(strategy: Any, *values: Any) -> Any:
        return function(strategy, *values)

    return tf.__internal__.distribute.interim.maybe_merge_call(merged, tf.distribute.get_strategy(), *args)
