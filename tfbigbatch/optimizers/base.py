"""The contract of a layer-wise optimizer: a rule for one layer, and what an adapter provides for each Keras.

`LayerwiseOptimizer` of `keras2` or `keras3` is the adapter. It sums the gradients over the replicas and passes them to
the `LayerwiseUpdater` that it holds, which applies the rule (`lamb.LAMB`, `lars.LARS`) to each layer.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import tensorflow as tf

from tfbigbatch.optimizers.arguments import Argument


class Rule(abc.ABC):
    """The step of one layer. A dataclass: its fields are the hyperparameters, named as the optimizer's arguments."""

    # The checks of the fields.
    arguments: ClassVar[Mapping[str, Argument]]
    # Names of the state variables of a layer, in the order of `slots`.
    slot_names: ClassVar[tuple[str, ...]]
    # Divide all gradients by their global norm first.
    pre_normalize: bool = False

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, self.arguments[name].check(type(self).__name__, name, value))

    @abc.abstractmethod
    def apply(
        self,
        gradient: tf.Tensor,
        weight: tf.Tensor,
        slots: Sequence[tf.Tensor],
        *,
        step: tf.Tensor,
        learning_rate: tf.Tensor,
        weight_decay: tf.Tensor | float,
        adapt: bool,
    ) -> tuple[tf.Tensor, ...]:
        """The new weight, the new slots, and the trust ratio; `step` counts from 1."""

    @abc.abstractmethod
    def has_kernels(self) -> bool:
        """True where `apply_in_place` supports the hyperparameters."""

    def kernel_scalars(self, step: tf.Tensor) -> Any:
        """What `apply_in_place` needs for a step, the same for all layers."""
        return None

    @abc.abstractmethod
    def apply_in_place(
        self, gradient: tf.Tensor, weight: tf.Variable, slots: Sequence[tf.Variable], *, scalars: Any, **options: Any
    ) -> tuple[tf.Operation, tuple[Any, Any, Any] | None]:
        """`apply` by fused CPU kernels, as the functions of `cpu_kernels`; `scalars` from `kernel_scalars`."""

    def config(self) -> dict[str, Any]:
        """The hyperparameters for `get_config`."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]


class Adapter(Protocol):
    """What the updater needs from a Keras optimizer. Variables are tf.Variables in Keras 2 and Keras 3."""

    clipnorm: float | None
    clipvalue: float | None
    global_clipnorm: float | None
    jit_compile: bool
    # A float, a schedule, or a callable without arguments.
    weight_decay: Any
    # Each replica has gradients of its own, and clips by their norm; set by Adasum.
    replicas_differ: bool

    @property
    def iterations(self) -> Any:
        """Steps so far."""

    @property
    def learning_rate(self) -> Any:
        """The learning rate of the next step, as a tensor or variable."""

    def is_schedule(self, value: Any) -> bool:
        """True for a LearningRateSchedule of this Keras."""

    def new_state(self, variable: tf.Variable, name: str) -> tf.Variable:
        """A new zero variable of the optimizer, of the shape of `variable` and on its device; float32 or float64."""

    def layer_key(self, variable: tf.Variable) -> Hashable:
        """Identifies a model variable."""

    def is_decayed(self, variable: tf.Variable) -> bool:
        """False where Keras' `exclude_from_weight_decay()` method excluded the variable."""

    def update_averages(self, variables: Sequence[tf.Variable]) -> None:
        """Updates the moving averages of the weights, where use_ema is set."""

    def end_step(self) -> None:
        """Called after a step; counts it unless Keras does."""

    def skip_step(self) -> None:
        """Called after a micro-batch that completes no step; takes it back where Keras counts it."""


class LayerStatistics(NamedTuple):
    """One layer's last step: its trust ratio (1 where excluded), |w| before it, and |change of w|."""

    trust_ratio: float
    weight_norm: float
    update_norm: float
