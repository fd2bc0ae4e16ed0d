"""Adasum around an optimizer: its options and its part of one step, the same for Keras 2 and Keras 3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfbigbatch.optimizers import arguments, options
from tfbigbatch.optimizers.adasum import exchange, rule
from tfbigbatch.optimizers.replica_state import ReplicaState, assign_own
from tfbigbatch.optimizers.wrapper import ReplicaCheck, WrapperMixin

# Optimizers with a step linear in the gradient but for a factor: there the two forms differ by the momentum alone.
_OF_GRADIENTS = ("SGD", "LARS")


class AdasumMixin(WrapperMixin):
    """Adaptive summation of the replicas' gradients, Maleki et al. 2020 (arXiv:2006.02924), around an optimizer.

    Layer by layer, gradients that are orthogonal are added and equal ones are averaged, in a binary tree over
    the replicas: `rule.py` has the formula. In place of `model.compile(optimizer=LAMB(...))` write
    `model.compile(optimizer=Adasum(LAMB(...)))`. On one replica it changes nothing.

    The gradients are expected as Keras gives them: each replica's is of its part of the loss, so that their
    sum is the gradient of the mean over the global batch. What is combined is n times these.

    With `combine='updates'` each replica first takes the optimizer's step by itself, from the same weights; what is
    combined are the changes of the weights, and moments stay each replica's own. A checkpoint then holds those of
    the first replica, and is refused when it is restored, unless what `checkpointing()` gives is saved and restored
    with it.

    Args:
      optimizer: any optimizer of this Keras: ours or its own.
      combine: 'gradients': combined before the optimizer, as the paper does for momentum SGD. 'updates': after it, as
        for Adam and LAMB. None: 'gradients' for SGD and LARS, 'updates' for all others.
      group_size: replicas whose gradients are averaged first; Adasum is across groups of neighbours. The
        replicas of a host, for example.

    Raises:
      ValueError: an argument cannot be used; or, at the first update, the replicas do not divide into groups.
    """

    @options.checked(arguments.ADASUM, ["optimizer", *arguments.ADASUM])
    def __init__(self, optimizer: Any, combine: str | None = None, group_size: int = 1) -> None:
        super().__init__(optimizer)
        name = type(optimizer).__name__
        if combine is None:
            combine = (
                "gradients" if any(cls.__name__ in _OF_GRADIENTS for cls in type(optimizer).__mro__) else "updates"
            )
        if combine == "updates" and optimizer.use_ema:
            raise ValueError(
                f"Adasum({name}(use_ema=True), combine='updates'): the averages would be of each replica's own "
                "weights. Take combine='gradients', or keep the averages in a callback."
            )
        if combine == "gradients" and getattr(optimizer, "accumulation_steps", 1) != 1:
            raise ValueError(
                f"Adasum({name}(accumulation_steps={optimizer.accumulation_steps}), combine='gradients'): each "
                "micro-batch would be combined by itself. Accumulate in the training step "
                "(optimizers.accumulate_gradients), or take combine='updates'."
            )
        self.combine, self.group_size = combine, group_size
        self._exchanges_gradients = combine == "gradients"
        self._replica_check = ReplicaCheck(self)
        if combine == "updates":
            # LARS and LAMB clip by the norm of the first replica's gradients, unless this is set.
            optimizer.replicas_differ = True

    def checkpointing(self) -> dict[str, Any]:
        """The parts of a checkpoint beside the optimizer, to restore the moments of every replica.

        Call it after `build`, outside the strategy's scope.

        Returns:
          Dictionary: 'more', variables [replicas, ...] by name; 'before_save' and 'after_restore', functions
          without arguments to call then. Empty where all replicas have the same moments.
        """
        if not self._has_replica_state():
            return {}
        self._replica_check.is_whole = True
        strategy = self.inner_optimizer._distribution_strategy
        state = ReplicaState(strategy, [self._tensor_variable(each) for each in self.inner_optimizer.variables])
        return {"more": {"of_replicas": state.whole}, "before_save": state.gather, "after_restore": state.spread}

    def _has_replica_state(self) -> bool:
        return self.combine == "updates" and self.inner_optimizer._distribution_strategy.num_replicas_in_sync > 1

    def _replicas_differ(self) -> bool:
        return int(tf.convert_to_tensor(self.iterations)) > 0

    def _options(self) -> dict[str, Any]:
        return {"combine": self.combine, "group_size": self.group_size}

    # ---- One step -------------------------------------------------------------------------------

    # AutoGraph has nothing to rewrite in either.
    @tf.autograph.experimental.do_not_convert
    def _received(self, gradients: Sequence[Any]) -> list[tf.Tensor]:
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        if replicas % self.group_size:
            raise ValueError(f"Adasum: {replicas} replicas do not divide into groups of group_size={self.group_size}.")
        dense = [tf.convert_to_tensor(gradient) * tf.cast(replicas, gradient.dtype) for gradient in gradients]
        if self.combine == "updates":
            return exchange.group_means(dense, self.group_size)
        return exchange.combined(dense, self.group_size)

    @tf.autograph.experimental.do_not_convert
    def _apply_wrapped(self, variables: Sequence[Any], apply: Callable[[], Any]) -> None:
        """Runs `apply`; for combine='updates', combines the changes of the variables over the replicas."""
        if self.combine != "updates" or tf.distribute.get_strategy().num_replicas_in_sync == 1:
            apply()
            return
        constrained = [variable for variable in variables if variable.constraint is not None]
        variables = [self._tensor_variable(variable) for variable in variables]

        def values() -> list[tf.Tensor]:
            return [tf.cast(tf.identity(variable), rule.wide(variable.dtype)) for variable in variables]

        before = values()
        apply()
        changes = [after - start for start, after in zip(before, values())]
        combined = exchange.combined(changes, self.group_size)
        assign_own(variables, [start + change for start, change in zip(before, combined)])
        # Each replica's own step kept to the constraint; their combination need not.
        for variable in constrained:
            variable.assign(variable.constraint(variable))
