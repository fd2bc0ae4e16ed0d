"""An optimizer around another one, which decides what the replicas send each other: Adasum and LocalSteps.

`keras2` and `wrapper_keras3` join these to each Keras.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import tensorflow as tf

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers.replica_state import ReplicaState
from tfbigbatch.optimizers.tensorflow import tensor_variable
from tfbigbatch.optimizers.wrapper_arguments import WrapperArguments

SAVE_ALL = "Use callbacks.ExactResume, or save and restore what optimizer.checkpointing() gives beside the optimizer."
_OF_REPLICAS = "of_replicas"

# A gradient and its variable.
_Pair = tuple[Any, Any]


def of_inner(name: str) -> Any:
    """An attribute of a wrapper that is the inner optimizer's."""

    def assign(self: Wrapper, value: Any) -> None:
        setattr(self.inner_optimizer, name, value)

    return property(lambda self: getattr(self.inner_optimizer, name), assign, doc=f"`{name}` of the inner optimizer.")


def without_overwritten(pairs: Iterable[_Pair]) -> tuple[list[_Pair], list[_Pair]]:
    """The pairs to exchange, and those of each replica's own: Keras 3 writes their gradients into the variables."""
    marked = [(pair, getattr(pair[1], "overwrite_with_gradient", False)) for pair in pairs]
    return [pair for pair, is_own in marked if not is_own], [pair for pair, is_own in marked if is_own]


