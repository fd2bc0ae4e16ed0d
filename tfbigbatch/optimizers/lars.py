"""LARS: hyperparameters, their checks, and the step of one layer; the same for Keras 2 and Keras 3."""

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
    """Layer-wise Adaptive Rate Scaling, You et al. 2017 (arXiv:1708.03888).

    Each layer's step has a length in proportion to the norm of its weights, so that one learning
    rate serves all layers at very large batches.

    Args:
      learning_rate: float, Keras schedule, or callable without arguments; counts optimizer steps.
      momentum: in [0, 1).
      weight_decay: added to the gradient before the momentum, as the paper's beta; float, Keras
        schedule, or callable without arguments.
      eeta: the trust coefficient of the ratio.
      epsilon: added to the ratio's denominator. 0 means 0, as MLPerf's rules ask.
      nesterov: Nesterov momentum.
      form: 'paper' (MLPerf's), 'tfm' (tf-models-official, optax) or 'momentum_ratio'
        (tf-models-official with `classic_momentum=False`); see `lars.LARS.apply`.
      {shared}

    Raises:
      ValueError: a hyperparameter is out of its range, or a pattern does not compile.
    """
)


@dataclasses.dataclass
class LARS(Rule):
    """The rule of `tfbigbatch.LARS`; `DOCSTRING` explains the hyperparameters."""

    arguments = TABLES["lars"]
    slot_names = ("momentum",)

    momentum: float
    eeta: float
    epsilon: float
    nesterov: bool
    form: str

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
        """The new weight, velocity and trust ratio: Algorithm 1.

        Forms (the names of what each reproduces):
          paper: ratio = eeta |w| / (|g| + wd |w| + eps); learning rate inside the momentum. MLPerf's.
          tfm: ratio = eeta |w| / (|g + wd w| + eps); learning rate inside. tf-models-official, optax.
          momentum_ratio: ratio = eeta |w| / (|update| + eps) of the momentum's update; learning rate outside.
            tf-models-official with `classic_momentum=False`.

        The velocity has the sign of the step that is added to the weight, as Keras' SGD keeps it.
        """
        [velocity] = slots
        decayed = gradient + weight_decay * weight
        ratio = of(weight).ones([], weight.dtype)
        if self.form == "momentum_ratio":
            velocity = self.momentum * velocity - decayed
            update = self.momentum * velocity - decayed if self.nesterov else velocity
            if adapt:
                weight_norm, update_norm = rules.norm(weight), rules.norm(update)
                ratio = rules.trust_ratio(self.eeta * weight_norm, update_norm + self.epsilon, weight_norm, update_norm)
            return weight + learning_rate * ratio * update, velocity, ratio

        if adapt:
            gradient_norm = rules.norm(gradient if self.form == "paper" else decayed)
            ratio = rules.lars_ratio(
                rules.norm(weight), gradient_norm, weight_decay, self.eeta, self.epsilon, self.form
            )
        change = learning_rate * ratio * decayed
        velocity = self.momentum * velocity - change
        update = self.momentum * velocity - change if self.nesterov else velocity
        return weight + update, velocity, ratio

    def has_kernels(self) -> bool:
        return self.form != "momentum_ratio"

    def apply_in_place(
        self, gradient: Tensor, weight: tf.Variable, slots: Sequence[tf.Variable], *, scalars: Any, **options: Any
    ) -> tuple[tf.Operation, tuple[Any, Any, Any] | None]:
        from tfbigbatch.optimizers import cpu_kernels  # Needs TensorFlow, which LARS on another backend does not.

        [velocity] = slots
        return cpu_kernels.lars(gradient, weight, velocity, **self.config(), **options)


@with_rule(LARS)
class Optimizer:
    """The constructor of `tfbigbatch.LARS` in both Kerases; `DOCSTRING` explains it."""

    def __init__(
        self,
        learning_rate: Any = 0.01,
        *,
        momentum: float = 0.9,
        weight_decay: Any = 0.0,
        eeta: float = 0.001,
        epsilon: float = 0.0,
        nesterov: bool = False,
        form: str = "paper",
        name: str = "LARS",
        **kwargs: Unpack[LayerwiseArguments],
    ) -> None: ...
