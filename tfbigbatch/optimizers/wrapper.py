"""An optimizer around another one, which decides what the replicas exchange: Adasum, LocalSteps.

`WrapperMixin` has the order of one step and what is the inner optimizer's, the same for Keras 2 and Keras 3;
`keras2.Wrapper` and `keras3_tensorflow.Wrapper` join it to each Keras.
"""

from __future__ import annotations

import abc
import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfbigbatch.errors import InputError

_OF_REPLICAS = "of_replicas"
SAVE_ALL = "Use callbacks.ExactResume, or save and restore what optimizer.checkpointing() gives beside the optimizer."


def of_inner(name: str) -> Callable[..., Any]:
    """A method of a wrapper that is the inner optimizer's."""

    def method(self: WrapperMixin, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.inner_optimizer, name)(*args, **kwargs)

    method.__doc__ = f"`{name}` of the inner optimizer."
    return method


class WrapperMixin(abc.ABC):
    """A step in three parts: gradients received, the inner optimizer's step, what follows it. State: the inner one's.

    The gradients are expected as Keras gives them: each replica's is of its part of the loss, so that their
    sum is the gradient of the mean over the global batch.
    """

    inner_optimizer: Any
    _replica_check: ReplicaCheck
    # All replicas apply the same gradients, and have the same state.
    _exchanges_gradients: bool

    if TYPE_CHECKING:
        # Of `Wrapper`, which comes after the mixins of Adasum and LocalSteps.
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    @abc.abstractmethod
    def _received(self, gradients: Sequence[Any]) -> list[tf.Tensor]:
        """In a replica: the gradients to pass to the optimizer in place of the replica's own."""

    @abc.abstractmethod
    def _apply_wrapped(self, variables: Sequence[Any], apply: Callable[[], Any]) -> None:
        """In a replica: runs `apply`, the inner optimizer's step of the variables, and what belongs to it."""

    @abc.abstractmethod
    def checkpointing(self) -> dict[str, Any]:
        """The parts of a checkpoint beside the optimizer: the fields of a `training.checkpoints.CheckpointPart`."""

    @abc.abstractmethod
    def _options(self) -> dict[str, Any]:
        """The arguments beside the optimizer, for `get_config`."""

    def aggregate_gradients(self, grads_and_vars: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """In a replica: what `_received` makes of the gradients, for loss scaling and callers that apply them later.

        Where replicas keep gradients of their own, NaN on all of them if any has one that is not finite: loss scaling
        asks on every replica.
        """
        pairs = self._present(grads_and_vars)
        received = self._received([gradient for gradient, _ in pairs])
        if not self._exchanges_gradients:
            own = tf.add_n([tf.reduce_sum(tf.cast(gradient, tf.float32) * 0.0) for gradient in received])
            everyone = tf.distribute.get_replica_context().all_reduce("SUM", own)
            received = [gradient + tf.cast(everyone, gradient.dtype) for gradient in received]
        return list(zip(received, (variable for _, variable in pairs)))

    # ---- State that each replica has of its own ---------------------------------------------------

    @abc.abstractmethod
    def _has_replica_state(self) -> bool:
        """True if replicas may come to have state of their own."""

    @abc.abstractmethod
    def _replicas_differ(self) -> bool:
        """True if replicas have state of their own by now."""

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        # A checkpoint is that of the optimizer, with or without a wrapper around it.
        children = dict(self.inner_optimizer._trackable_children(save_type, **kwargs))
        if save_type == "checkpoint" and self._has_replica_state():
            children[_OF_REPLICAS] = self._replica_check
        return children

    def _lookup_dependency(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if name == _OF_REPLICAS and "_replica_check" in vars(self):
            return self._replica_check
        # The base class' constructor asks too, before there is an optimizer.
        holder = vars(self).get("inner_optimizer", super())
        return holder._lookup_dependency(name, *args, **kwargs)

    def _warn_of_replicas(self) -> None:
        """Warns where a file is to hold the state of the first replica for all."""
        if self._has_replica_state() and self._replicas_differ():
            warnings.warn(
                f"{type(self).__name__}: each replica has state of its own, and this file holds that of the first: "
                f"a training that goes on from it is another one. {SAVE_ALL}",
                stacklevel=3,
            )

    def _check_inner(self, optimizer: Any, keras: Any, other: str) -> None:
        """Raises ValueError for an optimizer that no wrapper takes.

        Args:
          optimizer: the inner one.
          keras: the Keras that it must be of.
          other: our module for the other Keras, below tfbigbatch.
        """
        name, own = type(optimizer).__name__, type(self).__name__
        if not isinstance(optimizer, keras.optimizers.Optimizer):
            raise ValueError(
                f"{own} of {keras.__name__} was given {optimizer!r}; expected an optimizer of {keras.__name__}. For "
                f"the other Keras: tfbigbatch.{other}.{own}."
            )
        if "LossScaleOptimizer" in [cls.__name__ for cls in type(optimizer).__mro__]:
            raise ValueError(
                f"{own}({name}(...)): the gradients must be exchanged before the loss scale is taken out; write "
                f"{name}({own}(...))."
            )
        if isinstance(optimizer, WrapperMixin):
            reason = "the gradients would be combined twice" if name == own else "each decides what the replicas send"
            raise ValueError(f"{own}({name}(...)): {reason}. Wrap the optimizer once.")

    @staticmethod
    def _tensor_variable(variable: Any) -> tf.Variable:
        """The tf.Variable within a variable of this Keras."""
        return variable

    def _check_in_replica(self, method: str) -> None:
        if tf.distribute.in_cross_replica_context():
            raise ValueError(
                f"{type(self).__name__}: {method} was called outside strategy.run, where no replica's gradients can be "
                "told from the others'. Call it in the function that strategy.run is given."
            )

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
            warnings.warn(f"{own}: gradients do not exist for variables {', '.join(missing)}.", stacklevel=3)
        return present

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

    exclude_from_weight_decay = of_inner("exclude_from_weight_decay")
    finalize_variable_values = of_inner("finalize_variable_values")
    load_own_variables = of_inner("load_own_variables")

    def save_own_variables(self, store: Any) -> None:
        """Keras' own method, of the optimizer."""
        self._warn_of_replicas()
        self.inner_optimizer.save_own_variables(store)


class ReplicaCheck(tf.train.experimental.PythonState):
    """In a checkpoint: whether it holds what each replica has of its own. One that lacks it is not restored.

    Args:
      wrapper: the optimizer.

    Attributes:
      is_whole: what `checkpointing()` gives is saved beside the optimizer.
    """

    def __init__(self, wrapper: WrapperMixin) -> None:
        self._wrapper = wrapper
        self.is_whole = False

    def serialize(self) -> str:
        differ = self._wrapper._replicas_differ()
        if not self.is_whole:
            self._wrapper._warn_of_replicas()
        return json.dumps({"replicas_differ": differ, "is_whole": self.is_whole})

    def deserialize(self, string: str) -> None:
        saved = json.loads(string)
        if saved["replicas_differ"] and not (saved["is_whole"] and self.is_whole):
            where = "is not restored here" if saved["is_whole"] else "is not in the checkpoint"
            raise InputError(
                f"{type(self._wrapper).__name__}: each replica had state of its own, and that {where}: the training "
                f"would go on as another one. {SAVE_ALL} For the weights alone restore "
                "tf.train.Checkpoint(model=model)."
            )