class Wrapper(WrapperArguments):
    """An optimizer around another one, and what the replicas send each other before and after its step.

    Attributes:
      group_size: replicas that take their steps together.
      own_variables: the state beside the inner optimizer's.
      checkpointed: what a checkpoint has by these names, beside the inner optimizer's state.
    """

    # The Keras of these optimizers, and our module for the other.
    of_keras: ClassVar[Any]
    other: ClassVar[str]
    # Of TensorFlow: no attribute becomes a part of a checkpoint by itself.
    _self_setattr_tracking: ClassVar[bool] = False

    def configure(self, values: dict[str, Any]) -> None:
        super().configure(values)
        self.built = False
        self._replica_check = ReplicaCheck(self)
        self.own_variables: Sequence[tf.Variable] = ()
        self.checkpointed: dict[str, Any] = {}
        if self.replicas_differ:
            # LARS and LAMB clip by the norm of the first replica's gradients, unless this is set.
            self.inner_optimizer.replicas_differ = True

    def check_inner(self, optimizer: Any) -> None:
        """Raises ValueError for an optimizer that no wrapper takes; to be called before any other check of it."""
        name, own, keras = type(optimizer).__name__, type(self).__name__, self.of_keras
        if not isinstance(optimizer, keras.optimizers.Optimizer):
            raise ValueError(
                f"{own} of {keras.__name__} was given {optimizer!r}; expected an optimizer of {keras.__name__}. For "
                f"the other Keras: tfbigbatch.{self.other}.{own}."
            )
        if "LossScaleOptimizer" in [cls.__name__ for cls in type(optimizer).__mro__]:
            raise ValueError(
                f"{own}({name}(...)): the gradients must be exchanged before the loss scale is taken out; write "
                f"{name}({own}(...))."
            )
        if isinstance(optimizer, Wrapper):
            reason = "the gradients would be combined twice" if name == own else "each decides what the replicas send"
            raise ValueError(f"{own}({name}(...)): {reason}. Wrap the optimizer once.")

    # ---- The exchange: what a wrapper is for --------------------------------------------------------

    @property
    def replicas_differ(self) -> bool:
        """True where each group of replicas takes steps of its own, from gradients of its own."""
        return True

    @property
    def of_replicas(self) -> Sequence[tf.Variable]:
        """The variables beside the inner optimizer's that each replica has of its own, its weights among them."""
        return ()

    def received(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        """In a replica: the gradients to pass to the optimizer in place of those of the replica's own batch."""
        raise NotImplementedError

    def around(self, variables: Sequence[Any], apply: Callable[[], Any]) -> None:
        """In a replica: runs `apply`, the inner optimizer's step of the variables, and what belongs to it."""
        raise NotImplementedError

    def build_own(self, strategy: tf.distribute.Strategy, variables: Sequence[Any]) -> None:
        """Makes the state of the exchange for Keras' variables; later calls change nothing."""

    def have_parted(self) -> bool:
        """True if replicas that take steps of their own have state of their own by now."""
        return int(tf.convert_to_tensor(self.iterations)) > 0

    # ---- One step, in a replica -------------------------------------------------------------------

    # AutoGraph has nothing to rewrite in it.
    @tf.autograph.experimental.do_not_convert
    def step(self, grads_and_vars: Iterable[_Pair], are_received: bool, apply: Callable[[list[_Pair]], Any]) -> None:
        """Gradients received, the inner optimizer's step, and what follows it.

        Args:
          grads_and_vars: pairs of a gradient, or None, and its variable.
          are_received: they come from `aggregate_gradients`.
          apply: passes pairs to the inner optimizer, without a sum over the replicas.

        Raises:
          ValueError: it is not called in a replica's context; or there is no gradient.
        """
        if tf.distribute.in_cross_replica_context():
            raise ValueError(
                f"{type(self).__name__} was called outside strategy.run, where no replica's gradients can be told from "
                "the others'. Call apply_gradients in the function that strategy.run is given."
            )
        pairs = list(grads_and_vars)
        if pairs and not self.built:
            with tf.init_scope():
                self.build([variable for _, variable in pairs])
        pairs, overwritten = without_overwritten(self._present(pairs))
        pairs = pairs if are_received else self._exchanged(pairs)
        if pairs or overwritten:
            self.around([variable for _, variable in pairs], lambda: apply([*pairs, *overwritten]))

    @tf.autograph.experimental.do_not_convert
    def aggregate_gradients(self, grads_and_vars: Iterable[_Pair]) -> list[_Pair]:
        """What a replica receives for its gradients, for loss scaling and callers that apply them later.

        Where replicas keep gradients of their own, NaN on all of them if any has one that is not finite: loss scaling
        asks on every replica.
        """
        pairs = self._exchanged(self._present(grads_and_vars))
        if not self.replicas_differ:
            return pairs
        own = tf.add_n([tf.reduce_sum(tf.cast(gradient, tf.float32) * 0.0) for gradient, _ in pairs])
        everyone = tf.distribute.get_replica_context().all_reduce("SUM", own)
        return [(gradient + tf.cast(everyone, gradient.dtype), variable) for gradient, variable in pairs]

    def _exchanged(self, pairs: list[_Pair]) -> list[_Pair]:
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        dense = [tf.convert_to_tensor(gradient) * tf.cast(replicas, gradient.dtype) for gradient, _ in pairs]
        return list(zip(self.received(dense), (variable for _, variable in pairs)))

    def _present(self, grads_and_vars: Iterable[_Pair]) -> list[_Pair]:
        """The pairs that have a gradient; as Keras, it warns of the others, and raises where none has one."""
        own, pairs = type(self).__name__, list(grads_and_vars)
        present = [pair for pair in pairs if pair[0] is not None]
        missing = [getattr(variable, "path", variable.name) for gradient, variable in pairs if gradient is None]
        if missing and not present:
            raise ValueError(
                f"{own}: no gradients provided for any variable: {', '.join(missing)}. Compute the loss from them, "
                "within the GradientTape."
            )
        if missing:
            warnings.warn(f"{own}: gradients do not exist for variables {', '.join(missing)}.", stacklevel=4)
        return present

    # ---- State, and files of it -------------------------------------------------------------------

    def build(self, variables: Sequence[Any]) -> None:
        """Makes the state of the optimizer and of the exchange."""
        self.inner_optimizer.build(variables)
        self.build_own(self.inner_optimizer._distribution_strategy, variables)
        self.built = True

    @property
    def variables(self) -> Any:
        """The inner optimizer's, and those of the exchange."""
        inner = self.inner_optimizer.variables
        return [*inner, *self.own_variables] if self.own_variables else inner

    def checkpointing(self) -> dict[str, Any]:
        """The parts of a checkpoint beside the optimizer, to restore what every replica has of its own.

        Call it after `build`, outside the strategy's scope.

        Returns:
          Dictionary, the fields of a `training.checkpoints.CheckpointPart`: 'more', variables [replicas, ...] by name;
          'before_save' and 'after_restore', functions without arguments to call then. Empty where all replicas have
          the same.
        """
        if not self.has_replica_state():
            return {}
        inner = self.inner_optimizer
        state = ReplicaState(inner._distribution_strategy, [*self.of_replicas, *map(tensor_variable, inner.variables)])
        self._replica_check.is_whole = True
        return {"more": {_OF_REPLICAS: state.whole}, "before_save": state.gather, "after_restore": state.spread}

    def has_replica_state(self) -> bool:
        """True if replicas may come to have state of their own."""
        replicas = self.inner_optimizer._distribution_strategy.num_replicas_in_sync
        return self.replicas_differ and replicas > self.group_size

    def warn_of_replicas(self) -> None:
        """Warns where a file is to hold the state of the first replica for all."""
        if self.has_replica_state() and self.have_parted():
            warnings.warn(
                f"{type(self).__name__}: each replica has state of its own, and this file holds that of the first: "
                f"a training that goes on from it is another one. {SAVE_ALL}",
                stacklevel=3,
            )

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        # A checkpoint is that of the optimizer, with or without a wrapper around it.
        children = dict(self.inner_optimizer._trackable_children(save_type, **kwargs))
        if save_type != "checkpoint":
            return children
        check = {_OF_REPLICAS: self._replica_check} if self.has_replica_state() else {}
        return {**children, **self.checkpointed, **check}

    def _lookup_dependency(self, name: str, *args: Any, **kwargs: Any) -> Any:
        beside = {**self.checkpointed, _OF_REPLICAS: self._replica_check}
        return beside[name] if name in beside else self.inner_optimizer._lookup_dependency(name, *args, **kwargs)

    def save_own_variables(self, store: Any) -> None:
        """Keras' own method: what a `.keras` file holds of the optimizer, the state of the first replica."""
        self.warn_of_replicas()
        self.inner_optimizer.save_own_variables(store)
        for position, variable in enumerate(self.own_variables, len(self.inner_optimizer.variables)):
            store[str(position)] = variable.numpy()

    def load_own_variables(self, store: Any) -> None:
        """Keras' own method: loads what such a file holds."""
        if self.own_variables:
            super().load_own_variables(store)  # type: ignore[misc]
        else:
            self.inner_optimizer.load_own_variables(store)

    def get_config(self) -> dict[str, Any]:
        """The arguments, the optimizer's among them."""
        inner = self.of_keras.saving.serialize_keras_object(self.inner_optimizer)
        return {"optimizer": inner, **self.config(without=("optimizer",))}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
        """A wrapper of these arguments, around an optimizer of its own."""
        return cls(**{**config, "optimizer": cls.deserialized(config["optimizer"], custom_objects)})

    @classmethod
    def deserialized(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None) -> Any:
        """The inner optimizer of a configuration."""
        return cls.of_keras.saving.deserialize_keras_object(config, custom_objects=custom_objects)

    # ---- Attributes of the inner optimizer --------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        # Reached for what this class does not have: clipnorm, layer_statistics, and whatever Keras keeps.
        if "inner_optimizer" not in vars(self):
            raise AttributeError(name)
        return getattr(self.inner_optimizer, name)

    iterations = of_inner("iterations")
    learning_rate = of_inner("learning_rate")
    exclude_from_weight_decay = of_inner("exclude_from_weight_decay")
    finalize_variable_values = of_inner("finalize_variable_values")


class ReplicaCheck(tf.train.experimental.PythonState):
    """In a checkpoint: whether it holds what each replica has of its own. One that lacks it is not restored."""

    # What `checkpointing()` gives is saved beside the optimizer.
    is_whole = False

    def __init__(self, wrapper: Wrapper) -> None:
        self._wrapper = wrapper

    def serialize(self) -> str:
        if not self.is_whole:
            self._wrapper.warn_of_replicas()
        return json.dumps({"replicas_differ": self._wrapper.have_parted(), "is_whole": self.is_whole})

    def deserialize(self, string: str) -> None:
        saved = json.loads(string)
        if saved["replicas_differ"] and not (saved["is_whole"] and self.is_whole):
            where = "is not restored here" if saved["is_whole"] else "is not in the checkpoint"
            raise InputError(
                f"{type(self._wrapper).__name__}: each replica had state of its own, and that {where}: the training "
                f"would go on as another one. {SAVE_ALL} For the weights alone restore "
                "tf.train.Checkpoint(model=model)."
            )
