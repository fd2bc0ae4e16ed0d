"""LARS, whose trust ratio gives each layer's step a length in proportion to its weights."""

from __future__ import annotations

from collections.abc import Sequence

from tfbigbatch.optimizers import declared
from tfbigbatch.optimizers.declared import Changing, hyper
from tfbigbatch.optimizers.rule import AdaptedRule, Layer, Now, Tensor, Updated, lars_ratio, norm, of, trust_ratio


class LARS(AdaptedRule):
    """Layer-wise Adaptive Rate Scaling, You et al. 2017 (arXiv:1708.03888).

    Each layer's step has a length in proportion to the norm of its weights, so that one learning
    rate serves all layers at very large batches.

    Raises:
      ValueError: a hyperparameter is out of its range, or a pattern does not compile.
    """

    learning_rate: Changing = hyper(
        declared.changing,
        "float, Keras schedule, or callable without arguments; counts optimizer steps.",
        default=0.01,
        kw_only=False,
    )
    momentum: float = hyper(declared.fraction, "in [0, 1).", default=0.9)
    weight_decay: Changing = hyper(
        declared.decay,
        "added to the gradient before the momentum, as the paper's beta; float, Keras schedule, or callable without "
        "arguments.",
        default=0.0,
    )
    eeta: float = hyper(declared.positive, "the trust coefficient of the ratio.", default=0.001)
    epsilon: float = hyper(
        declared.not_negative, "added to the ratio's denominator. 0 means 0, as MLPerf's rules ask.", default=0.0
    )
    nesterov: bool = hyper(declared.flag, "Nesterov momentum.", default=False)
    form: str = hyper(
        declared.one_of("paper", "tfm", "momentum_ratio"),
        "'paper' (MLPerf's), 'tfm' (tf-models-official, optax) or 'momentum_ratio' (tf-models-official with "
        "`classic_momentum=False`); see `lars.LARS.update`.",
        default="paper",
    )

    slot_names = ("momentum",)

    def update(self, gradient: Tensor, weight: Tensor, slots: Sequence[Tensor], layer: Layer, now: Now) -> Updated:
        """Algorithm 1; the slot is the velocity, with the sign of the step that is added to the weight.

        Forms (the names of what each reproduces):
          paper: ratio = eeta |w| / (|g| + wd |w| + eps); learning rate inside the momentum. MLPerf's.
          tfm: ratio = eeta |w| / (|g + wd w| + eps); learning rate inside. tf-models-official, optax.
          momentum_ratio: ratio = eeta |w| / (|update| + eps) of the momentum's update; learning rate outside.
            tf-models-official with `classic_momentum=False`.

        On a CPU outside XLA TensorFlow's in-place kernels run in its place, but for 'momentum_ratio'.
        """
        [velocity], ratio = slots, of(weight).ones_like(now.number)
        decayed = gradient + now.weight_decay * weight
        if self.form == "momentum_ratio":
            velocity = self.momentum * velocity - decayed
            update = self.momentum * velocity - decayed if self.nesterov else velocity
            if layer.adapt:
                weight_norm, update_norm = norm(weight), norm(update)
                ratio = trust_ratio(self.eeta * weight_norm, update_norm + self.epsilon, weight_norm, update_norm)
            return weight + now.learning_rate * ratio * update, [velocity], ratio

        if layer.adapt:
            gradient_norm = norm(gradient if self.form == "paper" else decayed)
            ratio = lars_ratio(norm(weight), gradient_norm, now.weight_decay, self.eeta, self.epsilon, self.form)
        change = now.learning_rate * ratio * decayed
        velocity = self.momentum * velocity - change
        update = self.momentum * velocity - change if self.nesterov else velocity
        return weight + update, [velocity], ratio

    def kernel(self) -> str | None:
        return None if self.form == "momentum_ratio" else "lars"
