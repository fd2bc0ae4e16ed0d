"""LAMB: hyperparameters, their checks, and the step of one layer; the same for Keras 2 and Keras 3."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from tfbigbatch.optimizers import rules
from tfbigbatch.optimizers.arguments import TABLES, LayerwiseArguments
from tfbigbatch.optimizers.base import Rule
from tfbigbatch.optimizers.ops import Tensor, of
from tfbigbatch.optimizers.options import with_rule, with_shared_arguments

if TYPE_CHECKING:
    import tensorflow as tf

DOCSTRING = with_shared_arguments(
    """Layer-wise Adaptive Moments for Batch training, You et al. 2020 (arXiv:1904.00962).

    Adam's direction plus weight decay, rescaled for each layer to the norm of its weights. The
    decay is inside the update whose norm enters the trust ratio, as in the paper.

    Args:
      learning_rate: float, Keras schedule, or callable without arguments; counts optimizer steps.
      beta_1, beta_2: decay of the first and second moment, each in [0, 1).
      epsilon: added to the root of the second moment. 0 means 0.
      weight_decay: the paper's lambda; float, Keras schedule, or callable without arguments.
      bias_correction: divide the moments by 1 - beta^step.
      trust_ratio_bounds: None, or (low, high) for the trust ratio; either may be None.
      pre_normalize: divide all gradients by their global norm first, as NVIDIA's NVLAMB. Global
        clipping then changes nothing.
      {shared}

    Raises:
      ValueError: a hyperparameter is out of its range, or a pattern does not compile.
    """
)


@dataclasses.dataclass
class LAMB(Rule):
    """The rule of `tfbigbatch.LAMB`; `DOCSTRING` explains the hyperparameters."""

    arguments = TABLES["lamb"]
    slot_names = ("m", "v")

    beta_1: float
    beta_2: float
    epsilon: float
    bias_correction: bool
    trust_ratio_bounds: tuple[float | None, float | None] | None
    pre_normalize: bool

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
        """The new weight, moments and trust ratio: Algorithm 2, Adam's direction plus decay at the norm of the weights.

        On a CPU outside XLA `cpu_kernels.lamb` runs in its place.
        """
        ops, (m, v) = of(weight), slots
        m = self.beta_1 * m + (1.0 - self.beta_1) * gradient
        v = self.beta_2 * v + (1.0 - self.beta_2) * ops.square(gradient)
        first, second = rules.lamb_corrections(step, self.beta_1, self.beta_2, self.bias_correction)
        # divide_no_nan: with epsilon 0 an entry that never had a gradient is 0 / 0, and stays where it is.
        update = ops.divide_no_nan(m / first, ops.sqrt(v / second) + self.epsilon) + weight_decay * weight
        ratio = ops.ones([], weight.dtype)
        if adapt:
            weight_norm, update_norm = rules.norm(weight), rules.norm(update)
            ratio = rules.trust_ratio(weight_norm, update_norm, weight_norm, update_norm, self.trust_ratio_bounds)
        return weight - learning_rate * ratio * update, m, v, ratio

    def has_kernels(self) -> bool:
        # Adam's kernel divides by sqrt(v) + epsilon, and has no guard for 0 / 0.
        return self.epsilon > 0.0

    def kernel_scalars(self, step: Tensor) -> Any:
        from tfbigbatch.optimizers import cpu_kernels  # Needs TensorFlow, which LAMB on another backend does not.

        return cpu_kernels.adam_scalars(
            step,
            beta_1=self.beta_1,
            beta_2=self.beta_2,
            epsilon=self.epsilon,
            bias_correction=self.bias_correction,
        )

    def apply_in_place(
        self, gradient: Tensor, weight: tf.Variable, slots: Sequence[tf.Variable], **options: Any
    ) -> tuple[tf.Operation, tuple[Any, Any, Any] | None]:
        from tfbigbatch.optimizers import cpu_kernels

        m, v = slots
        return cpu_kernels.lamb(gradient, weight, m, v, bounds=self.trust_ratio_bounds, **options)

    def config(self) -> dict[str, Any]:
        bounds = self.trust_ratio_bounds
        return {**super().config(), "trust_ratio_bounds": list(bounds) if bounds else None}


class LambOfVectors:
    """Mixed into the rule of an optimizer of matrices: its other variables take LAMB's step, or Adam's.

    Adam's step is LAMB's without layer adaptation.
    """

    vector_learning_rate_ratio: float
    beta_1: float
    beta_2: float
    epsilon: float

    def _adapts_vectors(self) -> bool:
        """True for LAMB's step."""
        return False

    def _of_vectors(self) -> LAMB:
        return LAMB(
            beta_1=self.beta_1,
            beta_2=self.beta_2,
            epsilon=self.epsilon,
            bias_correction=True,
            trust_ratio_bounds=None,
            pre_normalize=False,
        )

    def _options_of_vectors(self, options: dict[str, Any]) -> dict[str, Any]:
        learning_rate = self.vector_learning_rate_ratio * options["learning_rate"]
        return {**options, "learning_rate": learning_rate, "adapt": options["adapt"] and self._adapts_vectors()}

    def apply(self, gradient: Tensor, weight: Tensor, slots: Sequence[Tensor], **options: Any) -> tuple[Tensor, ...]:
        return self._of_vectors().apply(gradient, weight, slots, **self._options_of_vectors(options))

    def has_kernels(self) -> bool:
        return self._of_vectors().has_kernels()

    def kernel_scalars(self, step: Tensor) -> Any:
        return self._of_vectors().kernel_scalars(step)

    def apply_in_place(
        self, gradient: Tensor, weight: tf.Variable, slots: Sequence[tf.Variable], **options: Any
    ) -> tuple[tf.Operation, tuple[Any, Any, Any] | None]:
        return self._of_vectors().apply_in_place(gradient, weight, slots, **self._options_of_vectors(options))


@with_rule(LAMB)
class Optimizer:
    """The constructor of `tfbigbatch.LAMB` in both Kerases; `DOCSTRING` explains it."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        *,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        weight_decay: Any = 0.0,
        bias_correction: bool = True,
        trust_ratio_bounds: tuple[float | None, float | None] | None = None,
        pre_normalize: bool = False,
        name: str = "LAMB",
        **kwargs: Unpack[LayerwiseArguments],
    ) -> None: ...
