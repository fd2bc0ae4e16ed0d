"""The contract of a layer-wise optimizer: a rule for one layer, and what an adapter provides for each Keras.

`LayerwiseOptimizer` of `keras2` or `keras3` is the adapter. It sums the gradients over the replicas and passes them to
the `LayerwiseUpdater` that it holds, which applies the rule (`lamb.LAMB`, `lars.LARS`) to each layer.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from tfbigbatch.optimizers.arguments import Argument
from tfbigbatch.optimizers.ops import Tensor

if TYPE_CHECKING:
    import tensorflow as tf

# How a rule reads a layer as matrices or blocks: `matrices.MatrixView`, `blocks.BlockView`.
View = Any


class Rule(abc.ABC):
    """The step of one layer. A dataclass: its fields are the hyperparameters, named as the optimizer's arguments."""

    # The checks of the fields.
    arguments: ClassVar[Mapping[str, Argument]]
    # Names of the state variables of a layer, in the order of `slots`.
    slot_names: ClassVar[tuple[str, ...]]
    # Hyperparameters that the state's shapes depend on: they stay as they were when the variables became known.
    of_state: ClassVar[frozenset[str]] = frozenset()
    # Divide all gradients by their global norm first.
    pre_normalize: bool = False

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, self.arguments[name].check(type(self).__name__, name, value))

    def views(self, paths: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> Sequence[View | None]:
        """The matrix view of each layer; None for those that `apply` steps entry by entry: here all."""
        del shapes
        return [None] * len(paths)

    def state_shapes(self, shape: tuple[int, ...], view: View | None) -> dict[str, tuple[int, ...]]:
        """Shapes of a layer's state variables by name, a selection of `slot_names` in its order."""
        del view
        return dict.fromkeys(self.slot_names, shape)

    def matrix_flops(self, view: View) -> float:
        """Floating-point operations of a layer's matrices in a step, beside those on its entries."""
        del view
        return 0.0

    @abc.abstractmethod
    def apply(
        self,
        gradient: Tensor,
        weight: Tensor,
        slots: Sequence[Tensor],
        *,
        step: Tensor,
        learning_rate: Tensor,
        weight_decay: Tensor | float,
        adapt: bool,
    ) -> tuple[Tensor, ...]:
        """The new weight, the new slots, and the trust ratio; `step` counts from 1."""

    @abc.abstractmethod
    def has_kernels(self) -> bool:
        """True where `apply_in_place` supports the hyperparameters."""

    def kernel_scalars(self, step: Tensor) -> Any:
        """The scalars of a step for `apply_in_place`, the same for all layers."""
        return None

    @abc.abstractmethod
    def apply_in_place(
        self, gradient: Tensor, weight: tf.Variable, slots: Sequence[tf.Variable], *, scalars: Any, **options: Any
    ) -> tuple[tf.Operation, tuple[Any, Any, Any] | None]:
        """`apply` by fused CPU kernels, as the functions of `cpu_kernels`; `scalars` from `kernel_scalars`."""

    def config(self) -> dict[str, Any]:
        """The hyperparameters for `get_config`."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]


class MatrixRule(Rule):
    """A rule with a function of whole matrices that costs much: the replicas share it.

    A layer with a view takes its step in three parts: `before_transform` on every replica, `transform` of a batch of
    matrices of equal shape on one replica for all, `apply_transformed` on every replica. The others take `apply`.
    """

    # Whether the replicas share `transform`; None: where it pays.
    share_work: bool | None = None

    @abc.abstractmethod
    def before_transform(
        self, gradient: Tensor, slots: Sequence[Tensor], view: View
    ) -> tuple[list[Tensor], list[Tensor]]:
        """(Batches [k, rows, columns] to transform, the new slots)."""

    @abc.abstractmethod
    def transform(self, batch: Tensor) -> Tensor:
        """[k, rows, columns] to [k, rows, columns], each matrix by itself, without state."""

    @abc.abstractmethod
    def transform_flops(self, rows: int, columns: int) -> float:
        """The floating-point operations of `transform` on one matrix."""

    def transform_every(self) -> int:
        """Steps from one `transform` to the next; 1: every step."""
        return 1

    def kept(self, slots: Sequence[Tensor], view: View) -> list[Tensor]:
        """The stand-in for the transformed batches in a step without `transform`."""
        raise NotImplementedError(f"{type(self).__name__} transforms at every step")

    @abc.abstractmethod
    def apply_transformed(
        self,
        gradient: Tensor,
        weight: Tensor,
        slots: Sequence[Tensor],
        transformed: Sequence[Tensor],
        view: View,
        *,
        step: Tensor,
        learning_rate: Tensor,
        weight_decay: Tensor | float,
        adapt: bool,
    ) -> tuple[Tensor, ...]:
        """The new weight, the new slots, and the trust ratio, from the transformed batches."""


class Adapter(Protocol):
    """The updater's interface to a Keras optimizer. Variables are tf.Variables in Keras 2 and Keras 3."""

    clipnorm: float | None
    clipvalue: float | None
    global_clipnorm: float | None
    jit_compile: bool
    # A float, a schedule, or a callable without arguments.
    weight_decay: Any
    # Each replica has gradients of its own, and clips by their norm; set by Adasum.
    replicas_differ: bool
    # Keras adds one to `iterations` after each call, also where it completes no step.
    counts_calls: bool

    @property
    def iterations(self) -> Any:
        """Steps so far."""

    @property
    def learning_rate(self) -> Any:
        """The learning rate of the next step, as a tensor or variable."""

    def is_schedule(self, value: Any) -> bool:
        """True for a LearningRateSchedule of this Keras."""

    def new_state(
        self, variable: tf.Variable, name: str, shape: Sequence[int] | None = None, device: str | None = None
    ) -> tf.Variable:
        """A new zero variable of the optimizer on the device of `variable`, and of its shape unless one is given.

        float64 for a variable of float64, else float32. With `device`, one variable there, also where `variable` has
        a copy on each replica.
        """

    def layer_key(self, variable: tf.Variable) -> Hashable:
        """Identifies a model variable."""

    def is_decayed(self, variable: tf.Variable) -> bool:
        """False where Keras' `exclude_from_weight_decay()` method excluded the variable."""

    def update_averages(self, variables: Sequence[tf.Variable]) -> None:
        """Updates the moving averages of the weights, where use_ema is set."""


class LayerStatistics(NamedTuple):
    """One layer's last step: its trust ratio (1 where excluded), |w| before it, and |change of w|."""

    trust_ratio: float
    weight_norm: float
    update_norm: float
