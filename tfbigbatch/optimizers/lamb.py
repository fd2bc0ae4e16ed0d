"""LAMB, whose trust ratio rescales Adam's direction for each layer."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from tfbigbatch.optimizers import declared
from tfbigbatch.optimizers.declared import Changing, Group, hyper
from tfbigbatch.optimizers.rule import (
    AdaptedRule,
    Bounds,
    Layer,
    Now,
    Rule,
    Tensor,
    Updated,
    corrections,
    lamb_ratio,
    of,
)


class LAMB(AdaptedRule):
    """Layer-wise Adaptive Moments for Batch training, You et al. 2020 (arXiv:1904.00962).

    Adam's direction plus weight decay, rescaled for each layer to the norm of its weights. The
    decay is inside the update whose norm enters the trust ratio, as in the paper.

    Raises:
      ValueError: a hyperparameter is out of its range, or a pattern does not compile.
    """

    beta_1: float = hyper(declared.fraction, "decay of the first moment, in [0, 1).", default=0.9)
    beta_2: float = hyper(declared.fraction, "decay of the second moment, in [0, 1).", default=0.999)
    epsilon: float = hyper(declared.not_negative, "added to the root of the second moment. 0 means 0.", default=1e-6)
    weight_decay: Changing = hyper(
        declared.decay,
        "the paper's lambda; float, Keras schedule, or callable without arguments.",
        default=0.0,
    )
    bias_correction: bool = hyper(declared.flag, "divide the moments by 1 - beta^step.", default=True)
    trust_ratio_bounds: Bounds | None = hyper(
        declared.bounds, "None, or (low, high) for the trust ratio; either may be None.", default=None
    )
    pre_normalize: bool = hyper(
        declared.flag,
        "divide all gradients by their global norm first, as NVIDIA's NVLAMB. Global clipping then changes nothing.",
        default=False,
    )

    slot_names = ("m", "v")

    def update(self, gradient: Tensor, weight: Tensor, slots: Sequence[Tensor], layer: Layer, now: Now) -> Updated:
        """Algorithm 2: Adam's direction plus decay, at the norm of the weights.

        On a CPU outside XLA, with an epsilon above 0, TensorFlow's in-place kernels run in its place.
        """
        ops, (m, v) = of(weight), slots
        m = self.beta_1 * m + (1.0 - self.beta_1) * gradient
        v = self.beta_2 * v + (1.0 - self.beta_2) * ops.square(gradient)
        first, second = corrections(now.number, self.beta_1, self.beta_2, self.bias_correction)
        # divide_no_nan: with epsilon 0 an entry that never had a gradient is 0 / 0, and stays where it is.
        update = ops.divide_no_nan(m / first, ops.sqrt(v / second) + self.epsilon) + now.weight_decay * weight
        ratio = lamb_ratio(weight, update, self.trust_ratio_bounds) if layer.adapt else ops.ones_like(now.number)
        return weight - now.learning_rate * ratio * update, (m, v), ratio

    @property
    def scales_gradients(self) -> bool:
        return self.pre_normalize or super().scales_gradients

    def clip_factor(self, norm: Tensor) -> Tensor:
        if not self.pre_normalize:
            return super().clip_factor(norm)
        ops = of(norm)
        return ops.where(norm > 0.0, 1.0 / ops.where(norm > 0.0, norm, 1.0), 1.0)

    def kernel(self) -> str | None:
        # Adam's kernel divides by sqrt(v) + epsilon, and has no guard for 0 / 0.
        return "lamb" if self.epsilon > 0.0 else None


class Vectors(Group):
    """What an optimizer of matrices does with all other variables: Adam's step, or LAMB's.

    Adam's step is LAMB's without layer adaptation.
    """

    word = "step"
    _rule: ClassVar[LAMB]

    step: str = hyper(declared.one_of("adam", "lamb"), "'adam' or 'lamb'", default="adam")
    learning_rate_ratio: float = hyper(declared.positive, "their learning rate over `learning_rate`", default=1.0)
    beta_1: float = hyper(declared.fraction, "decay of the first moment", default=0.9)
    beta_2: float = hyper(declared.fraction, "decay of the second moment", default=0.99)
    epsilon: float = hyper(declared.not_negative, "added to the root of the second moment", default=1e-8)

    def configure(self, values: dict[str, Any]) -> None:
        super().configure(values)
        vars(self)["_rule"] = LAMB(beta_1=self.beta_1, beta_2=self.beta_2, epsilon=self.epsilon)

    def for_entries(self, layer: Layer, now: Now) -> tuple[Rule, Layer, Now]:
        """The rule of such a variable, and what to tell it."""
        adapt = layer.adapt and self.step == "lamb"
        learning_rate = self.learning_rate_ratio * now.learning_rate
        return self._rule, dataclasses.replace(layer, adapt=adapt), now._replace(learning_rate=learning_rate)
