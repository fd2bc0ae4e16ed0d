"""Adasum around an optimizer: its options and the order of one step, the same for Keras 2 and Keras 3."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfbigbatch.optimizers.adasum import exchange, rule
from tfbigbatch.optimizers.replica_state import ReplicaState, assign_own

# Optimizers with a step linear in the gradient but for a factor: there the two forms differ by the momentum alone.
_OF_GRADIENTS = ("SGD", "LARS")


class AdasumMixin:
    """Adaptive summation of the replicas' gradients, Maleki et al. 2020 (arXiv:2006.02924), around an optimizer.

    Layer by layer, gradients that are orthogonal are added and equal ones are averaged, in a binary tree over
    the replicas: `rule.py` has the formula. In place of `model.compile(optimizer=LAMB(...))` write
    `model.compile(optimizer=Adasum(LAMB(...)))`. On one replica it changes nothing.

    The gradients are expected as Keras gives them: each replica's is of its part of the loss, so that their
    sum is the gradient of the mean over the global batch. What is combined is n times these.

    With `combine='updates'` each replica first takes the optimizer's step by itself, from the same weights; what is
    combined are the changes of the weights, and moments stay each replica's own. Checkpoints then hold those of
    the first replica, unless what `checkpointing()` gives is saved with them.

    Args:
      optimizer: any optimizer of this Keras: ours or its own.
      combine: 'gradients': combined before the optimizer, as the paper does for momentum SGD. 'updates': after it, as
        for Adam and LAMB. None: 'gradients' for SGD and LARS, 'updates' for all others.
      group_size: replicas whose gradients are averaged first; Adasum is across groups of neighbours. The
        replicas of a host, for example.

    Raises:
      ValueError: an argument cannot be used; or, at the first update, the replicas do not divide into groups.
    """

    inner_optimizer: Any
    combine: str
    group_size: int

    def _set_adasum(self, optimizer: Any, combine: str | None, group_size: int) -> None:
        name = type(optimizer).__name__
        if combine is None:
            combine = (
                "gradients" if any(cls.__name__ in _OF_GRADIENTS for cls in type(optimizer).__mro__) else "updates"
            )
        if "LossScaleOptimizer" in [cls.__name__ for cls in type(optimizer).__mro__]:
            raise ValueError(
                f"Adasum({name}(...)): the gradients must be combined before the loss scale is taken out; write "
                f"{name}(Adasum(...))."
            )
        if isinstance(optimizer, AdasumMixin):
            raise ValueError("Adasum(Adasum(...)): the gradients would be combined twice. Wrap the optimizer once.")
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
        if combine == "updates":
            # LARS and LAMB clip by the norm of the first replica's gradients, unless this is set.
            optimizer.replicas_differ = True

    def checkpointing(self) -> dict[str, Any]:
        """What a trainer saves beside the optimizer, to restore the moments of every replica.

        Call it after `build`, outside the strategy's scope.

        Returns:
          Dictionary: 'more', variables [replicas, ...] by name; 'before_save' and 'after_restore', functions
          without arguments to call then. Empty where all replicas have the same moments.
        """
        strategy = self.inner_optimizer._distribution_strategy
        if self.combine == "gradients" or strategy.num_replicas_in_sync == 1:
            return {}
        state = ReplicaState(strategy, [self._tensor_variable(each) for each in self.inner_optimizer.variables])
        return {"more": {"of_replicas": state.whole}, "before_save": state.gather, "after_restore": state.spread}

    @staticmethod
    def _tensor_variable(variable: Any) -> tf.Variable:
        """The tf.Variable within a variable of this Keras."""
        return variable

    @staticmethod
    def _check_in_replica(method: str) -> None:
        if tf.distribute.in_cross_replica_context():
            raise ValueError(
                f"Adasum: {method} was called outside strategy.run, where no replica's gradients can be told from the "
                "others'. Call it in the function that strategy.run is given."
            )

    def _options(self) -> dict[str, Any]:
        return {"combine": self.combine, "group_size": self.group_size}

    # ---- Attributes of the inner optimizer, in Keras 2 and Keras 3 --------------------------------

    @property
    def variables(self) -> Any:
        return self.inner_optimizer.variables

    @property
    def iterations(self) -> Any:
        return self.inner_optimizer.iterations

    @iterations.setter
    def iterations(self, variable: Any) -> None:
        self.inner_optimizer.iterations = variable

    @property
    def learning_rate(self) -> Any:
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: Any) -> None:
        self.inner_optimizer.learning_rate = learning_rate

    def exclude_from_weight_decay(self, var_list: Any = None, var_names: Any = None) -> None:
        """Keras' own method, of the optimizer."""
        self.inner_optimizer.exclude_from_weight_decay(var_list=var_list, var_names=var_names)

    def finalize_variable_values(self, var_list: Any) -> None:
        """Keras' own method, of the optimizer."""
        self.inner_optimizer.finalize_variable_values(var_list)

    def save_own_variables(self, store: Any) -> None:
        """Keras' own method, of the optimizer."""
        self.inner_optimizer.save_own_variables(store)

    def load_own_variables(self, store: Any) -> None:
        """Keras' own method, of the optimizer."""
        self.inner_optimizer.load_own_variables(store)

    # ---- One step -------------------------------------------------------------------------------

    def aggregate_gradients(self, grads_and_vars: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """The replicas' gradients combined; each replica's own where their updates are combined instead."""
        pairs = self._present(grads_and_vars)
        received = self._received([gradient for gradient, _ in pairs])
        if self.combine == "updates":
            # Loss scaling asks on every replica whether all gradients are finite.
            received = spread_not_finite(received)
        return list(zip(received, (variable for _, variable in pairs)))

    @staticmethod
    def _present(grads_and_vars: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """The pairs that have a gradient; as Keras, it warns of the others, and raises where none has one."""
        pairs = list(grads_and_vars)
        present = [pair for pair in pairs if pair[0] is not None]
        missing = [getattr(variable, "path", variable.name) for gradient, variable in pairs if gradient is None]
        if missing and not present:
            raise ValueError(
                f"Adasum: no gradients provided for any variable: {', '.join(missing)}. Compute the loss from them, "
                "within the GradientTape."
            )
        if missing:
            warnings.warn(f"Adasum: gradients do not exist for variables {', '.join(missing)}.", stacklevel=3)
        return present

    # AutoGraph has nothing to rewrite in either.
    @tf.autograph.experimental.do_not_convert
    def _received(self, gradients: Sequence[Any]) -> list[tf.Tensor]:
        """In a replica: the gradients to pass to the optimizer in place of the replica's own."""
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        if replicas % self.group_size:
            raise ValueError(f"Adasum: {replicas} replicas do not divide into groups of group_size={self.group_size}.")
        dense = [tf.convert_to_tensor(gradient) * tf.cast(replicas, gradient.dtype) for gradient in gradients]
        if self.combine == "updates":
            return exchange.group_means(dense, self.group_size)
        return exchange.combined(dense, self.group_size)

    @tf.autograph.experimental.do_not_convert
    def _apply_combined(self, variables: Sequence[Any], apply: Callable[[], Any]) -> None:
        """In a replica: runs `apply`; for combine='updates', combines the changes of the variables over replicas."""
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


def spread_not_finite(gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """In a replica: the gradients, or NaN on all replicas where any has one that is not finite."""
    own = tf.add_n([tf.reduce_sum(tf.cast(gradient, tf.float32) * 0.0) for gradient in gradients])
    everyone = tf.distribute.get_replica_context().all_reduce("SUM", own)
    return [gradient + tf.cast(everyone, gradient.dtype) for gradient in gradients]
