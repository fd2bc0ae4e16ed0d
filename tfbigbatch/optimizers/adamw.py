"""AdamW: hyperparameters, their checks, and the step of one layer; the same for Keras 2 and Keras 3.

Keras has one of its own, with the same numbers. This one has what LARS and LAMB have, sharded updates above all: those
need the order of an update that `updater` holds, which Keras' optimizers do not let in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from tfbigbatch.optimizers import rules
from tfbigbatch.optimizers.arguments import ADAMW, SharedArguments
from tfbigbatch.optimizers.base import Rule
from tfbigbatch.optimizers.ops import Tensor, of
from tfbigbatch.optimizers.options import with_rule, with_shared_arguments

if TYPE_CHECKING:
    import tensorflow as tf

DOCSTRING = with_shared_arguments(
    """AdamW, Loshchilov and Hutter 2019 (arXiv:1711.05101), with the numbers of Keras' AdamW.

    Adam's step, of decoupled weight decay: w -= learning rate x decay x w before it.

    Args:
      learning_rate: float, Keras schedule, or callable without arguments; counts optimizer steps.
      beta_1, beta_2: decay of the first and second moment, each in [0, 1).
      epsilon: added to the root of the second moment before its bias is corrected, as in Keras.
      weight_decay: float, Keras schedule, or callable without arguments.
      amsgrad: divide by the largest second moment so far.
      {shared}

    Raises:
      ValueError: a hyperparameter is out of its range, or a pattern does not compile.
    """,
    layer_adaptation=False,
)


@dataclasses.dataclass
class AdamW(Rule):
    """The rule of `optimizers.AdamW`; `DOCSTRING` explains the hyperparameters."""

    arguments = ADAMW
    slot_names = ("m", "v", "largest_v")
    of_state = frozenset({"amsgrad"})

    beta_1: float
    beta_2: float
    epsilon: float
    amsgrad: bool

    def state_shapes(self, shape: tuple[int, ...], view: Any) -> dict[str, tuple[int, ...]]:
        del view
        return dict.fromkeys(self.slot_names if self.amsgrad else self.slot_names[:2], shape)

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
        """The new weight, moments and trust ratio, which is 1: Algorithm 2.

        Epsilon is added to the root of the second moment before its bias is corrected.
        """
        del adapt
        ops, (m, v, *largest) = of(weight), slots
        m = self.beta_1 * m + (1.0 - self.beta_1) * gradient
        v = self.beta_2 * v + (1.0 - self.beta_2) * ops.square(gradient)
        first, second = rules.lamb_corrections(step, self.beta_1, self.beta_2, True)
        largest = [ops.maximum(each, v) for each in largest]
        # divide_no_nan: with epsilon 0 an entry that never had a gradient is 0 / 0, and stays where it is.
        update = ops.divide_no_nan(m, ops.sqrt(largest[0] if largest else v) + self.epsilon)
        # Not in place: on PyTorch the tensor is the variable's own.
        weight = weight - learning_rate * weight_decay * weight
        weight = weight - learning_rate * ops.sqrt(second) / first * update
        return weight, m, v, *largest, ops.ones([], weight.dtype)

    def has_kernels(self) -> bool:
        # Adam's kernel has no guard for 0 / 0.
        return self.epsilon > 0.0 and not self.amsgrad

    def kernel_scalars(self, step: Tensor) -> Any:
        from tfbigbatch.optimizers import cpu_kernels  # Needs TensorFlow, which AdamW on another backend does not.

        scalars = cpu_kernels.adam_scalars(
            step, beta_1=self.beta_1, beta_2=self.beta_2, epsilon=self.epsilon, bias_correction=True
        )
        return {**scalars, "epsilon": self.epsilon}

    def apply_in_place(
        self, gradient: Tensor, weight: tf.Variable, slots: Sequence[tf.Variable], **options: Any
    ) -> tuple[tf.Operation, tuple[Any, Any, Any] | None]:
        from tfbigbatch.optimizers import cpu_kernels

        del options["adapt"]
        m, v = slots
        return cpu_kernels.adamw(gradient, weight, m, v, **options)


@with_rule(AdamW)
class Optimizer:
    """The constructor of `tfbigbatch.AdamW` in both Kerases; `DOCSTRING` explains it."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        *,
        weight_decay: Any = 0.004,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        name: str = "AdamW",
        **kwargs: Unpack[SharedArguments],
    ) -> None: ...

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()  # type: ignore[misc]
        # No layer is adapted.
        del config["exclude_from_layer_adaptation"]
        return config
