"""An optimizer around another one, with an exchange that decides what the replicas send each other.

`Wrapper` has the order of a step, and what is the inner optimizer's, for Keras 2 and Keras 3; `Exchange` is what
Adasum and LocalSteps are to it. `keras2` and `wrapper_keras3` join `Wrapper` to each Keras.
"""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers.checkpointing import load_by_position
from tfbigbatch.optimizers.declared import Declared, anything, hyper
from tfbigbatch.optimizers.replica_state import ReplicaState

SAVE_ALL = "Use callbacks.ExactResume, or save and restore what optimizer.checkpointing() gives beside the optimizer."
_OF_REPLICAS = "of_replicas"


class Exchange:
    """What replicas send each other around an optimizer's step. Each is a dataclass of its wrapper's arguments.

    Attributes:
      group_size: replicas that take their steps together.
      replicas_differ: each group of replicas takes steps of its own, from gradients of its own.
      checkpointed: what a checkpoint has by these names, beside the inner optimizer's state.
      variables: the state beside the inner optimizer's.
      of_replicas: the variables beside the inner optimizer's that each replica has of its own, its weights too; None
        where they are not made yet.
    """

    group_size: int
    replicas_differ: bool
    checkpointed: Mapping[str, Any] = {}
    variables: Sequence[tf.Variable] = ()
    of_replicas: Sequence[tf.Variable] | None = ()

    def options(self) -> dict[str, Any]:
        """The wrapper's arguments beside the optimizer."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

    def build(self, strategy: tf.distribute.Strategy, variables: Sequence[Any]) -> None:
        """Makes the state for Keras' variables; later calls change nothing."""

    def received(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        """In a replica: the gradients to pass to the optimizer in place of those of the replica's own batch."""
        return gradients

    def around(self, variables: Sequence[Any], apply: Callable[[], Any]) -> None:
        """In a replica: runs `apply`, the inner optimizer's step of the variables, and what belongs to it."""
        apply()

    def have_parted(self, iterations: int) -> bool:
        """True if replicas that take steps of their own have state of their own by now."""
        return iterations > 0

    def take_common(self) -> None:
        """Before a checkpoint is saved, outside of a replica: gives all replicas the weights that it is to hold."""


def tensor_variable(variable: Any) -> tf.Variable:
    """The tf.Variable within a keras.Variable; a tf.Variable as it is."""
    return variable if isinstance(variable, tf.Variable) else variable.value


def of_inner(name: str) -> Callable[..., Any]:
    """A method of a wrapper that is the inner optimizer's."""

    def method(self: Wrapper, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.inner_optimizer, name)(*args, **kwargs)

    method.__doc__ = f"`{name}` of the inner optimizer."
    return method


class Wrapper(Declared):
    """An optimizer around another one: its state, its attributes, and its step between two parts of an exchange.

    The gradients are expected as Keras gives them: each replica's is of its part of the loss, so that their
    sum is the gradient of the mean over the global batch. A subclass' `configure` calls `wrap`.
    """

    optimizer: Any = hyper(anything, "any optimizer of this Keras: ours or its own.", kw_only=False)

    # The Keras of these optimizers, and our module for the other.
    of_keras: Any
    other: str

    def wrap(self, optimizer: Any, exchange: Exchange) -> None:
        """Makes this a wrapper around an optimizer, which `check_inner` has passed."""
        self.inner_optimizer = optimizer
        self.exchange = exchange
        self._is_built = False
        self._replica_check = ReplicaCheck(self)
        if exchange.replicas_differ:
            # LARS and LAMB clip by the norm of the first replica's gradients, unless this is set.
            optimizer.replicas_differ = True

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

    # ---- One step, in a replica -------------------------------------------------------------------

    # AutoGraph has nothing to rewrite in it.
    @tf.autograph.experimental.do_not_convert
    def step(
        self,
        method: str,
        grads_and_vars: Iterable[tuple[Any, Any]],
        are_received: bool,
        apply: Callable[[list[tuple[Any, Any]]], Any],
    ) -> None:
        """Gradients received, the inner optimizer's step, and what follows it.

        Args:
          method: the name of Keras' method for it.
          grads_and_vars: pairs of a gradient, or None, and its variable.
          are_received: they come from `aggregate_gradients`.
          apply: passes pairs to the inner optimizer, without a sum over the replicas.

        Raises:
          ValueError: it is not called in a replica's context; or there is no gradient.
        """
        if tf.distribute.in_cross_replica_context():
            raise ValueError(
                f"{type(self).__name__}: {method} was called outside strategy.run, where no replica's gradients can be "
                "told from the others'. Call it in the function that strategy.run is given."
            )
        pairs = list(grads_and_vars)
        if pairs and not self._is_built:
            with tf.init_scope():
                self.build([variable for _, variable in pairs])
        pairs = self._present(pairs)
        # Of each replica's own: Keras 3 writes them into their variables as they are.
        overwritten = [pair for pair in pairs if getattr(pair[1], "overwrite_with_gradient", False)]
        pairs = [pair for pair in pairs if not getattr(pair[1], "overwrite_with_gradient", False)]
        pairs = pairs if are_received else self._received(pairs)
        if pairs or overwritten:
            self.exchange.around([variable for _, variable in pairs], lambda: apply([*pairs, *overwritten]))

    @tf.autograph.experimental.do_not_convert
    def aggregate_gradients(self, grads_and_vars: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """What a replica receives for its gradients, for loss scaling and callers that apply them later.

        Where replicas keep gradients of their own, NaN on all of them if any has one that is not finite: loss scaling
        asks on every replica.
        """
        pairs = self._received(self._present(grads_and_vars))
        if not self.exchange.replicas_differ:
            return pairs
        own = tf.add_n([tf.reduce_sum(tf.cast(gradient, tf.float32) * 0.0) for gradient, _ in pairs])
        everyone = tf.distribute.get_replica_context().all_reduce("SUM", own)
        return [(gradient + tf.cast(everyone, gradient.dtype), variable) for gradient, variable in pairs]

    def _received(self, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        dense = [tf.convert_to_tensor(gradient) * tf.cast(replicas, gradient.dtype) for gradient, _ in pairs]
        return list(zip(self.exchange.received(dense), (variable for _, variable in pairs)))

    def _present(self, grads_and_vars: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
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
        self.exchange.build(self.inner_optimizer._distribution_strategy, variables)
        self._is_built = True

    @property
    def variables(self) -> Any:
        """The inner optimizer's, and those of the exchange."""
        inner, own = self.inner_optimizer.variables, self.exchange.variables
        return [*inner, *own] if own else inner

    def checkpointing(self) -> dict[str, Any]:
        """The parts of a checkpoint beside the optimizer, to restore what every replica has of its own.

        Call it after `build`, outside the strategy's scope.

        Returns:
          Dictionary, the fields of a `training.checkpoints.CheckpointPart`: 'more', variables [replicas, ...] by name;
          'before_save', 'after_restore' and, of LocalSteps, 'after_save', functions without arguments to call then.
          From the first to the last the weights of LocalSteps are those of the last outer step. Empty where all
          replicas have the same.
        """
        own = self.exchange.of_replicas
        if own is None or not self.has_replica_state():
            return {}
        state = ReplicaState(
            self.inner_optimizer._distribution_strategy,
            [*own, *map(tensor_variable, self.inner_optimizer.variables)],
        )
        self._replica_check.is_whole = True

        def before_save() -> None:
            state.gather()
            self.exchange.take_common()

        parts = {"more": {_OF_REPLICAS: state.whole}, "before_save": before_save, "after_restore": state.spread}
        return {**parts, "after_save": state.spread} if own else parts

    def has_replica_state(self) -> bool:
        """True if replicas may come to have state of their own."""
        replicas = self.inner_optimizer._distribution_strategy.num_replicas_in_sync
        return self.exchange.replicas_differ and replicas > self.exchange.group_size

    def have_parted(self) -> bool:
        """True if replicas have state of their own by now."""
        return self.exchange.have_parted(int(tf.convert_to_tensor(self.iterations)))

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
        return {**children, **self.exchange.checkpointed, **check}

    def _lookup_dependency(self, name: str, *args: Any, **kwargs: Any) -> Any:
        held = vars(self)
        if "_replica_check" not in held:
            # The base class' constructor asks too, before there is an optimizer.
            return super()._lookup_dependency(name, *args, **kwargs)  # type: ignore[misc]
        beside = {**self.exchange.checkpointed, _OF_REPLICAS: self._replica_check}
        return beside[name] if name in beside else self.inner_optimizer._lookup_dependency(name, *args, **kwargs)

    def save_own_variables(self, store: Any) -> None:
        """Keras' own method: what a `.keras` file holds of the optimizer, the state of the first replica."""
        self.warn_of_replicas()
        self.inner_optimizer.save_own_variables(store)
        for position, variable in enumerate(self.exchange.variables, len(self.inner_optimizer.variables)):
            store[str(position)] = variable.numpy()

    def load_own_variables(self, store: Any) -> None:
        """Loads the state that a file of Keras has for this optimizer, by position; see `load_by_position`."""
        inner = self.inner_optimizer
        if not self.exchange.checkpointed:
            inner.load_own_variables(store)
            return

        def load(store: Any) -> None:
            for position, variable in enumerate(self.variables):
                variable.assign(store[str(position)])

        # The name of the flag in Keras 3, and in tf_keras.
        load_by_position(self, store, load, bool(getattr(inner, "built", getattr(inner, "_built", False))))

    def get_config(self) -> dict[str, Any]:
        """The arguments, the optimizer's among them."""
        return {
            "optimizer": self.of_keras.saving.serialize_keras_object(self.inner_optimizer),
            **self.exchange.options(),
        }

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
        # Reached for what this class does not have: its arguments, and of the inner optimizer clipnorm,
        # layer_statistics, and whatever Keras keeps.
        held = vars(self)
        if "_replica_check" not in held:
            raise AttributeError(name)
        options = held["exchange"].options()
        return options[name] if name in options else getattr(held["inner_optimizer"], name)

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

    exclude_from_weight_decay = of_inner("exclude_from_weight_decay")
    finalize_variable_values = of_inner("finalize_variable_values")


class ReplicaCheck(tf.train.experimental.PythonState):
    """In a checkpoint: whether it holds what each replica has of its own. One that lacks it is not restored.

    Args:
      wrapper: the optimizer.

    Attributes:
      is_whole: what `checkpointing()` gives is saved beside the optimizer.
    """

    def __init__(self, wrapper: Wrapper) -> None:
        self._wrapper = wrapper
        self.is_whole = False

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
